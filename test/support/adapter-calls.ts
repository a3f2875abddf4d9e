import { sender } from "../../src/providers/outcome.ts";
import type {
  CallContext,
  ExternalObject,
  RemoteDestinationType,
  ToInspect,
} from "../../src/sync/destinations/destination-type.ts";
import { MARKER_TAG } from "../../src/sync/destinations/destination-type.ts";

/** An adapter's calls with the fields that most tests leave alone. */
export class AdapterCalls<Connection> {
  readonly type: RemoteDestinationType<Connection>;
  readonly connection: Connection;
  readonly context: Partial<CallContext>;
  readonly #deadlineMs: number;

  constructor(
    type: RemoteDestinationType<Connection>,
    body: Readonly<Record<string, unknown>>,
    context: Partial<CallContext> = {},
    deadlineMs = 5_000,
  ) {
    this.type = type;
    this.connection = type.connection.parse(body);
    this.context = context;
    this.#deadlineMs = deadlineMs;
  }

  /** The same with other fields of the create body, or another context. */
  with(body: Readonly<Record<string, unknown>>, context = this.context): AdapterCalls<Connection> {
    const before = this.connection as Readonly<Record<string, unknown>>;
    return new AdapterCalls(this.type, { ...before, ...body }, context, this.#deadlineMs);
  }

  put(name: string, changed: Partial<ExternalObject> = {}) {
    return this.type.put(objectOf(name, changed), this.connection, this.#call());
  }

  remove(
    name: string,
    { reference = null, ownedOnly = false }: { reference?: string | null; ownedOnly?: boolean } = {},
  ) {
    return this.type.remove({ name, reference, ownedOnly }, this.connection, this.#call());
  }

  inspect(name: string, given: Partial<ToInspect> = {}) {
    return this.type.inspect({ name, reference: null, ...given }, this.connection, this.#call());
  }

  probe(sample?: string) {
    return this.type.probe(this.connection, this.#call(), sample);
  }

  #call(): CallContext {
    return { settings: {}, send: sender({ deadlineMs: this.#deadlineMs }), ...this.context };
  }
}

export const objectOf = (name: string, changed: Partial<ExternalObject> = {}): ExternalObject => ({
  name,
  reference: null,
  value: "hunter2-hunter2",
  tags: { [MARKER_TAG]: "" },
  idempotencyToken: "0".repeat(64),
  knownToExist: false,
  previousTagKeys: [],
  contentType: "text/plain",
  updatePolicy: "replace",
  ...changed,
});

/** The reference of a successful put. */
export function referenceOf(put: { readonly outcome: string; readonly reference?: string }): string {
  if (put.outcome !== "ok" || put.reference === undefined) throw new Error(`no reference in ${JSON.stringify(put)}`);
  return put.reference;
}
