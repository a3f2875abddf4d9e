import { setTimeout as sleep } from "node:timers/promises";
import { hclOf, type Rules } from "../events-reference.ts";
import type { Answer, Service } from "./events-service.ts";
import type { Moment } from "./events-visit.ts";

/** Existing namespaces. Reports may name others. */
export const NAMESPACES = ["default", "prod", "test"] as const;

/** One write, and the confirmation in its answer. */
export interface Write {
  /** The marks of the objects that it changes; every event it causes has its own mark. */
  readonly marks: readonly string[];
  readonly sentAt: number;
  answered: boolean;
  /** The index in the answer, or null. */
  index: number | null;
}

/** One write of a policy or token, in the order of sending. */
export interface RightsWrite {
  /** Policy name or accessor; empty while the accessor is unknown. */
  subject: string;
  /** Null: a deletion. */
  readonly mark: string | null;
  readonly sentAt: number;
  answered: boolean;
  index: number | null;
}

export interface LiveToken {
  readonly accessor: string | null;
  readonly secret: string;
  readonly expires: number;
  management: boolean;
}

const FIRST: LiveToken = { accessor: null, secret: "root", expires: Number.POSITIVE_INFINITY, management: true };

/** The history of requests to the service and of its answers. */
export class World {
  readonly service: Service;
  readonly writes: Write[] = [];
  readonly rights: RightsWrite[] = [];
  /** Answered writes of a node, whose line describes the node. */
  readonly nodeWrites: { readonly node: string; readonly index: number }[] = [];
  readonly tokens: LiveToken[] = [FIRST];
  readonly expiries = new Map<string, number>();
  readonly rulesOf = new Map<string, Rules>();
  /** Answers of the service by status. */
  readonly statuses = new Map<number, number>();
  readonly wrong: string[] = [];
  #known = 0;
  #marks = 0;

  constructor(service: Service) {
    this.service = service;
  }

