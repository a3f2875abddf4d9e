import { ok, type Result, refuse } from "../result.ts";

const MAX_KEYS = 64;
const MAX_KEY_BYTES = 128;
const MAX_VALUE_BYTES = 512;
const PRINTABLE = /^[^\p{Cc}\p{Cs}\p{Co}\p{Cn}]*$/u;

/** Checks custom metadata; all violations are told at once. */
export function checkCustomMetadata(metadata: Readonly<Record<string, string>>): Result<null> {
  const entries = Object.entries(metadata);
  const wrong: string[] = [];
  if (entries.length > MAX_KEYS) wrong.push(`${entries.length} keys provided, at most ${MAX_KEYS} allowed`);
  for (const [key, value] of entries) {
    const name = JSON.stringify(key.slice(0, 40));
    const keyBytes = Buffer.byteLength(key);
    const valueBytes = Buffer.byteLength(value);
    if (keyBytes < 1 || keyBytes > MAX_KEY_BYTES)
      wrong.push(`key ${name} has ${keyBytes} bytes, must have 1 to ${MAX_KEY_BYTES}`);
    if (valueBytes < 1 || valueBytes > MAX_VALUE_BYTES) {
      wrong.push(`value of key ${name} has ${valueBytes} bytes, must have 1 to ${MAX_VALUE_BYTES}`);
    }
    if (!PRINTABLE.test(key)) wrong.push(`key ${name} holds unprintable characters`);
    if (!PRINTABLE.test(value)) wrong.push(`value of key ${name} holds unprintable characters`);
  }
  return wrong.length === 0
    ? ok(null)
    : refuse("invalid", `custom_metadata validation failed: ${wrong.slice(0, 10).join("; ")}`);
}
