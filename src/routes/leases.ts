import * as z from "zod";
import type { Renewed, Started } from "../contracts/credential-engine.ts";
import type { Mount } from "../contracts/mount.ts";
import { isEngine } from "../credentials/engines/descriptions.ts";
import { performJob, performRemoval, unfinished } from "../credentials/runner/job-worker.ts";
import { mapLimit } from "../lib/map-limit.ts";
import { textBefore } from "../lib/text-before.ts";
import { badRequest, notFound, refusalError, sentence, unwrap } from "../platform/http/errors.ts";
import { duration, flag } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { traceText } from "../platform/observability/otlp/trace-context.ts";
import { accessControl, credentialEngine } from "../rpc/stubs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";

/**
 * Leases of all mounts (https://developer.hashicorp.com/vault/api-docs/system/leases). A lease's id begins with the path
 * of its mount. Prefixes are compared with current paths only.
 */

const REVOKE_MS = 25_000;
/** The provider may not know a new secret everywhere: then its renewal is tried again, as upstream does for 80 s. */
const RENEW_MS = 88_000;
/**
 * Time to wait within a request for a resource that the provider does not show yet; then the work continues in the
 * background.
 */
const VERIFY_MS = 20_000;
/** Minimum pause between two verifications. */
const RECHECK_MS = 100;
const MAX_CONCURRENT = 6;

const LeaseBody = z.object({ lease_id: z.string().max(1024).optional() });
const RenewBody = LeaseBody.extend({ increment: duration().default(0) });
const RevokeBody = LeaseBody.extend({ sync: flag().default(true) });
const PrefixBody = z.object({ sync: flag().default(true) });

interface Place {
  readonly mount: Mount;
  /** Relative to the mount. */
  readonly id: string;
}

/**
 * The mount of a lease in path or body; null when it does not exist. An id with the former path of a mount that moved
 * stays valid; the mount that is there now comes first.
 */
async function placeOf(
  call: AuthorisedCall<never, "id">,
  body: { readonly lease_id?: string | undefined },
): Promise<Place | null> {
  const id = call.params.id || body.lease_id;
  if (!id) throw badRequest("lease_id must be specified");
  const mounts = await accessControl(call.env).mountsOfLease(call.grant.namespace, id);
  const places = mounts.filter(({ mount }) => isEngine(mount));
  const [first, ...others] = places;
  if (others.length === 0) return first ?? null;
  for (const place of places) if ((await engineOf(call, place.mount).lookup(place.id)).ok) return place;
  return first ?? null;
}

const engineOf = (call: AuthorisedCall, { uuid }: Mount) => credentialEngine(call.env, uuid);

/** The lease of a token in path or body; null when it is another or none. */
async function tokenLeaseOf(call: AuthorisedCall<never, "id">, body: { readonly lease_id?: string | undefined }) {
  const id = call.params.id || body.lease_id;
  return id?.startsWith("auth/") ? await accessControl(call.env).tokenLease(call.grant.namespace, id) : null;
}

async function lookup(call: AuthorisedCall<never, "id">, body: z.infer<typeof LeaseBody>): Promise<Response> {
  const token = await tokenLeaseOf(call, body);
  if (token) {
    const { accessor: _accessor, ...lease } = token;
    return envelope(call, { data: lease });
  }
  const place = await placeOf(call, body);
  if (!place) throw badRequest("invalid lease");
  const lease = unwrap(await engineOf(call, place.mount).lookup(place.id));
  const id = place.mount.path + lease.id;
  const path = id.slice(0, id.lastIndexOf("/"));
  const namespace = call.grant.namespace === "" ? {} : { namespace_path: call.grant.namespace };
  return envelope(call, { data: { ...lease, id, path, ...namespace } });
}

/** Performs a renewal at the provider. */
async function renewed(call: AuthorisedCall, { uuid }: Mount, started: Started): Promise<Renewed> {
  const end = await performJob(call.env, uuid, started, RENEW_MS);
  if (end && !end.ok) throw refusalError(end);
  if (!end?.renewed) throw refusalError(unfinished("the renewal"));
  return end.renewed;
}

async function renew(call: AuthorisedCall<never, "id">, body: z.infer<typeof RenewBody>): Promise<Response> {
  if (await tokenLeaseOf(call, body)) throw badRequest("tokens cannot be renewed through this endpoint");
  const place = await placeOf(call, body);
  if (!place) throw badRequest("lease not found");
  const { mount, id } = place;
  const begun = unwrap(await engineOf(call, mount).renew(id, body.increment, mount.config));
  const { ttl, renewable, warnings } = "wanted" in begun ? await renewed(call, mount, begun) : begun;
  return envelope(call, { lease: { id: mount.path + id, ttl, renewable }, warnings });
}

