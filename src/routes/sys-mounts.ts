import { untunedTokenMethod } from "../access/auth-methods/token-methods.ts";
import { MountRequest, TuneRequest } from "../access/mounts/mounts.ts";
import { namespacePath } from "../access/namespaces/namespaces.ts";
import { translateMountType } from "../compat/engine-names.ts";
import type { Grant } from "../contracts/access-control.ts";
import type { ListedMount } from "../contracts/mount.ts";
import { isEngine } from "../credentials/engines/descriptions.ts";
import { emptyEngine } from "../credentials/runner/job-worker.ts";
import { parseFlag } from "../lib/go-bool.ts";
import { namespaceOf } from "../platform/http/caller.ts";
import { denied, RequestError, unwrap } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type AuthorisedCall, type Call, open, secrets } from "./server/route.ts";
import { authRecord, mountRecord, publicAuthRecord, tunedRecord } from "./sys-auth.ts";

/** The mount table (https://developer.hashicorp.com/vault/api-docs/system/mounts). */

const wirePath = (call: AuthorisedCall<"path">): string => call.params.path;

/** The options of a mount; null for a built-in one, and for a KV mount without any, which is version 1. */
const optionsOf = ({ type, options }: Pick<ListedMount, "type" | "options">): ListedMount["options"] | null =>
  !isEngine({ type }) && Object.keys(options).length === 0 ? null : options;

/** Whether a mount is one of each namespace, which no plugin makes. */
const isBuiltIn = ({ type }: Pick<ListedMount, "type">): boolean => type !== "kv" && !isEngine({ type });

const record = ({ dialect }: Call, mount: ListedMount) => ({
  ...mountRecord(mount),
  type: translateMountType(dialect, mount.type),
  options: optionsOf(mount),
  deprecation_status: isBuiltIn(mount) ? "" : "supported",
});

const tuned = (mount: ListedMount) => tunedRecord(mount, optionsOf(mount));

/** The answer to a change of a mount, with a warning about an option that is stored and has no effect. */
function withoutEffect(call: Call, options: Readonly<Record<string, string>> | null | undefined): Response {
  if (parseFlag(options?.["leased_passthrough"] ?? "") !== true) return noContent();
  const warning = "options.leased_passthrough has no effect: reads have a lease_duration, and no lease";
  return envelope(call, { warnings: [warning] });
}

const byPath = (call: Call, mounts: readonly ListedMount[]) =>
  Object.fromEntries(mounts.map((mount) => [mount.path, record(call, mount)]));

const find = async (call: AuthorisedCall<"path">): Promise<ListedMount> =>
  unwrap(await accessControl(call.env).readMount(call.grant.namespace, wirePath(call).replace(/\/tune$/, "")));

/** Mounts visible to a caller. Without a valid token: those with public `listing_visibility`, with fewer fields. */
async function listVisible(call: Call): Promise<Response> {
  const caller = await callerOf(call);
  const namespace = caller ? caller.namespace : unwrap(namespacePath(namespaceOf(call.request.headers)));
  const accessor = caller?.identity.accessor ?? null;
  const mounts = await accessControl(call.env).visibleMounts(accessor, namespace);
  const { methods, ...former } = await accessControl(call.env).visibleAuthMounts(accessor, namespace);
  const secret = caller ? byPath(call, mounts) : Object.fromEntries(mounts.map((mount) => anonymous(call, mount)));
  const shown = caller ? authRecord : publicAuthRecord;
  const known = former.token && caller ? [untunedTokenMethod(namespace, caller.namespaceId), ...methods] : methods;
  const auth = Object.fromEntries(known.map((method) => [method.path, shown(method)]));
  return envelope(call, { data: { secret, auth } });
}

/** The grant of a caller; null without a valid token. */
async function callerOf(call: Call): Promise<Grant | null> {
  if (call.token === null) return null;
  try {
    return await call.identify();
  } catch (failure) {
    if (failure instanceof RequestError && failure.status === 403) return null;
    throw failure;
  }
}

/** A mount as callers without a token see it. */
const anonymous = ({ dialect }: Call, { path, type, description, options }: ListedMount) =>
  [path, { type: translateMountType(dialect, type), description, options: optionsOf({ type, options }) }] as const;

/** The mount or auth method that contains a path, for a caller with any right on it. @throws RequestError 403 */
async function readVisible(call: AuthorisedCall<"path">): Promise<Response> {
  const { namespace, identity } = call.grant;
  const [wanted, access] = [wirePath(call), accessControl(call.env)];
  const relative = (at: string, path: string): string => `${at.slice(namespace.length)}${path}`;
  const auth = await access.visibleAuthMount(identity.accessor, namespace, wanted);
  if (auth) {
    const mount = auth.mount === "token" ? untunedTokenMethod(namespace, call.grant.namespaceId) : auth.mount;
    const path = relative(auth.namespace, mount.path);
    return envelope(call, { data: { ...authRecord(mount), path } });
  }
  const mount = await access.visibleMount(identity.accessor, namespace, wanted);
  // Never 404: clients would assume a server without versioned secrets.
  if (!mount) {
    const folder = JSON.stringify(wanted.replace(/\/*$/, "/"));
    throw denied(
      `preflight capability check returned 403, please ensure client's policies grant access to path ${folder}`,
    );
  }
  // The path relative to the request's namespace: the requested path may lead into another one.
  return envelope(call, { data: { ...record(call, mount), path: relative(mount.namespace, mount.path) } });
}

export const mountTableRoutes = [
  secrets("GET /sys/mounts", { fresh: true }, async (call) =>
    envelope(call, {
      data: byPath(call, await accessControl(call.env).listMounts(call.grant.namespace)),
      flat: true,
    }),
  ),
  secrets("GET /sys/mounts/:path+/tune", { fresh: true }, async (call) =>
    envelope(call, { data: tuned(await find(call)), flat: true }),
  ),
  secrets("POST /sys/mounts/:path+/tune", { fresh: true, body: TuneRequest }, async (call, body) => {
    unwrap(await accessControl(call.env).tuneMount(call.grant.namespace, wirePath(call), body));
    return withoutEffect(call, body.options);
  }),
  secrets("GET /sys/mounts/:path+", { fresh: true }, async (call) =>
    envelope(call, { data: record(call, await find(call)), flat: true }),
  ),
  secrets("POST /sys/mounts/:path+", { fresh: true, body: MountRequest }, async (call, body) => {
    unwrap(await accessControl(call.env).enableMount(call.grant.namespace, wirePath(call), body));
    return withoutEffect(call, body.options);
  }),
  secrets("DELETE /sys/mounts/:path+", { fresh: true }, async (call) => {
    const mount = await accessControl(call.env).readMount(call.grant.namespace, wirePath(call));
    if (mount.ok && isEngine(mount.value)) unwrap(await emptyEngine(call.env, mount.value));
    unwrap(await accessControl(call.env).disableMount(call.grant.namespace, wirePath(call)));
    return noContent();
  }),
  open("GET /sys/internal/ui/mounts", listVisible),
  secrets("GET /sys/internal/ui/mounts/:path+", { access: "token", fresh: true }, readVisible),
];
