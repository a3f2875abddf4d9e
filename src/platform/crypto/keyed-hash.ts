import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { Lru } from "../../lib/lru.ts";
import { type MasterKey, parseKeyring, Sealed } from "./keyring.ts";
import { masterKey } from "./master-key.ts";

interface AuditKey {
  /** The id of the master key from which this key is derived. */
  readonly id: string;
  readonly key: KeyObject;
  /** Hashes of the values of recent requests: one computation costs as much CPU as a small request. */
  readonly recent: Lru<string, string>;
}

/** Callers of an isolate whose token and address are hashed once; tokens are bounded in length by `tokenOf`. */
const MAX_RECENT = 2_000;

const derived = ({ id, bytes }: MasterKey): AuditKey => ({
  id,
  key: createSecretKey(createHmac("sha256", bytes).update("sallyport audit 1").digest()),
  recent: new Lru(MAX_RECENT),
});

/** Keys derived from the last keyring, cached by its text: a secret may change under a running isolate. */
let known: { readonly text: string | undefined; readonly keys: readonly AuditKey[] } | null = null;

/** One key for each master key, newest first; empty while `MASTER_KEY` cannot be parsed. */
function auditKeys(env: Pick<Env, "MASTER_KEY">): readonly AuditKey[] {
  try {
    const text = masterKey(env);
    if (known?.text !== text || known === null)
      known = { text, keys: [...parseKeyring(text).byId.values()].map(derived) };
    return known.keys;
  } catch (failure) {
    if (!(failure instanceof Sealed)) throw failure;
    return [];
  }
}

const hashWith = ({ key }: AuditKey, value: string): string =>
  `hmac-sha256:${createHmac("sha256", key).update(value).digest("hex")}`;

/**
 * A sensitive value as written to the audit log: `hmac-sha256:` and 64 hex digits, under the newest key. Equal values
 * have equal hashes; without the key, values cannot be guessed by trial. Null while the service has no key.
 */
export function keyedHash(env: Pick<Env, "MASTER_KEY">, value: string): string | null {
  const [newest] = auditKeys(env);
  if (!newest) return null;
  const known = newest.recent.get(value);
  if (known !== undefined) return known;
  const hash = hashWith(newest, value);
  newest.recent.set(value, hash);
  return hash;
}

/**
 * The hash under every remaining key, by the id of its master key, newest first: audit lines keep the hash of their
 * time.
 */
export const keyedHashes = (env: Pick<Env, "MASTER_KEY">, value: string): ReadonlyMap<string, string> =>
  new Map(auditKeys(env).map((key) => [key.id, hashWith(key, value)]));
