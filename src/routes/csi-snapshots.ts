import {
  CSI_METHODS,
  type CsiExternalVolume,
  type CsiMethod,
  type CsiResultOf,
  type CsiSnapshot,
} from "@sallyport/agent-protocol";
import * as z from "zod";
import { CSI_LIST_RIGHTS } from "../contracts/cluster-rights.ts";
import type { StartedOperation } from "../contracts/csi-volumes.ts";
import type { Result } from "../lib/result.ts";
import { badRequest, denied, invalid, RequestError, sentence, unwrap } from "../platform/http/errors.ts";
import { caseless } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { readQuery } from "../platform/http/read-query.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { CSI_SNAPSHOT } from "../volumes/csi/csi-volumes.ts";
import { answered } from "../volumes/csi/run-operation.ts";
import { MAX_SECRET_VALUE } from "../volumes/csi/secrets.ts";
import { CSI_VOLUME } from "../volumes/csi/volume-store.ts";
import { joinedErrors } from "../volumes/joined-errors.ts";
import { digestOf, headerSecrets, mayAny, mayWrite } from "./csi-access.ts";
import { blocking } from "./server/blocking.ts";
import { namespaceGiven, namespaceOf } from "./server/cluster-reads.ts";
import { mustPage } from "./server/listing.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Resources known only to plugins: the provider's volumes, and snapshots (docs/guides/csi-volumes.md). */

const META = { Index: 0, KnownLeader: true, LastContact: 0 };

/** Fits one agent frame. */
const MAX_ENTRIES = 500;
/** Polling time for an unfinished snapshot; afterwards the answer reports it as not ready. */
const READY_MS = 120_000;
const FIRST_POLL_MS = 250;
const POLL_MS = 5_000;
/** Maximum of plugin calls for an unpaged list; its token continues it. */
const MAX_CALLS = 40;

const answerTo = async <M extends CsiMethod>(
  env: Env,
  method: M,
  asked: Result<StartedOperation>,
): Promise<CsiResultOf<M>> =>
  (await answered(env, unwrap(asked).operation, CSI_METHODS[method].deadlineMs)) as CsiResultOf<M>;

const PluginQuery = z.object({ plugin_id: query.required(sentence("plugin_id is required")) });
const SnapshotQuery = PluginQuery.extend({ snapshot_id: query.required(sentence("snapshot_id is required")) });
type PluginCall = AuthorisedCall & Asked<typeof PluginQuery>;

/**
 * Collects pages of a plugin up to the requested number of entries. Extra entries of the last page are returned too,
 * because its token continues after them.
 */
async function collected<T>(
  call: AuthorisedCall,
  page: (maxEntries: number, startingToken: string) => Promise<{ entries: readonly T[]; nextToken: string }>,
): Promise<{ entries: T[]; nextToken: string }> {
  const { perPage, nextToken } = readQuery(call.query);
  if (call.dialect === "neutral") mustPage(call);
  const wanted = perPage === 0 ? Number.POSITIVE_INFINITY : perPage;
  const entries: T[] = [];
  let token = nextToken;
  for (let calls = 0; calls < MAX_CALLS && entries.length < wanted; calls++) {
    const next = await page(Math.min(MAX_ENTRIES, wanted - entries.length), token);
    entries.push(...next.entries);
    token = next.nextToken;
    if (token === "") break;
  }
  return { entries, nextToken: token };
}

async function listExternal(call: PluginCall, index: number): Promise<Response> {
  const { plugin_id: pluginId } = call.asked;
  const registry = clusterRegistry(call.env);
  const { entries, nextToken } = await collected<CsiExternalVolume>(call, async (maxEntries, startingToken) => {
    const asked = await registry.listExternalVolumes({ pluginId, maxEntries, startingToken });
    const { volumes, nextToken: next } = await answerTo(call.env, "csi.controller.list", asked);
    return { entries: volumes, nextToken: next };
  });
  const Volumes = entries.map((volume) => ({
    CapacityBytes: volume.capacityBytes,
    CloneID: volume.cloneId,
    ExternalID: volume.externalId,
    IsAbnormal: volume.isAbnormal,
    PublishedExternalNodeIDs: volume.publishedNodeIds,
    SnapshotID: volume.snapshotId,
    Status: volume.status,
    VolumeContext: volume.context,
  }));
  return clusterJson(call, { ...META, NextToken: nextToken, Volumes }, { nextToken, index });
}

