import * as z from "zod";
import { may } from "../access/authorize/authorize-cached.ts";
import { badRequest, denied, unwrap } from "../platform/http/errors.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { checkParameters } from "../rights/path-rules.ts";
import { accessControl } from "../rpc/stubs.ts";
import { SecretBody } from "./kv/routes-v1.ts";
import { envelope, rawEnvelope, storedAnswer, wrapEnvelope } from "./server/respond.ts";
import { type Call, open, secrets } from "./server/route.ts";

/**
 * Wrapped answers (https://developer.hashicorp.com/vault/api-docs/system/wrapping-unwrap). A wrapping token authorizes
 * its own use, in the header or in the body, so these routes need no other token.
 */

const Token = z.object({ token: z.string().optional() });
type Token = z.infer<typeof Token>;

/** The wrapping token of a request: in the body, or the caller's own. @throws RequestError 400 without one */
function named(call: Call, { token }: Token): string {
  const wrapping = token || call.token;
  if (!wrapping) throw badRequest('missing "token" value in input');
  return wrapping;
}

/**
 * Like `named`, for use of the wrapping token. Another token in the header needs the right on the path.
 * @throws RequestError 403
 */
async function used(call: Call, body: Token): Promise<string> {
  const wrapping = named(call, body);
  if (call.token === null || call.token === wrapping) return wrapping;
  const grant = await call.identify();
  if (!may(grant, "update")) throw denied();
  const checked = grant.constraints ? checkParameters(grant.constraints, body) : { ok: true as const };
  if (!checked.ok) throw denied(`permission denied: ${checked.message}`);
  return wrapping;
}

async function lookup(call: Call, body: Token): Promise<Response> {
  return envelope(call, { data: unwrap(await accessControl(call.env).lookupWrapping(named(call, body))) });
}

export const wrappingRoutes = [
  secrets(
    "POST /sys/wrapping/wrap",
    { fresh: true, body: SecretBody, exact: true, whole: true },
    async (call, body) => {
      if (call.wrapTtl === 0) throw badRequest("endpoint requires response wrapping to be used");
      return rawEnvelope(call, JSON.stringify(body), "system");
    },
  ),
  open("POST /sys/wrapping/unwrap", { body: Token }, async (call, body) => {
    const unwrapped = unwrap(await accessControl(call.env).unwrap(await used(call, body)));
    recordAction("answer-unwrapped", { requestId: call.requestId, accessor: unwrapped.accessor });
    return storedAnswer(unwrapped.body);
  }),
  open("GET /sys/wrapping/lookup", { unwrapped: true }, (call) => lookup(call, {})),
  open("POST /sys/wrapping/lookup", { unwrapped: true, body: Token }, lookup),
  open("POST /sys/wrapping/rewrap", { unwrapped: true, body: Token }, async (call, body) => {
    const info = unwrap(await accessControl(call.env).rewrap(await used(call, body)));
    recordAction("answer-wrapped", { requestId: call.requestId, accessor: info.accessor });
    return wrapEnvelope(call, info);
  }),
];