  now(): Moment {
    return { time: Date.now(), sent: this.rights.length, known: this.#known, base: this.service.base };
  }

  mark(): string {
    return `w${++this.#marks}`;
  }

  learn(index: number): void {
    this.#known = Math.max(this.#known, index);
  }

  async call(method: string, path: string, body?: unknown): Promise<Answer | null> {
    const answer = await this.service.call(method, path, body);
    const status = answer?.status ?? 0;
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    return answer;
  }
}

type Random = () => number;
const pick = <T>(random: Random, items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

/** Writes its own objects one after the other, so that the expected lines are known. */
export class Writer {
  readonly #world: World;
  readonly #random: Random;
  readonly #name: string;
  readonly policies: string[];
  readonly #nodes: string[];
  /** Policies whose deletion was not answered; the next write determines their state. */
  readonly #unsure = new Set<string>();
  #sourceIndex = 0;
  readonly #tokens: LiveToken[] = [];

  constructor(world: World, random: Random, number: number) {
    this.#world = world;
    this.#random = random;
    this.#name = `x${number}`;
    this.policies = [`p${number}a`, `p${number}b`];
    this.#nodes = [0, 1].map((each) => `${number}${each}000000-0000-4000-8000-000000000000`);
  }

  /** The initial policies and tokens. */
  async begin(): Promise<void> {
    for (const name of this.policies) await this.#putPolicy(name);
    for (const management of [false, false, true]) await this.#createToken(management, null);
  }

  async run(going: () => boolean): Promise<void> {
    while (going()) {
      if (this.#world.service.base === "") await sleep(50);
      else await this.#one();
      if (this.#random() < 0.5) await sleep(this.#random() * 60);
    }
  }

  async #one(): Promise<void> {
    const dice = this.#random();
    if (dice < 0.35) return this.#report(false);
    if (dice < 0.55) return this.#report(true);
    if (dice < 0.65) return this.#moveNode();
    if (dice < 0.8) return this.#putPolicy(pick(this.#random, this.policies));
    if (dice < 0.83) return this.#deletePolicy(pick(this.#random, this.policies));
    if (dice < 0.9) return this.#updateToken();
    if (dice < 0.95)
      return this.#createToken(this.#random() < 0.2, this.#random() < 0.6 ? 1 + this.#random() * 4 : null);
    return this.#deleteToken();
  }

  /** As one transaction: events of several topics and namespaces, some of them large. */
  async #report(withSource: boolean): Promise<void> {
    const world = this.#world;
    const marks: string[] = [];
    const events = Array.from({ length: pick(this.#random, [1, 1, 1, 2, 5]) }, () => {
      const mark = world.mark();
      marks.push(mark);
      return this.#event(mark);
    });
    const write: Write = { marks, sentAt: Date.now(), answered: false, index: null };
    world.writes.push(write);
    const source = withSource ? `?source=${this.#name}&source_index=${++this.#sourceIndex}` : "";
    const times = withSource ? 6 : 1;
    for (let time = 0; time < times && !write.answered; time++) {
      this.#learn(write, await world.call("PUT", `/v1/cluster/objects${source}`, events));
    }
    if (!withSource || !write.answered || this.#random() < 0.6) return;
    const again = await world.call("PUT", `/v1/cluster/objects${source}`, events);
    if (again?.status !== 200) return;
    if (again.body.Applied !== false) world.wrong.push(`a repeated report was applied: ${source}`);
    if (write.index !== null && again.body.Index !== write.index) {
      world.wrong.push(`repeated, ${source} became line ${again.body.Index} instead of ${write.index}`);
    }
  }

  #event(mark: string): object {
    const random = this.#random;
    const topic = pick(random, ["Job", "Job", "Allocation", "Evaluation", "Deployment", "Node"]);
    const [one, two] = [pick(random, ["web", "api", '日本 ,"']), pick(random, ["", "d1", "d2"])];
    const Namespace = pick(random, ["default", "default", "prod", "test", "ghost"]);
    const id = `${this.#name}-${pick(random, ["a", "b", "c"])}`;
    const bulk = random() < 0.03 ? { Bulk: "\n\r\u2028 é".repeat(20_000) } : {};
    switch (topic) {
      case "Job":
        return { Topic: topic, Type: "JobRegistered", Namespace, Payload: { Job: { ID: one, Mark: mark, ...bulk } } };
      case "Node": {
        const node = {
          ID: pick(random, this.#nodes),
          Name: "n",
          Datacenter: "dc1",
          Attributes: { a: "b" },
          Meta: { mark },
        };
        return { Topic: topic, Type: "NodeRegistration", Payload: { Node: node } };
      }
      default: {
        const object = { ID: id, JobID: one, DeploymentID: two, Mark: mark, ...bulk };
        const Type =
          { Allocation: "AllocationUpdated", Evaluation: "EvaluationUpdated" }[topic] ?? "DeploymentStatusUpdate";
        return { Topic: topic, Type, Namespace, Payload: { [topic]: object } };
      }
    }
  }

  async #moveNode(): Promise<void> {
    const node = pick(this.#random, this.#nodes);
    const [path, body] = pick<[string, object]>(this.#random, [
      ["eligibility", { Eligibility: "eligible" }],
      ["eligibility", { Eligibility: "ineligible" }],
      ["drain", { DrainSpec: { Deadline: 3_600_000_000_000 } }],
      ["drain", { DrainSpec: { Deadline: 700_000_000 } }],
      ["drain", { DrainSpec: null, MarkEligible: true }],
      ["purge", {}],
    ]);
    const answer = await this.#world.call("PUT", `/v1/node/${node}/${path}`, body);
    if (answer?.status !== 200 || answer.body.Index === 0) return;
    this.#world.nodeWrites.push({ node, index: answer.body.Index });
    this.#world.learn(answer.body.Index);
  }

  #rules(): Rules {
    const random = this.#random;
    const names = ["default", "prod", "test", "*", "t*", "pr*", "g*"].filter(() => random() < 0.35);
    const word = () => pick(random, ["read", "read", "read", "list", "deny"] as const);
    return {
      namespaces: Object.fromEntries(names.map((name) => [name, word()])),
      node: pick(random, ["read", "read", "write", "deny"] as const),
    };
  }

  async #putPolicy(name: string): Promise<void> {
    const world = this.#world;
    const rules = this.#rules();
    const text = hclOf(rules);
    world.rulesOf.set(text, rules);
    const write = this.#rightsWrite(name, world.mark());
    const answer = await world.call("PUT", `/v1/acl/policy/${name}`, { Rules: text, Description: write.mark });
    this.#settle(write, answer, answer?.index ?? null);
    if (write.answered) this.#unsure.delete(name);
  }

  async #deletePolicy(name: string): Promise<void> {
    if (this.#unsure.has(name)) return this.#putPolicy(name);
    const write = this.#rightsWrite(name, null);
    const answer = await this.#world.call("DELETE", `/v1/acl/policy/${name}`);
    this.#settle(write, answer, answer?.index ?? null);
    if (answer === null) this.#unsure.add(name);
  }

  /** @param seconds null: without an expiry */
  async #createToken(management: boolean, seconds: number | null): Promise<void> {
    const world = this.#world;
    const write = this.#rightsWrite("", world.mark());
    const answer = await world.call("PUT", "/v1/acl/token", {
      Name: write.mark,
      Type: management ? "management" : "client",
      ...(!management && { Policies: this.#somePolicies() }),
      ...(seconds !== null && { ExpirationTTL: `${Math.ceil(seconds)}s` }),
    });
    this.#settle(write, answer, answer?.body.ModifyIndex ?? null);
    if (answer?.status !== 200) return;
    const { AccessorID: accessor, SecretID: secret, ExpirationTime } = answer.body;
    write.subject = accessor;
    const expires = ExpirationTime === null ? Number.POSITIVE_INFINITY : Date.parse(ExpirationTime);
    const token = { accessor, secret, expires, management };
    world.expiries.set(accessor, expires);
    world.tokens.push(token);
    if (seconds === null) this.#tokens.push(token);
    // Readers prefer valid tokens; a few invalid ones stay.
    if (world.tokens.length > 14) world.tokens.splice(1 + Math.floor(this.#random() * 6), 1);
  }

  #somePolicies(): string[] {
    const own = this.policies.filter(() => this.#random() < 0.6);
    return own.length === 0 ? [pick(this.#random, this.policies)] : own;
  }

  async #updateToken(): Promise<void> {
    const token = this.#tokens.find(({ management }) => !management && this.#random() < 0.5);
    if (!token) return;
    const write = this.#rightsWrite(token.accessor ?? "", this.#world.mark());
    const body = { Name: write.mark, Type: "client", Policies: this.#somePolicies() };
    const answer = await this.#world.call("PUT", `/v1/acl/token/${token.accessor}`, body);
    this.#settle(write, answer, answer?.body.ModifyIndex ?? null);
  }

  async #deleteToken(): Promise<void> {
    if (this.#tokens.length < 3) return this.#createToken(this.#random() < 0.2, null);
    const [token] = this.#tokens.splice(Math.floor(this.#random() * this.#tokens.length), 1);
    for (let answer: Answer | null = null; token && answer === null; ) {
      const write = this.#rightsWrite(token.accessor ?? "", null);
      answer = await this.#world.call("DELETE", `/v1/acl/token/${token.accessor}`);
      this.#settle(write, answer, null);
    }
  }

  #rightsWrite(subject: string, mark: string | null): RightsWrite {
    const write: RightsWrite = { subject, mark, sentAt: Date.now(), answered: false, index: null };
    this.#world.rights.push(write);
    return write;
  }

  #settle(write: RightsWrite, answer: Answer | null, index: number | null): void {
    if (answer?.status !== 200) return;
    write.answered = true;
    // 1: the index is not known yet.
    if (index === null || index <= 1) return;
    write.index = index;
    this.#world.learn(index);
  }

  #learn(write: Write, answer: Answer | null): void {
    if (answer === null) return;
    if (answer.status !== 200) {
      if (answer.status < 500 && answer.status !== 409) {
        this.#world.wrong.push(`refused: ${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`);
      }
      return;
    }
    write.answered = true;
    write.index = answer.body.Index;
    if (write.index !== null) this.#world.learn(write.index);
  }
}
