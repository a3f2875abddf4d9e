import * as z from "zod";
import { authorize } from "../access/authorize/authorize-cached.ts";
import { namespacePath } from "../access/namespaces/namespaces.ts";
import { firstHeader, requestHeader } from "../compat/dialect.ts";
import type { ServiceStatus } from "../contracts/access-control.ts";
import { timestamp } from "../kv/version.ts";
import { textBefore } from "../lib/text-before.ts";
import { accessStatus, type Health, health, PARTS, reached } from "../monitoring/health.ts";
import { isStorageLost } from "../platform/durable/birth.ts";
import { isJurisdictionChanged } from "../platform/durable/jurisdiction.ts";
import { badRequest, RequestError, unwrap } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { BUILD_DATE, CLUSTER_NAME, VERSION } from "../platform/version.ts";
import { allowsAgent } from "../rights/cluster-rights.ts";
import { accessControl } from "../rpc/stubs.ts";
import { addressOf } from "./server/auth-call.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type Asked, type Call, open, secrets } from "./server/route.ts";

/** Health, seal status and key terms (https://developer.hashicorp.com/vault/api-docs/system/health). */

/** Statuses without a body. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

const raw = (body: object, status = 200): Response =>
  new Response(BODILESS.has(status) ? null : JSON.stringify(body), {
    status,
    headers: { "Content-Type": "application/json", "Cache-Control": "no-store" },
  });

/** Load balancers choose the status codes: `?sealedcode=200`. Other values are as none. */
const statusCode = () =>
  z
    .preprocess((given) => Number(given), z.int().min(200).max(599))
    .optional()
    .catch(undefined);

const HealthQuery = z.object({
  counts: query.trueOnly(),
  activecode: statusCode(),
  sealedcode: statusCode(),
  uninitcode: statusCode(),
});

/** Deployment-wide information exists only in the root namespace. */
function onlyInRoot(namespace: string): void {
  if (namespace !== "") throw badRequest("operation unavailable in namespaces");
}

/** The same check for unauthenticated routes, whose namespace was not resolved. */
const openOnlyInRoot = (call: Call): void =>
  onlyInRoot(unwrap(namespacePath(firstHeader(call.request.headers, requestHeader.namespace) ?? "")));

/**
 * Whether the caller may see counts. Authorizes only requests with a token parameter: clients send tokens with every
 * health check, which must not consume a limited use.
 */
async function mayCount(call: Call & Asked<typeof HealthQuery>): Promise<boolean> {
  const { env, token, asked } = call;
  if (token === null || !asked.counts) return false;
  const ask = { token, namespace: "", path: null, address: addressOf(call) };
  const grant = await reached("access_control", () =>
    authorize(env, { ask, fresh: false, location: null, version: null }),
  );
  return grant?.ok === true && allowsAgent(grant.cluster, "read");
}

/** @throws RequestError 503 when `AccessControl` is unreachable; StorageLost, JurisdictionChanged */
async function statusOf({ env }: Call): Promise<NonNullable<Health["access"]>> {
  const status = await accessStatus(env, (failure) => {
    if (isStorageLost(failure) || isJurisdictionChanged(failure)) throw failure;
  });
  if (!status) throw new RequestError(503, "access_control: unreachable", { "Retry-After": "1" });
  return status;
}

/** Types of objects; names are hidden from unauthenticated callers. */
const kindsOf = (objects: readonly string[]): string[] => [...new Set(objects.map((name) => textBefore(name, " ")))];

const countsOf = ({ agents, outbox, lost }: Health) => ({
  agents,
  lost_objects: lost,
  outbox: { rows: outbox.rows, oldest_seconds: Math.round(outbox.oldestMs / 1000) },
});

/** Agent health checks of cluster clients; the service itself answers. */
export const agentHealthRoutes = [
  open("GET /agent/health", async ({ env }) => {
    const { access, parts, lost, isDiskFull } = await health(env);
    const down = PARTS.filter(
      (part) => parts[part] === "unreachable" && part !== "listings" && part !== "sync_control",
    );
    const trouble = [
      ...(down.length > 0 ? [`unreachable: ${down.join(", ")}`] : []),
      ...(parts.access_control === "misplaced" ? ["jurisdiction changed"] : []),
      ...(lost.length > 0 ? [`storage lost: ${kindsOf(lost).join(", ")}`] : []),
      ...(isDiskFull ? ["the disk is full"] : []),
    ];
    const message = access?.sealedBecause ?? (trouble.join("; ") || "ok");
    return raw({ server: { ok: message === "ok", message } }, message === "ok" ? 200 : 503);
  }),
];

