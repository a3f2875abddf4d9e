import * as z from "zod";
import type { MetadataSettings, ReadVersion, Written } from "../../contracts/kv-store.ts";
import { subkeys } from "../../kv/version.ts";
import { goDuration } from "../../lib/go-duration.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import type { Result } from "../../lib/result.ts";
import { textBefore } from "../../lib/text-before.ts";
import { readCustomMetadata } from "../../platform/http/custom-metadata.ts";
import { RequestError, refusalError, unwrap } from "../../platform/http/errors.ts";
import * as query from "../../platform/http/query-fields.ts";
import { traceText } from "../../platform/observability/otlp/trace-context.ts";
import { accessControl, syncDestination } from "../../rpc/stubs.ts";
import { performAll } from "../../sync/worker/perform.ts";
import { formFields } from "../server/body.ts";
import { parseQuery } from "../server/query.ts";
import { noContent, rawEnvelope } from "../server/respond.ts";
import { type Asked, type Call, inMount } from "../server/route.ts";
import { writeRights } from "../server/write-rights.ts";
import { ConfigBody, DataBody, dataText, MetadataBody, VersionsBody, versionsOf } from "./bodies.ts";
import { detailedList, MetadataListQuery, metadataData, metadataList } from "./lists.ts";
import { actor, answer, invalidPath, type PathCall, path, readSecret, store, warned } from "./shared.ts";

/** Routes of a KV version 2 mount, relative to it (https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2). */

/** Parameters of reads: the version, 0 = the newest, and how deep keys are shown. */
const ReadQuery = z.object({ version: query.count() });
const SubkeysQuery = ReadQuery.extend({ depth: query.count() });
type SubkeysCall = PathCall & Asked<typeof SubkeysQuery>;

async function readVersion(call: PathCall & Asked<typeof ReadQuery>): Promise<ReadVersion> {
  const read = await readSecret(call, call.asked.version);
  if (!read.ok) throw refusalError(read);
  return read;
}

/** Time limit for starting sync work in the background of a write. */
const PUSH_MS = 2_000;

/** Starts sync work caused by a write, in the background. */
function push(call: PathCall, watchers: readonly string[]): void {
  if (watchers.length === 0) return;
  const run = async () => {
    await store(call).flush();
    const trace = traceText();
    // Without the trace, pushes of the queue have no span.
    if (trace) await passTrace(call, watchers, trace).catch(() => undefined);
    await performAll(call.env, watchers, PUSH_MS);
  };
  // After a failure the wake-up or the alarm retries it.
  call.exec.waitUntil(run().catch(() => undefined));
}

/** Passes the trace of this request to pushes that a queue performs later. */
async function passTrace(call: PathCall, watchers: readonly string[], trace: string): Promise<void> {
  await mapLimit(watchers, 6, (each) => syncDestination(call.env, each).setTrace(call.mount.uuid, path(call), trace));
}

const written = (call: PathCall, result: Result<Written>): Response => {
  const { metadata, watchers } = unwrap(result);
  push(call, watchers);
  return answer(call, metadata);
};

const changed = (call: PathCall, result: Result<Written["watchers"]>): Response => {
  push(call, unwrap(result));
  return noContent();
};

/** A write of settings, with the warnings about overruled ones. */
function settingsAnswer(call: Call, result: Result<string[]>): Response {
  const warnings = unwrap(result);
  return warnings.length === 0 ? noContent() : warned(call, warnings);
}

/** A deleted or destroyed version: 404 with a body that contains its metadata. */
const gone = (call: Call, metadata: object): Response => answer(call, { data: null, metadata }, 404);

function metadataSettings(
  body: Omit<MetadataSettings, "custom_metadata"> & {
    custom_metadata?: unknown;
    metadata_cas?: number | null | undefined;
  },
  patch: boolean,
) {
  const { custom_metadata: given, metadata_cas: check, ...others } = body;
  const settings = { ...others, metadata_cas: check === null ? 0 : check };
  if (given === undefined || given === null) return { ...settings, custom_metadata: given };
  return { ...settings, custom_metadata: unwrap(readCustomMetadata(given, patch)) };
}

/** Some clients write the query into the path, where its `?` arrives encoded. */
const QUERY_IN_PATH = /\?((?:version|depth)=.*)$/s;

/** The call with such a query in its place. Authorization used the path as received, so it is repeated. */
async function withQueryOutOfPath(call: SubkeysCall): Promise<SubkeysCall> {
  const text = call.params.path;
  const cut = QUERY_IN_PATH.exec(text);
  if (!cut) return call;
  const { grant } = call;
  const real = text.slice(0, cut.index);
  const at = `${grant.path.slice(0, -text.length)}${real}`;
  const inPath = new URLSearchParams(cut[1]);
  const { identity, namespace } = grant;
  const given = { ...formFields(call.query), ...formFields(inPath) };
  const request = {
    accessor: identity.accessor,
    namespace,
    path: at,
    needs: ["read"],
    given,
    wrapTtl: call.wrapTtl,
  } as const;
  unwrap(await accessControl(call.env).mayAlso(request));
  return { ...call, params: { ...call.params, path: real }, asked: parseQuery(SubkeysQuery, inPath) };
}

