import { authMethodView } from "../access/cluster-acl/auth-method-view.ts";
import { AuthMethodBody, authMethodOf } from "../auth/cluster-method.ts";
import type { AuthMethod, AuthMethodStub } from "../contracts/cluster-auth-method.ts";
import * as kind from "../lib/bexpr/kinds.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { readAcl, wholeListing } from "./server/acl-reads.ts";
import { list } from "./server/listing.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, type Call, cluster, open } from "./server/route.ts";

/** Auth methods of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl/auth-methods). */

const nameOf = (call: AuthorisedCall<"name">): string => call.params.name;

async function write(call: AuthorisedCall<never, "name">, body: AuthMethodBody): Promise<Response> {
  const name = call.params.name ?? body.Name;
  if (body.Name !== "" && body.Name !== name) throw badRequest("ACL auth-method name does not match request path");
  const access = accessControl(call.env);
  const before = unwrap(await access.readAuthMethod(name));
  const settings = unwrap(await authMethodOf({ ...body, Name: name }, before));
  return answer(call, unwrap(await access.putAuthMethod(settings, before?.version ?? null)));
}

/** Work of a filter by anyone. */
const MOST_STEPS = 1_000_000;
const fields = kind.record<AuthMethodStub>({
  Name: kind.string,
  Type: kind.string,
  Default: kind.boolean,
  Hash: kind.string,
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});

async function listMethods(call: Call): Promise<Response> {
  const access = accessControl(call.env);
  const [methods, index] = [await access.listAuthMethods(), await access.clusterAclIndex()];
  const listing = wholeListing<AuthMethodStub>({ token: ({ Name }) => Name, fields }, methods, index);
  return list(call, { ...listing, mostSteps: MOST_STEPS });
}

const answer = (call: AuthorisedCall, method: AuthMethod): Response =>
  clusterJson(call, authMethodView(method), { index: method.ModifyIndex });

const writes = { rights: "management", fresh: true, body: AuthMethodBody } as const;

export const aclAuthMethodRoutes = [
  // As upstream without a token: a person who logs in chooses a method by its name. Does not wait: anyone may ask.
  open("GET /acl/auth-methods", listMethods),
  cluster("POST /acl/auth-method", writes, write),
  cluster("GET /acl/auth-method/:name", { rights: "management", fresh: true }, (call) =>
    readAcl(
      call,
      async () => unwrap(await accessControl(call.env).readAuthMethod(nameOf(call))),
      "ACL auth-method not found",
      authMethodView,
    ),
  ),
  cluster("POST /acl/auth-method/:name", writes, write),
  cluster("DELETE /acl/auth-method/:name", { rights: "management", fresh: true }, async (call) =>
    clusterEmpty({ index: unwrap(await accessControl(call.env).deleteAuthMethod(nameOf(call))).index }),
  ),
];
