import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { type EdgeAnswer, type EdgeFailure, type EdgeMeanings, edgeApi } from "../../../providers/edge-api.ts";
import { failure } from "../../../providers/outcome.ts";
import { fromDescription } from "../description.ts";
import type {
  Batched,
  CallContext,
  Done,
  ExternalObject,
  Inspection,
  ObsoleteObject,
  Put,
  RemoteDestinationType,
} from "../destination-type.ts";
import { description } from "./description.ts";

/** A destination's connection to its Worker. */
interface EdgeWorkerConnection {
  account_id: string;
  script_name: string;
  api_token: string;
}

/** "Workers limits", environment variables. */
const MAX_BYTES = 5_120;
const MAX_NAME = 255;
/** The most secrets of one request ("Bulk update secrets"). */
const MOST = 100;
/** Each call is a version that is deployed at once, so a burst of changes is one call. */
const WINDOW_MS = 2_000;

const meanings: EdgeMeanings = new Map([
  [10_007, ["client", "not_found", "there is no such Worker"]],
  [10_053, ["client", "name_invalid", "another binding has the name"]],
  [10_054, ["client", "value_too_large", "the value is larger than the provider takes"]],
  [10_055, ["client", "quota_exceeded", "the Worker has as many variables and secrets as its plan allows"]],
  [10_214, ["client", "undeployed_version", "the Worker's newest version is not the deployed one"]],
  [10_215, ["client", "undeployed_version", "the Worker's newest version is not the deployed one"]],
]);

const schemas = memo(() => ({
  connection: z.object({
    account_id: z.string("must be a text").regex(/^[\da-f]{32}$/, "must be 32 hexadecimal digits"),
    script_name: z
      .string("must be a text")
      .regex(/^[a-z0-9_][a-z0-9_-]{0,254}$/, "must be 1 to 255 lower-case letters, digits or characters of _-"),
    api_token: z
      .string("must be a text")
      .regex(/^[\x21-\x7e]{1,1024}$/, "must be 1 to 1024 printable characters without spaces"),
  }),
  names: z.array(z.object({ name: z.string() })),
}));

/**
 * Secrets of a Cloudflare Worker. One external object is one secret. Values cannot be read and secrets carry no marker,
 * so a secret is ours when an earlier push is recorded as successful; under policies other than `replace` the names are
 * read first.
 *
 * Each write is a new version of the Worker, deployed at once. So all writes are merge patches of many secrets, also
 * those of one: a patch is applied as a whole or not at all, and may be repeated.
 */
export const edgeWorker: RemoteDestinationType<EdgeWorkerConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return schemas().connection;
  },
  targets: ({ account_id: account, script_name: script }) => [JSON.stringify([account, script])],
  defaults: {
    granularity: "secret-key",
    template: {
      "secret-path": "vault/{{ .MountAccessor }}/{{ .SecretPath }}",
      "secret-key": "vault/{{ .MountAccessor }}/{{ .SecretPath }}/{{ .SecretKey }}",
    },
  },
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: MAX_NAME,
    replacement: "_",
    adapt: (name) => (/^\d/.test(name) ? `_${name}` : name),
  },
  maxValueBytes: MAX_BYTES,
  pace: { atOnce: 1, burst: 1_000, perMinute: 6_000 },
  batch: { windowMs: WINDOW_MS, most: MOST, putMany, removeMany },

  async put(object, connection, context) {
    const put = await putMany([object], connection, context);
    return "outcome" in put ? put : (put.get(object.name) ?? UNREADABLE);
  },

  async remove(object, connection, context) {
    const removed = await removeMany([object], connection, context);
    return "outcome" in removed ? removed : (removed.get(object.name) ?? UNREADABLE);
  },

  async inspect({ name }, connection, context): Promise<Inspection> {
    const present = await namesOf(connection, context);
    if ("outcome" in present) return present;
    return { outcome: "ok", state: present.has(name) ? "present" : "absent", owned: null };
  },

  async probe(connection, context): Promise<Done> {
    const present = await namesOf(connection, context);
    return "outcome" in present ? present : OK;
  },
};

const OK = { outcome: "ok" } as const;
const WRITTEN: Put = { outcome: "ok", reference: "written" };
const UNREADABLE = failure("unknown", "unreadable_answer", "The answer does not name the secret.");

