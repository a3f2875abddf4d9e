import { createHash } from "node:crypto";
import * as z from "zod";
import { badRequest } from "../platform/http/errors.ts";
import { integer } from "../platform/http/fields.ts";
import { envelope } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/** Random bytes and hashes (https://developer.hashicorp.com/vault/api-docs/system/tools). */

const MAX_RANDOM_BYTES = 128 * 1024;
const DEFAULT_RANDOM_BYTES = 32;

/** Upstream's names of the offered algorithms. */
const ALGORITHMS: Readonly<Record<string, string>> = {
  "sha2-224": "sha224",
  "sha2-256": "sha256",
  "sha2-384": "sha384",
  "sha2-512": "sha512",
};

const SOURCES: ReadonlySet<string> = new Set(["platform", "seal", "all"]);

const RandomBody = z.object({
  bytes: integer().min(1).optional(),
  format: z.string().optional(),
  source: z.string().optional(),
});
const HashBody = z.object({
  input: z.string(),
  algorithm: z.string().optional(),
  format: z.string().optional(),
});

function inFormat(bytes: Uint8Array, format: string): string {
  if (format !== "hex" && format !== "base64")
    throw badRequest('format: unsupported encoding format; must be "hex" or "base64"');
  return Buffer.from(bytes).toString(format);
}

/** The number of bytes in the path, as text, or in the body. */
function bytesWanted(named: string | undefined, given: number | undefined): number {
  const bytes =
    named === undefined ? (given ?? DEFAULT_RANDOM_BYTES) : /^\d{1,9}$/.test(named) ? Number(named) : Number.NaN;
  if (Number.isNaN(bytes)) throw badRequest("bytes: must be an integer");
  if (bytes < 1) throw badRequest('"bytes" cannot be less than 1');
  if (bytes > MAX_RANDOM_BYTES) throw badRequest(`"bytes" should be less than ${MAX_RANDOM_BYTES}`);
  return bytes;
}

/** Every source is the platform's generator; the others are upstream's names for it where no device is attached. */
async function random(
  call: AuthorisedCall<never, "bytes" | "source">,
  body: z.infer<typeof RandomBody>,
): Promise<Response> {
  const named = call.params.source;
  const isCount = named !== undefined && /^\d+$/.test(named);
  const source = (isCount ? undefined : named) ?? body.source ?? "platform";
  if (!SOURCES.has(source)) throw badRequest('source: unsupported entropy source; must be "platform", "seal" or "all"');
  const size = bytesWanted(isCount ? named : call.params.bytes, body.bytes);
  const bytes = new Uint8Array(size);
  // One call of the generator returns at most 65 536 bytes.
  for (let at = 0; at < size; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return envelope(call, { data: { random_bytes: inFormat(bytes, body.format ?? "base64") }, flat: true });
}

async function hash(call: AuthorisedCall<never, "algorithm">, body: z.infer<typeof HashBody>): Promise<Response> {
  const name = call.params.algorithm ?? body.algorithm ?? "sha2-256";
  const algorithm = Object.hasOwn(ALGORITHMS, name) ? ALGORITHMS[name] : undefined;
  if (algorithm === undefined)
    throw badRequest(`algorithm: unsupported algorithm; must be one of ${Object.keys(ALGORITHMS).join(", ")}`);
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(body.input))
    throw badRequest("input: unable to decode input as base64");
  const digest = createHash(algorithm).update(Buffer.from(body.input, "base64")).digest();
  return envelope(call, { data: { sum: inFormat(digest, body.format ?? "hex") }, flat: true });
}

export const toolRoutes = [
  ...["/sys/tools/random", "/sys/tools/random/:source", "/sys/tools/random/:source/:bytes"].map((path) =>
    secrets(`POST ${path}`, { body: RandomBody }, random),
  ),
  ...["/sys/tools/hash", "/sys/tools/hash/:algorithm"].map((path) => secrets(`POST ${path}`, { body: HashBody }, hash)),
];
