import { CSI_METHODS } from "@sallyport/agent-protocol";
import * as z from "zod";
import { checkVolume } from "../access/policies/volume-rules.ts";
import { namedAllocations } from "../cluster/reports/named-allocations.ts";
import { CSI_READ_RIGHTS } from "../contracts/cluster-rights.ts";
import type { CsiOperation, CsiRequest, Name, ReadClaim } from "../contracts/csi-volumes.ts";
import type { GoverningRule } from "../contracts/policies.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import {
  badRequest,
  denied,
  notFound,
  RequestError,
  refusalError,
  sentence,
  unwrap,
  validated,
} from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNamespace, allowsPlugin } from "../rights/cluster-rights.ts";
import { accessControl, clusterRegistry } from "../rpc/stubs.ts";
import { shownClaim } from "../volumes/csi/claim-views.ts";
import { shownOperation } from "../volumes/csi/csi-operations.ts";
import { type CsiBody, NO_VOLUME, parseBody, requestOf } from "../volumes/csi/request-body.ts";
import { runCsiOperation } from "../volumes/csi/run-operation.ts";
import { CSI_VOLUME } from "../volumes/csi/volume-store.ts";
import { type ShownCsiVolume, shownCsiVolume } from "../volumes/csi/volume-views.ts";
import { joinedErrors } from "../volumes/joined-errors.ts";
import { pollOutcome } from "../volumes/poll-outcome.ts";
import { digestOf, headerSecrets, mayAny, mayWrite } from "./csi-access.ts";
import { nothing, type Reading } from "./server/blocking.ts";
import { blockingRead, ForceQuery, inNamespace, namespaceGiven, namespaceOf } from "./server/cluster-reads.ts";
import { readList } from "./server/listing.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, type ClusterRoute, cluster } from "./server/route.ts";

/** CSI volumes (docs/guides/csi-volumes.md; https://developer.hashicorp.com/nomad/api-docs/volumes). */

type Intent = "register" | "create";

/** A call about one volume. */
type VolumeCall = AuthorisedCall<"id">;
type VolumePath = `/volume/csi/:id${"" | "/claims" | "/delete" | "/detach"}`;

const nameOf = (call: VolumeCall): Name => ({ namespace: namespaceOf(call), id: call.params.id });

/** Terraform repeats a refusal of a volume for minutes, unless its text says that it is one of validation. */
function bodyOf(given: Readonly<Record<string, unknown>>): CsiBody {
  try {
    return validated(() => unwrap(parseBody(given)));
  } catch (failure) {
    if (!(failure instanceof RequestError) || failure.message === NO_VOLUME) throw failure;
    throw badRequest(`validation: ${failure.message}`);
  }
}

interface CheckedRequest {
  readonly request: CsiRequest;
  /** Identity of the volume's namespace. */
  readonly namespaceId: string;
  /** Volume rules of that namespace. */
  readonly rules: readonly GoverningRule[];
  /** The validating node; null = any. */
  readonly nodeId: string | null;
}

/** All requests of a body, after authorization and validation of each field. */
async function requestsOf(call: AuthorisedCall<never, "id">, body: CsiBody, intent: Intent): Promise<CheckedRequest[]> {
  const { params, grant } = call;
  const requests: CheckedRequest[] = [];
  for (const volume of body.volumes) {
    const namespace = volume.Namespace || namespaceGiven(call) || body.namespace || "default";
    if (!mayWrite(grant.cluster, call, namespace)) throw denied();
    if (body.policyOverride && !allowsNamespace(grant.cluster, namespace, "policy-override")) throw denied();
    const request = unwrap(requestOf(volume, namespace));
    if (body.volumes.length === 1 && params.id !== undefined && request.id !== params.id)
      throw badRequest("ID: does not match the request path");
    const known = await accessControl(call.env).volumeNamespace(namespace);
    if (!known.ok) throw badRequest(`volume ${request.id} is in nonexistent namespace ${namespace}`);
    const nodeId = intent === "register" ? await validatorOf(call, volume.NodeID) : null;
    requests.push({ request, namespaceId: known.value.id, rules: known.value.rules, nodeId });
  }
  const names = requests.map(({ request }) => JSON.stringify([request.namespace, request.id]));
  if (new Set(names).size < names.length) throw badRequest("Volumes: one of them is given twice");
  return requests;
}

