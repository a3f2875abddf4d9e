import { textOf, warn } from "../observability/log.ts";
import { Sealed } from "./keyring.ts";

/**
 * `MASTER_KEY` as text: a secret of the Worker, or the value of a Secrets Store binding
 * (https://developers.cloudflare.com/secrets-store/integrations/workers/). A stored value is read when the Worker or an
 * object begins, kept for the isolate, and read again after a minute of use. Costs one comparison for a secret of the Worker.
 */

/** The binding of a stored secret. */
export interface StoredSecret {
  /** Rejects when the secret is missing. */
  get(): Promise<string>;
}

type WithKey = Pick<Env, "MASTER_KEY">;

const REFRESH_MS = 60_000;
const RETRY_MS = 1_000;

interface Stored {
  value: string | undefined;
  /** Time of the next attempt to read it. */
  due: number;
}

/** By binding: one in a deployment, several in tests. */
const known = new WeakMap<object, Stored>();

/** @throws Sealed while a stored value could not be read */
export function masterKey({ MASTER_KEY: bound }: WithKey): string | undefined {
  if (bound === undefined || typeof bound === "string") return bound;
  const stored = known.get(bound);
  if (stored === undefined || stored.due <= Date.now()) void read(bound);
  if (stored?.value === undefined) throw new Sealed("sealed: MASTER_KEY cannot be read from its Secrets Store binding");
  return stored.value;
}

/**
 * Resolves, and never rejects, when a stored value was read or its reading has failed. Null when there is nothing to wait for.
 * @param start runs the reading, such as where an object lets no other event in
 */
export function loadMasterKey(
  { MASTER_KEY: bound }: WithKey,
  start = (work: () => Promise<void>): Promise<void> => work(),
): Promise<void> | null {
  if (bound === undefined || typeof bound === "string" || known.get(bound)?.value !== undefined) return null;
  return start(() => read(bound));
}

/** Reads in the caller's own context: a promise of another request cannot be awaited. */
async function read(bound: StoredSecret): Promise<void> {
  const stored = known.get(bound) ?? { value: undefined, due: 0 };
  known.set(bound, stored);
  stored.due = Date.now() + RETRY_MS;
  try {
    const value: unknown = await bound.get();
    if (typeof value !== "string") throw new Error("it is no text");
    stored.value = value;
    stored.due = Date.now() + REFRESH_MS;
  } catch (failure) {
    warn("master-key-unreadable", { because: textOf(failure) });
  }
}
