import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import { type Meaning, type RestAnswer, restClient, unreadable } from "../../../providers/rest.ts";
import { fromDescription } from "../description.ts";
import type {
  Batched,
  CallContext,
  Done,
  ExternalObject,
  Inspection,
  Listing,
  ObsoleteObject,
  Put,
  ReadObject,
  RemoteDestinationType,
} from "../destination-type.ts";
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
 * writes are merge patches of many config vars. They have no marker: one is ours when a push is recorded, or when a push
 * of unknown outcome had its value.
 */
export const appConfig: RemoteDestinationType<AppConfigConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return schemas().connection;
  },
  targets: ({ app }) => [app],
  defaults: {
    granularity: "secret-key",
    template: {
      "secret-path": "vault/{{ .MountAccessor }}/{{ .SecretPath }}",
      "secret-key": "vault/{{ .MountAccessor }}/{{ .SecretPath }}/{{ .SecretKey }}",
    },
  },
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: 255,
    replacement: "_",
    adapt: (name) => (/^\d/.test(name) ? `_${name}` : name),
  },
  maxValueBytes,
  pace: { atOnce: 1, burst: 200, perMinute: 600 },
  batch: { windowMs: WINDOW_MS, most: MOST, putMany, removeMany },
  reading: { list, read },

  async put(object, connection, context) {
    const put = await putMany([object], connection, context);
    return "outcome" in put ? put : (put.get(object.name) ?? UNNAMED);
  },

  async remove(object, connection, context) {
    const removed = await removeMany([object], connection, context);
    return "outcome" in removed ? removed : (removed.get(object.name) ?? UNNAMED);
  },

  async inspect({ name, reference, desired }, connection, context): Promise<Inspection> {
    const vars = await varsOf(connection, context);
    if ("outcome" in vars) return vars;
    const value = vars.values.get(name);
    if (value === undefined) return { outcome: "ok", state: "absent", owned: null };
    const isKnown = reference !== null && desired !== undefined;
    return {
      outcome: "ok",
      state: isKnown ? (value === desired.value ? "unchanged" : "changed") : "present",
      owned: null,
    };
  },

  /** Reads the config vars. A missing right to change them shows at the first push. */
  async probe(connection, context): Promise<Done> {
    const vars = await varsOf(connection, context);
    return "outcome" in vars ? vars : OK;
  },
};

const OK = { outcome: "ok" } as const;
const WRITTEN: Put = { outcome: "ok", reference: "written" };
const UNNAMED = failure("unknown", "unreadable_answer", "The answer does not name the config var.");

const nameRule = { name: /^[A-Za-z_]\w{0,254}$/, rule: "1 to 255 letters, digits or _, not beginning with a digit" };

async function list(_cursor: string, connection: AppConfigConnection, context: CallContext): Promise<Listing> {
  const vars = await varsOf(connection, context);
  return "outcome" in vars ? vars : { outcome: "ok", names: [...vars.values.keys()].sort(), next: null };
}

async function read(name: string, connection: AppConfigConnection, context: CallContext): Promise<ReadObject> {
  const vars = await varsOf(connection, context);
  if ("outcome" in vars) return vars;
  const value = vars.values.get(name);
  return { outcome: "ok", content: value === undefined ? null : { value } };
}

async function putMany(
  objects: readonly ExternalObject[],
  connection: AppConfigConnection,
  context: CallContext,
): Promise<Batched<Put>> {
  const outcomes = new Map<string, Put>();
  for (const object of objects) {
    const refused = checkVariable(object, { ...nameRule, maxBytes: maxValueBytes });
    if (refused !== null) outcomes.set(object.name, refused);
  }
  const valid = objects.filter(({ name }) => !outcomes.has(name));
  if (valid.some(({ updatePolicy }) => updatePolicy !== "replace")) {
    const vars = await varsOf(connection, context);
    if ("outcome" in vars) return vars;
    for (const object of valid) {
      const kept = keptBy(object, vars.values.get(object.name));
      if (kept !== null) outcomes.set(object.name, kept);
    }
  }
  const wanted = valid.filter(({ name }) => !outcomes.has(name));
  if (wanted.length === 0) return outcomes;
  const change = Object.fromEntries(wanted.map(({ name, value }) => [name, value]));
  const written = readVars(await patch(connection, context, `Writing ${subject(wanted)}`, change), "Writing");
  for (const { name, value } of wanted) {
    const isWritten = "values" in written && written.values.get(name) === value;
    outcomes.set(name, isWritten ? WRITTEN : "outcome" in written ? written : UNNAMED);
  }
  return outcomes;
}

/** The outcome for an existing config var that the update policy keeps; null when it may be written. */
function keptBy(object: ExternalObject, present: string | undefined): Put | null {
  const { name, value, updatePolicy: policy, knownToExist, unsureSince } = object;
  if (present === undefined || policy === "replace") return null;
  const isOurWrite = unsureSince !== undefined && present === value;
  if (policy === "if-not-exists") return isOurWrite ? WRITTEN : { outcome: "ok", left: true };
  if (knownToExist || isOurWrite) return null;
  const message = `The config var ${name} exists already and was not written by this service.`;
  return failure("client", "not_owned", message);
}

async function removeMany(
  objects: readonly ObsoleteObject[],
  connection: AppConfigConnection,
  context: CallContext,
): Promise<Batched<Done>> {
  // Without a record of a push, a config var is not ours.
  const ours = objects.filter(({ ownedOnly, reference }) => !ownedOnly || reference !== null);
  const vars = await varsOf(connection, context);
  if ("outcome" in vars) return vars;
  const obsolete = ours.filter(({ name }) => vars.values.has(name));
  if (obsolete.length > 0) {
    const change = Object.fromEntries(obsolete.map(({ name }) => [name, null]));
    const removed = await patch(connection, context, `Deleting ${subject(obsolete)}`, change);
    if (!removed.ok) return removed.outcome;
  }
  return new Map(objects.map(({ name }) => [name, OK]));
}

const subject = (objects: readonly { readonly name: string }[]): string =>
  objects.length === 1 ? (objects[0]?.name ?? "") : `${objects.length} config vars`;

function callerOf({ access_token: token }: AppConfigConnection, { settings, send }: CallContext) {
  const base = (settings.APP_CONFIG_URL || defaultUrl).replace(/\/+$/, "");
  const headers = { accept: "application/vnd.heroku+json; version=3", authorization: `Bearer ${token}` };
  return restClient({ base, headers, send, meaningOf });
}

const patch = (
  connection: AppConfigConnection,
  context: CallContext,
  doing: string,
  change: Readonly<Record<string, string | null>>,
): Promise<RestAnswer> => callerOf(connection, context)(doing, "PATCH", `/apps/${connection.app}/config-vars`, change);

type Vars = { readonly values: ReadonlyMap<string, string> } | Failure;

async function varsOf(connection: AppConfigConnection, context: CallContext): Promise<Vars> {
  const doing = "Reading the config vars";
  return readVars(await callerOf(connection, context)(doing, "GET", `/apps/${connection.app}/config-vars`), doing);
}

function readVars(answer: RestAnswer, doing: string): Vars {
  if (!answer.ok) return answer.outcome;
  const parsed = schemas().vars.safeParse(answer.body);
  if (!parsed.success) return unreadable(doing, doing === "Writing" ? "PATCH" : "GET").outcome;
  return {
    values: new Map(Object.entries(parsed.data).flatMap(([name, value]) => (value === null ? [] : [[name, value]]))),
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such app, or the token may not see it"] : null;
