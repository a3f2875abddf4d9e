import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { expect, inject } from "vitest";
import { parseAllDocuments } from "yaml";
import { SigningIssuer } from "../doubles/signing-issuer.ts";

/** The files of `examples/`, tried against the service of these tests: each example in a namespace of its own. */

export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
  readonly body: any;
}

export class ExampleNamespace {
  readonly name: string;
  readonly address = inject("service").address;
  readonly token = inject("service").token;

  private constructor(name: string) {
    this.name = name;
  }

  /** A namespace with the mount `secret` and its two secrets, as those of `npm start`. */
  static async create(name: string): Promise<ExampleNamespace> {
    const root = new ExampleNamespace("");
    await root.#write(`sys/namespaces/${name}`, {});
    const made = new ExampleNamespace(name);
    await made.#write("sys/mounts/secret", { type: "kv", options: { version: "2" } });
    await made.#write("secret/data/app/database", { data: { username: "app", password: "first" } });
    await made.#write("secret/data/app/api", { data: { key: "sk-1" } });
    return made;
  }

  async #write(path: string, body: object): Promise<void> {
    const { status, body: answer } = await this.call("POST", path, this.token, body);
    expect(status, `${path}: ${JSON.stringify(answer)}`).toBeLessThan(300);
  }

  async call(method: string, path: string, token: string | null, body?: object): Promise<Reply> {
    const headers = { "X-Vault-Namespace": this.name, ...(token !== null && { "X-Vault-Token": token }) };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const answer = await fetch(`${this.address}/v1/${path}`, init);
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? null : JSON.parse(text) };
  }

  /** Environment of a program that is a client of this namespace. */
  get env(): Record<string, string> {
    return { VAULT_ADDR: this.address, VAULT_NAMESPACE: this.name };
  }

  /** Runs an example's setup.sh. @param cwd where it writes files */
  async setUp(example: string, env: Readonly<Record<string, string>> = {}, cwd = "."): Promise<void> {
    const settings = { SALLYPORT_ADDR: this.address, SALLYPORT_TOKEN: this.token, SALLYPORT_NAMESPACE: this.name };
    const { code, output } = await run("sh", [resolve("examples", example, "setup.sh")], { ...settings, ...env }, cwd);
    expect(code, output).toBe(0);
  }
}

export async function run(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd = ".",
): Promise<{ code: number | null; output: string; stdout: string }> {
  const settings = { PATH: process.env["PATH"], HOME: cwd, ...env };
  const child = spawn(program, args, { cwd, env: settings, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let stdout = "";
  child.stdout.on("data", (bytes) => {
    stdout += bytes;
    output += bytes;
  });
  child.stderr.on("data", (bytes) => (output += bytes));
  const [code] = await once(child, "close");
  return { code, output, stdout };
}

/** The documents of a YAML file. */
// biome-ignore lint/suspicious/noExplicitAny: manifests of many shapes
export function yamlOf(path: string): any[] {
  return parseAllDocuments(readFileSync(path, "utf8")).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS();
  });
}

/** An issuer with a discovery document on the loopback address. */
export async function startIssuer(): Promise<{ issuer: SigningIssuer; close: () => void }> {
  let issuer: SigningIssuer | undefined;
  const server = createServer(async (request, response) => {
    const url = issuer?.url ?? "";
    const discovery = {
      issuer: url,
      jwks_uri: `${url}/keys`,
      response_types_supported: ["id_token"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
    };
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(request.url === "/keys" ? await issuer?.keySet() : discovery));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  issuer = await SigningIssuer.create(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return { issuer, close: () => void server.close() };
}
