import type * as z from "zod";
import { AccessorBody, CustomSecretIdBody, SecretIdBody, SecretIdRequestBody } from "../auth/approle/secret-ids.ts";
import { APPROLE, type ApproleName, type SecretIdName } from "../contracts/approle.ts";
import { notFound, unwrap } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { inMethod, type MethodCall } from "./server/route.ts";

/** Secret ids of roles (https://developer.hashicorp.com/vault/api-docs/auth/approle#generate-new-secret-id). */

/** Names are compared in lower case, as upstream does. */
export const roleOf = (call: MethodCall<"name">): ApproleName => ({
  mount: call.authMount.uuid,
  role: call.params.name.toLowerCase(),
});

async function issue(
  call: MethodCall<"name">,
  body: z.infer<typeof SecretIdRequestBody>,
  secretId: string | null,
): Promise<Response> {
  const request = {
    secretId,
    metadata: body.metadata ?? {},
    cidrList: body.cidr_list ?? [],
    tokenBoundCidrs: body.token_bound_cidrs ?? [],
    numUses: body.num_uses,
    ttl: body.ttl,
  };
  const data = unwrap(await accessControl(call.env).issueSecretId(roleOf(call), request));
  return envelope(call, { data, mountType: APPROLE });
}

async function lookup(call: MethodCall<"name">, name: SecretIdName): Promise<Response> {
  const data = unwrap(await accessControl(call.env).lookupSecretId(roleOf(call), name));
  if (data) return envelope(call, { data, mountType: APPROLE });
  // Of upstream: only accessors are reported as unknown.
  if ("secretId" in name) return noContent();
  throw notFound("failed to find accessor entry for secret_id_accessor");
}

async function destroy(call: MethodCall<"name">, name: SecretIdName): Promise<Response> {
  const existed = unwrap(await accessControl(call.env).destroySecretId(roleOf(call), name));
  if (existed || "secretId" in name) return noContent();
  throw notFound("failed to find accessor entry for secret_id_accessor");
}

const destroyRoutes = (verb: "POST" | "DELETE") => [
  inMethod(`${verb} /role/:name/secret-id/destroy`, { fresh: true, body: SecretIdBody }, (call, body) =>
    destroy(call, { secretId: body.secret_id }),
  ),
  inMethod(`${verb} /role/:name/secret-id-accessor/destroy`, { fresh: true, body: AccessorBody }, (call, body) =>
    destroy(call, { accessor: body.secret_id_accessor }),
  ),
];

export const secretIdRoutes = [
  inMethod("LIST /role/:name/secret-id", { fresh: true }, async (call) =>
    keyList(call, unwrap(await accessControl(call.env).secretIdAccessors(roleOf(call))), {}, APPROLE),
  ),
  inMethod("POST /role/:name/secret-id", { fresh: true, body: SecretIdRequestBody }, (call, body) =>
    issue(call, body, null),
  ),
  inMethod("POST /role/:name/custom-secret-id", { fresh: true, body: CustomSecretIdBody }, (call, body) =>
    issue(call, body, body.secret_id),
  ),
  inMethod("POST /role/:name/secret-id/lookup", { fresh: true, body: SecretIdBody }, (call, body) =>
    lookup(call, { secretId: body.secret_id }),
  ),
  inMethod("POST /role/:name/secret-id-accessor/lookup", { fresh: true, body: AccessorBody }, (call, body) =>
    lookup(call, { accessor: body.secret_id_accessor }),
  ),
  ...destroyRoutes("POST"),
  ...destroyRoutes("DELETE"),
  inMethod("POST /tidy/secret-id", { fresh: true }, async (call) => {
    await accessControl(call.env).tidySecretIds(call.authMount.uuid);
    const warnings = ["Tidy operation successfully started. Expired secret ids are removed."];
    return envelope(call, { warnings, mountType: APPROLE, status: 202 });
  }),
];