const shownSnapshot = (
  snapshot: CsiSnapshot,
  more: { readonly Name: string; readonly PluginID: string; readonly SourceVolumeID: string },
) => ({
  CreateTime: snapshot.createTime,
  ExternalSourceVolumeID: snapshot.sourceExternalId,
  ID: snapshot.snapshotId,
  IsReady: snapshot.isReady,
  Parameters: null,
  Secrets: null,
  SizeBytes: snapshot.sizeBytes,
  ...more,
});
type ShownSnapshot = ReturnType<typeof shownSnapshot>;

async function listSnapshots(call: PluginCall, index: number): Promise<Response> {
  const pluginId = call.asked.plugin_id;
  const secrets = headerSecrets(call);
  const registry = clusterRegistry(call.env);
  const { entries, nextToken } = await collected<CsiSnapshot>(call, async (maxEntries, startingToken) => {
    const asked = await registry.listSnapshots({ pluginId, maxEntries, startingToken }, secrets);
    const { snapshots, nextToken: next } = await answerTo(call.env, "csi.controller.snapshotList", asked);
    return { entries: snapshots, nextToken: next };
  });
  const Snapshots = entries.map((each) => shownSnapshot(each, { Name: "", PluginID: pluginId, SourceVolumeID: "" }));
  return clusterJson(call, { ...META, NextToken: nextToken, Snapshots }, { nextToken, index });
}

const MAX_TEXTS = 128;
const texts = (longest: number) =>
  z
    .record(z.string().min(1).max(256), z.string().max(longest))
    .refine((map) => Object.keys(map).length <= MAX_TEXTS, `at most ${MAX_TEXTS} entries`)
    .nullish();
/** Fields owned by the plugin: accepted from earlier answers, without effect. */
const theirs = z.unknown().optional();
export const SnapshotBody = caseless(
  z.strictObject({
    SourceVolumeID: z.string().min(1).max(128),
    PluginID: z.string().max(128).nullish(),
    Name: z.string().max(256).nullish(),
    Secrets: texts(MAX_SECRET_VALUE),
    Parameters: texts(4096),
    ID: theirs,
    ExternalSourceVolumeID: theirs,
    SizeBytes: theirs,
    CreateTime: theirs,
    IsReady: theirs,
  }),
);
const Entries = z.object({ Snapshots: z.array(SnapshotBody) });
/** Values other than those of header and query have no effect. */
const unheeded = z.string().nullish();
const around = { Namespace: z.string().max(128).nullish(), Region: unheeded, AuthToken: unheeded, SecretID: unheeded };
const Body = caseless(z.object({ Snapshots: z.array(z.unknown()).max(50).default([]), ...around }).loose());

/** Entries of a body: a list of snapshots, or a single one. */
function entriesOf(body: z.output<typeof Body>) {
  const { Snapshots, Namespace: _, Region: _region, AuthToken: _token, SecretID: _secret, ...one } = body;
  const isOne = Snapshots.length === 0 && Object.keys(one).length > 0;
  const given = isOne ? [one] : Snapshots;
  if (given.includes(null)) throw badRequest("snapshot cannot be nil");
  const parsed = Entries.safeParse({ Snapshots: given });
  if (!parsed.success) throw invalid(parsed.error);
  return parsed.data.Snapshots;
}

/** A snapshot once it is ready; its last known state after a timeout or a failed look-up. */
async function whenReady(made: CsiSnapshot, look: () => Promise<CsiSnapshot>): Promise<CsiSnapshot> {
  const until = Date.now() + READY_MS;
  let seen = made;
  for (let pause = FIRST_POLL_MS; !seen.isReady && Date.now() + pause < until; pause = Math.min(pause * 2, POLL_MS)) {
    await scheduler.wait(pause);
    try {
      seen = await look();
    } catch (failure) {
      if (failure instanceof RequestError) return seen;
      throw failure;
    }
  }
  return seen;
}

