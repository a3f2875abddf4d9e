import { expect } from "vitest";
import { type Send, sender } from "../../../src/providers/outcome.ts";
import { normalise } from "../../../src/sync/associations/naming.ts";
import {
  type Batched,
  type Batching,
  type CallContext,
  type Done,
  type ExternalObject,
  type Inspection,
  type Listing,
  MARKER_TAG,
  type ObsoleteObject,
  type Put,
  type ReadObject,
  type RemoteDestinationType,
  type ToInspect,
} from "../../../src/sync/destinations/destination-type.ts";
import type { Place, StandIn, StoredObject } from "../../doubles/stand-in.ts";

export type RemoteType = RemoteDestinationType<unknown>;

type Body = Place["body"];

/** A value that no message and no reference may show. */
export const canary = (text = "") => `canary-1f7e${text}`;

/**
 * The real adapter of one type with the real `Send`, and a place of its double. Each outcome is checked: no value, no
 * credential, and a reference that can be stored.
 */
export class Subject {
  readonly type: RemoteType;
  readonly place: Place;
  /** A valid name. */
  readonly name: string;
  readonly #settings: CallContext["settings"];
  /** Writes whose answers a proxy before the provider replaces. */
  #replaced = 0;

  constructor(type: RemoteType, standIn: StandIn, place: Place) {
    this.type = type;
    this.place = place;
    this.name = type.description.sampleName;
    this.#settings = { SYNC_ALLOWED_HOSTS: "127.0.0.1", ...standIn.settings };
  }

  static async open(type: RemoteType, standIn: StandIn): Promise<Subject> {
    return new Subject(type, standIn, await standIn.open());
  }

  /** The next write takes effect, and a proxy before the provider answers 504. */
  loseToProxy(): void {
    this.#replaced = 1;
  }

  /** Whether no write had an effect yet whose answer a proxy replaces. */
  get isToLose(): boolean {
    return this.#replaced > 0;
  }

  /** The name as the service spells it for this type. */
  spell = (name: string): string => normalise(name, this.type.naming);

  /** A first push of the sample object, with the given changes. */
  async put(changed: Partial<ExternalObject> = {}, to: Body = this.place.body): Promise<Put> {
    const object = this.#object(changed);
    return this.#checked(await this.type.put(object, this.#connection(to), this.#context()), to, object.value);
  }

