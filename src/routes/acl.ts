import * as z from "zod";
import { ANONYMOUS_TOKEN } from "../access/cluster-acl/cluster-acl.ts";
import { ClusterTokenRequest } from "../access/tokens/token.ts";
import type { AclPolicy } from "../contracts/policies.ts";
import type { AclToken } from "../contracts/tokens.ts";
import * as kind from "../lib/bexpr/kinds.ts";
import type { Result } from "../lib/result.ts";
import { badRequest, notFound, unwrap } from "../platform/http/errors.ts";
import { caseless, echoed } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { settings } from "../platform/settings.ts";
import { ownCapabilities } from "../rights/cluster-rights.ts";
import { accessControl } from "../rpc/stubs.ts";
import { listAcl, readAcl } from "./server/acl-reads.ts";
import { namespaceOf } from "./server/cluster-reads.ts";
import { everyPage } from "./server/listing.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster, open } from "./server/route.ts";

/** Policies and tokens of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl). */

const word = () => z.string().max(256).nullish();

/** As upstream, each level requires the previous one. */
const JobAclBody = caseless(
  z.object({ Namespace: word(), JobID: word(), Group: word(), Task: word() }).transform((given, context) => {
    const job = {
      Namespace: given.Namespace ?? "",
      JobID: given.JobID ?? "",
      Group: given.Group ?? "",
      Task: given.Task ?? "",
    };
    const refused =
      job.Namespace === "" && job.JobID !== ""
        ? "namespace must be set to set job ID"
        : job.JobID === "" && job.Group !== ""
          ? "job ID must be set to set group"
          : job.Group === "" && job.Task !== ""
            ? "group must be set to set task"
            : null;
    if (refused !== null) context.addIssue({ code: "custom", message: refused });
    return job;
  }),
);

const PolicyBody = caseless(
  z.object({
    Name: z.string().optional(),
    Description: z.string().max(256).default(""),
    Rules: z.string().default(""),
    JobACL: JobAclBody.nullish(),
    ...echoed("RulesJSON", "Hash", "CreateIndex", "ModifyIndex"),
  }),
);

const policyStub = ({ Rules: _rules, RulesJSON: _parsed, ...stub }: AclPolicy) => stub;
const tokenStub = ({ SecretID: _secret, ExpirationTTL: _ttl, ...stub }: AclToken) => stub;

const name = (call: AuthorisedCall<"name">): string => call.params.name;

const policies = async (call: AuthorisedCall, names: readonly string[] | null, prefix = ""): Promise<AclPolicy[]> =>
  await accessControl(call.env).clusterPolicies(names, prefix);

const ownPolicies = (call: AuthorisedCall): readonly string[] | null =>
  call.grant.cluster.management ? null : call.grant.identity.policies;

async function writePolicy(call: AuthorisedCall<"name">, body: z.output<typeof PolicyBody>): Promise<Response> {
  if (body.Name !== undefined && body.Name !== "" && body.Name !== name(call)) {
    throw badRequest("ACL policy name does not match request path");
  }
  const written = await accessControl(call.env).putPolicy("", name(call), body.Rules, {
    description: body.Description,
    jobAcl: body.JobACL ?? null,
  });
  if (!written.ok && written.reason === "invalid") throw badRequest(`policy 0 invalid: ${written.message}`);
  return clusterEmpty({ index: unwrap(written).index });
}

const policyFields = kind.record<AclPolicy>({
  Name: kind.string,
  Description: kind.string,
  Rules: kind.string,
  JobACL: kind.struct({ Namespace: kind.string, JobID: kind.string, Group: kind.string, Task: kind.string }),
  Hash: kind.string,
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});

const policyList = (rows: () => Promise<readonly AclPolicy[]>, stub?: (policy: AclPolicy) => unknown) => ({
  rows,
  token: ({ Name }: AclPolicy) => Name,
  ...(stub && { stub }),
  fields: policyFields,
});

const MAX_PER_PAGE = 1_000;
const TokensQuery = z.object({ prefix: query.text(), global: query.trueOnly() });
type TokensCall = AuthorisedCall & Asked<typeof TokensQuery>;

const tokenFields = kind.record<AclToken>({
  AccessorID: kind.string,
  Name: kind.string,
  Type: kind.string,
  Policies: kind.list(kind.string),
  Roles: kind.list(kind.struct({ ID: kind.string, Name: kind.string })),
  Global: kind.boolean,
  Hash: kind.string,
  CreateTime: kind.string,
  ExpirationTime: kind.string,
  ExpirationTTL: kind.string,
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});

/** In order of creation as upstream; with a prefix by accessor. Each page costs a walk over all tokens. */
const listTokens = (call: TokensCall): Promise<Response> =>
  listAcl<AclToken>(call, {
    rows: () => tokensOf(call),
    // All times have the same length. The newest tokens have no index for a moment.
    token: ({ CreateTime, AccessorID }) => (call.asked.prefix === "" ? `${CreateTime}.${AccessorID}` : AccessorID),
    stub: tokenStub,
    fields: tokenFields,
  });

