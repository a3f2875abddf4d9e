import { createHash } from "node:crypto";

const KEY_BYTES = 32;
/**
 * Base64 of 32 bytes, in either alphabet. The decoder skips unknown characters, so without this check a typing error
 * would pass.
 */
const KEY_TEXT = /^[A-Za-z0-9+/_-]{43}=?$/;

export interface MasterKey {
  /** First 8 hex digits of the key's SHA-256: identifies a key without revealing it. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

/** The service cannot use its keys. Requests that need them return 503 until an operator acts. */
export class Sealed extends Error {
  override readonly name = "Sealed";
}

/** The deployment's master keys: the newest seals, every key opens. */
export interface Keyring {
  readonly newest: MasterKey;
  readonly byId: ReadonlyMap<string, MasterKey>;
}

/**
 * Parses the secret `MASTER_KEY`: base64 keys of 32 bytes, separated by commas, newest first.
 * @throws Sealed when it is missing or malformed; the message never repeats the value.
 */
export function parseKeyring(text: string | undefined): Keyring {
  const parts = (text ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  const keys = parts.map((part, position) => {
    const bytes = Buffer.from(part, "base64");
    if (!KEY_TEXT.test(part) || bytes.length !== KEY_BYTES) {
      throw new Sealed(`sealed: key ${position + 1} of MASTER_KEY is not base64 of ${KEY_BYTES} bytes`);
    }
    return { id: createHash("sha256").update(bytes).digest("hex").slice(0, 8), bytes };
  });
  const [newest] = keys;
  if (!newest) throw new Sealed("sealed: MASTER_KEY is not set");
  return { newest, byId: new Map(keys.map((key) => [key.id, key])) };
}