async function putMany(
  objects: readonly ExternalObject[],
  connection: EdgeWorkerConnection,
  context: CallContext,
): Promise<Batched<Put>> {
  const outcomes = new Map<string, Put>();
  for (const object of objects) {
    const refused = checkObject(object);
    if (refused !== null) outcomes.set(object.name, refused);
  }
  const valid = objects.filter(({ name }) => !outcomes.has(name));
  // Under `replace`, and where an earlier push is known, nothing has to be read.
  const isCautious = ({ updatePolicy: policy, knownToExist }: ExternalObject) =>
    policy === "if-not-exists" || (policy === "owned-only" && !knownToExist);
  if (valid.some(isCautious)) {
    const present = await namesOf(connection, context);
    if ("outcome" in present) return present;
    for (const object of valid.filter((one) => isCautious(one) && present.has(one.name))) {
      const left = object.updatePolicy === "if-not-exists";
      outcomes.set(object.name, left ? { outcome: "ok", left: true } : notOwned(object.name));
    }
  }
  const wanted = valid.filter(({ name }) => !outcomes.has(name));
  if (wanted.length === 0) return outcomes;
  const secrets = wanted.map(({ name, value }) => [name, { name, text: value, type: "secret_text" }] as const);
  const change = () => patch(connection, context, `Writing ${subject(wanted)}`, Object.fromEntries(secrets));
  let written = await change();
  // Under `replace` the next attempt repeats the write. Under the other policies it would find a foreign secret.
  if (!written.ok && written.outcome.outcome === "unknown" && wanted.some(isCautious)) written = await change();
  if (!written.ok && outcomes.size === 0) return written.outcome;
  for (const { name } of wanted) outcomes.set(name, written.ok ? WRITTEN : written.outcome);
  return outcomes;
}

async function removeMany(
  objects: readonly ObsoleteObject[],
  connection: EdgeWorkerConnection,
  context: CallContext,
): Promise<Batched<Done>> {
  // Without a record of a push, a secret is not ours.
  const ours = objects.filter(({ ownedOnly, reference }) => !ownedOnly || reference !== null);
  if (ours.length > 0) {
    // Shows a missing Worker, which a removal must not take for an absent secret.
    const present = await namesOf(connection, context);
    if ("outcome" in present) return present;
    const obsolete = ours.filter(({ name }) => present.has(name));
    if (obsolete.length > 0) {
      const secrets = Object.fromEntries(obsolete.map(({ name }) => [name, null]));
      const removed = await patch(connection, context, `Deleting ${subject(obsolete)}`, secrets);
      if (!removed.ok) return removed.outcome;
    }
  }
  return new Map(objects.map(({ name }) => [name, OK]));
}

const subject = (objects: readonly { readonly name: string }[]): string =>
  objects.length === 1 ? (objects[0]?.name ?? "") : `${objects.length} secrets`;

const apiOf = (connection: EdgeWorkerConnection, { settings, send }: CallContext) =>
  edgeApi(connection, { url: settings.EDGE_API_URL, send }, meanings);

const scriptPath = ({ script_name: script }: EdgeWorkerConnection): string => `/workers/scripts/${script}`;

function patch(
  connection: EdgeWorkerConnection,
  context: CallContext,
  doing: string,
  secrets: Readonly<Record<string, object | null>>,
): Promise<EdgeAnswer> {
  const body = { content: { secrets }, type: "application/merge-patch+json" };
  const path = `${scriptPath(connection)}/secrets-bulk`;
  return apiOf(connection, context).call(doing, "PATCH", path, body);
}

async function namesOf(
  connection: EdgeWorkerConnection,
  context: CallContext,
): Promise<ReadonlySet<string> | EdgeFailure["outcome"]> {
  const doing = "Listing the Worker's secrets";
  const answer = await apiOf(connection, context).call(doing, "GET", `${scriptPath(connection)}/secrets`);
  if (!answer.ok) return answer.outcome;
  const parsed = schemas().names.safeParse(answer.result);
  if (parsed.success) return new Set(parsed.data.map(({ name }) => name));
  return failure("external", "unreadable_answer", `${doing} was answered, but not in a way that can be read.`);
}

function checkObject({ name, value }: ExternalObject): Failure | null {
  if (!/^[A-Za-z_]\w*$/.test(name) || name.length > MAX_NAME) {
    const rule = `must be 1 to ${MAX_NAME} letters, digits and underscores and not begin with a digit`;
    return failure("client", "name_invalid", `The secret's name ${rule}.`);
  }
  const bytes = Buffer.byteLength(value);
  if (bytes <= MAX_BYTES) return null;
  return failure("client", "value_too_large", `The value of ${name} is ${bytes} bytes; at most ${MAX_BYTES} fit.`);
}

const notOwned = (name: string): Failure =>
  failure("client", "not_owned", `The secret ${name} exists already and was not written by this service.`);
