import type { CloudResult } from "../../../contracts/cloud-calls.ts";
import type { Definition } from "./document.ts";

/** Values of one object at the provider, by the names of the definition's `capture`. */
export type Captured = Readonly<Record<string, string | number | boolean>>;

export type Vars = Readonly<Record<string, string>>;

/** The engine at the provider: address, secrets and definition. */
export interface Account {
  /** Without a trailing slash. */
  readonly url: string;
  readonly secrets: Vars;
  readonly signingSecret: string;
  readonly definition: Definition;
}

/** An object by our marker, with the role's variables. */
export interface Marked {
  /** Empty for secrets that an operator has written. */
  readonly marker: string;
  readonly vars: Vars;
  /** It belongs to the secrets of the engine. */
  readonly root?: true;
}

/** An object to revoke or renew. */
export interface Held extends Marked {
  readonly ids: Captured;
  /** Seconds for which "not found" may mean "not listed yet". */
  readonly lag: number;
}

/** The result of a creation. */
export interface Made {
  readonly ids: Captured;
  /** The answer's `data`, or the new secrets. */
  readonly data: Vars;
}

/** The calls of a definition, each sent once. Times in ms since 1970. */
export interface Producer {
  create(object: Marked & { readonly expires: number }): Promise<CloudResult<Made>>;
  find(object: Marked): Promise<CloudResult<readonly Captured[]>>;
  /** @param held JSON of a `Held`: steps of removals are told apart by their text */
  revoke(held: string): Promise<CloudResult<null>>;
  /** Does nothing for a definition without `renew`. */
  renew(held: Held, expires: number): Promise<CloudResult<null>>;
  /** Whether new credentials work; does nothing for a definition without `verify`. @param data the answer's `data` */
  verify(data: Vars): Promise<CloudResult<null>>;
  /** The ids of what the engine's secrets belong to; null for a definition that does not read them. */
  self(vars: Vars): Promise<CloudResult<Captured | null>>;
  /** Whether new secrets of the engine work: what they belong to is searched for with them. */
  use(object: Marked, secrets: Vars): Promise<CloudResult<null>>;
}

/** Ids may change between a number and its text from one answer to the next. */
export const sameObject = (a: Captured, b: Captured): boolean =>
  Object.keys({ ...a, ...b }).every((name) => String(a[name]) === String(b[name]));
