import { type ChildProcess, spawn } from "node:child_process";
import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { vi } from "vitest";
import { freePort } from "../smoke/local-service.ts";
import { type GoProgram, goProgram } from "./go-program.ts";

const ADMINISTRATOR = "token-of-the-administrator";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";

/** The API server of Kubernetes with etcd, built from its public module, without nodes and controllers. */
export class KubernetesApi {
  readonly program: GoProgram = goProgram("kubernetes", "kubernetes-api");
  readonly #dir: string;
  #api: ChildProcess | undefined;
  /** Accepts plain HTTP for the API server, whose certificate is self-signed. */
  #entry: Server | undefined;
  #port = 0;
  /** Its URL with plain HTTP. */
  host = "";

  /** @param dir of its data */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Its URL with TLS. */
  get secureHost(): string {
    return `https://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const [port, clients, peers] = [await freePort(), await freePort(), await freePort()];
    this.#port = port;
    mkdirSync(this.#dir, { recursive: true });
    const key = join(this.#dir, "accounts.pem");
    writeFileSync(
      key,
      generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" }),
    );
    const tokens = join(this.#dir, "tokens.csv");
    writeFileSync(tokens, `${ADMINISTRATOR},administrator,1,system:masters\n`);
    const settings = {
      "secure-port": port,
      "bind-address": "127.0.0.1",
      "cert-dir": join(this.#dir, "certificates"),
      "service-account-key-file": key,
      "service-account-signing-key-file": key,
      "service-account-issuer": "https://kubernetes.default.svc",
      "token-auth-file": tokens,
      "authorization-mode": "RBAC",
      "disable-admission-plugins": "ServiceAccount",
    };
    const options = Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
    const etcd = [join(this.#dir, "etcd"), `http://127.0.0.1:${clients}`, `http://127.0.0.1:${peers}`];
    this.#api = spawn(this.program.path, [...etcd, ...options], { stdio: "ignore" });
    this.#entry = createServer((asked, answer) => {
      const { url: path, method, headers } = asked;
      const call = request(
        { host: "127.0.0.1", port, path, method, headers, rejectUnauthorized: false },
        (answered) => {
          answer.writeHead(answered.statusCode ?? 502, answered.headers);
          answered.pipe(answer);
        },
      );
      call.on("error", () => answer.writeHead(502).end());
      asked.pipe(call);
    });
    this.#entry.listen(0, "127.0.0.1");
    await once(this.#entry, "listening");
    this.host = `http://127.0.0.1:${(this.#entry.address() as AddressInfo).port}`;
    await vi.waitFor(() => this.call("GET", "/api/v1/namespaces/default"), { timeout: 120_000, interval: 500 });
  }

  stop(): void {
    this.#entry?.close();
    this.#api?.kill("SIGKILL");
  }

  /** The answer to the administrator's request; rejects unless it succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
  async call(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<any> {
    const answer = await fetch(`${this.host}${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMINISTRATOR}`, "content-type": "application/json", ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  /** A namespace with service accounts. */
  async createNamespace(name: string, accounts: readonly string[]): Promise<void> {
    await this.call("POST", "/api/v1/namespaces", { metadata: { name } });
    for (const account of accounts)
      await this.call("POST", `/api/v1/namespaces/${name}/serviceaccounts`, { metadata: { name: account } });
  }

  /** A token of a service account. */
  async tokenOf(namespace: string, account: string, spec: object = {}): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    return (await this.call("POST", path, { spec })).status.token;
  }

  /** Gives a service account a role, of its namespace or of the cluster. */
  bind(kind: "Role" | "ClusterRole", name: string, namespace: string, account: string): Promise<unknown> {
    const bindings = kind === "Role" ? `/namespaces/${namespace}/rolebindings` : "/clusterrolebindings";
    return this.call("POST", `${RBAC}${bindings}`, {
      metadata: { name: account },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind, name },
      subjects: [{ kind: "ServiceAccount", name: account, namespace }],
    });
  }

  /** Name, values and labels of each Secret of a namespace. */
  async secrets(namespace: string): Promise<Record<string, readonly [values: object, labels: object]>> {
    const { items } = await this.call("GET", `/api/v1/namespaces/${namespace}/secrets`);
    return Object.fromEntries(
      (items as Secret[]).map(({ metadata: { name, labels = {} }, data = {} }) => [
        name,
        [
          Object.fromEntries(Object.entries(data).map(([key, value]) => [key, String(Buffer.from(value, "base64"))])),
          labels,
        ],
      ]),
    );
  }

  /** The keys of its service accounts' tokens. */
  async keys(): Promise<string[]> {
    const { keys } = await this.call("GET", "/openid/v1/jwks");
    return keys.map((key: JsonWebKey) =>
      createPublicKey({ key, format: "jwk" }).export({ type: "spki", format: "pem" }),
    );
  }
}

interface Secret {
  readonly metadata: { readonly name: string; readonly labels?: Record<string, string> };
  readonly data?: Record<string, string>;
}
