import * as z from "zod";
import type { IssueRequest } from "../contracts/credential-engine.ts";
import type { EngineType } from "../credentials/engines/engine-type.ts";
import { engineType } from "../credentials/engines/index.ts";
import { holderOf } from "../credentials/leases/lease-users.ts";
import { metadataMap } from "../credentials/leases/metadata.ts";
import { performJob, probe, unfinished } from "../credentials/runner/job-worker.ts";
import { PATIENCE_MS } from "../credentials/runner/saga-runner.ts";
import { refuse } from "../lib/result.ts";
import { retryWhileFrozen } from "../platform/durable/snapshot/frozen.ts";
import { badRequest, refusalError, unwrap } from "../platform/http/errors.ts";
import { flag } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { cleanUpBehind, engine, mountType, REQUEST_MS, settled } from "./engine-jobs.ts";
import { envelope } from "./server/respond.ts";
import type { Asked, MountCall } from "./server/route.ts";
import { refuseHead } from "./server/unsent.ts";

/** Requests for credentials: from their parameters to the hand-over of the lease. */

const MAX_KEY_LENGTH = 256;

/**
 * Last check before credentials are returned. A disconnected caller will never see them, a caller without the right must
 * not, and a revoked lease grants nothing.
 * @param caller null when the request can be repeated for the same lease
 * @param leavesAtOnce the lease is not marked as handed over
 */
async function handOver(
  call: MountCall,
  lease: string,
  caller: AbortSignal | null,
  leavesAtOnce = false,
): Promise<void> {
  const revoke = async () => {
    unwrap(await retryWhileFrozen(() => engine(call).revokeSoon([lease])));
    cleanUpBehind(call);
  };
  if (caller?.aborted) {
    await revoke();
    throw refusalError(refuse("unavailable", "the caller left before the answer"));
  }
  // The right may have gone since. A lease that is not handed over is revoked, also when this Worker dies here.
  try {
    await call.recheck();
  } catch (failure) {
    await revoke();
    throw failure;
  }
  const leaves = () => retryWhileFrozen(() => engine(call).handOver(lease));
  if (caller && !leavesAtOnce && !(await leaves().catch(leaves)))
    throw refusalError(refuse("unavailable", "the lease ended before the answer; ask again"));
}

/** Last check before a shared lease is returned, which stays that of its other users. @param token the caller's */
async function handOverShared(call: MountCall, lease: string, token: string): Promise<void> {
  try {
    await call.recheck();
  } catch (failure) {
    await retryWhileFrozen(() => engine(call).releaseShared(lease, token));
    cleanUpBehind(call);
    throw failure;
  }
}

/**
 * The caller's idempotency key, so that a repeated request gets the same lease; null without one. Batch tokens share
 * the holder of their leases, so each has keys of its own.
 */
function repeatKey(call: MountCall): string | null {
  const { headers } = call.request;
  const key = headers.get("X-Orch-Idempotency-Key") || headers.get("Idempotency-Key") || null;
  if (key !== null && key.length > MAX_KEY_LENGTH) {
    throw badRequest(`Idempotency-Key: the header is longer than ${MAX_KEY_LENGTH} characters`);
  }
  const { accessor, batch } = call.grant.identity;
  return batch && key !== null ? `${accessor} ${key}` : key;
}

/** The metadata that a request for credentials gives, as `?metadata=key=value`, repeatedly. */
export const MetadataQuery = z.object({ metadata: query.every(metadataMap()) });

/** The parameters in the query of a GET. */
export const issueQuery = ({ issue: { request } }: EngineType) =>
  MetadataQuery.extend({ verify: query.flag(), ...request?.shape });

/** The metadata of a role, for an engine of the deployment before this one. */
async function metadataOf(call: MountCall, name: string): Promise<Readonly<Record<string, string>> | undefined> {
  const role = await engine(call).role(name);
  return role.ok ? (role.value["metadata"] as Record<string, string> | undefined) : undefined;
}

/** The parameters of a request for credentials, from the query or from the body of a POST. */
type IssueParameters = Readonly<Record<string, unknown>> & { readonly verify?: unknown };

/** The body of a request for credentials of a type with parameters. */
export const issueBody = (request: z.ZodObject) => request.extend({ verify: flag().optional() });

/** @param at the path below the mount, which begins the lease's id */
export async function issue(
  call: MountCall<"name"> & Asked<typeof MetadataQuery>,
  role: string,
  at: string,
  { verify, ...request }: IssueParameters,
): Promise<Response> {
  refuseHead(call);
  const began = Date.now();
  const {
    mount,
    grant: { identity },
  } = call;
  const holder = holderOf(identity);
  const verified = verify === true;
  const type = engineType(mount.type);
  const key = repeatKey(call);
  // With a key, the caller will repeat the request.
  const leaves = key === null ? call.request.signal : null;
  const ask = {
    type: mount.type,
    at,
    role,
    ...holder,
    key,
    mount: mount.config,
    until: identity.batch?.expires,
    verified,
    displayName: identity.name,
    sharer: identity.entity ? `entity ${identity.entity}` : `token ${identity.accessor}`,
    request,
    counted: call.grant.countsLeases === true,
  };
  const { started, end, caller } = await performIssue(call, ask, leaves);
  if (!end?.issued) throw refusalError(unfinished("the request"));
  const { issued, warnings } = end;
  const until = { replicated: began + (type.issue.verifyMs ?? REQUEST_MS), failing: began + PATIENCE_MS };
  const account = verified && !issued.verified ? unwrap(await engine(call).account()) : null;
  const probed = account ? await probe(call.env, { type, account }, issued.data, until, caller) : [];
  // Those of the role are the operator's.
  const metadata = {
    ...call.asked.metadata,
    ...(started.metadata ?? (started.metadata === undefined && (await metadataOf(call, role)))),
  };
  const { leaseId, ttl, renewable } = issued;
  if (leaseId === null) await call.recheck();
  else if (started.shared) await handOverShared(call, leaseId, holder.token);
  else await handOver(call, leaseId, caller, issued.leavesAtOnce);
  return envelope(call, {
    data: {
      ...issued.data,
      ...(Object.keys(metadata).length > 0 && { metadata }),
    },
    ...(leaseId !== null && {
      lease: { id: `${mount.path}${leaseId}`, ttl, renewable: renewable && started.shared?.renewable !== false },
    }),
    warnings: [...warnings, ...probed],
    mountType: mountType(call),
  });
}

/**
 * Starts credentials and completes them. A job that its object has in memory only begins again after a restart of the
 * object, which is seldom enough for one repetition.
 * @param leaves aborts on hang-up of the caller
 * @param repeatedUntil end of the first attempt's time, ms since 1970; null for the first
 */
async function performIssue(
  call: MountCall,
  ask: IssueRequest,
  leaves: AbortSignal | null,
  repeatedUntil: number | null = null,
) {
  const started = unwrap(await engine(call).issue(ask));
  const until = repeatedUntil ?? Date.now() + REQUEST_MS;
  // Other requests may wait for a shared lease.
  const caller = started.shared ? null : leaves;
  const end = await performJob(call.env, call.mount.uuid, started, until - Date.now(), caller);
  const isGone = started.unstored && end !== null && !end.ok && end.gone;
  if (isGone && repeatedUntil === null) return performIssue(call, ask, leaves, until);
  return { started, end: settled(call, started, end), caller };
}
