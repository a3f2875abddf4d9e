import * as z from "zod";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { stringList } from "../platform/http/fields.ts";
import { withAliases } from "../platform/http/unknown-fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { inPage } from "./server/key-page.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/** Policies of the secrets API: `sys/policies/acl`, and its older form `sys/policy`. */

/** Upstream's wording. */
const required = "'policy' parameter not supplied or empty";
/** The older form's name is `rules`. */
const PolicyBody = withAliases(
  z.preprocess(
    (body) => (typeof body === "object" && body !== null && "rules" in body ? { policy: body.rules, ...body } : body),
    z.object({ policy: z.string(required).refine((text) => text.trim() !== "", required) }),
  ),
  { rules: "policy" },
);

/** A slash at the end of a path is ignored. */
const name = (call: AuthorisedCall<"name">): string => call.params.name.replace(/\/$/, "").toLowerCase();

/** Decodes a document sent as base64; a policy in clear text always contains a character outside base64. */
function documentOf(text: string): string {
  if (text.trim() === "" || !/^[A-Za-z0-9+/\r\n]+={0,2}\s*$/.test(text)) return text;
  return Buffer.from(text, "base64").toString();
}

const read = async (call: AuthorisedCall<"name">) =>
  unwrap(await accessControl(call.env).readPolicy(call.grant.namespace, name(call)));

async function write(call: AuthorisedCall<"name">, { policy }: z.infer<typeof PolicyBody>): Promise<Response> {
  unwrap(await accessControl(call.env).putPolicy(call.grant.namespace, name(call), documentOf(policy)));
  return noContent();
}

async function remove(call: AuthorisedCall<"name">): Promise<Response> {
  unwrap(await accessControl(call.env).deletePolicy(call.grant.namespace, name(call)));
  return noContent();
}

const list = async (call: AuthorisedCall) => accessControl(call.env).policyNames(call.grant.namespace);

const MAX_PATHS = 1_000;

/** Lists of paths, as upstream also texts with commas. */
const Paths = z.object({ path: stringList().optional(), paths: stringList().optional() });
const PathsOfToken = Paths.extend({ token: z.string().optional() });
const PathsOfAccessor = Paths.extend({ accessor: z.string().optional() });

async function capabilities(
  call: AuthorisedCall,
  body: z.infer<typeof Paths>,
  target: { own: string } | { token: string; within: string } | { accessor: string; within: string },
): Promise<Response> {
  // `path` is the older name, which upstream reads only without the other.
  const asked = body.paths?.length ? body.paths : (body.path ?? []);
  if (asked.length === 0) throw badRequest("paths must be supplied");
  if (asked.length > MAX_PATHS) throw badRequest(`paths: at most ${MAX_PATHS}`);
  const inside = asked.map((path) => path.replace(/^\/+/, ""));
  const found = unwrap(await accessControl(call.env).capabilities(target, call.grant.namespace, inside));
  // Clients look up the answer under the text that they sent.
  const data = Object.fromEntries(asked.map((path, at) => [path, found[inside[at] ?? ""]]));
  const [only] = asked;
  const single = asked.length === 1 && only !== undefined ? { capabilities: data[only] } : {};
  return envelope(call, { data: { ...data, ...single }, flat: true });
}

export const policyRoutes = [
  secrets("LIST /sys/policies/acl", { fresh: true }, async (call) => keyList(call, await list(call))),
  secrets("GET /sys/policies/acl/:name+", { fresh: true }, async (call) => {
    const policy = await read(call);
    return envelope(call, { data: { name: policy.name, policy: policy.text }, flat: true });
  }),
  secrets("POST /sys/policies/acl/:name+", { fresh: "owner", body: PolicyBody }, write),
  secrets("DELETE /sys/policies/acl/:name+", { fresh: "owner" }, remove),
  ...(["GET", "LIST"] as const).map((verb) =>
    secrets(`${verb} /sys/policy`, { fresh: true }, async (call) => {
      const all = await list(call);
      const keys = verb === "LIST" ? inPage(all, call.query) : all;
      return envelope(call, { data: { keys, policies: keys }, flat: true });
    }),
  ),
  secrets("GET /sys/policy/:name+", { fresh: true }, async (call) => {
    const policy = await read(call);
    return envelope(call, { data: { name: policy.name, rules: policy.text }, flat: true });
  }),
  secrets("POST /sys/policy/:name+", { fresh: "owner", body: PolicyBody }, write),
  secrets("DELETE /sys/policy/:name+", { fresh: "owner" }, remove),
  secrets("POST /sys/capabilities-self", { fresh: true, body: Paths }, (call, body) =>
    capabilities(call, body, { own: call.token }),
  ),
  secrets("POST /sys/capabilities", { fresh: true, body: PathsOfToken }, (call, body) => {
    if (!body.token) throw badRequest("no token found");
    return capabilities(call, body, { token: body.token, within: call.grant.namespace });
  }),
  secrets("POST /sys/capabilities-accessor", { fresh: true, body: PathsOfAccessor }, (call, body) => {
    if (!body.accessor) throw badRequest("missing accessor");
    return capabilities(call, body, { accessor: body.accessor, within: call.grant.namespace });
  }),
];
