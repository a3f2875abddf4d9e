import * as z from "zod";
import type { TrialRight } from "../../contracts/policies.ts";
import { badRequest, unwrap } from "../../platform/http/errors.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { envelope } from "../server/respond.ts";
import { type AuthorisedCall, secrets } from "../server/route.ts";

/** Trial of a policy before it is written: the capabilities on paths, with and without it. Changes nothing. */

const MAX_PATHS = 1_000;

const Body = z.object({
  policy: z.string(),
  name: z.string().optional(),
  accessor: z.string().optional(),
  paths: z
    .array(z.string().transform((path) => path.replace(/^\/+/, "")))
    .min(1, "must be supplied")
    .max(MAX_PATHS, `at most ${MAX_PATHS}`),
});

async function tryPolicy(call: AuthorisedCall, body: z.output<typeof Body>): Promise<Response> {
  const { namespace, identity } = call.grant;
  const name = body.name?.toLowerCase() || null;
  const accessor = body.accessor || null;
  if (body.policy.trim() === "") throw badRequest("policy: must be supplied");
  const caller = { accessor: identity.accessor, namespace };
  // The answer tells of the stored policy and of another's token as much as these requests do.
  const rights: TrialRight[] = [];
  if (name !== null) rights.push({ ...caller, path: `sys/policies/acl/${name}`, needs: ["read"], given: {} });
  if (accessor !== null && accessor !== identity.accessor) {
    const given = { accessor, paths: body.paths };
    rights.push({ ...caller, path: "sys/capabilities-accessor", needs: ["update"], given });
  }
  const trial = { namespace, name, text: body.policy, accessor, paths: body.paths, rights };
  return envelope(call, { data: { capabilities: unwrap(await accessControl(call.env).tryPolicy(trial)) } });
}

export const sysPolicyTestRoutes = [secrets("POST /sys/policies/test", { fresh: true, body: Body }, tryPolicy)];