/**
 * Evaluates policy rules before any plugin is called; see `judgeHostVolume`. Omitted fields have the values of the
 * volume that the request changes. Node pools do not apply.
 */
async function judgeCsiVolume(
  env: Env,
  rules: readonly GoverningRule[],
  request: CsiRequest,
  override: boolean,
): Promise<Result<readonly string[]>> {
  if (rules.length === 0) return ok([]);
  const { id, namespace, pluginId, capacityMin } = request;
  const { found } = await clusterRegistry(env).readCsiVolume({ namespace, id });
  const name = request.name || (found?.volume.name ?? "");
  const kept = capacityMin === 0 ? (found?.volume.capacityMax ?? 0) : 0;
  const capacityMax = request.capacityMax || kept;
  return checkVolume(rules, { name, namespace, pluginId, capacityMax, nodePool: null }, override);
}

/** The node named by a registration; the upstream dialect has no such field. */
async function validatorOf({ env, dialect }: AuthorisedCall, given = ""): Promise<string | null> {
  if (dialect === "upstream") return null;
  if (given === "") throw badRequest("NodeID: is required: the node that validates the volume");
  const nodeId = given.toLowerCase();
  if (!(await clusterRegistry(env).readNode(nodeId))) throw notFound("NodeID: node not found");
  return nodeId;
}

/** Registers or creates volumes, or changes existing ones. */
async function write(call: AuthorisedCall<never, "id">, given: Readonly<Record<string, unknown>>, intent: Intent) {
  const body = bodyOf(given);
  const requests = await requestsOf(call, body, intent);
  const warnings = [...body.warnings];
  for (const { request, rules } of requests)
    warnings.push(...unwrap(await judgeCsiVolume(call.env, rules, request, body.policyOverride)));
  const index = intent === "register" ? await register(call, requests) : await create(call, requests);
  const read = requests.map(({ request: { namespace, id } }) =>
    clusterRegistry(call.env).readCsiVolume({ namespace, id }),
  );
  const Volumes = (await Promise.all(read)).flatMap(({ found }) => (found ? [shownCsiVolume(found)] : []));
  const Index = index ?? Math.max(0, ...Volumes.map(({ ModifyIndex }) => ModifyIndex));
  const meta = { Index, KnownLeader: true, LastContact: 0, NextToken: "" };
  return clusterJson(call, { ...meta, Volumes, Warnings: warnings.join("; ") }, { index: Index });
}

/** Input of the idempotency digest: no digest of a secret is stored. */
const withoutSecrets = ({ secrets: _secrets, ...rest }: CsiRequest) => rest;

/** All or none: every volume is validated before any is stored. */
async function register(call: AuthorisedCall, requests: readonly CheckedRequest[]): Promise<number | null> {
  const registry = clusterRegistry(call.env);
  const deadline = CSI_METHODS["csi.controller.validate"].deadlineMs;
  for (const { request, nodeId } of requests) {
    const begin = () => registry.validateCsiVolume(request, nodeId, crypto.randomUUID());
    await runCsiOperation(call.env, begin, deadline);
  }
  const owed: Refusal[] = [];
  for (const { request } of requests) owed.push(...(await grow(call, request)));
  for (const { request } of requests) await modify(call, request);
  const { index } = unwrap(
    await registry.commitCsiVolumes(
      requests.map(({ namespaceId }) => namespaceId),
      requests.map(({ request }) => request),
    ),
  );
  for (const refusal of owed) throw refusalError(refusal);
  return index;
}

