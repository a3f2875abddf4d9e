import * as z from "zod";
import { TokenRequest } from "../access/token.ts";
import { badRequest, unwrap } from "../http/errors.ts";
import { duration } from "../http/fields.ts";
import { envelope, keyList, noContent } from "../http/respond.ts";
import { type AuthorisedCall, secrets } from "../http/route.ts";
import { accessControl } from "../objects/stubs.ts";

/** Tokens of areas A and B (contract: clients 4.2 and 4.3). */

type Named = { own: string } | { token: string; within: string } | { accessor: string; within: string };

const Token = z.object({ token: z.string("token: required").min(1, "token: required") });
const Accessor = z.object({ accessor: z.string("accessor: required").min(1, "accessor: required") });
const Increment = z.object({ increment: duration().default(0) });

/** A misspelt field may mean a token with more rights than were wished, so those that are unknown are told. */
const CreateBody = z.looseObject(TokenRequest.shape).transform((body) => ({
  request: TokenRequest.parse(body),
  unknown: Object.keys(body).filter((field) => !Object.hasOwn(TokenRequest.shape, field)),
}));

async function create(
  call: AuthorisedCall,
  { request, unknown }: z.infer<typeof CreateBody>,
  orphan: boolean,
): Promise<Response> {
  const { identity, namespace, path } = call.grant;
  const created = await accessControl(call.env).createToken(identity.accessor, namespace, path, request, orphan);
  const { auth, warnings } = unwrap(created);
  const named = unknown.map((field) => field.slice(0, 100)).slice(0, 10);
  const ignored = named.length > 0 ? [`Endpoint ignored these unrecognized parameters: [${named.join(" ")}]`] : [];
  return envelope(call, { auth, warnings: [...warnings, ...ignored], mountType: "token" });
}

async function lookup(call: AuthorisedCall, target: Named): Promise<Response> {
  const found = await accessControl(call.env).lookupToken(target);
  return envelope(call, { data: unwrap(found), mountType: "token" });
}

async function renew(call: AuthorisedCall, target: Named, increment: number): Promise<Response> {
  const renewed = await accessControl(call.env).renewToken(target, increment);
  const { auth, warnings } = unwrap(renewed);
  return envelope(call, { auth, warnings, mountType: "token" });
}

async function revoke(call: AuthorisedCall, target: Named, keepChildren = false): Promise<Response> {
  unwrap(await accessControl(call.env).revokeToken(target, keepChildren));
  return noContent();
}

/** The caller's own token; the header has been checked by then. */
const own = (call: AuthorisedCall): Named => ({ own: call.token ?? "" });

/** Another token. A request reaches those of its own namespace and below. */
const byToken = (call: AuthorisedCall, token: string): Named => ({ token, within: call.grant.namespace });
const byAccessor = (call: AuthorisedCall, accessor: string): Named => ({ accessor, within: call.grant.namespace });

const PAGE = 1_000;

export const tokenRoutes = [
  secrets({
    verb: "POST",
    path: "/auth/token/create",
    fresh: true,
    body: CreateBody,
    handle: (call, body) => create(call, body, false),
  }),
  secrets({
    verb: "POST",
    path: "/auth/token/create-orphan",
    fresh: true,
    body: CreateBody,
    handle: (call, body) => create(call, body, true),
  }),
  secrets({ verb: "GET", path: "/auth/token/lookup-self", fresh: true, handle: (call) => lookup(call, own(call)) }),
  secrets({ verb: "POST", path: "/auth/token/lookup-self", fresh: true, handle: (call) => lookup(call, own(call)) }),
  secrets({
    verb: "POST",
    path: "/auth/token/lookup",
    fresh: true,
    body: Token,
    handle: (call, { token }) => lookup(call, byToken(call, token)),
  }),
  secrets({
    verb: "GET",
    path: "/auth/token/lookup",
    fresh: true,
    handle: (call) => {
      const token = call.query.get("token");
      if (!token) throw badRequest("token: required");
      return lookup(call, byToken(call, token));
    },
  }),
  secrets({
    verb: "POST",
    path: "/auth/token/lookup-accessor",
    fresh: true,
    body: Accessor,
    handle: (call, { accessor }) => lookup(call, byAccessor(call, accessor)),
  }),
  secrets({
    verb: "POST",
    path: "/auth/token/renew-self",
    fresh: true,
    body: Increment,
    handle: (call, { increment }) => renew(call, own(call), increment),
  }),
  secrets({
    verb: "POST",
    path: "/auth/token/renew",
    fresh: true,
    body: Token.extend(Increment.shape),
    handle: (call, { token, increment }) => renew(call, byToken(call, token), increment),
  }),
  secrets({
    verb: "POST",
    path: "/auth/token/renew-accessor",
    fresh: true,
    body: Accessor.extend(Increment.shape),
    handle: (call, { accessor, increment }) => renew(call, byAccessor(call, accessor), increment),
  }),
  secrets({ verb: "POST", path: "/auth/token/revoke-self", fresh: true, handle: (call) => revoke(call, own(call)) }),
  secrets({
    verb: "POST",
    path: "/auth/token/revoke",
    fresh: true,
    body: Token,
    handle: (call, { token }) => revoke(call, byToken(call, token)),
  }),
  secrets({
    verb: "POST",
    path: "/auth/token/revoke-accessor",
    fresh: true,
    body: Accessor,
    handle: (call, { accessor }) => revoke(call, byAccessor(call, accessor)),
  }),
  secrets({
    verb: "POST",
    path: "/auth/token/revoke-orphan",
    access: "sudo",
    fresh: true,
    body: Token,
    handle: (call, { token }) => revoke(call, byToken(call, token), true),
  }),
  secrets({
    verb: "LIST",
    path: "/auth/token/accessors",
    access: "sudo",
    fresh: true,
    handle: async (call) => {
      const keys: string[] = [];
      for (let from: string | null = ""; from !== null; ) {
        const page = await accessControl(call.env).accessors(call.grant.namespace, from, PAGE);
        keys.push(...page.keys);
        from = page.next;
      }
      return keyList(call, keys);
    },
  }),
];
