import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removalEvent } from "../../packages/relay/src/topics.ts";
import { FakeNomad, type NomadOptions } from "../doubles/nomad.ts";
import { type Fields, idOf, namespaceOf, TABLES, type Table } from "../doubles/nomad-state.ts";
import { PROGRAM_ENV } from "../support/program-env.ts";
import type { Service } from "./events-service.ts";
import { KillingProxy } from "./killing-proxy.ts";
import { programOf } from "./prepared-program.ts";

/** The relay as a process between a stand-in for Nomad and the service. */

export const NOMAD_TOKEN = "nomad-token";
/** A new service costs less than more of them. */
const MAX_REMOVALS = 500;

export interface Published {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly Index: number;
}

/** For a service that had events of another world. */
export interface Used {
  /** Later events of the service's stream are those of this world. */
  readonly since: number;
  /** Of the relay: the service skips the indexes of a source that it has seen. */
  readonly source: string;
}

export class RelayWorld {
  readonly nomad: FakeNomad;
  readonly proxy: KillingProxy;
  readonly stateDir = mkdtempSync(join(tmpdir(), "sallyport-relay-"));
  readonly #service: Service;
  readonly #program = programOf("packages/relay/src/main.ts");
  #relay: ChildProcess | undefined;
  #exited: Promise<number | null> = Promise.resolve(null);
  readonly #used: Used | undefined;
  log = "";

  constructor(service: Service, options: NomadOptions = {}, used?: Used) {
    this.#service = service;
    this.#used = used;
    this.nomad = new FakeNomad({ token: NOMAD_TOKEN, ...options });
    this.proxy = new KillingProxy(service);
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
    const source = this.#used ? ["--source", this.#used.source] : [];
    const all = ["nomad", "--state-dir", this.stateDir, ...source, ...metrics, ...args];
    const relay = spawn(process.execPath, [this.#program, ...all], {
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        ...PROGRAM_ENV,
        NOMAD_ADDR: this.nomad.url,
        NOMAD_TOKEN,
        SALLYPORT_ADDR: this.proxy.url,
        SALLYPORT_TOKEN: "root",
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
    let newestIndex = 0;
    for await (const bytes of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + bytes).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { Events = [] } = JSON.parse(line) as { Events?: Published[] };
        newestIndex = Events.at(-1)?.Index ?? newestIndex;
        events.push(...Events.filter(({ Index }) => Index > (this.#used?.since ?? 0)));
        if (Events.length === 0) heartbeats += 1;
      }
      // The first heartbeat opens the stream, the backlog follows.
      if (heartbeats > 0 && rest === "" && newestIndex >= (await newestOf(this.#service))) break;
    }
    return events;
  }

  /** Removes every object from the service. @returns its newest index; undefined when there are too many objects */
  async clear(): Promise<number | undefined> {
    const removals: string[] = [];
    for (const topic of TABLES) {
      for (const name of await this.mirrored(topic)) {
        const [namespace = "", id = ""] = name.split(" ");
        removals.push(removalEvent({ topic, namespace, id }));
      }
    }
    if (removals.length > MAX_REMOVALS) return undefined;
    const events = removals.map((event) => JSON.parse(event) as object);
    if (events.length > 0) await this.#service.must("PUT", "/v1/cluster/objects", events);
    return newestOf(this.#service);
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

/** The newest index of the mirrored topics. */
async function newestOf(service: Service): Promise<number> {
  const topics = ["jobs", "allocations", "evaluations", "deployments", "services", "nodes", "node/pools"];
  const answers = await Promise.all(topics.map((path) => service.must("GET", `/v1/${path}?namespace=*&per_page=1`)));
  return Math.max(...answers.map(({ index }) => index));
}

const PATHS: Readonly<Record<Table, string>> = {
  Job: "jobs",
  Allocation: "allocations",
  Evaluation: "evaluations",
  Deployment: "deployments",
  Service: "services",
  Node: "nodes",
  NodePool: "node/pools",
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