/** @returns nodes that still have to expand: the volume has grown, and they are retried until done */
async function grow(call: AuthorisedCall, request: CsiRequest): Promise<Refusal[]> {
  const digest = digestOf(call, "grow", withoutSecrets(request));
  const registry = clusterRegistry(call.env);
  const begin = () => registry.growCsiVolume(request, digest);
  const grown = await runCsiOperation(call.env, begin, CSI_METHODS["csi.controller.expand"].deadlineMs);
  if (!grown) return [];
  const until = Date.now() + CSI_METHODS["csi.node.expand"].deadlineMs;
  const done = await pollOutcome(until, (waitMs, last) => registry.csiExpanded(request, waitMs, last));
  if (done?.ok) return [];
  return [done ?? refuse("timeout", `volume ${request.id} has grown, but not yet its file system everywhere`)];
}

/** Sets the mutable parameters of a request; omitted ones keep their values. */
async function modify(call: AuthorisedCall, request: CsiRequest): Promise<void> {
  if (Object.keys(request.mutableParameters ?? {}).length === 0) return;
  const digest = digestOf(call, "modify", withoutSecrets(request));
  const begin = () => clusterRegistry(call.env).modifyCsiVolume(request, digest);
  await runCsiOperation(call.env, begin, CSI_METHODS["csi.controller.modify"].deadlineMs);
}

/** One by one: completed entries stay when others fail. */
async function create(call: AuthorisedCall, requests: readonly CheckedRequest[]): Promise<number | null> {
  let index: number | null = null;
  const failures: RequestError[] = [];
  const stored: string[] = [];
  for (const { request, namespaceId } of requests) {
    try {
      index = await createOne(call, request, namespaceId);
      stored.push(request.id);
    } catch (failure) {
      if (!(failure instanceof RequestError) || requests.length === 1) throw failure;
      failures.push(failure);
    }
  }
  const [first] = failures;
  if (!first) return index;
  const joined = joinedErrors(failures.flatMap(({ messages }) => messages));
  throw new RequestError(first.status, `${joined}volumes that were stored all the same: [${stored.join(" ")}]`);
}

async function createOne(call: AuthorisedCall, request: CsiRequest, namespaceId: string): Promise<number | null> {
  const registry = clusterRegistry(call.env);
  const digest = digestOf(call, "create", withoutSecrets(request));
  const begin = () => registry.createCsiVolume(namespaceId, request, digest);
  const made = await runCsiOperation(call.env, begin, CSI_METHODS["csi.controller.create"].deadlineMs);
  if (made) return made.index;
  const [owed] = await grow(call, request);
  await modify(call, request);
  const { index } = unwrap(await registry.commitCsiVolumes([namespaceId], [request]));
  if (owed) throw refusalError(owed);
  return index;
}

async function read(call: VolumeCall): Promise<Reading> {
  const registry = clusterRegistry(call.env);
  const { found, index } = await registry.readCsiVolume(nameOf(call));
  if (!found) return nothing("volume not found", index);
  const respond = async () => {
    const ids = found.users.map(({ allocId }) => allocId);
    const Allocations = await namedAllocations(call.env, ids, found.volume.namespace);
    return clusterJson(call, { ...shownCsiVolume(found), Allocations } satisfies ShownCsiVolume, { index });
  };
  return { index, respond };
}

async function deregister(call: VolumeCall & Asked<typeof ForceQuery>): Promise<Response> {
  const { force } = call.asked;
  return clusterEmpty(unwrap(await clusterRegistry(call.env).deregisterCsiVolume(nameOf(call), force)));
}

async function remove(call: VolumeCall): Promise<Response> {
  const [name, secrets] = [nameOf(call), headerSecrets(call)];
  const digest = digestOf(call, "delete", name);
  const begin = () => clusterRegistry(call.env).deleteCsiVolume(name, secrets, digest);
  const done = await runCsiOperation(call.env, begin, CSI_METHODS["csi.controller.delete"].deadlineMs);
  return clusterEmpty({ index: done?.index ?? null });
}

const DetachQuery = z.object({ node: query.required(sentence("detach requires node ID")) });

/** Maximum duration of one attempt of each step. */
const DETACH_MS = 120_000;

/** A failed or slow detach is retried in the background. */
async function detach(call: VolumeCall & Asked<typeof DetachQuery>): Promise<Response> {
  const { node } = call.asked;
  const [registry, name] = [clusterRegistry(call.env), nameOf(call)];
  unwrap(await registry.detachCsiVolume(name, node));
  const until = Date.now() + DETACH_MS;
  const done = await pollOutcome(until, (waitMs, last) => registry.csiDetached(name, node, waitMs, last));
  unwrap(done ?? refuse("timeout", `volume ${name.id} is not detached yet: it goes on`));
  const { index } = await registry.readCsiVolume(name);
  return clusterEmpty({ index });
}

