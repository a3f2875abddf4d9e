import * as z from "zod";
import type { AclRole } from "../contracts/cluster-acl.ts";
import * as kind from "../lib/bexpr/kinds.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { caseless, echoed } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { listAcl, readAcl } from "./server/acl-reads.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Roles of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl/roles). */

const MAX_POLICIES = 256;

const RoleBody = caseless(
  z.object({
    ID: z.string().max(128).default(""),
    Name: z.string().default(""),
    Description: z.string().default(""),
    Policies: z
      .array(caseless(z.object({ Name: z.string() })))
      .max(MAX_POLICIES, `at most ${MAX_POLICIES} policies`)
      .nullish(),
    ...echoed("Hash", "CreateIndex", "ModifyIndex"),
  }),
);

const holds = (call: AuthorisedCall, is: (role: { readonly ID: string; readonly Name: string }) => boolean): boolean =>
  call.grant.cluster.management || (call.grant.identity.roles ?? []).some(is);

const ListQuery = z.object({ prefix: query.text() });

const fields = kind.record<AclRole>({
  ID: kind.string,
  Name: kind.string,
  Description: kind.string,
  Policies: kind.list(kind.struct({ Name: kind.string })),
  Hash: kind.string,
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});

const list = (call: AuthorisedCall & Asked<typeof ListQuery>): Promise<Response> =>
  listAcl<AclRole>(call, {
    rows: async () => {
      const roles = await accessControl(call.env).listClusterRoles(call.asked.prefix);
      return roles.filter((role) => holds(call, ({ ID }) => ID === role.ID));
    },
    token: ({ ID }) => ID,
    fields,
  });

const read = (call: AuthorisedCall, key: { readonly id: string } | { readonly name: string }): Promise<Response> =>
  readAcl(call, async () => accessControl(call.env).readClusterRole(key), "ACL role not found");

async function write(call: AuthorisedCall<never, "id">, body: z.output<typeof RoleBody>): Promise<Response> {
  const { ID, Name, Description, Policies } = body;
  const at = call.params.id;
  if (at !== undefined && ID !== "" && ID !== at) throw badRequest("ACL role ID does not match request path");
  const role = { Name, Description, Policies: Policies ?? [] };
  const written = unwrap(await accessControl(call.env).putClusterRole(at ?? (ID || null), role));
  return clusterJson(call, written, { index: written.ModifyIndex });
}

const writes = { rights: "management", fresh: "owner", body: RoleBody } as const;

export const aclRoleRoutes = [
  cluster("GET /acl/roles", { rights: "any", fresh: true, query: ListQuery }, list),
  cluster("POST /acl/role", writes, write),
  cluster(
    "GET /acl/role/name/:name",
    { rights: (_rights, call) => holds(call, ({ Name }) => Name === call.params.name), fresh: true },
    (call) => read(call, { name: call.params.name }),
  ),
  cluster(
    "GET /acl/role/:id",
    { rights: (_rights, call) => holds(call, ({ ID }) => ID === call.params.id), fresh: true },
    (call) => read(call, { id: call.params.id }),
  ),
  cluster("POST /acl/role/:id", writes, write),
  cluster("DELETE /acl/role/:id", { rights: "management", fresh: "owner" }, async (call) =>
    clusterEmpty({ index: unwrap(await accessControl(call.env).deleteClusterRole(call.params.id)).index }),
  ),
];
