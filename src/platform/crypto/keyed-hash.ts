import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { type MasterKey, parseKeyring, Sealed } from "./keyring.ts";

interface AuditKey {
  /** The id of the master key that it comes from. */
  readonly id: string;
  readonly key: KeyObject;
}

const derived = ({ id, bytes }: MasterKey): AuditKey => ({
  id,
  key: createSecretKey(createHmac("sha256", bytes).update("sallyport audit 1").digest()),
});

/** What was made of the keyring as it was set last; its text, because a secret may be changed under a running isolate. */
let known: { readonly text: string | undefined; readonly keys: readonly AuditKey[] } | null = null;

/** One key for each master key, newest first; none while `MASTER_KEY` cannot be read. */
function auditKeys({ MASTER_KEY: text }: Pick<Env, "MASTER_KEY">): readonly AuditKey[] {
  if (known?.text !== text || known === null) {
    try {
      known = { text, keys: [...parseKeyring(text).byId.values()].map(derived) };
    } catch (failure) {
      if (!(failure instanceof Sealed)) throw failure;
      known = { text, keys: [] };
    }
  }
  return known.keys;
}

const hashWith = ({ key }: AuditKey, value: string): string =>
  `hmac-sha256:${createHmac("sha256", key).update(value).digest("hex")}`;

/**
 * A sensitive value as the audit log names it: `hmac-sha256:` and 64 hex digits, under the newest key. Equal values have equal
 * hashes, and who does not have the key cannot try values. Null while the service has no key.
 */
export function keyedHash(env: Pick<Env, "MASTER_KEY">, value: string): string | null {
  const [newest] = auditKeys(env);
  return newest ? hashWith(newest, value) : null;
}

/** The same under every key that is left, by the id of its master key, newest first: lines keep the hash they were written with. */
export const keyedHashes = (env: Pick<Env, "MASTER_KEY">, value: string): ReadonlyMap<string, string> =>
  new Map(auditKeys(env).map((key) => [key.id, hashWith(key, value)]));