async function createSnapshot(
  call: AuthorisedCall,
  namespace: string,
  entry: z.output<typeof SnapshotBody>,
  header: Readonly<Record<string, string>>,
): Promise<ShownSnapshot> {
  const source = { namespace, id: entry.SourceVolumeID };
  const wanted = { source, pluginId: entry.PluginID ?? "", name: entry.Name ?? "", parameters: entry.Parameters ?? {} };
  const digest = digestOf(call, "snapshot", wanted);
  const secrets = { ...entry.Secrets, ...header };
  const registry = clusterRegistry(call.env);
  const asked = await registry.createSnapshot({ ...wanted, secrets }, digest);
  const { name, pluginId } = unwrap(asked);
  const first = await answerTo(call.env, "csi.controller.snapshotCreate", asked);
  // Repeating the create call for the same name reports its progress (CSI specification, `CreateSnapshot`).
  const look = async () =>
    answerTo(
      call.env,
      "csi.controller.snapshotCreate",
      await registry.createSnapshot({ ...wanted, name, secrets }, digest),
    );
  const made = await whenReady(first, look);
  return shownSnapshot(made, { Name: name, PluginID: pluginId, SourceVolumeID: source.id });
}

/** One by one: completed entries stay when others fail. */
async function createSnapshots(call: AuthorisedCall, body: z.output<typeof Body>): Promise<Response> {
  const namespace = namespaceGiven(call) || body.Namespace || "default";
  if (!mayWrite(call.grant.cluster, call, namespace)) throw denied();
  const entries = entriesOf(body);
  const header = headerSecrets(call);
  const made: ShownSnapshot[] = [];
  const failures: RequestError[] = [];
  for (const entry of entries) {
    try {
      made.push(await createSnapshot(call, namespace, entry, header));
    } catch (failure) {
      if (!(failure instanceof RequestError)) throw failure;
      failures.push(failure);
    }
  }
  const [first] = failures;
  if (first) {
    const joined = joinedErrors(failures.flatMap(({ messages }) => messages));
    const kept =
      made.length === 0 ? "" : `snapshots that were made all the same: [${made.map(({ ID }) => ID).join(" ")}]`;
    throw new RequestError(first.status, `${joined}${kept}`);
  }
  return clusterJson(call, { ...META, NextToken: "", Snapshots: entries.length === 0 ? null : made });
}

async function deleteSnapshot(call: AuthorisedCall & Asked<typeof SnapshotQuery>): Promise<Response> {
  const { plugin_id: pluginId, snapshot_id: snapshotId } = call.asked;
  const secrets = headerSecrets(call);
  const digest = digestOf(call, "delete-snapshot", pluginId, snapshotId);
  const asked = await clusterRegistry(call.env).deleteSnapshot(pluginId, snapshotId, secrets, digest);
  await answerTo(call.env, "csi.controller.snapshotDelete", asked);
  return clusterEmpty();
}

const mayList = mayAny(CSI_LIST_RIGHTS);

/**
 * A list known only to plugins. With `index`, plugins are asked after a local change that may affect the answer;
 * changes made at the provider are not observable.
 */
const asks = (path: string, tables: readonly string[], list: (call: PluginCall, index: number) => Promise<Response>) =>
  cluster(`GET ${path}`, { query: PluginQuery, rights: mayList }, (call) => {
    const changed = (since: number, waitMs: number) => clusterRegistry(call.env).changed(tables, since, waitMs);
    const read = async () => {
      const index = (await changed(0, 0)) ?? 0;
      return { index, respond: () => list(call, index) };
    };
    return blocking(call, read, changed);
  });

export const csiSnapshotRoutes = [
  asks("/volumes/external", [CSI_VOLUME], listExternal),
  asks("/volumes/snapshot", [CSI_SNAPSHOT], listSnapshots),
  cluster(
    "POST /volumes/snapshot",
    {
      // The namespace may be in the body.
      rights: "any",
      fresh: true,
      body: Body,
    },
    createSnapshots,
  ),
  cluster(
    "DELETE /volumes/snapshot",
    { rights: (rights, call) => mayWrite(rights, call, namespaceOf(call)), fresh: true, query: SnapshotQuery },
    deleteSnapshot,
  ),
];