/** Claims of a volume, oldest first. */
async function readClaims(call: VolumeCall): Promise<Reading> {
  const registry = clusterRegistry(call.env);
  const name = nameOf(call);
  const { found, index } = await registry.readCsiVolume(name);
  if (!found) return nothing("volume not found", index);
  return readList<ReadClaim>(call, {
    fetch: async (from, limit) => {
      const rows = await registry.csiClaims(name, /^\d{1,15}$/.test(from) ? Number(from) : 0, limit + 1);
      return { rows: rows.slice(0, limit), next: rows[limit] ? String(rows[limit].row) : null, index };
    },
    token: ({ row }) => String(row),
    stub: (claim) => ({ ...shownClaim(claim), Problem: claim.problem }),
  });
}

/** Recent operations of a volume, newest first. */
async function readOperations(call: VolumeCall): Promise<Response> {
  const registry = clusterRegistry(call.env);
  const name = nameOf(call);
  const { found, index } = await registry.readCsiVolume(name);
  const reading = await readList<Omit<CsiOperation, "sealed">>(call, {
    fetch: async (from, limit) => {
      const newest = /^\d{1,15}$/.test(from) ? Number(from) : Number.MAX_SAFE_INTEGER - 1;
      const rows = await registry.csiOperations(name, newest, limit + 1);
      return { rows: rows.slice(0, limit), next: rows[limit] ? String(rows[limit].gen) : null, index };
    },
    token: ({ gen }) => String(gen),
    stub: (operation) => shownOperation({ ...operation, sealed: null }),
  });
  if (!found && (await registry.csiOperations(name, Number.MAX_SAFE_INTEGER - 1, 1)).length === 0)
    throw notFound("volume not found");
  return reading.respond();
}

const Body = z.record(z.string(), z.unknown());

const writes = (path: string, intent: Intent) =>
  cluster(
    `POST ${path}`,
    {
      // The namespace is in the body.
      rights: "any",
      fresh: true,
      body: Body,
    },
    (call, body) => write(call, body, intent),
  );

const deletes = <Query extends z.ZodObject = z.ZodObject<Record<never, never>>>(
  path: VolumePath,
  rights: ClusterRoute["rights"],
  handle: (call: VolumeCall & Asked<Query>) => Promise<Response>,
  query?: Query,
) => cluster(`DELETE ${path}`, { rights, fresh: true, ...(query && { query }) }, handle);

const mayRead = mayAny(CSI_READ_RIGHTS);

/** A blocking read of one volume or of a part of it. */
const reads = (path: VolumePath, handle: (call: VolumeCall) => Promise<Reading>) =>
  cluster(
    `GET ${path}`,
    { rights: mayRead },
    blockingRead([CSI_VOLUME], async (call: VolumeCall) => {
      if (!mayRead(call.grant.cluster, call)) throw denied();
      return handle(call);
    }),
  );

export const csiVolumeRoutes = [
  writes("/volumes", "register"),
  writes("/volume/csi/:id", "register"),
  writes("/volume/csi/:id/create", "create"),
  reads("/volume/csi/:id", read),
  reads("/volume/csi/:id/claims", readClaims),
  cluster("GET /volume/csi/:id/operations", { rights: mayRead }, readOperations),
  deletes("/volume/csi/:id", inNamespace("csi-write-volume"), deregister, ForceQuery),
  deletes("/volume/csi/:id/delete", (rights, call) => mayWrite(rights, call, namespaceOf(call)), remove),
  deletes(
    "/volume/csi/:id/detach",
    (rights, call) =>
      call.dialect === "neutral"
        ? inNamespace("csi-write-volume")(rights, call)
        : inNamespace("csi-mount-volume")(rights, call) && allowsPlugin(rights, "read"),
    detach,
    DetachQuery,
  ),
];
