import * as z from "zod";
import { translateMountType } from "../compat/engine-names.ts";
import type { JobEnd, Started } from "../contracts/credential-engine.ts";
import { homeOf } from "../credentials/assertion.ts";
import { kindsOf, prefixOf, type RoleKind } from "../credentials/engines/description.ts";
import type { EngineType, KeptLogin } from "../credentials/engines/engine-type.ts";
import { engineType } from "../credentials/engines/index.ts";
import { holderOf } from "../credentials/leases/lease-users.ts";
import { metadataMap } from "../credentials/leases/metadata.ts";
import {
  performJob,
  performJobs,
  performRead,
  performRemoval,
  probe,
  unfinished,
} from "../credentials/runner/job-worker.ts";
import { PATIENCE_MS } from "../credentials/runner/saga-runner.ts";
import { refuse } from "../lib/result.ts";
import { retryWhileFrozen } from "../platform/durable/snapshot/frozen.ts";
import { badRequest, notFound, refusalError, unwrap } from "../platform/http/errors.ts";
import { flag } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { credentialEngine } from "../rpc/stubs.ts";
import { dryRunRoute } from "./engine-dry-run.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type Asked, inMount, type MountCall, type SecretsRoute } from "./server/route.ts";
import { refuseHead } from "./server/unsent.ts";
import { writeRights } from "./server/write-rights.ts";

/** Routes of a mount of an engine, relative to it. The type of the engine has their paths, bodies and answers. */

/** Timeout for issuing credentials or creating a role: the job's own deadline plus a margin. */
const REQUEST_MS = 88_000;
/** A rotation answers once it is durable; verifying the new secret may take minutes. */
const ROTATION_MS = 25_000;
/** Of removals, logins, and work behind an answer. */
const OTHER_MS = 25_000;
const MAX_KEY_LENGTH = 256;

const mountType = ({ dialect, mount }: MountCall): string => translateMountType(dialect, mount.type);
const engine = ({ env, mount }: MountCall) => credentialEngine(env, mount.uuid);

/** A role's name as stored. An invalid name is an unknown path. @param prefix the beginning of names of its kind */
function roleName(call: MountCall<"name">, prefix: string): string {
  const name = engineType(call.mount.type).roles.nameOf(call.params.name);
  if (name === null) throw notFound("unsupported path");
  return prefix + name;
}

/** Completes a request's job; a refusal becomes its answer, and clean-up starts in the background. */
async function ended(
  call: MountCall,
  started: Started,
  budgetMs: number,
  caller: AbortSignal | null = null,
): Promise<Extract<JobEnd, { ok: true }> | null> {
  const end = await performJob(call.env, call.mount.uuid, started, budgetMs, caller);
  if (end === null || !end.ok || started.wanted.kind === "rotation") cleanUpBehind(call);
  if (end && !end.ok) throw refusalError(end);
  // A job that continues in the background has not ended.
  return end?.goesOnAt === null ? end : null;
}

/** Performs remaining work in the background. After a failure the wake-up or the alarm retries it. */
const cleanUpBehind = (call: MountCall): void =>
  call.exec.waitUntil(performJobs(call.env, call.mount.uuid, { budgetMs: OTHER_MS }).catch(() => undefined));

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
const MetadataQuery = z.object({ metadata: query.every(metadataMap()) });

/** The parameters in the query of a GET. */
const issueQuery = ({ issue: { request } }: EngineType) =>
  MetadataQuery.extend({ verify: query.flag(), ...request?.shape });

/** The metadata of a role, for an engine of the deployment before this one. */
async function metadataOf(call: MountCall, name: string): Promise<Readonly<Record<string, string>> | undefined> {
  const role = await engine(call).role(name);
  return role.ok ? (role.value["metadata"] as Record<string, string> | undefined) : undefined;
}

/** The parameters of a request for credentials, from the query or from the body of a POST. */
type IssueParameters = Readonly<Record<string, unknown>> & { readonly verify?: unknown };

/** The body of a request for credentials of a type with parameters. */
const issueBody = (request: z.ZodObject) => request.extend({ verify: flag().optional() });

