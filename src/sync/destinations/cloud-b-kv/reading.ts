import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import type { Reading } from "../destination-type.ts";
import { type CloudBConnection, keyVault } from "./client.ts";

/** The largest page of GetSecrets. */
const pageSize = 25;

const schemas = memo(() => ({
  page: z.object({
    value: z.array(z.object({ id: z.string(), managed: z.boolean().nullish() })).nullish(),
    nextLink: z.string().nullish(),
  }),
  secret: z.object({ value: z.string() }),
}));

/**
 * Reads the secrets of a vault (GetSecrets, GetSecret). Deleted ones are in no list, and secrets that a certificate
 * manages are left out: they cannot be written.
 */
export const cloudBKvReading: Reading<CloudBConnection> = {
  async list(cursor, details, context) {
    const from = cursor === "" ? "" : `&$skiptoken=${encodeURIComponent(cursor)}`;
    const answer = await keyVault(details, context).call("GetSecrets", "GET", `/secrets?maxresults=${pageSize}${from}`);
    if (!answer.ok) return answer.outcome;
    const parsed = schemas().page.safeParse(answer.body);
    if (!parsed.success) return unreadable("GetSecrets");
    const { value, nextLink } = parsed.data;
    const names = (value ?? []).filter(({ managed }) => managed !== true).map(({ id }) => id.split("/").at(-1) ?? "");
    // Only the position of the link is used: the token is sent to the host of key_vault_uri only.
    const next = nextLink ? (URL.parse(nextLink)?.searchParams.get("$skiptoken") ?? null) : null;
    return nextLink && next === null ? unreadable("GetSecrets") : { outcome: "ok", names, next };
  },

  async read(name, details, context) {
    const answer = await keyVault(details, context).call("GetSecret", "GET", `/secrets/${encodeURIComponent(name)}`);
    if (!answer.ok) {
      if (answer.code === "SecretNotFound") return { outcome: "ok", content: null };
      if (answer.inner !== "SecretDisabled") return answer.outcome;
      return failure("client", "disabled", `The newest version of ${name} is disabled.`);
    }
    const parsed = schemas().secret.safeParse(answer.body);
    return parsed.success ? { outcome: "ok", content: { value: parsed.data.value } } : unreadable("GetSecret");
  },
};

const unreadable = (operation: string) =>
  failure("external", "unreadable_answer", `${operation} was answered, but not as the service answers it.`);
