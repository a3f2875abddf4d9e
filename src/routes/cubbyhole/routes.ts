import { WRAPPING_POLICY_NAME } from "../../access/policies/policy-parser.ts";
import type { CubbyholeOwner } from "../../contracts/cubbyhole.ts";
import { badRequest, unwrap } from "../../platform/http/errors.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { SecretBody } from "../kv/routes-v1.ts";
import { path } from "../kv/shared.ts";
import { keyList, noContent, rawEnvelope } from "../server/respond.ts";
import { type AuthorisedCall, secrets } from "../server/route.ts";
import { refuseHead } from "../server/unsent.ts";
import { writeRights } from "../server/write-rights.ts";

/** The private storage of the caller's token (https://developer.hashicorp.com/vault/api-docs/secret/cubbyhole). */

const DEPRECATED =
  "Reading from 'cubbyhole/response' is deprecated. Please use sys/wrapping/unwrap to unwrap responses, as it provides additional security checks and other benefits.";

/** @throws RequestError 400 for batch tokens, which have no private storage */
function ownerOf({ grant }: AuthorisedCall): CubbyholeOwner {
  if (grant.identity.batch) throw badRequest(`cubbyhole operations are only supported by "service" type tokens`);
  return { accessor: grant.identity.accessor, namespaceId: grant.namespaceId };
}

async function list(call: AuthorisedCall<never, "path">): Promise<Response> {
  const { path: text = "" } = call.params;
  const folder = text === "" || text.endsWith("/") ? text : `${text}/`;
  const keys = await accessControl(call.env).listCubbyhole(ownerOf(call), folder);
  return keyList(call, keys, {}, "cubbyhole");
}

export const cubbyholeRoutes = [
  secrets("LIST /cubbyhole", { fresh: true }, list),
  secrets("LIST /cubbyhole/:path+", { fresh: true }, list),
  secrets("GET /cubbyhole/:path+", { fresh: true }, async (call) => {
    const { accessor, policies } = call.grant.identity;
    const isWrapped = policies.includes(WRAPPING_POLICY_NAME);
    if (isWrapped) refuseHead(call);
    const text = unwrap(await accessControl(call.env).readCubbyhole(ownerOf(call), path(call)));
    if (isWrapped) recordAction("answer-unwrapped", { requestId: call.requestId, accessor });
    return rawEnvelope(call, text, "cubbyhole", { warnings: isWrapped ? [DEPRECATED] : [] });
  }),
  secrets(
    "POST /cubbyhole/:path+",
    { creates: true, body: SecretBody, exact: true, whole: true },
    async (call, body) => {
      const at = path(call);
      if (Object.keys(body).length === 0) throw badRequest("missing data fields");
      unwrap(await accessControl(call.env).writeCubbyhole(ownerOf(call), at, JSON.stringify(body), writeRights(call)));
      return noContent();
    },
  ),
  secrets("DELETE /cubbyhole/:path+", async (call) => {
    await accessControl(call.env).deleteCubbyhole(ownerOf(call), path(call));
    return noContent();
  }),
];
