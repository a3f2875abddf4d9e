import { AuthMountRequest, AuthTuneRequest, tokenMountAccessor } from "../access/auth-methods/auth-mounts.ts";
import { SYSTEM_MAX_TTL } from "../access/tokens/token.ts";
import type { AuthMount } from "../contracts/auth.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { PLUGIN_VERSION } from "../platform/version.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/** The table of auth methods (https://developer.hashicorp.com/vault/api-docs/system/auth). */

type Shown = "type" | "description" | "accessor" | "uuid" | "local" | "seal_wrap" | "options" | "config";

/** A mount as answers show it, of either table. */
export const mountRecord = <Mount extends { readonly [Field in Shown]: unknown }>(mount: Mount) => ({
  type: mount.type,
  description: mount.description,
  accessor: mount.accessor,
  uuid: mount.uuid,
  local: mount.local,
  seal_wrap: mount.seal_wrap,
  external_entropy_access: false,
  options: mount.options,
  plugin_version: "",
  running_plugin_version: PLUGIN_VERSION,
  running_sha256: "",
  deprecation_status: "supported",
  config: mount.config,
});

/** The built-in method of tokens. */
export const tokenRecord = (namespaceId: string) => ({
  ...mountRecord({
    type: "token",
    description: "token based credentials",
    accessor: tokenMountAccessor(namespaceId),
    uuid: `token-${namespaceId}`,
    local: false,
    seal_wrap: false,
    options: null,
    config: { default_lease_ttl: 0, max_lease_ttl: 0, force_no_cache: false, token_type: "default-service" },
  }),
  deprecation_status: "",
});

const tuned = ({ description, options, config: { listing_visibility, ...config } }: AuthMount) => ({
  ...config,
  description,
  default_lease_ttl: config.default_lease_ttl || SYSTEM_MAX_TTL,
  max_lease_ttl: config.max_lease_ttl || SYSTEM_MAX_TTL,
  options,
  ...(listing_visibility !== "" && { listing_visibility }),
});

const isToken = (path: string): boolean => /^token\/?$/.test(path);

const pathOf = (call: AuthorisedCall<"path">): string => call.params.path.replace(/\/tune$/, "");

const find = async (call: AuthorisedCall<"path">): Promise<AuthMount> =>
  unwrap(await accessControl(call.env).readAuthMount(call.grant.namespace, pathOf(call)));

const TOKEN_TUNING = {
  default_lease_ttl: SYSTEM_MAX_TTL,
  max_lease_ttl: SYSTEM_MAX_TTL,
  force_no_cache: false,
  description: "token based credentials",
  token_type: "default-service",
};

/** The routes that read and tune a method at a path. */
const methodRoutes = (path: "/sys/auth/:path+" | "/sys/mounts/auth/:path+", access: "path" | "sudo") => [
  secrets({
    verb: "GET",
    path: `${path}/tune`,
    access,
    fresh: true,
    handle: async (call) =>
      envelope(call, { data: isToken(pathOf(call)) ? TOKEN_TUNING : tuned(await find(call)), flat: true }),
  }),
  secrets({
    verb: "POST",
    path: `${path}/tune`,
    access,
    fresh: true,
    body: AuthTuneRequest,
    handle: async (call, body) => {
      if (isToken(pathOf(call))) throw badRequest('cannot tune "auth/token/"');
      unwrap(await accessControl(call.env).tuneAuthMount(call.grant.namespace, pathOf(call), body));
      return noContent();
    },
  }),
  secrets({
    verb: "GET",
    path,
    access,
    fresh: true,
    handle: async (call) =>
      envelope(call, {
        data: isToken(pathOf(call)) ? tokenRecord(call.grant.namespaceId) : mountRecord(await find(call)),
        flat: true,
      }),
  }),
];

/** A method by the path of its mount: the Go client, `vault auth tune` and Terraform use it, without `sudo`. */
export const mountedMethodRoutes = methodRoutes("/sys/mounts/auth/:path+", "path");

export const authMountRoutes = [
  secrets({
    verb: "GET",
    path: "/sys/auth",
    fresh: true,
    handle: async (call) => {
      const mounts = await accessControl(call.env).listAuthMounts(call.grant.namespace);
      const data = Object.fromEntries(mounts.map((mount) => [mount.path, mountRecord(mount)]));
      return envelope(call, { data: { ...data, "token/": tokenRecord(call.grant.namespaceId) }, flat: true });
    },
  }),
  ...methodRoutes("/sys/auth/:path+", "sudo"),
  secrets({
    verb: "POST",
    path: "/sys/auth/:path+",
    access: "sudo",
    fresh: true,
    body: AuthMountRequest,
    handle: async (call, body) => {
      unwrap(await accessControl(call.env).enableAuthMount(call.grant.namespace, pathOf(call), body));
      return noContent();
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/sys/auth/:path+",
    access: "sudo",
    fresh: true,
    handle: async (call) => {
      if (isToken(pathOf(call))) throw badRequest("token credential backend cannot be disabled");
      unwrap(await accessControl(call.env).disableAuthMount(call.grant.namespace, pathOf(call)));
      return noContent();
    },
  }),
];