/** Work that continues in the background. */
const accepted = (call: AuthorisedCall): Response => envelope(call, { status: 202 });

/** Success, or a warning that resources may still exist. @param left leases that are not revoked yet */
const revoked = (call: AuthorisedCall, left: number, goesOnAt: number): Response =>
  left === 0
    ? noContent()
    : envelope(call, {
        warnings: [
          `${left === 1 ? "the lease ends" : `${left} leases end`} behind this answer: the provider does not show yet all ` +
            `that was made a moment ago; the next look is at ${new Date(goesOnAt).toISOString()}`,
        ],
      });

async function revoke(call: AuthorisedCall<never, "id">, body: z.infer<typeof RevokeBody>): Promise<Response> {
  const token = await tokenLeaseOf(call, body);
  if (token) {
    const named = { accessor: token.accessor, within: call.grant.namespace };
    unwrap(await accessControl(call.env).revokeToken(named));
    return noContent();
  }
  const place = await placeOf(call, body);
  // A missing lease counts as revoked.
  if (!place) return noContent();
  const { mount, id } = place;
  if (!body.sync) {
    unwrap(await engineOf(call, mount).revokeSoon([id], traceText()));
    return accepted(call);
  }
  const now = Date.now();
  const started = unwrap(await engineOf(call, mount).revoke(id, traceText()));
  if (!started) return noContent();
  const times = { end: now + REVOKE_MS, verifyUntil: now + VERIFY_MS };
  const end = await performRemoval(call.env, mount.uuid, started, times);
  if (!end) throw refusalError(unfinished("the revocation"));
  if (!end.ok) throw badRequest(`failed to revoke entry: ${end.message}`);
  return revoked(call, end.goesOnAt === null ? 0 : 1, end.goesOnAt ?? 0);
}

/** Mounts under a prefix, each with the remaining prefix inside it. */
async function mountsUnder(call: AuthorisedCall, prefix: string): Promise<Place[]> {
  const mounts = await accessControl(call.env).listMounts(call.grant.namespace);
  return mounts
    .filter(isEngine)
    .filter(({ path }) => prefix.startsWith(path) || path.startsWith(folder(prefix)))
    .map((mount) => ({ mount, id: prefix.slice(mount.path.length) }));
}

const folder = (prefix: string): string => (prefix === "" || prefix.endsWith("/") ? prefix : `${prefix}/`);

/** Revokes the tokens that paths below a prefix have issued, in steps, between which other requests are answered. */
async function revokeIssued({ env, grant }: AuthorisedCall, prefix: string): Promise<void> {
  const end = Date.now() + REVOKE_MS;
  while (unwrap(await accessControl(env).revokeIssued(grant.namespace, prefix)) && Date.now() < end);
}

/**
 * Begins a revocation: tokens that logins and token roles below a prefix of `auth/` have issued are revoked at once.
 * @returns the mounts with leases below the prefix
 * @throws RequestError 400 without a prefix, which would be that of every lease
 */
async function beginRevocation(call: AuthorisedCall<"prefix">): Promise<Place[]> {
  const prefix = call.params.prefix.replace(/\/+$/, "");
  if (prefix === "") throw badRequest("prefix must be specified");
  if (/^auth(\/|$)/.test(prefix)) await revokeIssued(call, prefix);
  return mountsUnder(call, call.params.prefix);
}

/** Leases under a prefix: the one with exactly this id, or all below it; page by page. */
async function* leasesUnder(call: AuthorisedCall, { mount, id }: Place): AsyncGenerator<string[]> {
  const engine = engineOf(call, mount);
  if (id !== "" && !id.endsWith("/") && (await engine.lookup(id)).ok) return yield [id];
  let after = "";
  for (;;) {
    const page = await engine.leasesUnder(folder(id), after);
    if (page.length === 0) return;
    yield page;
    after = page.at(-1) ?? "";
  }
}

/** Replaces credentials of pools that would have been leased under a prefix. */
async function emptyPools(call: AuthorisedCall, { mount, id }: Place): Promise<void> {
  unwrap(await engineOf(call, mount).revokeSoon([], traceText(), folder(id)));
}

/** A started or pending revocation. */
interface Revocation {
  readonly mount: Mount;
  readonly id: string;
  /** Earliest time, ms since 1970: the provider does not show the resource yet. */
  readonly at: number;
}

interface Progress {
  left: number;
  failure: string | null;
  readonly later: Revocation[];
}

