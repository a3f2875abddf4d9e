import { type Mount, MountRequest, TuneRequest } from "../access/mounts.ts";
import { SYSTEM_MAX_TTL } from "../access/token.ts";
import { denied, unwrap } from "../http/errors.ts";
import { envelope, noContent } from "../http/respond.ts";
import { type AuthorisedCall, secrets } from "../http/route.ts";
import { accessControl } from "../objects/stubs.ts";

/** The mount table (contract: clients 2.2). */

const wirePath = (call: AuthorisedCall): string => call.params["path"] ?? "";

const record = (mount: Mount) => ({
  type: mount.type,
  description: mount.description,
  accessor: mount.accessor,
  uuid: mount.uuid,
  local: false,
  seal_wrap: false,
  external_entropy_access: false,
  options: mount.options,
  plugin_version: "",
  running_plugin_version: "",
  running_sha256: "",
  deprecation_status: "supported",
  config: mount.config,
});

const tuned = (mount: Mount) => ({
  description: mount.description,
  default_lease_ttl: mount.config.default_lease_ttl || SYSTEM_MAX_TTL,
  max_lease_ttl: mount.config.max_lease_ttl || SYSTEM_MAX_TTL,
  force_no_cache: mount.config.force_no_cache,
  options: mount.options,
  ...(mount.config.listing_visibility !== "" && { listing_visibility: mount.config.listing_visibility }),
});

const byPath = (mounts: readonly Mount[]) => Object.fromEntries(mounts.map((mount) => [mount.path, record(mount)]));

const find = async (call: AuthorisedCall): Promise<Mount> =>
  unwrap(await accessControl(call.env).readMount(call.grant.namespace, wirePath(call).replace(/\/tune$/, "")));

export const mountTableRoutes = [
  secrets({
    verb: "GET",
    path: "/sys/mounts",
    fresh: true,
    handle: async (call) =>
      envelope(call, { data: byPath(await accessControl(call.env).listMounts(call.grant.namespace)), flat: true }),
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
    handle: async (call) => envelope(call, { data: record(await find(call)), flat: true }),
  }),
  secrets({
    verb: "POST",
    path: "/sys/mounts/:path+",
    fresh: true,
    creates: true,
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
      unwrap(await accessControl(call.env).disableMount(call.grant.namespace, wirePath(call)));
      return noContent();
    },
  }),
  secrets({
    verb: "GET",
    path: "/sys/internal/ui/mounts",
    access: "token",
    fresh: true,
    handle: async (call) => {
      const visible = await accessControl(call.env).visibleMounts(call.grant.identity.accessor, call.grant.namespace);
      return envelope(call, { data: { secret: byPath(visible), auth: {} } });
    },
  }),
  secrets({
    verb: "GET",
    path: "/sys/internal/ui/mounts/:path+",
    access: "token",
    fresh: true,
    handle: async (call) => {
      const { namespace, identity } = call.grant;
      const visible = await accessControl(call.env).visibleMounts(identity.accessor, namespace);
      const mount = visible.find(({ path }) => `${wirePath(call)}/`.startsWith(path));
      // Never 404: clients take that for a server without versioned secrets.
      if (!mount)
        throw denied(
          `preflight capability check returned 403: no access to a mount at ${JSON.stringify(wirePath(call))}`,
        );
      return envelope(call, { data: { ...record(mount), path: mount.path } });
    },
  }),
];
