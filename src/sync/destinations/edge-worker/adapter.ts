import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { type EdgeAnswer, type EdgeMeanings, edgeApi } from "../../../providers/edge-api.ts";
import { failure } from "../../../providers/outcome.ts";
import { type BulkPlace, bulkOperations, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, ExternalObject, RemoteDestinationType } from "../destination-type.ts";
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
 * Secrets of a Cloudflare Worker. One external object is one secret. Values cannot be read.
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
  defaults: EACH_KEY,
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: MAX_NAME,
    replacement: "_",
    adapt: (name) => (/^\d/.test(name) ? `_${name}` : name),
  },
  maxValueBytes: MAX_BYTES,
  pace: { atOnce: 1, burst: 1_000, perMinute: 6_000 },
  ...bulkOperations({
    noun: "secret",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: false,
    check: checkObject,
    placeOf,
  }),
};

const apiOf = (connection: EdgeWorkerConnection, { settings, send }: CallContext) =>
  edgeApi(connection, { url: settings.EDGE_API_URL, send }, meanings);

const scriptPath = ({ script_name: script }: EdgeWorkerConnection): string => `/workers/scripts/${script}`;

function placeOf(connection: EdgeWorkerConnection, context: CallContext): BulkPlace {
  const api = apiOf(connection, context);
  const path = scriptPath(connection);

  function patch(doing: string, secrets: Readonly<Record<string, object | null>>): Promise<EdgeAnswer> {
    const body = { content: { secrets }, type: "application/merge-patch+json" };
    return api.call(doing, "PATCH", `${path}/secrets-bulk`, body);
  }

  return {
    async all() {
      const doing = "Listing the Worker's secrets";
      const answer = await api.call(doing, "GET", `${path}/secrets`);
      if (!answer.ok) return answer.outcome;
      const parsed = schemas().names.safeParse(answer.result);
      if (parsed.success) return new Map(parsed.data.map(({ name }) => [name, {}]));
      return failure("external", "unreadable_answer", `${doing} was answered, but not in a way that can be read.`);
    },
    async write(doing, values) {
      const secrets = [...values].map(([name, text]) => [name, { name, text, type: "secret_text" }]);
      const answer = await patch(doing, Object.fromEntries(secrets));
      return answer.ok ? new Map([...values.keys()].map((name) => [name, WRITTEN])) : answer.outcome;
    },
    async remove(doing, names) {
      const answer = await patch(doing, Object.fromEntries(names.map((name) => [name, null])));
      return answer.ok ? { outcome: "ok" } : answer.outcome;
    },
  };
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
