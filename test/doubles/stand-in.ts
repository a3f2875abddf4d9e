/**
 * The double of a destination type as its users see it: the contract suite of adapters, the playground, and the tests in
 * the Workers runtime. Each folder of `test/doubles` has one in `stand-in.ts`; `stand-ins.ts` lists them.
 */

/** How the next calls go wrong. */
export type Fault =
  /** Refused with the provider's throttling answer and, where it has one, a retry hint of one second. */
  | "throttled"
  /** Answered 503 without an effect. */
  | "unavailable"
  /** Takes effect, but the connection is cut before the answer. */
  | "lost"
  /** Cut before it takes effect. */
  | "cut"
  /** Refused as a call without the right. */
  | "forbidden";

/** An object as the provider has it. */
export interface StoredObject {
  readonly value: string;
  /** Whether it carries our marker; null where the type has none. */
  readonly owned: boolean | null;
  /** Tags as the provider spells them, ours included; absent where the type has none. */
  readonly tags?: Readonly<Record<string, string>>;
}

/** One account, project or vault of the double, with valid credentials. */
export interface Place {
  /** The create body's own fields. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Fields of the connection by which the provider shows values, where it hides them otherwise. */
  readonly shown?: Readonly<Record<string, unknown>>;
  /** The same with credentials that the provider refuses. */
  readonly wrongCredentials: Readonly<Record<string, unknown>>;
  /** The same with a target that does not exist, or that the credentials may not see. */
  readonly missing: Readonly<Record<string, unknown>>;
  /** Request bodies of the playground by file name, beside or instead of `body` as that of the type. */
  readonly bodies?: Readonly<Record<string, object>>;
  /** The present objects by name. Throws when two objects have one name. */
  objects(): ReadonlyMap<string, StoredObject>;
  /** A write by another hand: without our marker, and with another version and time than ours. */
  write(name: string, value: string): void;
  /** The same of an object whose value the provider shows; absent: it shows all of `write`, or none. */
  writeShown?(name: string, value: string): void;
  /** A removal by another hand. */
  remove(name: string): void;
  /** The next `times` calls that change something go wrong. */
  fail(fault: Fault, times: number): void;
  /** Calls that changed something, or were refused when they tried. */
  writes(): number;
}

export interface StandIn {
  /** The neutral name of the destination type. */
  readonly type: string;
  /** Settings of the Worker that lead its calls here. */
  readonly settings: Readonly<Record<string, string>>;
  /** Variables of the playground's shell, such as the address of the double's own paths. */
  readonly shell?: Readonly<Record<string, string>>;
  /** The double's first account at the first call, a separate one at each further call. */
  open(): Place | Promise<Place>;
  close(): Promise<void>;
}

/** The objects by name. Throws when two have one name. */
export function byName(objects: Iterable<StoredObject & { readonly name: string }>): ReadonlyMap<string, StoredObject> {
  const found = new Map<string, StoredObject>();
  for (const { name, ...object } of objects) {
    if (found.has(name)) throw new Error(`two objects are named ${name}`);
    found.set(name, object);
  }
  return found;
}
