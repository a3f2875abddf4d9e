import { authorize } from "../access/authorize/authorize-cached.ts";
import { MountRequest, TuneRequest } from "../access/mounts/mounts.ts";
import { namespacePath } from "../access/namespaces/namespaces.ts";
import { SYSTEM_MAX_TTL } from "../access/tokens/token.ts";
import { translateMountType } from "../compat/cloud-b-names.ts";
import type { ListedMount } from "../contracts/mount.ts";
import { accessControl } from "../contracts/stubs.ts";
import { emptyEngine } from "../credentials/job-worker.ts";
import { namespaceOf } from "../platform/http/caller.ts";
import { denied, refusalError, unwrap } from "../platform/http/errors.ts";
import { parseTarget } from "../platform/http/target.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type AuthorisedCall, type Call, open, secrets } from "./server/route.ts";

/** The mount table (https://developer.hashicorp.com/vault/api-docs/system/mounts). */

const wirePath = (call: AuthorisedCall): string => call.params["path"] ?? "";

/** The options of a mount; null for a built-in one, and for a KV mount without any, which is version 1. */
const optionsOf = ({ type, options }: Pick<ListedMount, "type" | "options">): ListedMount["options"] | null =>
  type !== "cloud-b" && Object.keys(options).length === 0 ? null : options;

const record = ({ dialect }: Call, mount: ListedMount) => ({
  type: translateMountType(dialect, mount.type),
  description: mount.description,
  accessor: mount.accessor,
  uuid: mount.uuid,
  local: mount.local,
  seal_wrap: mount.seal_wrap,
  external_entropy_access: false,
  options: optionsOf(mount),
  plugin_version: "",
  running_plugin_version: "",
  running_sha256: "",
  deprecation_status: "supported",
  config: mount.config,
});

function tuned(mount: ListedMount) {
  const {
    description,
    config: { listing_visibility, ...config },
  } = mount;
  return {
    ...config,
    description,
    default_lease_ttl: config.default_lease_ttl || SYSTEM_MAX_TTL,
    max_lease_ttl: config.max_lease_ttl || SYSTEM_MAX_TTL,
    options: optionsOf(mount),
    ...(listing_visibility !== "" && { listing_visibility }),
  };
}

const byPath = (call: Call, mounts: readonly ListedMount[]) =>
  Object.fromEntries(mounts.map((mount) => [mount.path, record(call, mount)]));

const find = async (call: AuthorisedCall): Promise<ListedMount> =>
  unwrap(await accessControl(call.env).readMount(call.grant.namespace, wirePath(call).replace(/\/tune$/, "")));

/** Mounts visible to a caller. Without a valid token: those with public `listing_visibility`, with fewer fields. */
async function listVisible(call: Call): Promise<Response> {
  const header = namespaceOf(call.request.headers);
  const { path } = parseTarget(call.request, new URL(call.request.url), "secrets");
  const caller = await authorize(call.env, {
    ...{ ask: { token: call.token, namespace: header, path }, fresh: true, location: call.request.cf, version: null },
  });
  if (!caller.ok && caller.reason !== "denied") throw refusalError(caller);
  const namespace = caller.ok ? caller.namespace : unwrap(namespacePath(header));
  const mounts = await accessControl(call.env).visibleMounts(caller.ok ? caller.identity.accessor : null, namespace);
  const anonymous = ({ path, type, description, options }: ListedMount) =>
    [
      path,
      { type: translateMountType(call.dialect, type), description, options: optionsOf({ type, options }) },
    ] as const;
  const secret = caller.ok ? byPath(call, mounts) : Object.fromEntries(mounts.map(anonymous));
  const methods = await accessControl(call.env).listAuthMounts(namespace);
  const auth = methods
    .filter((method) => method.config.listing_visibility === "unauth")
    .map(({ path: at, type, description, options }) => [at, { type, description, options }]);
  return envelope(call, { data: { secret, auth: Object.fromEntries(auth) } });
}

export const mountTableRoutes = [
  secrets({
    verb: "GET",
    path: "/sys/mounts",
    fresh: true,
    handle: async (call) =>
      envelope(call, {
        data: byPath(call, await accessControl(call.env).listMounts(call.grant.namespace)),
        flat: true,
      }),
  }),
  secrets({
    verb: "GET",
    path: "/sys/mounts/:path+/tune",
    fresh: true,
    handle: async (call) => envelope(call, { data: tuned(await find(call)), flat: true }),
  }),
  secrets({
    verb: "POST",
    path: "/sys/mounts/:path+/tune",
    fresh: true,
    body: TuneRequest,
    handle: async (call, body) => {
      unwrap(await accessControl(call.env).tuneMount(call.grant.namespace, wirePath(call), body));
      return noContent();
    },
  }),
  secrets({
    verb: "GET",
    path: "/sys/mounts/:path+",
    fresh: true,
    handle: async (call) => envelope(call, { data: record(call, await find(call)), flat: true }),
  }),
  secrets({
    verb: "POST",
    path: "/sys/mounts/:path+",
    fresh: true,
    body: MountRequest,
    handle: async (call, body) => {
      unwrap(await accessControl(call.env).enableMount(call.grant.namespace, wirePath(call), body));
      return noContent();
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/sys/mounts/:path+",
    fresh: true,
    handle: async (call) => {
      const mount = await accessControl(call.env).readMount(call.grant.namespace, wirePath(call));
      if (mount.ok && mount.value.type === "cloud-b") unwrap(await emptyEngine(call.env, mount.value));
      unwrap(await accessControl(call.env).disableMount(call.grant.namespace, wirePath(call)));
      return noContent();
    },
  }),
  open({ verb: "GET", path: "/sys/internal/ui/mounts", handle: listVisible }),
  secrets({
    verb: "GET",
    path: "/sys/internal/ui/mounts/:path+",
    access: "token",
    fresh: true,
    handle: async (call) => {
      const { namespace, identity } = call.grant;
      const mount = await accessControl(call.env).visibleMount(identity.accessor, namespace, wirePath(call));
      // Never 404: clients would assume a server without versioned secrets.
      if (!mount)
        throw denied(
          `preflight capability check returned 403: no access to a mount at ${JSON.stringify(wirePath(call))}`,
        );
      // The path relative to the request's namespace: the requested path may lead into another one.
      const path = `${mount.namespace.slice(namespace.length)}${mount.path}`;
      return envelope(call, { data: { ...record(call, mount), path } });
    },
  }),
];
