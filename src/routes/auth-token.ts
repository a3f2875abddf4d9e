import * as z from "zod";
import { may } from "../access/authorize/authorize-cached.ts";
import { TokenRequest } from "../access/tokens/token.ts";
import { roleView } from "../access/tokens/token-roles.ts";
import { legacyTokenFields, tokenFields } from "../auth/token-settings.ts";
import type { Capability } from "../contracts/policies.ts";
import type { TokenKind, TokenName } from "../contracts/tokens.ts";
import { badRequest, denied, RequestError, unwrap } from "../platform/http/errors.ts";
import { duration, flag, stringList } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { formFields } from "./server/body.ts";
import { everyPage } from "./server/listing.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";
import { writeRights } from "./server/write-rights.ts";

/** Tokens of the secrets API (https://developer.hashicorp.com/vault/api-docs/auth/token). */

/** Optional in the schema, because its absence is reported only to authorized callers. */
const Token = z.object({ token: z.string().optional() });
const Accessor = z.object({ accessor: z.string("accessor: required").min(1, "accessor: required") });
const Increment = z.object({ increment: duration().optional() });

async function create(call: AuthorisedCall, request: TokenRequest, kind: Partial<TokenKind> = {}): Promise<Response> {
  const { identity, namespace, path } = call.grant;
  const created = await accessControl(call.env).createToken(identity.accessor, namespace, path, request, {
    orphan: false,
    role: null,
    ...kind,
  });
  const { auth, warnings } = unwrap(created);
  return envelope(call, { auth, warnings, mountType: "token" });
}

async function lookup(call: AuthorisedCall, target: TokenName): Promise<Response> {
  const found = await accessControl(call.env).lookupToken(target);
  return envelope(call, { data: unwrap(found), mountType: "token" });
}

/** The caller's own token, which came with its grant. */
const lookupSelf = async (call: AuthorisedCall): Promise<Response> =>
  call.grant.self ? envelope(call, { data: call.grant.self, mountType: "token" }) : lookup(call, own(call));

async function renew(call: AuthorisedCall, target: TokenName, increment = 0): Promise<Response> {
  const renewed = await accessControl(call.env).renewToken(target, increment);
  const { auth, warnings } = unwrap(renewed);
  return envelope(call, { auth, warnings, mountType: "token" });
}

async function revoke(call: AuthorisedCall, target: TokenName, keepChildren = false): Promise<Response> {
  unwrap(await accessControl(call.env).revokeToken(target, keepChildren));
  return noContent();
}

const roleName = (call: AuthorisedCall<"role">): string => call.params.role;

/** Expired tokens are deleted with their children by the object's alarm, in the transaction that ends them. */
const TIDY = "Tidy operation completed: expired tokens are removed as they expire, so there was nothing to clean up.";

/** The caller's own token; its header has been checked. */
const own = (call: AuthorisedCall): TokenName => ({ own: call.token });

type Given = Readonly<Record<string, unknown>>;

/**
 * The token in the request, authorized in its own namespace.
 * @throws RequestError 400 without one, for authorized callers
 */
function byToken(call: AuthorisedCall, given: Given, ...needs: [Capability, ...Capability[]]): TokenName {
  const { identity, namespace, path } = call.grant;
  const { token } = given;
  if (typeof token === "string" && token !== "") {
    return { token, by: { accessor: identity.accessor, namespace, path, needs, given, wrapTtl: call.wrapTtl } };
  }
  if (!needs.every((need) => may(call.grant, need))) throw denied();
  throw badRequest("token: required");
}

/** Like `byToken`; without a token, the caller's own. */
const byTokenOrOwn = (call: AuthorisedCall, given: Given, need: Capability): TokenName =>
  byToken(call, { ...given, token: given["token"] || call.token }, need);

/** Another token, in the request's namespace or below. */
const byAccessor = (call: AuthorisedCall, accessor: string): TokenName => ({ accessor, within: call.grant.namespace });

const names = () =>
  stringList()
    .pipe(z.array(z.string().max(128)).max(256))
    .nullish();

const { token_period, token_explicit_max_ttl, token_num_uses, token_no_default_policy, token_bound_cidrs } =
  tokenFields;

/** The body of `auth/token/roles/:name`, read and checked. */
const TokenRoleRequest = z.object({
  allowed_policies: names(),
  allowed_policies_glob: names(),
  disallowed_policies: names(),
  disallowed_policies_glob: names(),
  allowed_entity_aliases: names(),
  orphan: flag().optional(),
  renewable: flag().optional(),
  path_suffix: z.string().max(128).optional(),
  token_type: z.enum(["service", "batch", "default-service", "default-batch"], "invalid 'token_type' value").optional(),
  token_period,
  token_explicit_max_ttl,
  token_num_uses,
  token_no_default_policy,
  token_bound_cidrs,
  period: legacyTokenFields.period,
  explicit_max_ttl: duration().optional(),
  bound_cidrs: legacyTokenFields.bound_cidrs,
});