const sealStatusOf = (status: ServiceStatus) => ({
  type: "keyring",
  initialized: status.sealedBecause !== null || status.bootstrapped,
  sealed: status.sealedBecause !== null,
  t: 1,
  n: 1,
  progress: 0,
  nonce: "",
  version: VERSION,
  build_date: BUILD_DATE,
  migration: false,
  cluster_name: CLUSTER_NAME,
  cluster_id: status.clusterId,
  recovery_seal: false,
  storage_type: "durable-object",
});

/**
 * The status of an unsealed service, as upstream; the body is not read. A sealed service needs its master key in the
 * deployment.
 */
async function unseal(call: Call): Promise<Response> {
  const status = await statusOf(call);
  if (status.sealedBecause === null) return raw(sealStatusOf(status));
  throw badRequest(`unseal: there are no key shares; set MASTER_KEY in the deployment (${status.sealedBecause})`);
}

/** Rotation of the encryption key, by one of its names. */
const rotation = (path: "/sys/rotate" | "/sys/rotate/keyring") =>
  secrets(`POST ${path}`, { access: "sudo", fresh: true }, async (call) => {
    onlyInRoot(call.grant.namespace);
    unwrap(await accessControl(call.env).rotateKeys());
    return noContent();
  });

export const statusRoutes = [
  open("GET /sys/health", { query: HealthQuery }, async (call) => {
    openOnlyInRoot(call);
    const seen = await health(call.env);
    const { access, parts } = seen;
    const sealed = access !== null && access.sealedBecause !== null;
    const body = {
      initialized: access !== null && (sealed || access.bootstrapped),
      sealed,
      ...(sealed && { sealed_because: access.sealedBecause }),
      standby: false,
      performance_standby: false,
      replication_performance_mode: "disabled",
      replication_dr_mode: "disabled",
      server_time_utc: Math.floor(Date.now() / 1000),
      version: VERSION,
      enterprise: true,
      cluster_name: CLUSTER_NAME,
      cluster_id: access?.clusterId ?? "",
      echo_duration_ms: 0,
      clock_skew_ms: 0,
      parts,
      failing: access === null ? ["access_control"] : [],
      degraded: [
        ...PARTS.filter((part) => parts[part] !== "ok" && !(part === "access_control" && access === null)),
        ...(seen.isDiskFull ? ["disk"] : []),
        ...(seen.isSnapshotLate ? ["snapshots"] : []),
        ...(seen.lost.length > 0 ? ["storage"] : []),
      ],
      ...(seen.lost.length > 0 && { lost: kindsOf(seen.lost) }),
      ...((await mayCount(call)) && countsOf(seen)),
    };
    // Custom status codes do not apply: none of them describes a failed service.
    if (access === null) return raw(body, 503);
    const { sealedcode = 503, activecode = 200, uninitcode = 501 } = call.asked;
    return raw(body, sealed ? sealedcode : access.bootstrapped ? activecode : uninitcode);
  }),
  open("GET /sys/seal-status", async (call) => raw(sealStatusOf(await statusOf(call)))),
  open("POST /sys/unseal", unseal),
  open("GET /sys/init", async (call) => {
    openOnlyInRoot(call);
    const status = await statusOf(call);
    return raw({ initialized: status.sealedBecause !== null || status.bootstrapped });
  }),
  open("POST /sys/init", { refuses: true }, async () => {
    throw new RequestError(400, [
      // Upstream's wording, which clients compare.
      "Vault is already initialized",
      "a deployment makes its keys itself; see /v1/acl/bootstrap for its first token",
    ]);
  }),
  open("GET /sys/leader", async () =>
    raw({
      ha_enabled: false,
      is_self: false,
      active_time: "0001-01-01T00:00:00Z",
      leader_address: "",
      leader_cluster_address: "",
      performance_standby: false,
      performance_standby_last_remote_wal: 0,
    }),
  ),
  secrets("GET /sys/key-status", { fresh: true }, async (call) => {
    onlyInRoot(call.grant.namespace);
    const { term, installed, pending } = await accessControl(call.env).keyStatus();
    const data = { term, install_time: timestamp(installed), encryptions: 0, pending_rewraps: pending };
    return envelope(call, { data, flat: true });
  }),
  rotation("/sys/rotate"),
  // OpenBao's name.
  rotation("/sys/rotate/keyring"),
];
