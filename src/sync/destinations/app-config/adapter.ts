import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { type Meaning, type RestAnswered, restClient, unreadable } from "../../../providers/rest.ts";
import { type BulkPlace, bulkOperations, type ShownVariable, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY, ENVIRONMENT_NAMES, ENVIRONMENT_RULE } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, RemoteDestinationType } from "../destination-type.ts";
import { accessToken, requiredText } from "../fields.ts";
import { checkVariable } from "../variables.ts";
import { description } from "./description.ts";

/** A destination's connection to its app. */
interface AppConfigConnection {
  access_token: string;
  app: string;
}

const defaultUrl = "https://api.heroku.com";
/** All config vars of an app, with their names, may have 64 KB. */
const maxValueBytes = 60_000;
const MOST = 100;
/** Each call restarts the app, so a burst of changes is one call. */
const WINDOW_MS = 2_000;

const schemas = memo(() => ({
  connection: z.object({
    access_token: accessToken(),
    app: requiredText(
      /^[a-z0-9][a-z0-9-]{1,63}$/,
      "must be the app's name or id: 2 to 64 lower-case letters, digits or -",
    ),
  }),
  vars: z.record(z.string(), z.string().nullable()),
}));

/**
 * Config vars of a Heroku app. One external object is one config var. Each call is a release and a restart, so all
 * writes are merge patches of many config vars.
 */
export const appConfig: RemoteDestinationType<AppConfigConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return schemas().connection;
  },
  targets: ({ app }) => [app],
  defaults: EACH_KEY,
  naming: ENVIRONMENT_NAMES,
  maxValueBytes,
  pace: { atOnce: 1, burst: 200, perMinute: 600 },
  ...bulkOperations({
    noun: "config var",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: true,
    check: (object) =>
      checkVariable(object, {
        ...ENVIRONMENT_RULE,
        maxBytes: maxValueBytes,
      }),
    placeOf,
  }),
};

function callerOf({ access_token: token }: AppConfigConnection, { settings, send }: CallContext) {
  const base = (settings.APP_CONFIG_URL || defaultUrl).replace(/\/+$/, "");
  const headers = { accept: "application/vnd.heroku+json; version=3", authorization: `Bearer ${token}` };
  return restClient({ base, headers, send, meaningOf });
}

function placeOf(connection: AppConfigConnection, context: CallContext): BulkPlace {
  const call = callerOf(connection, context);
  const path = `/apps/${connection.app}/config-vars`;
  return {
    async all() {
      const doing = "Reading the config vars";
      const answer = await call(doing, "GET", path);
      return answer.ok ? (shownBy(answer) ?? unreadable(doing, "GET").outcome) : answer.outcome;
    },
    async write(doing, values) {
      const answer = await call(doing, "PATCH", path, Object.fromEntries(values));
      if (!answer.ok) return answer.outcome;
      const present = shownBy(answer);
      if (present === null) return unreadable(doing, "PATCH").outcome;
      const written = [...values].filter(([name, value]) => present.get(name)?.value === value);
      return new Map(written.map(([name]) => [name, WRITTEN]));
    },
    async remove(doing, names) {
      const answer = await call(doing, "PATCH", path, Object.fromEntries(names.map((name) => [name, null])));
      return answer.ok ? { outcome: "ok" } : answer.outcome;
    },
  };
}

/** The config vars of an answer; null when it has another shape. */
function shownBy({ body }: RestAnswered): ReadonlyMap<string, ShownVariable> | null {
  const vars = schemas().vars.safeParse(body).data;
  if (vars === undefined) return null;
  return new Map(Object.entries(vars).flatMap(([name, value]) => (value === null ? [] : [[name, { value }]])));
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such app, or the token may not see it"] : null;
