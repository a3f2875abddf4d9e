import type { DestinationKey } from "../contracts/destination.ts";
import type { Mount } from "../contracts/mount.ts";
import type { SyncDestinationApi } from "../contracts/sync-destination.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import { badRequest, notFound } from "../platform/http/errors.ts";
import { isVersioned } from "../rights/mount-routes.ts";
import { destinationName } from "../rpc/destination-name.ts";
import { accessControl, syncDestination } from "../rpc/stubs.ts";
import { typeOf } from "../sync/configuration/definition.ts";
import { performWork } from "../sync/worker/perform.ts";
import type { AuthorisedCall } from "./server/route.ts";

/** Shared by the sync routes: destination, mount, and inline work. */

/** A dry run must never remove anything. */
export const NO_DRY_REMOVAL =
  "dry_run: only a write of a destination and a set of an association can be looked at ahead";

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
/** Time limit for performing a change before its request is answered. */
const INLINE_MS = 2_000;
/** Time for pushes of many associations after the answer. */
const PUSH_MS = 10_000;

/** The name of a destination or an application in a path. @throws RequestError 400 */
export function checkedName(name: string): string {
  if (!NAME.test(name))
    throw badRequest("name: must be 1 to 128 letters, digits, _ . - and begin with a letter or digit");
  return name;
}

/** The destination in a path. @throws RequestError 404 for an unknown type, 400 for an invalid name */
export function keyOf(call: AuthorisedCall<"name" | "type">): DestinationKey {
  return { namespace: call.grant.namespace, type: checkedType(call), name: checkedName(call.params.name) };
}

/** The destination type in a path. @throws RequestError 404 */
export function checkedType({ params: { type } }: AuthorisedCall<"type">): string {
  if (!typeOf(type)) throw notFound(`unsupported path: no destination type ${JSON.stringify(type.slice(0, 64))}`);
  return type;
}

export const destinationAt = (call: AuthorisedCall, key: DestinationKey): Remote<SyncDestinationApi> =>
  syncDestination(call.env, destinationName(key));

/** A mount's path without surrounding slashes. */
export const slashless = (mount: string): string => mount.replace(/^\/+|\/+$/g, "");

export async function mountAt(call: AuthorisedCall, path: string): Promise<Mount | null> {
  const mount = await accessControl(call.env).findMount(call.grant.namespace, slashless(path));
  return mount && slashless(mount.path) === slashless(path) ? mount : null;
}

/** A mount whose secrets can be synced. @throws RequestError 400 */
export async function versionedMountAt(call: AuthorisedCall, path: string): Promise<Mount> {
  const mount = await mountAt(call, path);
  if (!mount) throw badRequest(`mount: no secret engine mount at ${slashless(path)}/`);
  if (!isVersioned(mount)) throw badRequest(`mount: ${mount.path} is no KV version 2 mount, which alone can be synced`);
  return mount;
}

/** Performs the work of a destination behind the answer, for `PUSH_MS`. */
export function pushBehind(call: AuthorisedCall, key: DestinationKey): void {
  const run = performWork(call.env, destinationName(key), { budgetMs: PUSH_MS }).catch(() => undefined);
  call.exec.waitUntil(run);
}

/** Performs the work of one association within the inline limit; the rest continues in the background. */
export async function tryNow(call: AuthorisedCall, key: DestinationKey, id: string): Promise<void> {
  const run = performWork(call.env, destinationName(key), { budgetMs: INLINE_MS, only: id }).catch(() => undefined);
  call.exec.waitUntil(run);
  await Promise.race([run, scheduler.wait(INLINE_MS)]);
}
