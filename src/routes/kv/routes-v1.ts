import * as z from "zod";
import { clearAuthorizeCache } from "../../access/authorize/authorize-cached.ts";
import { leaseDurationOf } from "../../kv/lease.ts";
import { isPlainObject } from "../../lib/json.ts";
import type { Result } from "../../lib/result.ts";
import { badRequest, notFound, refusalError, unwrap } from "../../platform/http/errors.ts";
import { noContent, rawEnvelope } from "../server/respond.ts";
import { inMount, type MountCall } from "../server/route.ts";
import { writeRights } from "../server/write-rights.ts";
import { list } from "./lists.ts";
import { invalidPath, path, readSecret, store } from "./shared.ts";

/** Routes of a KV version 1 mount, relative to it (https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v1). */

/** The whole body is the secret. An object schema would drop a field with the name `__proto__`. */
export const SecretBody = z.custom<Record<string, unknown>>(isPlainObject);

/** The answer to a write. `conflict` = another isolate upgraded the mount, so it is answered as a version 2 mount. */
function written(call: MountCall, verb: "POST" | "DELETE", result: Result<null>): Response {
  if (!result.ok && result.reason === "conflict") {
    clearAuthorizeCache();
    return invalidPath(call, verb);
  }
  unwrap(result);
  return noContent();
}

export const kvV1Routes = [
  inMount({ verb: "LIST", path: "", scans: true, handle: list }),
  inMount("LIST /:path+", { scans: true }, list),
  inMount("GET /:path+", async (call) => {
    const read = await readSecret(call, 0);
    if (!read.ok) throw refusalError(read);
    if (read.state === "gone") throw notFound();
    return rawEnvelope(call, read.data, "kv", leaseDurationOf(read.data, call.mount.config));
  }),
  inMount("POST /:path+", { creates: true, body: SecretBody, exact: true, whole: true }, async (call, body) => {
    const at = path(call);
    if (Object.keys(body).length === 0) throw badRequest("missing data fields");
    const { givenBack } = call.grant;
    return written(
      call,
      "POST",
      await store(call).putUnversioned(at, JSON.stringify(body), writeRights(call), givenBack),
    );
  }),
  inMount("DELETE /:path+", async (call) =>
    written(call, "DELETE", await store(call).deleteUnversioned(path(call), call.grant.givenBack)),
  ),
];