  /**
   * An operation whose Worker dies with its request of this number: it arrives, and its answer is not read.
   * @returns false when the operation has fewer requests; then it is complete
   */
  async #dying(requests: number, operation: (context: CallContext) => Promise<unknown>): Promise<boolean> {
    const send = sender({ deadlineMs: 20_000 });
    const died = Promise.withResolvers<true>();
    let sent = 0;
    const context = this.#context(async (request) => {
      sent += 1;
      const answer = sent <= requests ? await send(request) : null;
      if (answer && sent < requests) return answer;
      died.resolve(true);
      return new Promise(() => undefined);
    });
    return Promise.race([operation(context).then(() => false), died.promise]);
  }

  putAndDie(requests: number, changed: Partial<ExternalObject> = {}): Promise<boolean> {
    const object = this.#object(changed);
    return this.#dying(requests, (context) => this.type.put(object, this.#connection(this.place.body), context));
  }

  removeAndDie(requests: number, reference: string | null): Promise<boolean> {
    const object = { name: this.name, reference, ownedOnly: false };
    return this.#dying(requests, (context) => this.type.remove(object, this.#connection(this.place.body), context));
  }

  /** A push that succeeds; its reference, for later calls. */
  async pushed(changed: Partial<ExternalObject> = {}): Promise<Known> {
    const put = await this.put(changed);
    expect(put, "the push").toMatchObject({ outcome: "ok" });
    const reference = put.outcome === "ok" ? (put.reference ?? null) : null;
    return {
      name: changed.name ?? this.name,
      reference,
      knownToExist: true,
      previousTagKeys: Object.keys(changed.tags ?? { [MARKER_TAG]: "" }),
      idempotencyToken: "intent-2",
    };
  }

  async remove(reference: string | null = null, ownedOnly = false, from: Body = this.place.body): Promise<Done> {
    const object = { name: this.name, reference, ownedOnly };
    return this.#checked(await this.type.remove(object, this.#connection(from), this.#context()), from);
  }

  /** A removal that succeeds, at the latest when it is repeated. */
  async removed(reference: string | null = null, ownedOnly = false): Promise<void> {
    let done = await this.remove(reference, ownedOnly);
    for (let repeats = 0; done.outcome === "external" && repeats < 2; repeats++) {
      done = await this.remove(reference, ownedOnly);
    }
    expect(done).toEqual({ outcome: "ok" });
  }

  async inspect(object: Partial<ToInspect> = {}, of: Body = this.place.body): Promise<Inspection> {
    const given = { name: this.name, reference: null, ...object };
    return this.#checked(await this.type.inspect(given, this.#connection(of), this.#context()), of);
  }

  async probe(of: Body = this.place.body, sample?: string): Promise<Done> {
    return this.#checked(await this.type.probe(this.#connection(of), this.#context(), sample), of);
  }

  /** One page of names from a cursor. */
  async page(cursor: string): Promise<Listing | undefined> {
    return this.type.reading?.list(cursor, this.#connection(this.place.body), this.#context());
  }

  /** The names of all objects, page by page. Throws the code of a failure. */
  async listed(of: Body = this.place.body): Promise<string[]> {
    const names: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Listing | undefined = await this.type.reading?.list(cursor, this.#connection(of), this.#context());
      if (page?.outcome !== "ok") throw new Error(page?.code);
      names.push(...page.names);
      cursor = page.next;
    }
    return names;
  }

  async read(name: string, of: Body = this.place.body): Promise<ReadObject | undefined> {
    return this.type.reading?.read?.(name, this.#connection(of), this.#context());
  }

  /** The sample object at the provider. */
  get stored(): StoredObject | undefined {
    return this.place.objects().get(this.name);
  }

  /** Expects this value at the provider, in the only object. */
  holds(value: string): void {
    const objects = [...this.place.objects()].map(([name, object]) => [name, object.value]);
    expect(objects, "the provider's objects").toEqual([[this.name, value]]);
  }

  /** A push of many objects in one call. Each outcome by its name, or one failure for all. */
  async putMany(changed: readonly Partial<ExternalObject>[], to: Body = this.place.body): Promise<Batched<Put>> {
    const objects = changed.map((each) => this.#object(each));
    const answer = await this.#batch.putMany(objects, this.#connection(to), this.#context());
    for (const outcome of "outcome" in answer ? [answer] : answer.values()) this.#checked(outcome, to);
    return answer;
  }

  async removeMany(objects: readonly ObsoleteObject[], from: Body = this.place.body): Promise<Batched<Done>> {
    const answer = await this.#batch.removeMany(objects, this.#connection(from), this.#context());
    for (const outcome of "outcome" in answer ? [answer] : answer.values()) this.#checked(outcome, from);
    return answer;
  }

  get #batch(): Batching<unknown> {
    if (!this.type.batch) throw new Error(`${this.type.type} has no batch`);
    return this.type.batch;
  }

  #object(changed: Partial<ExternalObject>): ExternalObject {
    return {
      name: this.name,
      reference: null,
      value: canary(),
      tags: { [MARKER_TAG]: "" },
      idempotencyToken: "intent-1",
      knownToExist: false,
      previousTagKeys: [],
      contentType: "text/plain",
      updatePolicy: "replace",
      ...changed,
    };
  }

  #connection(body: Body): unknown {
    const parsed = this.type.connection.parse(body);
    return this.type.resolve?.(parsed) ?? parsed;
  }

  #context(send: Send = sender({ deadlineMs: 20_000 })): CallContext {
    return { settings: this.#settings, send: (request) => this.#proxied(send, request) };
  }

  async #proxied(send: Send, request: Parameters<Send>[0]): ReturnType<Send> {
    const before = this.place.writes();
    const call = await send(request);
    if (this.#replaced === 0 || this.place.writes() === before || !call.ok || !call.response.ok) return call;
    this.#replaced--;
    const text = "<html><title>504 Gateway Time-out</title></html>";
    return { ok: true, response: new Response(text, { status: 504 }), text };
  }

  #checked<Outcome extends Put | Done | Inspection>(outcome: Outcome, body: Body, value = canary()): Outcome {
    const text = JSON.stringify(outcome);
    const credentials = this.type.sensitive.flatMap((field) => body[field] ?? []).map(String);
    for (const secret of [value, Buffer.from(value).toString("base64"), ...credentials]) {
      if (secret !== "") expect(text.includes(secret), "a value or credential in the outcome").toBe(false);
    }
    if ("reference" in outcome) expect(outcome.reference?.length ?? 0).toBeLessThanOrEqual(512);
    if (outcome.outcome !== "ok") expect(outcome.message, "one sentence").toMatch(/^[A-Z].*\.$/);
    return outcome;
  }
}

/** An object of ours, for its next push. */
export type Known = Pick<
  ExternalObject,
  "name" | "reference" | "knownToExist" | "previousTagKeys" | "idempotencyToken"
>;

/** One row of the contract. */
export interface Case {
  readonly name: string;
  /** Why the row does not apply to a type; null when it does. */
  readonly unless?: (type: RemoteType) => string | null;
  run(subject: Subject): Promise<void>;
}