/** @param at the path below the mount, which begins the lease's id */
async function issue(
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
  const started = unwrap(await engine(call).issue(ask));
  // Other requests may wait for a shared lease.
  const caller = started.shared ? null : leaves;
  const end = await ended(call, started, REQUEST_MS, caller);
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

/** The routes of the configuration: itself, and its further documents. */
const configRoutes = ({ config, description: { paths, keepsConfig } }: EngineType): SecretsRoute[] => [
  inMount({
    verb: "GET",
    path: paths.config,
    handle: async (call) =>
      envelope(call, { data: unwrap(await engine(call).config(call.mount.type)), mountType: mountType(call) }),
  }),
  inMount({
    verb: "POST",
    path: paths.config,
    fresh: true,
    ...(!config.alwaysUpdates && ({ creates: true } as const)),
    body: config.body,
    handle: async (call, body) => {
      const { env, mount, request } = call;
      const home = body["identity_token_audience"] ? await homeOf(env, mount, request.url) : null;
      const held = config.alwaysUpdates ? null : writeRights(call);
      unwrap(await engine(call).setConfig(body, call.dialect, home, mount.type, null, held));
      return noContent();
    },
  }),
  ...(keepsConfig
    ? []
    : [
        inMount({
          verb: "DELETE",
          path: paths.config,
          fresh: true,
          handle: async (call) => {
            unwrap(await engine(call).deleteConfig());
            return noContent();
          },
        }),
      ]),
  ...Object.entries(config.documents ?? {}).flatMap(([path, { body }]) => [
    inMount({
      verb: "GET",
      path,
      handle: async (call) =>
        envelope(call, { data: unwrap(await engine(call).config(call.mount.type, path)), mountType: mountType(call) }),
    }),
    inMount({
      verb: "POST",
      path,
      fresh: true,
      body,
      handle: async (call, given) => {
        unwrap(await engine(call).setConfig(given, call.dialect, null, call.mount.type, path));
        return noContent();
      },
    }),
  ]),
];

const rotateRoute = (path: string): SecretsRoute =>
  inMount({
    verb: "POST",
    path,
    fresh: true,
    handle: async (call) => {
      const end = await ended(call, unwrap(await engine(call).rotateRoot(call.mount.type)), ROTATION_MS);
      const warnings = end?.warnings ?? ["the new secret is made and comes into use as soon as it works everywhere"];
      const data = end?.data;
      return warnings.length === 0 && !data
        ? noContent()
        : envelope(call, { data, warnings, mountType: mountType(call) });
    },
  });

const roleRoutes = ({ roles, description }: EngineType, kind: RoleKind): SecretsRoute[] => {
  const { updatesRoles, deletesAnyRole } = description;
  const prefix = prefixOf(description, kind);
  const { lists = [kind.path], rotate = [] } = kind;
  const one = `${kind.path}/:name` as "/:name";
  return [
    ...lists.map((path) =>
      inMount({
        verb: "LIST",
        path,
        handle: async (call) => {
          const keys: string[] = [];
          for (let page = await engine(call).roleNames("", prefix); page.length > 0; ) {
            keys.push(...page);
            page = await engine(call).roleNames(keys.at(-1) ?? "", prefix);
          }
          return keyList(call, keys, {}, mountType(call));
        },
      }),
    ),
    ...rotate.map((path) =>
      inMount({
        verb: "POST",
        path: path as "/:name",
        fresh: true,
        handle: async (call) => {
          const at = path.slice(1);
          const started = unwrap(await engine(call).rotateRole(roleName(call, prefix), at, call.dialect));
          return written(call, await ended(call, started, REQUEST_MS));
        },
      }),
    ),
    inMount({
      verb: "GET",
      path: one,
      handle: async (call) => {
        const role = unwrap(await engine(call).role(roleName(call, prefix)));
        return envelope(call, { data: roles.translate(call.dialect, role), mountType: mountType(call) });
      },
    }),
    ...[one, ...(kind.writes ?? [])].map((path) =>
      inMount({
        verb: "POST",
        path: path as "/:name",
        fresh: true,
        ...(!updatesRoles && ({ creates: true } as const)),
        body: roles.kinds?.[path === one ? kind.path : path] ?? roles.body,
        handle: async (call, body) => {
          const name = roleName(call, prefix);
          const { dialect, mount } = call;
          const held = updatesRoles ? null : writeRights(call);
          const started = unwrap(await engine(call).writeRole(name, body, dialect, mount.type, mount.config, held));
          const answer = written(call, await ended(call, started, REQUEST_MS));
          if (!kind.answersWrites) return answer;
          const role = unwrap(await engine(call).role(name));
          return envelope(call, { data: roles.translate(call.dialect, role), mountType: mountType(call) });
        },
      }),
    ),
    inMount({
      verb: "DELETE",
      path: one,
      fresh: true,
      handle: async (call) => {
        const deleted = await engine(call).deleteRole(roleName(call, prefix));
        if (deletesAnyRole && !deleted.ok && deleted.reason === "missing") return noContent();
        const removal = unwrap(deleted);
        if (!removal) return noContent();
        const until = Date.now() + OTHER_MS;
        const end = await performRemoval(call.env, call.mount.uuid, removal, { end: until, verifyUntil: until });
        if (end?.ok && end.goesOnAt === null) return noContent();
        const because = end === null || end.ok ? "" : `: ${end.message}`;
        const warnings = [
          `the role is deleted; removing its ${kind.owns ?? "resources"} is tried again until it succeeds${because}`,
        ];
        return envelope(call, { warnings, mountType: mountType(call) });
      },
    }),
  ];
};

/** The answer to a write of a role. @param end null while the write goes on */
function written(call: MountCall, end: { readonly warnings: readonly string[] } | null): Response {
  if (end === null) throw refusalError(unfinished("the role"));
  const { warnings } = end;
  return warnings.length === 0 ? noContent() : envelope(call, { warnings, mountType: mountType(call) });
}

/** The routes of one path that issues credentials. @param prefix the beginning of names of the kind of its roles */
function issueRoutes(type: EngineType, path: string, prefix: string): SecretsRoute[] {
  const pattern = (path.includes("/:name") ? path : `${path}/:name`) as "/:name";
  const at = path.slice(1);
  const { request } = type.issue;
  return [
    inMount({
      verb: "GET",
      path: pattern,
      query: issueQuery(type),
      handle: (call) => {
        const { metadata: _, ...parameters } = call.asked;
        return issue(call, roleName(call, prefix), at, parameters);
      },
    }),
    ...(request
      ? [
          inMount({
            verb: "POST",
            path: pattern,
            fresh: true,
            query: MetadataQuery,
            body: issueBody(request),
            handle: (call, parameters) => issue(call, roleName(call, prefix), at, parameters),
          }),
        ]
      : []),
  ];
}

/** The route of a path that answers kept credentials. @param prefix the beginning of names of the kind of its roles */
const readRoute = (path: string, prefix: string): SecretsRoute =>
  inMount({
    verb: "GET",
    path: `${path}/:name` as "/:name",
    query: MetadataQuery,
    handle: async (call) => {
      const data = unwrap(await engine(call).keptCredentials(roleName(call, prefix)));
      // That of the role is the operator's.
      const metadata = { ...call.asked.metadata, ...(data["metadata"] as Record<string, string> | undefined) };
      return envelope(call, {
        data: { ...data, ...(Object.keys(metadata).length > 0 && { metadata }) },
        mountType: mountType(call),
      });
    },
  });

/** The route of a path that logs in with kept credentials. @param prefix the beginning of names of the kind of its roles */
const loginRoute = (type: EngineType, { body, step, data }: KeptLogin, path: string, prefix: string): SecretsRoute =>
  inMount({
    verb: "POST",
    path: path as "/:name",
    fresh: true,
    body,
    handle: async (call, asked) => {
      const kept = unwrap(await engine(call).keptCredentials(roleName(call, prefix)));
      const account = unwrap(await engine(call).account());
      const token = unwrap(await performRead(call.env, { type, account }, step(kept, asked), OTHER_MS));
      // The login takes time, and the right may have gone since.
      await call.recheck();
      return envelope(call, { data: data(token), mountType: mountType(call) });
    },
  });

/** The routes of mounts of a type. */
export function engineRoutes(type: EngineType): SecretsRoute[] {
  const { description } = type;
  const { rotate, dryRun } = description.paths;
  const login = type.roles.kept?.login;
  const kinds = kindsOf(description);
  return [
    ...configRoutes(type),
    ...(rotate === null ? [] : [rotateRoute(rotate)]),
    ...(dryRun !== undefined && type.dryRun ? [dryRunRoute(type.dryRun, dryRun)] : []),
    ...kinds.flatMap((kind) => roleRoutes(type, kind)),
    ...kinds.flatMap((kind) => (kind.reads ?? []).map((path) => readRoute(path, prefixOf(description, kind)))),
    ...kinds.flatMap((kind) =>
      login ? (kind.logins ?? []).map((path) => loginRoute(type, login, path, prefixOf(description, kind))) : [],
    ),
    ...kinds.flatMap((kind) => kind.issue.flatMap((path) => issueRoutes(type, path, prefixOf(description, kind)))),
  ];
}