const engineRoutes = [
  inMount("GET /config", async (call) => {
    const config = await store(call).config();
    return answer(call, { ...config, delete_version_after: goDuration(config.delete_version_after) });
  }),
  inMount("POST /config", { body: ConfigBody }, async (call, body) => {
    await store(call).setConfig(body);
    return noContent();
  }),
  inMount("GET /data/:path+", { query: ReadQuery }, async (call) => {
    const read = await readVersion(call);
    if (read.state === "gone") return gone(call, read.metadata);
    return rawEnvelope(call, `{"data":${read.data},"metadata":${JSON.stringify(read.metadata)}}`, "kv");
  }),
  inMount("POST /data/:path+", { creates: true, body: DataBody, exact: true }, async (call, body) =>
    written(
      call,
      await store(call).put(
        path(call),
        dataText(body),
        body.options?.cas ?? null,
        writeRights(call),
        actor(call),
        call.grant.givenBack,
      ),
    ),
  ),
  inMount("PATCH /data/:path+", { body: DataBody, exact: true }, async (call, body) => {
    const result = await store(call).patch(
      path(call),
      dataText(body),
      body.options?.cas ?? null,
      actor(call),
      call.grant.givenBack,
    );
    return "state" in result ? gone(call, result.metadata) : written(call, result);
  }),
  inMount("DELETE /data/:path+", async (call) =>
    changed(call, await store(call).deleteNewest(path(call), actor(call), call.grant.givenBack)),
  ),
  inMount("POST /delete/:path+", { body: VersionsBody }, async (call, body) =>
    changed(call, await store(call).deleteVersions(path(call), versionsOf(body), actor(call))),
  ),
  inMount("POST /undelete/:path+", { body: VersionsBody }, async (call, body) =>
    changed(call, await store(call).undelete(path(call), versionsOf(body))),
  ),
  inMount("POST /destroy/:path+", { body: VersionsBody }, async (call, body) =>
    changed(call, await store(call).destroyVersions(path(call), versionsOf(body), actor(call))),
  ),
  inMount("LIST /metadata", { scans: true, query: MetadataListQuery }, metadataList),
  inMount("LIST /metadata/:path+", { scans: true, query: MetadataListQuery }, metadataList),
  inMount("LIST /detailed-metadata", { scans: true }, detailedList),
  inMount("LIST /detailed-metadata/:path+", { scans: true }, detailedList),
  inMount("GET /metadata/:path+", async (call) =>
    answer(call, metadataData(unwrap(await store(call).metadata(path(call))))),
  ),
  inMount("POST /metadata/:path+", { creates: true, body: MetadataBody }, async (call, body) => {
    const settings = metadataSettings(body, false);
    return settingsAnswer(call, await store(call).setMetadata(path(call), settings, false, writeRights(call)));
  }),
  inMount("PATCH /metadata/:path+", { body: MetadataBody }, async (call, body) =>
    settingsAnswer(call, await store(call).setMetadata(path(call), metadataSettings(body, true), true, null)),
  ),
  inMount("DELETE /metadata/:path+", async (call) => changed(call, await store(call).deleteMetadata(path(call)))),
  inMount("GET /subkeys/:path+", { query: SubkeysQuery }, async (received) => {
    const call = await withQueryOutOfPath(received);
    const { depth } = call.asked;
    const read = await readVersion(call);
    if (read.state === "gone") return answer(call, { subkeys: null, metadata: read.metadata }, 404);
    return answer(call, { subkeys: subkeys(JSON.parse(read.data), depth), metadata: read.metadata });
  }),
];

const VERBS = ["GET", "LIST", "POST", "PATCH", "DELETE"] as const;

/** Root folders of the routes, which can only be listed. */
const rootRoutes = ["data", "metadata", "detailed-metadata", "subkeys", "delete", "undelete", "destroy"].flatMap(
  (root) =>
    VERBS.filter((verb) => verb !== "LIST").map((verb) =>
      inMount(`${verb} /${root}`, { refuses: true }, async (call) =>
        warned(call, ["Non-listing operations on the root of a K/V v2 mount are not supported."], 404),
      ),
    ),
);

/** Remaining requests of a version 2 mount: an unsupported verb, or a path in version 1 form. */
const otherRoutes = VERBS.map((verb) =>
  inMount(`${verb} /:path+`, { refuses: true }, async (call) => {
    const root = textBefore(call.params.path, "/");
    const verbs = new Set(engineRoutes.filter((route) => route.path.split("/")[1] === root).map((route) => route.verb));
    if (verbs.size > 0) {
      const allow = [...verbs].map((known) => (known === "GET" ? "GET, HEAD" : known === "POST" ? "POST, PUT" : known));
      throw new RequestError(405, "unsupported operation", { Allow: allow.join(", ") });
    }
    return invalidPath(call, verb);
  }),
);

export const kvRoutes = [...rootRoutes, ...engineRoutes, ...otherRoutes];
