import * as z from "zod";
import { keyedHashes } from "../platform/crypto/keyed-hash.ts";
import { notFound, RequestError } from "../platform/http/errors.ts";
import { type Cursor, searchLines } from "../platform/observability/audit/search.ts";
import { sinksOf } from "../platform/observability/audit/sinks.ts";
import { settings } from "../platform/settings.ts";
import { envelope } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";
import { refuses } from "./server/unsent.ts";

/**
 * Destinations of the audit log, its lines, and hashes of values
 * (https://developer.hashicorp.com/vault/api-docs/system/audit).
 */

const FIXED_OUTPUTS =
  "audit: the outputs are those of the deployment; change AUDIT_LOG or AUDIT_HTTP_URL, or bind AUDIT_QUEUE or AUDIT_BUCKET (docs/operate/audit.md)";

const MAX_INPUT = 64 * 1024;

const Input = z.object({ input: z.string().min(1).max(MAX_INPUT) });

type Output = "log" | ReturnType<typeof sinksOf>[number]["name"];

const outputsOf = (env: Env): Output[] => [
  ...(settings(env).AUDIT_LOG === "on" ? (["log"] as const) : []),
  ...sinksOf(env).map(({ name }) => name),
];

/** Requires `sudo`: with a hash, a short value can be guessed by trial. */
async function hash(call: AuthorisedCall<never, "output">, { input }: z.output<typeof Input>): Promise<Response> {
  const output = call.params.output?.replace(/\/$/, "");
  if (output !== undefined && !outputsOf(call.env).some((name) => name === output)) {
    throw notFound(`path: the audit log is written to ${outputsOf(call.env).join(" and ") || "nothing"}`);
  }
  const hashes = keyedHashes(call.env, input);
  const [newest] = hashes.values();
  if (newest === undefined) throw new RequestError(503, "sealed: the audit log has no key without MASTER_KEY");
  return envelope(call, { data: { hash: newest, hashes: Object.fromEntries(hashes) }, flat: true });
}

const MAX_LINES = 1_000;
const Search = z.object({
  text: z.string().max(1024).default(""),
  kind: z.enum(["", "request", "answer", "action"]).default(""),
  before: z
    .union([z.literal(""), z.iso.datetime({ offset: true })])
    .default("")
    .transform((time) => (time ? Date.parse(time) : null)),
  limit: z.preprocess((given) => given || "100", z.coerce.number("must be a number").int().min(1).max(MAX_LINES)),
  cursor: z
    .string()
    .max(256)
    .default("")
    .transform((text, { addIssue }): Cursor | null => {
      const found = /^(\S*?)(?:#(\d{1,9}))?$/.exec(text);
      if (!found) addIssue("not a cursor of this search");
      return found && text !== ""
        ? { key: found[1] ?? "", lines: found[2] === undefined ? null : Number(found[2]) }
        : null;
    }),
});

const cursorText = ({ key, lines }: Cursor): string => (lines === null ? key : `${key}#${lines}`);

const NO_RECORD = "no bucket is bound: these are the last lines of one isolate, and no record (docs/operate/audit.md)";

/** Requires `sudo`: lines name the paths and accessors of all callers. */
async function search(call: AuthorisedCall & Asked<typeof Search>): Promise<Response> {
  const { next, ...found } = await searchLines(call.env.AUDIT_BUCKET, call.asked);
  const data = { ...found, next: next === null ? "" : cursorText(next) };
  return envelope(call, { data, warnings: found.source === "isolate" ? [NO_RECORD] : [] });
}

export const auditRoutes = [
  secrets("GET /sys/audit", { access: "sudo" }, async (call) => {
    const outputs = outputsOf(call.env).map((name) => [
      `${name}/`,
      { type: name, description: "", local: false, options: {}, path: `${name}/` },
    ]);
    return envelope(call, { data: Object.fromEntries(outputs), flat: true });
  }),
  secrets("GET /sys/audit/lines", { access: "sudo", fresh: true, query: Search }, search),
  ...(["POST", "DELETE"] as const).map((verb) =>
    secrets(`${verb} /sys/audit/:output`, { access: "sudo", refuses: true }, refuses(400, FIXED_OUTPUTS)),
  ),
  secrets("POST /sys/audit-hash", { access: "sudo", fresh: true, body: Input }, hash),
  secrets("POST /sys/audit-hash/:output", { access: "sudo", fresh: true, body: Input }, hash),
];
