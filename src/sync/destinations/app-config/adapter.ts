import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { contentOf, type Meaning, restClient } from "../../../providers/rest.ts";
import { type BulkPlace, bulkOperations, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY, environmentNames, environmentRule } from "../defaults.ts";
import { type CallContext, doneBy, remoteType } from "../destination-type.ts";
import { accessToken, connectionSchema, requiredText } from "../fields.ts";
import { checkObject } from "../object-rules.ts";
import { description } from "./description.ts";

const defaultUrl = "https://api.heroku.com";
/** All config vars of an app, with their names, may have 64 KB. */
const maxValueBytes = 60_000;
const VARIABLE_RULE = { ...environmentRule(), maxBytes: maxValueBytes };
const MOST = 100;
/** Each call restarts the app, so a burst of changes is one call. */
const WINDOW_MS = 2_000;

/** A destination's connection to its app. */
const connection = connectionSchema(() => ({
  access_token: accessToken(),
  app: requiredText(
    /^[a-z0-9][a-z0-9-]{1,63}$/,
    "must be the app's name or id: 2 to 64 lower-case letters, digits or -",
  ),
}));
type AppConfigConnection = z.infer<ReturnType<typeof connection>>;

/** The config vars of an answer. */
const Vars = memo(() =>
  z
    .record(z.string(), z.string().nullable())
    .transform(
      (vars) => new Map(Object.entries(vars).flatMap(([name, value]) => (value === null ? [] : [[name, { value }]]))),
    ),
);

/**
 * Config vars of a Heroku app. One external object is one config var. Each call is a release and a restart, so all
 * writes are merge patches of many config vars.
 */
export const appConfig = remoteType(description, connection, {
  targets: ({ app }) => [app],
  defaults: EACH_KEY,
  naming: environmentNames(),
  maxValueBytes,
  pace: { atOnce: 1, burst: 200, perMinute: 600 },
  ...bulkOperations({
    noun: "config var",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: true,
    check: (object) => checkObject(object, VARIABLE_RULE),
    placeOf,
  }),
});

function placeOf({ access_token: token, app }: AppConfigConnection, { settings, send }: CallContext): BulkPlace {
  const base = (settings.APP_CONFIG_URL || defaultUrl).replace(/\/+$/, "");
  const headers = { accept: "application/vnd.heroku+json; version=3", authorization: `Bearer ${token}` };
  const call = restClient({ base, headers, send, meaningOf });
  const path = `/apps/${app}/config-vars`;
  return {
    async all() {
      const vars = contentOf(await call("Reading the config vars", "GET", path), Vars());
      return vars.ok ? vars.content : vars.outcome;
    },
    async write(doing, values) {
      const vars = contentOf(await call(doing, "PATCH", path, Object.fromEntries(values)), Vars());
      if (!vars.ok) return vars.outcome;
      const written = [...values].filter(([name, value]) => vars.content.get(name)?.value === value);
      return new Map(written.map(([name]) => [name, WRITTEN]));
    },
    remove: async (doing, names) =>
      doneBy(await call(doing, "PATCH", path, Object.fromEntries(names.map((name) => [name, null])))),
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such app, or the token may not see it"] : null;
