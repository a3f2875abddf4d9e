import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { PROGRAM_ENV } from "../support/program-env.ts";
import type { Service } from "./events-service.ts";
import { programOf } from "./prepared-program.ts";

/** The program `sallyport` as a process, and a proxy in front of the service that can end it at a request. */

export interface Ended {
  /** Null after a signal. */
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

export function startCli(args: readonly string[], env: Readonly<Record<string, string>>, input = ""): Started {
  const child = spawn(process.execPath, [programOf("packages/cli/src/main.ts"), ...args], {
    env: { ...PROGRAM_ENV, ...env },
  });
  const texts = { out: "", err: "" };
  child.stdout.on("data", (bytes) => (texts.out += bytes));
  child.stderr.on("data", (bytes) => (texts.err += bytes));
  child.stdin.on("error", () => undefined).end(input);
  return {
    child,
    ended: new Promise((resolve) => child.once("close", (code) => resolve({ code, ...texts }))),
  };
}

export const cli = (args: readonly string[], env: Readonly<Record<string, string>>, input = ""): Promise<Ended> =>
  startCli(args, env, input).ended;

export type Fate = "pass" | "kill before" | "kill after";

/** Passes requests on. */
export class CliProxy {
  /** Called for every request with its method, path and body. */
  fate: (request: string) => Fate = () => "pass";
  /** The program that `fate` ends. */
  program: ChildProcess | undefined;
  writes = 0;
  #url = "";
  readonly #service: Service;
  readonly #server = createServer((request, response) => {
    void this.#pass(request).then(
      (answer) => {
        if (answer === null) return response.destroy();
        response.writeHead(answer.status, answer.headers);
        response.end(answer.body);
      },
      () => response.destroy(),
    );
  });

  constructor(service: Service) {
    this.#service = service;
  }

  get url(): string {
    return this.#url;
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.#url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #pass(request: IncomingMessage) {
    const { method = "GET", url = "" } = request;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    if (method !== "GET") this.writes += 1;
    const fate = this.fate(`${method} ${request.headers["x-vault-namespace"]} ${url} ${body}`);
    if (fate === "kill before") return this.#kill();
    const { host: _host, connection: _connection, ...headers } = request.headers;
    const answer = await fetch(this.#service.base + url, {
      ...{ method, headers: Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string]) },
      ...(method !== "GET" && { body }),
    });
    const text = await answer.text();
    if (fate === "kill after") return this.#kill();
    const shown = [...answer.headers].filter(([name]) => /^(content-type|retry-after)/.test(name));
    return { status: answer.status, headers: Object.fromEntries(shown), body: text };
  }

  async #kill(): Promise<null> {
    const { program } = this;
    program?.kill("SIGKILL");
    if (program && program.exitCode === null && program.signalCode === null)
      await new Promise((resolve) => program.once("exit", resolve));
    return null;
  }
}
