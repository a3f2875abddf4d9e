import type { Actor, ReadVersion } from "../../contracts/kv-store.ts";
import type { Refusal } from "../../lib/result.ts";
import { badRequest, notFound } from "../../platform/http/errors.ts";
import { unmatched } from "../../platform/http/methods.ts";
import type { Verb } from "../../platform/http/target.ts";
import { kvStore } from "../../rpc/stubs.ts";
import { envelope } from "../server/respond.ts";
import type { AuthorisedCall, Call, MountCall } from "../server/route.ts";

/** Shared by the routes of KV mounts of both versions. */

/** A call about one path of a mount. */
export type PathCall = MountCall<"path">;

/** The secrets of the call's mount. */
export const store = ({ env, mount }: MountCall) => kvStore(env, mount.uuid);

/** The caller, for the attribution of versions. */
export const actor = ({ grant: { identity } }: AuthorisedCall): Actor => ({
  actor: identity.name,
  entity_id: identity.entity ?? "",
});

/**
 * The secret's path. A path with a trailing slash is a folder: it cannot be read or written.
 * @throws RequestError 405 at the root, 404 for a read of a folder, 400 for another operation on one
 */
export function path(call: AuthorisedCall<"path">): string {
  const text = call.params.path;
  if (text === "") throw unmatched("secrets", call.grant.path, ["LIST"]);
  if (text.endsWith("/")) {
    if (call.request.method === "GET" || call.request.method === "HEAD") throw notFound();
    throw badRequest("path: a secret's path must not end with a slash");
  }
  if (text.startsWith("/") || text.includes("//")) throw badRequest("path: must not hold an empty segment");
  return text;
}

/**
 * The secret of the call's path, from the replica that authorized the call, or from the store.
 * @param version 0 = the newest
 */
export async function readSecret(call: PathCall, version: number): Promise<ReadVersion | Refusal> {
  const { read } = call.grant;
  const wanted = path(call);
  if (read && read.path === wanted && read.version === version) return read.result;
  return store(call).read(wanted, version);
}

export const answer = (call: Call, data: unknown, status = 200): Response =>
  envelope(call, { data, mountType: "kv", status });

export const warned = (call: Call, warnings: readonly string[], status = 200): Response =>
  envelope(call, { warnings, mountType: "kv", status });

const CLI_COMMAND: Readonly<Record<Verb, string>> = {
  GET: "get",
  LIST: "list",
  POST: "put",
  PATCH: "patch",
  DELETE: "delete",
};

/** The answer to a path in version 1 form below a version 2 mount. */
export const invalidPath = (call: Call, verb: Verb): Response =>
  warned(
    call,
    [
      `Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate API endpoints to use. If using the Vault CLI, use 'vault kv ${CLI_COMMAND[verb]}' for this operation.`,
    ],
    404,
  );