async function tokensOf(call: TokensCall): Promise<AclToken[]> {
  const { prefix, global: onlyGlobal } = call.asked;
  const tokens: AclToken[] = [];
  const read = (from: string) => accessControl(call.env).listClusterTokens(prefix, from, MAX_PER_PAGE, onlyGlobal);
  for await (const page of everyPage(read)) tokens.push(...page.tokens);
  return tokens;
}

/** A token as it is shown; callers always see their own secret. */
const shownToken = (call: AuthorisedCall, token: AclToken): AclToken =>
  token.AccessorID === call.grant.identity.accessor ? { ...token, SecretID: call.token } : token;

const answerToken = (call: AuthorisedCall, result: Result<AclToken>): Response => {
  const token = unwrap(result);
  return clusterJson(call, shownToken(call, token), { index: token.ModifyIndex });
};

const readToken = (call: AuthorisedCall, accessor: string, reveal = false): Promise<Response> =>
  readAcl(
    call,
    async () => {
      const found = await accessControl(call.env).readClusterToken(accessor, reveal);
      return found.ok || found.reason !== "missing" ? unwrap(found) : null;
    },
    "ACL token not found",
    (token) => shownToken(call, token),
  );

/** Secrets of other tokens are shown only to management tokens in the upstream dialect, whose clients store them. */
const maySeeSecrets = (call: AuthorisedCall): boolean =>
  call.dialect === "upstream" && call.grant.cluster.management && settings(call.env).ACL_TOKEN_SECRETS === "on";

export const aclRoutes = [
  open(
    "POST /acl/bootstrap",
    { body: caseless(z.object({ BootstrapSecret: z.string().nullish() })) },
    async (call, body) => {
      const secret = body.BootstrapSecret ?? null;
      const token = unwrap(await accessControl(call.env).bootstrap(secret));
      return clusterJson(call, token, { index: token.ModifyIndex });
    },
  ),
  cluster("GET /acl/policies", { query: z.object({ prefix: query.text() }), rights: "any", fresh: true }, (call) =>
    listAcl(
      call,
      policyList(() => policies(call, ownPolicies(call), call.asked.prefix), policyStub),
    ),
  ),
  cluster("GET /acl/policy/self", { rights: "any", fresh: true }, (call) =>
    listAcl(
      call,
      policyList(() => policies(call, call.grant.identity.policies)),
    ),
  ),
  cluster("GET /acl/capabilities/self", { rights: "any", fresh: true }, async (call) =>
    clusterJson(call, { Capabilities: ownCapabilities(call.grant.cluster, namespaceOf(call)) }),
  ),
  cluster(
    "GET /acl/policy/:name",
    { rights: (rights, call) => rights.management || call.grant.identity.policies.includes(name(call)), fresh: true },
    (call) => readAcl(call, async () => (await policies(call, [name(call)]))[0] ?? null, "ACL policy not found"),
  ),
  cluster("POST /acl/policy/:name", { rights: "management", fresh: "owner", body: PolicyBody }, writePolicy),
  cluster("DELETE /acl/policy/:name", { rights: "management", fresh: "owner" }, async (call) => {
    const { existed, index } = unwrap(await accessControl(call.env).deletePolicy("", name(call)));
    if (!existed) throw notFound("ACL policy not found");
    return clusterEmpty({ index });
  }),
  cluster("GET /acl/tokens", { rights: "management", fresh: true, query: TokensQuery }, listTokens),
  cluster(
    "GET /acl/token/self",
    { rights: "any", fresh: true, withoutToken: async (call) => clusterJson(call, ANONYMOUS_TOKEN) },
    (call) => readToken(call, call.grant.identity.accessor),
  ),
  cluster(
    "GET /acl/token/:accessor",
    {
      rights: (rights, call) => rights.management || call.grant.identity.accessor === call.params.accessor,
      fresh: true,
    },
    (call) => readToken(call, call.params.accessor, maySeeSecrets(call)),
  ),
  cluster(
    "POST /acl/token",
    { rights: "management", fresh: true, body: caseless(ClusterTokenRequest) },
    async (call, body) => {
      const { AccessorID: accessor } = body;
      const access = accessControl(call.env);
      // As upstream, a token that exists is changed.
      return accessor && (await access.readClusterToken(accessor)).ok
        ? answerToken(call, await access.updateClusterToken(accessor, body, maySeeSecrets(call)))
        : answerToken(call, await access.createClusterToken(body));
    },
  ),
  cluster(
    "POST /acl/token/:accessor",
    { rights: "management", fresh: true, body: caseless(ClusterTokenRequest) },
    async (call, body) => {
      const accessor = call.params.accessor;
      if (body.AccessorID && body.AccessorID !== accessor)
        throw badRequest("ACL token accessor does not match request path");
      const updated = await accessControl(call.env).updateClusterToken(accessor, body, maySeeSecrets(call));
      return answerToken(call, updated);
    },
  ),
  cluster("DELETE /acl/token/:accessor", { rights: "management", fresh: true }, async (call) => {
    unwrap(await accessControl(call.env).deleteClusterToken(call.params.accessor));
    // Tokens created by it are revoked too, each with its own index: this index covers all.
    return clusterEmpty({ index: await accessControl(call.env).clusterAclIndex() });
  }),
];