const newProgress = (): Progress => ({ left: 0, failure: null, later: [] });

/** Revokes leases concurrently; those not finished in time continue in the background. */
async function revokeAll(
  call: AuthorisedCall,
  leases: readonly Revocation[],
  end: number,
  progress: Progress,
): Promise<void> {
  const revoke = async ({ mount, id, at }: Revocation): Promise<void> => {
    const wanted = { job: id, kind: "removal" } as const;
    // A second verification must not restart the revocation.
    const started = at > 0 ? { wanted, polled: null } : unwrap(await engineOf(call, mount).revoke(id, traceText()));
    const over = started && (await performJob(call.env, mount.uuid, started, end - Date.now()));
    if (started && !over) progress.left++;
    else if (over && !over.ok) {
      progress.failure ??= `failed to revoke ${JSON.stringify(mount.path + id)}: ${over.message}`;
    } else if (over?.ok && over.goesOnAt !== null) progress.later.push({ mount, id, at: over.goesOnAt });
  };
  const begun = await mapLimit(leases, MAX_CONCURRENT, revoke, () => Date.now() < end);
  progress.left += leases.length - begun.length;
}

/** Starts the revocation of all leases under a prefix, and performs as many as possible until `end`. */
async function revokeUnder(
  call: AuthorisedCall<"prefix">,
  end: number,
  afterPage: (place: Place, ids: string[]) => Promise<void>,
) {
  const progress = newProgress();
  for (const place of await beginRevocation(call)) {
    await emptyPools(call, place);
    for await (const ids of leasesUnder(call, place)) {
      const { mount } = place;
      unwrap(await engineOf(call, mount).revokeSoon(ids, traceText()));
      const leases = ids.map((id) => ({ mount, id, at: 0 }));
      await revokeAll(call, leases, end, progress);
      await afterPage(place, ids);
    }
  }
  return progress;
}

/** Verifies resources that the provider did not show, until `verifyUntil`. Leaves the unresolved ones in the progress. */
async function verifyLater(call: AuthorisedCall, progress: Progress, end: number, verifyUntil: number): Promise<void> {
  while (progress.later.length > 0) {
    const soonest = Math.min(...progress.later.map(({ at }) => at));
    if (soonest > verifyUntil) return;
    await scheduler.wait(Math.max(soonest - Date.now(), RECHECK_MS));
    const due = progress.later.filter(({ at }) => at <= Date.now());
    const rest = progress.later.filter(({ at }) => at > Date.now());
    progress.later.splice(0, Number.POSITIVE_INFINITY, ...rest);
    await revokeAll(call, due, end, progress);
  }
}

async function revokePrefix(call: AuthorisedCall<"prefix">, { sync }: z.infer<typeof PrefixBody>): Promise<Response> {
  if (!sync) {
    for (const place of await beginRevocation(call)) {
      await emptyPools(call, place);
      for await (const ids of leasesUnder(call, place))
        unwrap(await engineOf(call, place.mount).revokeSoon(ids, traceText()));
    }
    return accepted(call);
  }
  const now = Date.now();
  const end = now + REVOKE_MS;
  const progress = await revokeUnder(call, end, async () => undefined);
  await verifyLater(call, progress, end, now + VERIFY_MS);
  if (progress.failure !== null) throw badRequest(progress.failure);
  if (progress.left > 0) throw refusalError(unfinished(`the revocation of ${progress.left} leases`));
  return revoked(call, progress.later.length, Math.min(...progress.later.map(({ at }) => at)));
}

/** Revokes leases where possible, and deletes the others. */
async function revokeForce(call: AuthorisedCall<"prefix">): Promise<Response> {
  const end = Date.now() + REVOKE_MS;
  await revokeUnder(call, end, ({ mount }, ids) => engineOf(call, mount).forget(ids));
  return noContent();
}

/** Names directly below a prefix: mounts with leases and paths that issued tokens, then names inside one. */
async function list(call: AuthorisedCall<never, "prefix">): Promise<Response> {
  const prefix = folder(call.params.prefix ?? "");
  const names = new Set<string>();
  for (let after = ""; ; ) {
    const page = await accessControl(call.env).tokenLeaseNames(call.grant.namespace, prefix, after);
    for (const name of page) names.add(name);
    if (page.length === 0) break;
    after = page.at(-1) ?? "";
  }
  for (const { mount, id } of await mountsUnder(call, prefix)) {
    const isInside = prefix.startsWith(mount.path);
    for (let behind = ""; ; ) {
      const page = await engineOf(call, mount).leaseNames(isInside ? id : "", behind);
      if (!isInside && page.length > 0) names.add(`${textBefore(mount.path.slice(prefix.length), "/")}/`);
      if (!isInside || page.length === 0) break;
      for (const name of page) names.add(name);
      behind = page.at(-1) ?? "";
    }
  }
  return keyList(call, [...names].sort());
}

