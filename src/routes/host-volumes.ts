import { createHash } from "node:crypto";
import { METHODS } from "@sallyport/agent-protocol";
import * as z from "zod";
import { namedAllocations } from "../cluster/reports/named-allocations.ts";
import type { Begun, HostVolumeRequest } from "../contracts/host-volumes.ts";
import { badRequest, denied, unwrap, validated } from "../platform/http/errors.ts";
import { allowsNamespace } from "../rights/cluster-rights.ts";
import { accessControl, clusterRegistry } from "../rpc/stubs.ts";
import { type HostVolumeBody, parseBody, requestOf } from "../volumes/host/request-body.ts";
import { runHostVolumeOperation } from "../volumes/host/run-operation.ts";
import { hostVolumeJson, shownHostVolume } from "../volumes/host/volume-views.ts";
import { judgeHostVolume } from "./host-volume-rules.ts";
import { nothing, type Reading } from "./server/blocking.ts";
import {
  ALL,
  blockingRead,
  ForceQuery,
  inNamespace,
  mayList,
  namespaceGiven,
  namespaceOf,
} from "./server/cluster-reads.ts";
import { clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Dynamic host volumes (docs/guides/host-volumes.md; https://developer.hashicorp.com/nomad/api-docs/volumes). */

const RIGHTS = { create: "host-volume-create", register: "host-volume-register" } as const;
type Intent = keyof typeof RIGHTS;

const bodyOf = (given: Readonly<Record<string, unknown>>): HostVolumeBody => validated(() => unwrap(parseBody(given)));

/** Idempotency key of a request by its caller. */
function begunBy(call: AuthorisedCall, idempotencyToken: string, what: unknown): Begun {
  const named = idempotencyToken !== "";
  const parts = [call.grant.identity.accessor, named ? idempotencyToken : null, what];
  return { request: createHash("sha256").update(JSON.stringify(parts)).digest("base64url"), named };
}

/** Creates or registers a volume, or changes the one in the body. */
async function write(call: AuthorisedCall, given: Readonly<Record<string, unknown>>, intent: Intent) {
  const body = bodyOf(given);
  const namespace = body.volume.Namespace || namespaceGiven(call) || body.namespace || "default";
  const { cluster: rights } = call.grant;
  if (!allowsNamespace(rights, namespace, RIGHTS[intent])) throw denied();
  if (body.policyOverride && !allowsNamespace(rights, namespace, "policy-override")) throw denied();
  const request = unwrap(requestOf(body.volume, namespace, intent));
  const known = await accessControl(call.env).volumeNamespace(namespace);
  if (!known.ok) throw badRequest(`volume validation failed: no such namespace ${JSON.stringify(namespace)}`);
  const { id, rules: volumeRules } = known.value;
  const judged = unwrap(await judgeHostVolume(call.env, volumeRules, request, body.policyOverride));
  const warnings = [...body.warnings, ...judged];
  const { volume, index } = await perform(
    call,
    id,
    request,
    intent,
    begunBy(call, body.idempotencyToken, [intent, request]),
  );
  if (!volume) throw badRequest("the volume was deleted meanwhile");
  const shown = shownHostVolume(hostVolumeJson(volume));
  const Index = index ?? shown.ModifyIndex;
  return clusterJson(call, { Index, Volume: shown, Warnings: warnings.join("; ") }, { index: Index });
}

function perform(
  { env, request: { signal } }: AuthorisedCall,
  namespaceId: string,
  request: HostVolumeRequest,
  intent: Intent,
  begun: Begun,
) {
  const registry = clusterRegistry(env);
  const method = `dhv.${intent}` as const;
  const { id } = request;
  return runHostVolumeOperation(
    env,
    (search) => {
      if (id !== null) return registry.updateHostVolume(method, { ...request, id }, begun);
      return intent === "create"
        ? registry.createHostVolume(namespaceId, request, begun, search)
        : registry.registerHostVolume(namespaceId, request, begun);
    },
    METHODS[method].deadlineMs,
    signal,
  );
}

const idOf = (call: AuthorisedCall<"id">): string => call.params.id.toLowerCase();

async function read(call: AuthorisedCall<"id">): Promise<Reading> {
  const registry = clusterRegistry(call.env);
  const found = await registry.readHostVolume(idOf(call));
  const namespace = namespaceOf(call);
  const isHere = found && (namespace === ALL || found.volume.namespace === namespace);
  if (!isHere || !allowsNamespace(call.grant.cluster, found.volume.namespace, "host-volume-read"))
    return nothing("volume not found");
  const shown = shownHostVolume(hostVolumeJson(found.volume));
  const respond = async () => {
    const Allocations = await namedAllocations(call.env, found.users, found.volume.namespace);
    const body = { ...(Allocations.length > 0 && { Allocations }), ...shown };
    return clusterJson(call, body, { index: shown.ModifyIndex });
  };
  return { index: shown.ModifyIndex, respond };
}

async function remove(call: AuthorisedCall<"id"> & Asked<typeof ForceQuery>): Promise<Response> {
  const [id, namespace, force] = [idOf(call), namespaceOf(call), call.asked.force];
  const begun = begunBy(call, "", ["delete", id, force]);
  const registry = clusterRegistry(call.env);
  const begin = () => registry.deleteHostVolume(id, namespace, force, begun);
  const { index } = await runHostVolumeOperation(
    call.env,
    begin,
    METHODS["dhv.delete"].deadlineMs,
    call.request.signal,
  );
  return clusterJson(call, { Index: index ?? 0 }, { index });
}

const Body = z.record(z.string(), z.unknown());

const writes = (intent: Intent) =>
  cluster(
    `POST /volume/host/${intent}`,
    {
      // The namespace is in the body.
      rights: "any",
      fresh: true,
      body: Body,
    },
    (call, body) => write(call, body, intent),
  );

const deletes = (path: "/volume/host/:id" | "/volume/host/:id/delete") =>
  cluster(`DELETE ${path}`, { rights: inNamespace("host-volume-delete"), fresh: true, query: ForceQuery }, remove);

export const hostVolumeRoutes = [
  writes("create"),
  writes("register"),
  cluster("GET /volume/host/:id", { rights: mayList("host-volume-read") }, blockingRead(["HostVolume"], read)),
  deletes("/volume/host/:id"),
  deletes("/volume/host/:id/delete"),
];
