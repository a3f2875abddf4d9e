import { AuthMountRequest, AuthTuneRequest } from "../access/auth-methods/auth-mounts.ts";
import { isTokenMethod, untunedTokenMethod } from "../access/auth-methods/token-methods.ts";
import { SYSTEM_MAX_TTL } from "../access/tokens/token.ts";
import type { ListedAuthMount } from "../contracts/auth.ts";
import type { ListedMount } from "../contracts/mount.ts";
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

/** The options of a method; null for the built-in one without any. */
const optionsOf = ({ type, options }: ListedAuthMount): ListedAuthMount["options"] | null =>
  type === "token" && Object.keys(options).length === 0 ? null : options;

const visibility = ({ config: { listing_visibility } }: Pick<ListedMount | ListedAuthMount, "config">) =>
  listing_visibility === "" ? {} : { listing_visibility };

/** An auth method as answers show it. No plugin makes the built-in one. */
export function authRecord(mount: ListedAuthMount) {
  if (mount.type !== "token") return mountRecord(mount);
  const { listing_visibility: _, ...config } = mount.config;
  const shown = { ...mount, options: optionsOf(mount), config: { ...config, ...visibility(mount) } };
  return { ...mountRecord(shown), deprecation_status: "" };
}

/** An auth method as callers without a token see it. */
export const publicAuthRecord = (mount: ListedAuthMount) => ({
  type: mount.type,
  description: mount.description,
  options: optionsOf(mount),
});

/** The settings of a mount as answers show them, of either table. */
export function tunedRecord<Options>(
  mount: Pick<ListedMount | ListedAuthMount, "config" | "description">,
  options: Options,
) {
  const { listing_visibility: _, ...config } = mount.config;
  return {
    ...config,
    description: mount.description,
    default_lease_ttl: config.default_lease_ttl || SYSTEM_MAX_TTL,
    max_lease_ttl: config.max_lease_ttl || SYSTEM_MAX_TTL,
    options,
    ...visibility(mount),
  };
}

const tuned = (mount: ListedAuthMount) => tunedRecord(mount, optionsOf(mount));

const pathOf = (call: AuthorisedCall<"path">): string => call.params.path.replace(/\/tune$/, "");

async function find(call: AuthorisedCall<"path">): Promise<ListedAuthMount> {
  const { namespace, namespaceId } = call.grant;
  const found = await accessControl(call.env).readAuthMount(namespace, pathOf(call));
  // An object of version 0.2.0 does not know the method of tokens.
  return !found.ok && isTokenMethod(pathOf(call)) ? untunedTokenMethod(namespace, namespaceId) : unwrap(found);
}

/** The routes that read and tune a method at a path. */
const methodRoutes = (path: "/sys/auth/:path+" | "/sys/mounts/auth/:path+", access: "path" | "sudo") => [
  secrets(`GET ${path}/tune`, { access, fresh: true }, async (call) =>
    envelope(call, { data: tuned(await find(call)), flat: true }),
  ),
  secrets(`POST ${path}/tune`, { access, fresh: true, body: AuthTuneRequest }, async (call, body) => {
    unwrap(await accessControl(call.env).tuneAuthMount(call.grant.namespace, pathOf(call), body));
    return noContent();
  }),
  secrets(`GET ${path}`, { access, fresh: true }, async (call) =>
    envelope(call, { data: authRecord(await find(call)), flat: true }),
  ),
];

/** A method by the path of its mount: the Go client, `vault auth tune` and Terraform use it, without `sudo`. */
export const mountedMethodRoutes = methodRoutes("/sys/mounts/auth/:path+", "path");

export const authMountRoutes = [
  secrets("GET /sys/auth", { fresh: true }, async (call) => {
    const { namespace, namespaceId } = call.grant;
    const mounts = await accessControl(call.env).listAuthMounts(namespace);
    // An object of version 0.2.0 lists the others alone.
    const all = [untunedTokenMethod(namespace, namespaceId), ...mounts];
    const data = Object.fromEntries(all.map((mount) => [mount.path, authRecord(mount)]));
    return envelope(call, { data, flat: true });
  }),
  ...methodRoutes("/sys/auth/:path+", "sudo"),
  secrets("POST /sys/auth/:path+", { access: "sudo", fresh: true, body: AuthMountRequest }, async (call, body) => {
    unwrap(await accessControl(call.env).enableAuthMount(call.grant.namespace, pathOf(call), body));
    return noContent();
  }),
  secrets("DELETE /sys/auth/:path+", { access: "sudo", fresh: true }, async (call) => {
    if (isTokenMethod(pathOf(call))) throw badRequest("token credential backend cannot be disabled");
    unwrap(await accessControl(call.env).disableAuthMount(call.grant.namespace, pathOf(call)));
    return noContent();
  }),
];
