import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { type EdgeMeanings, edgeApi, unreadable } from "../../../providers/edge-api.ts";
import { type BulkPlace, bulkOperations, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY, environmentNames } from "../defaults.ts";
import { type CallContext, doneBy, remoteType } from "../destination-type.ts";
import { connectionSchema } from "../fields.ts";
import { checkObject } from "../object-rules.ts";
import { description } from "./description.ts";

/** "Workers limits", environment variables. */
const MAX_BYTES = 5_120;
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

/** A destination's connection to its Worker. */
const connection = connectionSchema(() => ({
  account_id: z.string("must be a text").regex(/^[\da-f]{32}$/, "must be 32 hexadecimal digits"),
  script_name: z
    .string("must be a text")
    .regex(/^[a-z0-9_][a-z0-9_-]{0,254}$/, "must be 1 to 255 lower-case letters, digits or characters of _-"),
  api_token: z
    .string("must be a text")
    .regex(/^[\x21-\x7e]{1,1024}$/, "must be 1 to 1024 printable characters without spaces"),
}));
type EdgeWorkerConnection = z.infer<ReturnType<typeof connection>>;

const Names = memo(() => z.array(z.object({ name: z.string() })));

/**
 * Secrets of a Cloudflare Worker. One external object is one secret. Values cannot be read.
 *
 * Each write is a new version of the Worker, deployed at once. So all writes are merge patches of many secrets, also
 * those of one: a patch is applied as a whole or not at all, and may be repeated.
 */
export const edgeWorker = remoteType(description, connection, {
  targets: ({ account_id: account, script_name: script }) => [JSON.stringify([account, script])],
  defaults: EACH_KEY,
  naming: environmentNames(),
  maxValueBytes: MAX_BYTES,
  pace: { atOnce: 1, burst: 1_000, perMinute: 6_000 },
  ...bulkOperations({
    noun: "secret",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: false,
    check: (object) =>
      checkObject(object, {
        noun: "secret",
        name: /^[A-Za-z_]\w{0,254}$/,
        rule: "be 1 to 255 letters, digits and underscores and not begin with a digit",
        maxBytes: MAX_BYTES,
        limit: `at most ${MAX_BYTES} fit`,
      }),
    placeOf,
  }),
});

function placeOf(connection: EdgeWorkerConnection, { settings, send }: CallContext): BulkPlace {
  const api = edgeApi(connection, { url: settings.EDGE_API_URL, send }, meanings);
  const path = `/workers/scripts/${connection.script_name}`;

  const patch = (doing: string, secrets: Readonly<Record<string, object | null>>) =>
    api.call(doing, "PATCH", `${path}/secrets-bulk`, { content: { secrets }, type: "application/merge-patch+json" });

  return {
    async all() {
      const doing = "Listing the Worker's secrets";
      const answer = await api.call(doing, "GET", `${path}/secrets`);
      if (!answer.ok) return answer.outcome;
      const names = Names().safeParse(answer.result);
      if (!names.success) return unreadable("external", doing).outcome;
      return new Map(names.data.map(({ name }) => [name, {}]));
    },
    async write(doing, values) {
      const secrets = [...values].map(([name, text]) => [name, { name, text, type: "secret_text" }]);
      const answer = await patch(doing, Object.fromEntries(secrets));
      return answer.ok ? new Map([...values.keys()].map((name) => [name, WRITTEN])) : answer.outcome;
    },
    remove: async (doing, names) => doneBy(await patch(doing, Object.fromEntries(names.map((name) => [name, null])))),
  };
}