const CountQuery = z.object({ type: query.text() });

async function count(call: AuthorisedCall & Asked<typeof CountQuery>): Promise<Response> {
  const irrevocable = call.asked.type === "irrevocable";
  const counts: Record<string, number> = {};
  for (const { mount } of await mountsUnder(call, "")) {
    const found = await engineOf(call, mount).leaseCount();
    const n = irrevocable ? found.irrevocable : found.total;
    // Upstream counts irrevocable leases only, by accessor.
    if (n > 0) counts[irrevocable ? mount.accessor : mount.path] = n;
  }
  return envelope(call, { data: { lease_count: Object.values(counts).reduce((sum, n) => sum + n, 0), counts } });
}

const DEFAULT_LIMIT = 10_000;
const LeasesQuery = CountQuery.extend({
  limit: query
    .text()
    .refine((text) => /^(|none|[1-9]\d{0,8})$/i.test(text), sentence("limit must be 'none' or a positive integer")),
});

/**
 * Leases that could not be revoked, which is the only type that is listed, as upstream does: 404 for others.
 * @throws RequestError 400 for another limit than a positive number or `none`
 */
async function listIrrevocable(call: AuthorisedCall & Asked<typeof LeasesQuery>): Promise<Response> {
  const { type, limit: given } = call.asked;
  if (type.toLowerCase() !== "irrevocable") throw notFound();
  const limit = given === "" ? DEFAULT_LIMIT : /none/i.test(given) ? Number.POSITIVE_INFINITY : Number(given);
  const leases: { lease_id: string; mount_id: string; error: string }[] = [];
  let total = 0;
  for (const { mount } of await mountsUnder(call, "")) {
    const engine = engineOf(call, mount);
    total += (await engine.leaseCount()).irrevocable;
    for (let after = ""; leases.length < limit; ) {
      const page = await engine.irrevocableLeases(after);
      const { path, accessor: mount_id } = mount;
      leases.push(...page.map(({ id, error }) => ({ lease_id: path + id, mount_id, error })));
      after = page.at(-1)?.id ?? "";
      if (after === "") break;
    }
  }
  const shown = leases.slice(0, limit === Number.POSITIVE_INFINITY ? undefined : limit);
  const warnings =
    shown.length < total ? [`only the first ${shown.length} leases are listed; set "limit" to see more`] : null;
  return envelope(call, { data: { lease_count: total, leases: shown }, ...(warnings && { warnings }) });
}

/** The paths of an operation on a lease, in path or body: the current ones, and the legacy ones. */
const both = <const Name extends string>(name: Name) =>
  [`/sys/leases/${name}`, `/sys/leases/${name}/:id+`, `/sys/${name}`, `/sys/${name}/:id+`] as const;

export const leaseRoutes = [
  secrets("GET /sys/leases", { access: "sudo", fresh: true, query: LeasesQuery }, listIrrevocable),
  secrets("GET /sys/leases/count", { access: "sudo", fresh: true, query: CountQuery }, count),
  secrets("POST /sys/leases/lookup", { fresh: true, body: LeaseBody }, lookup),
  secrets("POST /sys/leases/lookup/:id+", { fresh: true, body: LeaseBody }, lookup),
  secrets("LIST /sys/leases/lookup", { access: "sudo", fresh: true }, list),
  secrets("LIST /sys/leases/lookup/:prefix+", { access: "sudo", fresh: true }, list),
  ...both("renew").map((path) => secrets(`POST ${path}`, { fresh: true, body: RenewBody }, renew)),
  ...both("revoke").map((path) => secrets(`POST ${path}`, { fresh: true, body: RevokeBody }, revoke)),
  secrets("POST /sys/leases/revoke-prefix/:prefix+", { access: "sudo", fresh: true, body: PrefixBody }, revokePrefix),
  secrets("POST /sys/revoke-prefix/:prefix+", { access: "sudo", fresh: true, body: PrefixBody }, revokePrefix),
  secrets("POST /sys/leases/revoke-force/:prefix+", { access: "sudo", fresh: true }, revokeForce),
  secrets("POST /sys/revoke-force/:prefix+", { access: "sudo", fresh: true }, revokeForce),
  // Orphaned leases cannot exist here: a lease and its jobs are rows of one object.
  secrets("POST /sys/leases/tidy", { access: "sudo", fresh: true }, async (call) => accepted(call)),
];
