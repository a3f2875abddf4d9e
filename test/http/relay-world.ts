import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeNomad, type NomadOptions } from "../doubles/nomad.ts";
import { type Fields, idOf, namespaceOf, type Table } from "../doubles/nomad-state.ts";
import { PROGRAM_ENV } from "../support/program-env.ts";
import type { Service } from "./events-service.ts";
import { programOf } from "./prepared-program.ts";

/** The relay as a process between a stand-in for Nomad and the service. */

export const NOMAD_TOKEN = "nomad-token";

/** The treatment of a report: forwarded, or the relay is killed before the report or its answer arrives. */
export type Fate = "pass" | "kill before" | "kill after";

/** Forwards requests to the service. Reports can be intercepted. */
export class ReportProxy {
  /** Called for every report. */
  fate: (body: string) => Fate | Promise<Fate> = () => "pass";
  kill: () => Promise<unknown> = async () => undefined;
  reports = 0;
  bytes = 0;
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
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const isReport = request.method === "PUT";
    if (isReport) {
      this.reports += 1;
      this.bytes = Math.max(this.bytes, Buffer.concat(chunks).length);
    }
    const fate = isReport ? await this.fate(Buffer.concat(chunks).toString()) : "pass";
    if (fate === "kill before") {
      await this.kill();
      return null;
    }
    const { host: _host, connection: _connection, ...headers } = request.headers;
    const answer = await fetch(this.#service.base + (request.url ?? ""), {
      method: request.method ?? "GET",
      headers: Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string]),
      ...(isReport && { body: Buffer.concat(chunks) }),
    });
    const body = await answer.text();
    if (fate === "kill after") {
      await this.kill();
      return null;
    }
    const shown = [...answer.headers].filter(([name]) => /^(content-type|retry-after|x-)/.test(name));
    return { status: answer.status, headers: Object.fromEntries(shown), body };
  }
}

export interface Published {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly Index: number;
}

export class RelayWorld {
  readonly nomad: FakeNomad;
  readonly proxy: ReportProxy;
  readonly stateDir = mkdtempSync(join(tmpdir(), "sallyport-relay-"));
  readonly #service: Service;
  readonly #program = programOf("packages/relay/src/main.ts");
  #relay: ChildProcess | undefined;
  #exited: Promise<number | null> = Promise.resolve(null);
  log = "";

  constructor(service: Service, options: NomadOptions = {}) {
    this.#service = service;
    this.nomad = new FakeNomad({ token: NOMAD_TOKEN, ...options });
    this.proxy = new ReportProxy(service);
    this.proxy.kill = () => this.kill();
  }

  async open(): Promise<void> {
    await this.nomad.start();
    await this.proxy.start();
  }

  async close(): Promise<void> {
    await this.kill();
    await this.nomad.stop();
    this.proxy.stop();
    rmSync(this.stateDir, { recursive: true, force: true });
  }

  get isRunning(): boolean {
    return this.#relay !== undefined;
  }

  /** The stored position of the relay. */
  position(): { readonly index: number | null; readonly epoch: number } {
    try {
      return JSON.parse(readFileSync(join(this.stateDir, "position.json"), "utf8"));
    } catch {
      return { index: null, epoch: 0 };
    }
  }

  start(...args: string[]): void {
    const metrics = args.includes("--metrics") ? [] : ["--metrics", "off"];
    const relay = spawn(process.execPath, [this.#program, "nomad", "--state-dir", this.stateDir, ...metrics, ...args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        ...PROGRAM_ENV,
        ...{ NOMAD_ADDR: this.nomad.url, NOMAD_TOKEN, SALLYPORT_ADDR: this.proxy.url, SALLYPORT_TOKEN: "root" },
      },
    });
    this.#relay = relay;
    relay.stderr.on("data", (text) => {
      this.log += String(text);
    });
    this.#exited = new Promise((resolve) =>
      relay.once("exit", (code) => {
        if (this.#relay === relay) this.#relay = undefined;
        resolve(code);
      }),
    );
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
    this.#relay?.kill(signal);
    return this.#exited;
  }

  /** The exit code of the relay. */
  exitCode(): Promise<number | null> {
    return this.#exited;
  }

  /** Every event of the mirrored topics on the service's stream, in order. */
  async published(): Promise<Published[]> {
    const topics = ["Job", "Allocation", "Evaluation", "Deployment", "Service", "Node", "NodePool"];
    const query = topics.map((topic) => `topic=${topic}`).join("&");
    const answer = await fetch(`${this.#service.base}/v1/event/stream?namespace=*&${query}`, {
      headers: { "X-Nomad-Token": "root" },
    });
    const events: Published[] = [];
    let rest = "";
    let heartbeats = 0;
    for await (const bytes of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + bytes).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { Events = [] } = JSON.parse(line) as { Events?: Published[] };
        events.push(...Events);
        if (Events.length === 0) heartbeats += 1;
      }
      // The first heartbeat opens the stream, the backlog follows.
      if (heartbeats > 0 && rest === "" && (await this.#isWhole(events.at(-1)?.Index ?? 0))) break;
    }
    return events;
  }

  async #isWhole(index: number): Promise<boolean> {
    const topics = ["jobs", "allocations", "evaluations", "deployments", "services", "nodes", "node/pools"];
    const answers = await Promise.all(
      topics.map((path) => this.#service.must("GET", `/v1/${path}?namespace=*&per_page=1`)),
    );
    return answers.every((answer) => answer.index <= index);
  }

  /** Ids of a topic's objects, mirrored and in the cluster. */
  async mirrored(topic: Table): Promise<string[]> {
    const path = PATHS[topic];
    const { body } = await this.#service.must("GET", `/v1/${path}?namespace=*`);
    if (topic !== "Service") return namesOf(topic, body);
    const found = [];
    for (const { Namespace, Services } of body as { Namespace: string; Services: { ServiceName: string }[] }[])
      for (const { ServiceName } of Services)
        found.push(...(await this.#service.must("GET", `/v1/service/${ServiceName}?namespace=${Namespace}`)).body);
    return namesOf(topic, found);
  }

  existing(topic: Table): string[] {
    return namesOf(topic, this.nomad.state.list(topic));
  }
}

const PATHS: Readonly<Record<Table, string>> = {
  ...{ Job: "jobs", Allocation: "allocations", Evaluation: "evaluations", Deployment: "deployments" },
  ...{ Service: "services", Node: "nodes", NodePool: "node/pools" },
};

const BUILT_IN: ReadonlySet<string> = new Set(["all", "default"]);

/** An object with the fields that distinguish its versions. */
const namesOf = (topic: Table, rows: readonly Fields[]): string[] =>
  rows
    .filter((row) => topic !== "NodePool" || !BUILT_IN.has(String(row["Name"])))
    .map((row) => {
      const { Status = "", ClientStatus = "", Description = "" } = row;
      return [namespaceOf(topic, row), idOf(topic, row), Status, ClientStatus, Description].join(" ");
    })
    .sort();

/** An event without its content. */
export const brief = ({ Topic, Type, Key, Namespace }: Omit<Published, "Index">): string =>
  [Topic, Type, Key, Namespace].join(" ");
