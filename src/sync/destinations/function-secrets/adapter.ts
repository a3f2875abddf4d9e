import { createHash } from "node:crypto";
import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { contentOf, type Meaning, restClient } from "../../../providers/rest.ts";
import { type BulkPlace, bulkOperations } from "../bulk-variables.ts";
import { EACH_KEY, environmentNames } from "../defaults.ts";
import { type CallContext, doneBy, remoteType } from "../destination-type.ts";
import { accessToken, connectionSchema, requiredText } from "../fields.ts";
import { checkObject } from "../object-rules.ts";
import { description } from "./description.ts";

const defaultUrl = "https://api.supabase.com";
/** `CreateSecretBody` of the published document, in characters. */
const MAX_VALUE = 24_576;
const MAX_NAME = 256;
const MOST = 100;
/** Calls of a user are counted, so a burst of changes is one call. */
const WINDOW_MS = 1_000;

/** A destination's connection to its project. */
const connection = connectionSchema(() => ({
  access_token: accessToken(),
  project_ref: requiredText(/^[a-z]{20}$/, "must be the project's ref: 20 lower-case letters"),
}));
type FunctionSecretsConnection = z.infer<ReturnType<typeof connection>>;

const Secrets = memo(() => z.array(z.object({ name: z.string(), value: z.string() })));

/** The digest that reads show of a value. */
const versionOf = (value: string): string => createHash("sha256").update(value).digest("hex");

/** The project's own secrets begin so, and cannot be written. */
const isReserved = (name: string): boolean => name.startsWith("SUPABASE_");

/** Secrets of a Supabase project's Edge Functions. One external object is one secret. Reads show digests of values. */
export const functionSecrets = remoteType(description, connection, {
  targets: ({ project_ref: project }) => [project],
  defaults: EACH_KEY,
  naming: {
    ...environmentNames(MAX_NAME),
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
      checkObject(object, {
        name: /^(?!SUPABASE_)[A-Za-z_]\w{0,255}$/,
        rule: `be 1 to ${MAX_NAME} letters, digits or _, not beginning with a digit or SUPABASE_`,
        maxBytes: MAX_VALUE,
      }),
    placeOf,
    versionOf,
    isOffered: (name) => !isReserved(name),
  }),
});

function placeOf(
  { access_token: token, project_ref: project }: FunctionSecretsConnection,
  { settings, send }: CallContext,
): BulkPlace {
  const base = `${(settings.FUNCTION_SECRETS_URL || defaultUrl).replace(/\/+$/, "")}/v1`;
  const call = restClient({ base, headers: { authorization: `Bearer ${token}` }, send, meaningOf });
  const path = `/projects/${project}/secrets`;

  return {
    async all() {
      const secrets = contentOf(await call("Listing the secrets", "GET", path), Secrets());
      if (!secrets.ok) return secrets.outcome;
      return new Map(secrets.content.map(({ name, value: version }) => [name, { version }]));
    },
    async write(doing, values) {
      const body = [...values].map(([name, value]) => ({ name, value }));
      const answer = await call(doing, "POST", path, body);
      if (!answer.ok) return answer.outcome;
      // The answer is empty, and a digest read now may be that of another writer.
      return new Map(body.map(({ name, value }) => [name, versionOf(value)]));
    },
    remove: async (doing, names) => doneBy(await call(doing, "DELETE", path, names)),
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such project, or the token may not see it"] : null;
