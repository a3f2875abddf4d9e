import * as z from "zod";
import type { Failure } from "../../../src/contracts/failure.ts";
import { tryParseJson } from "../../../src/lib/json.ts";
import { memo } from "../../../src/lib/memo.ts";
import { failure, retryAfterMs, withoutEffect, withUnsureEffect } from "../../../src/providers/outcome.ts";
import { fromDescription } from "../../../src/sync/destinations/description.ts";
import type { CallContext, RemoteDestinationType } from "../../../src/sync/destinations/destination-type.ts";
import { description } from "./description.ts";

interface Connection {
  url: string;
  folder: string;
  token: string;
}

const connection = memo(
  (): z.ZodType<Connection> =>
    z.object({
      url: z.string("must be a text").regex(/^http:\/\/127\.0\.0\.1:\d{1,5}$/, "must be an origin on loopback"),
      folder: z.string("must be a text").regex(/^[a-z0-9]{1,40}$/, "must be 1 to 40 small letters or digits"),
      token: z.string("must be a text").regex(/^[\x21-\x7e]{1,99}$/, "must be 1 to 99 printable characters"),
    }),
);

/** A file as a read shows it. */
const fileSchema = memo(() => z.object({ version: z.number(), owner: z.string(), intent: z.string() }));

const OWNER = "sallyport";
const MAX_BYTES = 1000;
const NAME = /^[a-z0-9-]{1,80}$/;

const refusals: Readonly<Record<number, readonly [Failure["outcome"], code: string, text: string]>> = {
  401: ["client", "auth_failed", "the token is not accepted"],
  403: ["client", "permission_denied", "the token may not write"],
  429: ["external", "throttled", "too many requests"],
  503: ["external", "provider_unavailable", "the server failed"],
  504: ["external", "provider_unavailable", "the server failed"],
};

type File = z.infer<ReturnType<typeof fileSchema>>;
/** `file` is null when it is absent, in a folder that exists. */
type Answer = { ok: true; file: File | null } | { ok: false; outcome: Failure };

async function call(
  { url, folder, token }: Connection,
  { send }: CallContext,
  method: "GET" | "PUT" | "DELETE",
  name: string,
  body?: object,
): Promise<Answer> {
  const init = { method, headers: { authorization: `Bearer ${token}` }, ...(body && { body: JSON.stringify(body) }) };
  const sent = await send([`${url}/${folder}/${name}`, init]);
  if (!sent.ok) return { ok: false, outcome: method === "GET" ? withoutEffect(sent.outcome) : sent.outcome };
  const { response, text } = sent;
  const answer = tryParseJson(text);
  if (response.ok) {
    const file = fileSchema().safeParse(answer);
    if (file.success || method === "DELETE") return { ok: true, file: file.data ?? null };
    return { ok: false, outcome: failure("unknown", "unreadable_answer", `${method} was answered without a file.`) };
  }
  // The server names the missing thing: a missing folder may hold our files elsewhere.
  if (response.status === 404 && z.object({ missing: z.literal("file") }).safeParse(answer).success) {
    return { ok: true, file: null };
  }
  const [outcome, code, why] = refusals[response.status] ?? ["client", "not_found", "there is no such folder"];
  const message = `${method} was refused: ${why} (HTTP ${response.status}).`;
  const refused = failure(outcome, code, message, retryAfterMs(response));
  return { ok: false, outcome: method === "GET" ? refused : withUnsureEffect(refused, response.status) };
}

/** Files of a folder behind HTTP. One external object is one file with the value, our mark and the intent. */
export const jsonFiles: RemoteDestinationType<Connection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return connection();
  },
  targets: ({ url, folder }) => [`${url}/${folder}`],
  defaults: {
    granularity: "secret-path",
    template: {
      "secret-path": "vault-{{ .MountAccessor }}-{{ .SecretPath }}",
      "secret-key": "vault-{{ .MountAccessor }}-{{ .SecretPath }}-{{ .SecretKey }}",
    },
  },
  naming: { allowed: /^[A-Za-z0-9-]$/, maxLength: 80, replacement: "-", adapt: (name) => name.toLowerCase() },
  maxValueBytes: MAX_BYTES,
  pace: { atOnce: 2, burst: 100, perMinute: 1000 },

  async put({ name, value, idempotencyToken, updatePolicy }, details, context) {
    if (!NAME.test(name)) {
      return failure("client", "name_invalid", "The name must be 1 to 80 small letters, digits or hyphens.");
    }
    if (Buffer.byteLength(value) > MAX_BYTES) {
      return failure("client", "value_too_large", `The value is larger than ${MAX_BYTES} bytes.`);
    }
    if (updatePolicy !== "replace") {
      const found = await call(details, context, "GET", name);
      if (!found.ok) return found.outcome;
      const { file } = found;
      if (file && updatePolicy === "if-not-exists") {
        const ours = file.owner === OWNER && file.intent === idempotencyToken;
        return ours ? { outcome: "ok", reference: String(file.version) } : { outcome: "ok", left: true };
      }
      if (file && file.owner !== OWNER) return failure("client", "not_owned", `The file ${name} is not ours.`);
    }
    const written = await call(details, context, "PUT", name, { value, owner: OWNER, intent: idempotencyToken });
    if (!written.ok) return written.outcome;
    if (written.file) return { outcome: "ok", reference: String(written.file.version) };
    return failure("client", "not_found", "There is no such folder.");
  },

  async remove({ name, ownedOnly }, details, context) {
    if (ownedOnly) {
      const found = await call(details, context, "GET", name);
      if (!found.ok) return found.outcome;
      if (found.file?.owner !== OWNER) return { outcome: "ok" };
    }
    const removed = await call(details, context, "DELETE", name);
    return removed.ok ? { outcome: "ok" } : removed.outcome;
  },

  async inspect({ name, reference }, details, context) {
    const found = await call(details, context, "GET", name);
    if (!found.ok) return found.outcome;
    const { file } = found;
    if (!file) return { outcome: "ok", state: "absent", owned: null };
    const state = reference === null ? "present" : String(file.version) === reference ? "unchanged" : "changed";
    return { outcome: "ok", state, owned: file.owner === OWNER };
  },

  async probe(details, context) {
    const found = await call(details, context, "GET", "probe");
    return found.ok ? { outcome: "ok" } : found.outcome;
  },
};
