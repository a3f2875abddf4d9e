import * as z from "zod";
import type { BindingRuleStub } from "../contracts/cluster-acl.ts";
import * as kind from "../lib/bexpr/kinds.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { caseless, echoed } from "../platform/http/fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { listAcl, readAcl } from "./server/acl-reads.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

/** Binding rules of auth methods (https://developer.hashicorp.com/nomad/api-docs/acl/binding-rules). */

const text = () => z.string().max(4_096).default("");

const RuleBody = caseless(
  z.object({
    ID: text(),
    Description: text(),
    AuthMethod: text(),
    Selector: text(),
    BindType: text(),
    BindName: text(),
    ...echoed("Hash", "CreateTime", "ModifyTime", "CreateIndex", "ModifyIndex"),
  }),
);

const fields = kind.record<BindingRuleStub>({
  ID: kind.string,
  Description: kind.string,
  AuthMethod: kind.string,
  Hash: kind.string,
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});

const idOf = (call: AuthorisedCall<"id">): string => call.params.id;

async function write(call: AuthorisedCall<never, "id">, body: z.output<typeof RuleBody>): Promise<Response> {
  const { ID, Description, AuthMethod, Selector, BindType, BindName } = body;
  const at = call.params.id;
  if (at !== undefined && ID !== "" && ID !== at) throw badRequest("ACL binding rule ID does not match request path");
  const rule = { Description, AuthMethod, Selector, BindType, BindName };
  const written = unwrap(await accessControl(call.env).putBindingRule(at ?? (ID || null), rule));
  return clusterJson(call, written, { index: written.ModifyIndex });
}

const writes = { rights: "management", fresh: true, body: RuleBody } as const;

export const aclBindingRuleRoutes = [
  cluster("GET /acl/binding-rules", { rights: "management", fresh: true }, (call) =>
    listAcl<BindingRuleStub>(call, {
      rows: async () => accessControl(call.env).listBindingRules(),
      token: ({ ID }) => ID,
      fields,
    }),
  ),
  cluster("POST /acl/binding-rule", writes, write),
  cluster("GET /acl/binding-rule/:id", { rights: "management", fresh: true }, (call) =>
    readAcl(call, async () => accessControl(call.env).readBindingRule(idOf(call)), "ACL binding rule not found"),
  ),
  cluster("POST /acl/binding-rule/:id", writes, write),
  cluster("DELETE /acl/binding-rule/:id", { rights: "management", fresh: true }, async (call) =>
    clusterEmpty({ index: unwrap(await accessControl(call.env).deleteBindingRule(idOf(call))).index }),
  ),
];