const PAGE = 1_000;

export const tokenRoutes = [
  secrets("POST /auth/token/create", { fresh: true, body: TokenRequest }, (call, body) => create(call, body)),
  secrets("POST /auth/token/create-orphan", { fresh: true, body: TokenRequest }, (call, body) =>
    create(call, body, { orphan: true }),
  ),
  secrets("POST /auth/token/create/:role", { fresh: true, body: TokenRequest }, (call, body) =>
    create(call, body, { role: roleName(call) }),
  ),
  secrets("LIST /auth/token/roles", { fresh: true }, async (call) =>
    keyList(call, await accessControl(call.env).tokenRoleNames(call.grant.namespace), {}, "token"),
  ),
  secrets("GET /auth/token/roles/:role", { fresh: true }, async (call) => {
    const role = await accessControl(call.env).readTokenRole(call.grant.namespace, roleName(call));
    if (!role) throw new RequestError(404, []);
    return envelope(call, { data: roleView(role), mountType: "token" });
  }),
  secrets(
    "POST /auth/token/roles/:role",
    { fresh: true, creates: true, body: TokenRoleRequest },
    async (call, body) => {
      const put = await accessControl(call.env).putTokenRole(
        call.grant.namespace,
        roleName(call),
        body,
        writeRights(call),
      );
      const warnings = unwrap(put);
      return warnings.length > 0 ? envelope(call, { warnings, mountType: "token" }) : noContent();
    },
  ),
  secrets("DELETE /auth/token/roles/:role", { fresh: true }, async (call) => {
    await accessControl(call.env).deleteTokenRole(call.grant.namespace, roleName(call));
    return noContent();
  }),
  secrets("POST /auth/token/tidy", { fresh: true }, async (call) =>
    envelope(call, { warnings: [TIDY], mountType: "token", status: 202 }),
  ),
  secrets("GET /auth/token/lookup-self", { fresh: true, self: true }, lookupSelf),
  secrets("POST /auth/token/lookup-self", { fresh: true, self: true }, lookupSelf),
  secrets("POST /auth/token/lookup", { access: "token", fresh: true, body: Token }, (call, given) =>
    lookup(call, byTokenOrOwn(call, given, "update")),
  ),
  secrets(
    "GET /auth/token/lookup",
    { access: "token", fresh: true, query: z.object({ token: query.text() }) },
    (call) => lookup(call, byTokenOrOwn(call, { ...formFields(call.query), ...call.asked }, "read")),
  ),
  secrets("POST /auth/token/lookup-accessor", { fresh: true, body: Accessor }, (call, { accessor }) =>
    lookup(call, byAccessor(call, accessor)),
  ),
  secrets("POST /auth/token/renew-self", { fresh: true, body: Increment }, (call, { increment }) =>
    renew(call, own(call), increment),
  ),
  secrets(
    "POST /auth/token/renew",
    { access: "token", fresh: true, body: Token.extend(Increment.shape) },
    (call, given) => renew(call, byToken(call, given, "update"), given.increment),
  ),
  secrets(
    "POST /auth/token/renew-accessor",
    { fresh: true, body: Accessor.extend(Increment.shape) },
    (call, { accessor, increment }) => renew(call, byAccessor(call, accessor), increment),
  ),
  secrets("POST /auth/token/revoke-self", { fresh: true }, (call) => revoke(call, own(call))),
  secrets("POST /auth/token/revoke", { access: "token", fresh: true, body: Token }, (call, given) =>
    revoke(call, byToken(call, given, "update")),
  ),
  secrets("POST /auth/token/revoke-accessor", { fresh: true, body: Accessor }, (call, { accessor }) =>
    revoke(call, byAccessor(call, accessor)),
  ),
  secrets("POST /auth/token/revoke-orphan", { access: "token", fresh: true, body: Token }, (call, given) =>
    revoke(call, byToken(call, given, "update", "sudo"), true),
  ),
  secrets("LIST /auth/token/accessors", { access: "sudo", fresh: true }, async (call) => {
    const keys: string[] = [];
    const read = (from: string) => accessControl(call.env).accessors(call.grant.namespace, from, PAGE);
    for await (const page of everyPage(read)) keys.push(...page.keys);
    return keyList(call, keys);
  }),
];
