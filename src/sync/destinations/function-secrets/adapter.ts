import { createHash } from "node:crypto";
import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { type Meaning, restClient, unreadable } from "../../../providers/rest.ts";
import { type BulkPlace, bulkOperations } from "../bulk-variables.ts";
import { EACH_KEY } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, RemoteDestinationType } from "../destination-type.ts";
import { accessToken, requiredText } from "../fields.ts";
import { checkVariable } from "../variables.ts";
import { description } from "./description.ts";

/** A destination's connection to its project. */
interface FunctionSecretsConnection {
  access_token: string;
  project_ref: string;
}

const defaultUrl = "https://api.supabase.com";
/** `CreateSecretBody` of the published document, in characters. */
const MAX_VALUE = 24_576;
const MAX_NAME = 256;
const MOST = 100;
/** Calls of a user are counted, so a burst of changes is one call. */
const WINDOW_MS = 1_000;

const schemas = memo(() => ({
  connection: z.object({
    access_token: accessToken(),
    project_ref: requiredText(/^[a-z]{20}$/, "must be the project's ref: 20 lower-case letters"),
  }),
  secrets: z.array(z.object({ name: z.string(), value: z.string() })),
}));

/** The digest that reads show of a value. */
const versionOf = (value: string): string => createHash("sha256").update(value).digest("hex");

/** The project's own secrets begin so, and cannot be written. */
const isReserved = (name: string): boolean => name.startsWith("SUPABASE_");

/** Secrets of a Supabase project's Edge Functions. One external object is one secret. Reads show digests of values. */
export const functionSecrets: RemoteDestinationType<FunctionSecretsConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return schemas().connection;
  },
  targets: ({ project_ref: project }) => [project],
  defaults: EACH_KEY,
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: MAX_NAME,
    replacement: "_",
    adapt: (name) => (/^\d/.test(name) || isReserved(name) ? `_${name}` : name),
  },
  maxValueBytes: MAX_VALUE,
  pace: { atOnce: 1, burst: 1_000, perMinute: 3_000 },
  ...bulkOperations({
    noun: "secret",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: false,
    check: (object) =>
      checkVariable(object, {
        name: /^(?!SUPABASE_)[A-Za-z_]\w{0,255}$/,
        rule: `1 to ${MAX_NAME} letters, digits or _, not beginning with a digit or SUPABASE_`,
        maxBytes: MAX_VALUE,
      }),
    placeOf,
    versionOf,
    isOffered: (name) => !isReserved(name),
  }),
};

function placeOf(
  { access_token: token, project_ref: project }: FunctionSecretsConnection,
  { settings, send }: CallContext,
): BulkPlace {
  const base = `${(settings.FUNCTION_SECRETS_URL || defaultUrl).replace(/\/+$/, "")}/v1`;
  const call = restClient({ base, headers: { authorization: `Bearer ${token}` }, send, meaningOf });
  const path = `/projects/${project}/secrets`;

  return {
    async all() {
      const doing = "Listing the secrets";
      const answer = await call(doing, "GET", path);
      if (!answer.ok) return answer.outcome;
      const secrets = schemas().secrets.safeParse(answer.body);
      if (!secrets.success) return unreadable(doing, "GET").outcome;
      return new Map(secrets.data.map(({ name, value: version }) => [name, { version }]));
    },
    async write(doing, values) {
      const body = [...values].map(([name, value]) => ({ name, value }));
      const answer = await call(doing, "POST", path, body);
      if (!answer.ok) return answer.outcome;
      // The answer is empty, and a digest read now may be that of another writer.
      return new Map(body.map(({ name, value }) => [name, versionOf(value)]));
    },
    async remove(doing, names) {
      const answer = await call(doing, "DELETE", path, names);
      return answer.ok ? { outcome: "ok" } : answer.outcome;
    },
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such project, or the token may not see it"] : null;
