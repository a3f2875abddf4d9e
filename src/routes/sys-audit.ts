import * as z from "zod";
import { keyedHashes } from "../platform/crypto/keyed-hash.ts";
import { badRequest, notFound, RequestError } from "../platform/http/errors.ts";
import { sinksOf } from "../platform/observability/audit/sinks.ts";
import { settings } from "../platform/settings.ts";
import { envelope } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/**
 * Destinations of the audit log, and hashes of values (https://developer.hashicorp.com/vault/api-docs/system/audit).
 */

const MAX_INPUT = 64 * 1024;

const Input = z.object({ input: z.string().min(1).max(MAX_INPUT) });

type Output = "log" | ReturnType<typeof sinksOf>[number]["name"];

const outputsOf = (env: Env): Output[] => [
  ...(settings(env).AUDIT_LOG === "on" ? (["log"] as const) : []),
  ...sinksOf(env).map(({ name }) => name),
];

/** Requires `sudo`: with a hash, a short value can be guessed by trial. */
async function hash(call: AuthorisedCall, { input }: z.output<typeof Input>): Promise<Response> {
  const output = call.params["output"]?.replace(/\/$/, "");
  if (output !== undefined && !outputsOf(call.env).some((name) => name === output)) {
    throw notFound(`path: the audit log is written to ${outputsOf(call.env).join(" and ") || "nothing"}`);
  }
  const hashes = keyedHashes(call.env, input);
  const [newest] = hashes.values();
  if (newest === undefined) throw new RequestError(503, "sealed: the audit log has no key without MASTER_KEY");
  return envelope(call, { data: { hash: newest, hashes: Object.fromEntries(hashes) }, flat: true });
}

export const auditRoutes = [
  secrets({
    verb: "GET",
    path: "/sys/audit",
    access: "sudo",
    handle: async (call) => {
      const outputs = outputsOf(call.env).map((name) => [
        `${name}/`,
        { type: name, description: "", local: false, options: {}, path: `${name}/` },
      ]);
      return envelope(call, { data: Object.fromEntries(outputs), flat: true });
    },
  }),
  ...(["POST", "DELETE"] as const).map((verb) =>
    secrets({
      ...{ verb, path: "/sys/audit/:output", access: "sudo", refuses: true },
      handle: async () => {
        throw badRequest(
          "audit: the outputs are those of the deployment; change AUDIT_LOG, or bind AUDIT_QUEUE or AUDIT_BUCKET (docs/operate/audit.md)",
        );
      },
    }),
  ),
  secrets<z.output<typeof Input>>({
    verb: "POST",
    path: "/sys/audit-hash",
    access: "sudo",
    fresh: true,
    body: Input,
    handle: hash,
  }),
  secrets<z.output<typeof Input>>({
    verb: "POST",
    path: "/sys/audit-hash/:output",
    access: "sudo",
    fresh: true,
    body: Input,
    handle: hash,
  }),
];
