import { createHmac } from "node:crypto";
import { refuse } from "../../lib/result.ts";
import { decrypt, encrypt } from "../../platform/crypto/aes-gcm.ts";
import { type MasterKey, parseKeyring, Sealed } from "../../platform/crypto/keyring.ts";
import { masterKey } from "../../platform/crypto/master-key.ts";
import { badRequest, refusalError } from "../../platform/http/errors.ts";

/**
 * The position of a search, encrypted: it may hold a name that the caller may not see, because a page may end behind such
 * a name. Bound to the caller's token and namespace.
 */

const MAX_CHARACTERS = 16_384;

const keyOf = ({ bytes }: MasterKey): Uint8Array => createHmac("sha256", bytes).update("sallyport search 1").digest();

/** @throws RequestError 503 without a master key */
function keysOf(env: Pick<Env, "MASTER_KEY">): { newest: MasterKey; all: readonly MasterKey[] } {
  try {
    const { newest, byId } = parseKeyring(masterKey(env));
    return { newest, all: [...byId.values()] };
  } catch (failure) {
    if (failure instanceof Sealed) throw refusalError(refuse("sealed", failure.message));
    throw failure;
  }
}

/** @param caller the token and the namespace */
export function sealCursor(env: Env, caller: string, position: unknown): string {
  const plain = Buffer.from(JSON.stringify(position));
  return Buffer.from(encrypt(keyOf(keysOf(env).newest), plain, caller)).toString("base64url");
}

/** Reverses `sealCursor`. @throws RequestError 400 for a text that no search of this caller gave */
export function openCursor(env: Env, caller: string, text: string): unknown {
  const { all } = keysOf(env);
  const sealed = Buffer.from(text.slice(0, MAX_CHARACTERS), "base64url");
  for (const key of all) {
    try {
      return JSON.parse(Buffer.from(decrypt(keyOf(key), sealed, caller)).toString());
    } catch {
      // Another key, or no cursor of this caller.
    }
  }
  throw badRequest("after: must be the `next` of a search with this token in this namespace");
}
