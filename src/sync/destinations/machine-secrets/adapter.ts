import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { contentOf, type Meaning, restClient } from "../../../providers/rest.ts";
import { type BulkPlace, bulkOperations, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY, environmentNames, environmentRule } from "../defaults.ts";
import { type CallContext, doneBy, remoteType } from "../destination-type.ts";
import { connectionSchema, requiredText } from "../fields.ts";
import { checkObject } from "../object-rules.ts";
import { description } from "./description.ts";

const defaultUrl = "https://api.machines.dev";
/** The provider states no limit of one value. */
const maxValueBytes = 64 * 1024;
const VARIABLE_RULE = { ...environmentRule(), maxBytes: maxValueBytes };
const MOST = 100;
/** An app takes one write a second, so a burst of changes is one call. */
const WINDOW_MS = 2_000;

/** A destination's connection to its app. */
const connection = connectionSchema(() => ({
  api_token: requiredText(
    /^(FlyV1 )?[\x21-\x7e]{1,8192}$/,
    "must be 1 to 8192 printable characters without spaces, after FlyV1 or alone",
  ),
  app: requiredText(
    /^[a-z0-9][a-z0-9-]{0,62}$/,
    "must be the app's name: 1 to 63 lower-case letters, digits or -, not beginning with -",
  ),
}));
type MachineSecretsConnection = z.infer<ReturnType<typeof connection>>;

const schemas = memo(() => {
  const secrets = z.array(z.object({ name: z.string(), digest: z.string().nullish() })).nullish();
  return { listed: z.object({ secrets }), changed: z.object({ secrets, version: z.number().int() }) };
});

/**
 * Secrets of a Fly.io app. One external object is one secret. Reads show digests, and may be older than the last write
 * unless they name its version: a reference is that version and the digest.
 */
export const machineSecrets = remoteType(description, connection, {
  targets: ({ app }) => [app],
  defaults: EACH_KEY,
  naming: environmentNames(),
  maxValueBytes,
  pace: { atOnce: 1, burst: 300, perMinute: 3_000 },
  ...bulkOperations({
    noun: "secret",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: false,
    check: (object) => checkObject(object, VARIABLE_RULE),
    placeOf,
    versionIn: (reference) => reference.replace(/^\d+:/, ""),
  }),
});

/** The scheme of a token, as the provider's own client chooses it. */
function authorizationOf(token: string): string {
  if (token.startsWith("FlyV1 ")) return token;
  return /(^|,)fm(2|1r)_/.test(token) ? `FlyV1 ${token}` : `Bearer ${token}`;
}

/** The version of all secrets in a reference; 0 for none. */
const leastVersion = (reference: string): number => Number(/^(\d+):/.exec(reference)?.[1] ?? "0");

function placeOf({ api_token: token, app }: MachineSecretsConnection, { settings, send }: CallContext): BulkPlace {
  const base = `${(settings.MACHINE_SECRETS_URL || defaultUrl).replace(/\/+$/, "")}/v1`;
  const call = restClient({ base, headers: { authorization: authorizationOf(token) }, send, meaningOf });
  const path = `/apps/${app}/secrets`;

  /** Sets secrets, and removes those that are null: as a whole, as one version. */
  const change = async (doing: string, values: Readonly<Record<string, string | null>>) =>
    contentOf(await call(doing, "POST", path, { values }), schemas().changed);

  return {
    async all(references = []) {
      const version = Math.max(0, ...references.map(leastVersion));
      const query = version === 0 ? "" : `?min_version=${version}`;
      const listed = contentOf(await call("Listing the secrets", "GET", `${path}${query}`), schemas().listed);
      if (!listed.ok) return listed.outcome;
      const secrets = listed.content.secrets ?? [];
      return new Map(secrets.map(({ name, digest }) => [name, digest ? { version: digest } : {}]));
    },
    async write(doing, values) {
      const changed = await change(doing, Object.fromEntries(values));
      if (!changed.ok) return changed.outcome;
      const { secrets, version } = changed.content;
      const digests = new Map(secrets?.map(({ name, digest }) => [name, digest]));
      const referenceOf = (name: string) => {
        const digest = digests.get(name);
        return digest ? `${version}:${digest}` : WRITTEN;
      };
      return new Map([...values.keys()].map((name) => [name, referenceOf(name)]));
    },
    remove: async (doing, names) => doneBy(await change(doing, Object.fromEntries(names.map((name) => [name, null])))),
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such app, or the token may not see it"] : null;
