import type { IncomingMessage } from "node:http";
import { type Answer, HttpClient, type TlsFiles } from "./http-client.ts";
import { elementsOf } from "./json-text.ts";
import { TOPICS, type Topic } from "./topics.ts";
import { backoffMs, sleep } from "./wait.ts";

/** An object in one of the cluster's lists. */
export interface Listed {
  readonly namespace: string;
  readonly id: string;
  readonly modifyIndex: number;
  /** The object's text, if the list shows whole objects. */
  readonly text?: string;
}

/** A request that the cluster answered with an error. */
class Refused extends Error {
  readonly status: number;

  constructor(path: string, { status, text }: Pick<Answer, "status" | "text">) {
    super(`${path.split("?")[0]}: ${status} ${text.trim().slice(0, 200)}`);
    this.status = status;
  }
}

/** Lists by topic, and whether they show whole objects. Services are listed by name, each with its registrations. */
const LISTS: Readonly<Record<Exclude<Topic, "Service">, { readonly path: string; readonly whole: boolean }>> = {
  NodePool: { path: "node/pools", whole: true },
  Node: { path: "nodes", whole: false },
  Job: { path: "jobs", whole: false },
  Evaluation: { path: "evaluations", whole: true },
  Deployment: { path: "deployments", whole: true },
  Allocation: { path: "allocations", whole: false },
};
const ONE: Readonly<Partial<Record<Topic, string>>> = { Node: "node", Job: "job", Allocation: "allocation" };
const PER_PAGE = 1_000;
/** Attempts of a read: a comparison of many objects outlasts an election. */
const ATTEMPTS = 5;
const MAX_BACKOFF_MS = 2_000;
const NEVER = new AbortController().signal;
/** Beyond every index: the stream begins with its newest line. */
const LIVE = 2 ** 53 - 1;

interface Stub {
  readonly ID?: string;
  readonly Name?: string;
  readonly Namespace?: string;
  readonly ModifyIndex?: number;
}

/** The API of a Nomad region, or of this service, whose reads are the same. */
export class Cluster {
  readonly #client: HttpClient;
  readonly #region: string;
  readonly #namespace: string;

  constructor({ address, token, region, tls, namespaces = null }: ClusterOptions) {
    this.#client = new HttpClient(address, token === "" ? {} : { "x-nomad-token": token }, tls);
    this.#region = region;
    const [only, ...others] = namespaces ?? [];
    this.#namespace = only !== undefined && others.length === 0 ? only : "*";
  }

  close(): void {
    this.#client.close();
  }

  /**
   * The newest index of any mirrored table: all changes up to it are visible to later reads. Reads go to the leader.
   */
  async newestIndex(topics: readonly Topic[]): Promise<number> {
    const paths = topics.map((topic) => (topic === "Service" ? "services" : LISTS[topic].path));
    const answers = await Promise.all(
      paths.map((path) => this.#get(path, { namespace: this.#namespace, per_page: "1" })),
    );
    return Math.max(...answers.map(({ header }) => Number(header("x-nomad-index")) || 0));
  }

  /** @param since waits for a change after this index; 0 answers at once */
  async namespaces(since = 0, signal?: AbortSignal): Promise<{ readonly names: string[]; readonly index: number }> {
    const wait: Record<string, string> = since > 0 ? { index: String(since), wait: "60s" } : {};
    const answer = await this.#get("namespaces", wait, signal);
    const names = (JSON.parse(answer.text) as { Name: string }[]).map(({ Name }) => Name);
    return { names, index: Number(answer.header("x-nomad-index")) || 0 };
  }

  async *list(topic: Topic): AsyncGenerator<Listed> {
    if (topic === "Service") return yield* this.#services();
    const { path, whole } = LISTS[topic];
    const { key, namespaced } = TOPICS[topic];
    for await (const text of this.#pages(path, namespaced ? { namespace: this.#namespace } : {})) {
      const stub = JSON.parse(text) as Stub;
      const name = { namespace: namespaced ? (stub.Namespace ?? "default") : "", id: stub[key] ?? "" };
      yield { ...name, modifyIndex: stub.ModifyIndex ?? 0, ...(whole && { text }) };
    }
  }

  /** The text of a whole object; null when it was deleted. */
  async read(topic: Topic, { namespace, id }: Pick<Listed, "namespace" | "id">): Promise<string | null> {
    const scope: Record<string, string> = namespace === "" ? {} : { namespace };
    try {
      return (await this.#get(`${ONE[topic]}/${encodeURIComponent(id)}`, scope)).text;
    } catch (failure) {
      if (failure instanceof Refused && failure.status === 404) return null;
      throw failure;
    }
  }

  /** The open event stream. @param from the first index; null begins with the newest line */
  async stream(topics: readonly Topic[], from: number | null, signal: AbortSignal): Promise<IncomingMessage> {
    const query = new URLSearchParams({ namespace: this.#namespace, index: String(from ?? LIVE) });
    for (const topic of topics) query.append("topic", topic);
    const path = this.#path("event/stream", query);
    const response = await this.#client.stream(path, signal);
    if (response.statusCode === 200) return response;
    let text = "";
    for await (const chunk of response) text += String(chunk);
    throw new Refused(path, { status: response.statusCode ?? 0, text });
  }

  async *#services(): AsyncGenerator<Listed> {
    const { text } = await this.#get("services", { namespace: this.#namespace });
    const found = JSON.parse(text) as { Namespace: string; Services: { ServiceName: string }[] }[];
    for (const { Namespace: namespace, Services } of found) {
      for (const { ServiceName } of Services) {
        const registrations = await this.#get(`service/${encodeURIComponent(ServiceName)}`, { namespace });
        for (const each of elementsOf(registrations.text)) {
          const { ID: id = "", ModifyIndex: modifyIndex = 0 } = JSON.parse(each) as Stub;
          yield { namespace, id, modifyIndex, text: each };
        }
      }
    }
  }

  async *#pages(path: string, scope: Record<string, string>): AsyncGenerator<string> {
    for (let token = ""; ; ) {
      const paging = { per_page: String(PER_PAGE), ...(token !== "" && { next_token: token }) };
      const answer = await this.#get(path, { ...scope, ...paging });
      yield* elementsOf(answer.text);
      token = answer.header("x-nomad-nexttoken");
      if (token === "") return;
    }
  }

  async #get(path: string, query: Record<string, string>, signal?: AbortSignal): Promise<Answer> {
    const full = this.#path(path, new URLSearchParams(query));
    const stop = signal ?? NEVER;
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await this.#client.request(full, { signal: stop });
        if (answer.status === 200) return answer;
        throw new Refused(full, answer);
      } catch (failure) {
        const isLasting = failure instanceof Refused && failure.status < 500 && failure.status !== 429;
        if (isLasting || attempt === ATTEMPTS || stop.aborted) throw failure;
        await sleep(backoffMs(attempt, MAX_BACKOFF_MS), stop);
      }
    }
  }

  #path(path: string, query: URLSearchParams): string {
    if (this.#region !== "") query.set("region", this.#region);
    return `/v1/${path}?${query}`;
  }
}

interface ClusterOptions {
  readonly address: URL;
  readonly token: string;
  /** Empty for the server's own. */
  readonly region: string;
  readonly tls?: TlsFiles;
  /** A single namespace needs rights there only; several are selected from all. */
  readonly namespaces?: ReadonlySet<string> | null;
}
