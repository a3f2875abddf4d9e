import * as z from "zod";
import { bare, group, nothing } from "../operation.ts";
import { prefix, pretty } from "../parameters.ts";
import { index } from "../shapes.ts";

const indexes = { CreateIndex: index.nullable(), ModifyIndex: index.nullable() };

const Role = z
  .object({
    ...{ ID: z.string(), Name: z.string(), Description: z.string() },
    Policies: z.array(z.object({ Name: z.string() })),
    Hash: z.string(),
    ...indexes,
  })
  .meta({ id: "AclRole", description: "Tokens that name the role hold its policies." });

const roleBody = {
  fields: {
    ID: "Of an existing role; absent to create one.",
    Name: "Unique: 1 to 128 of A-Z a-z 0-9 and -.",
    Policies: 'At least one policy that exists, as `[{"Name": "…"}]`.',
  },
};

export const clusterAcl = group(
  "Cluster logins",
  { id: "The ID.", name: "The name." },
  {
    "GET /acl/roles": {
      id: "listAclRoles",
      summary: "List ACL roles visible to the caller",
      query: { ...prefix, ...pretty },
      answers: bare("Management sees all roles, other tokens their own.", z.array(Role)),
    },
    "POST /acl/role": {
      id: "createAclRole",
      summary: "Create an ACL role",
      query: pretty,
      body: roleBody,
      answers: bare("The role.", Role),
    },
    "GET /acl/role/name/:name": {
      id: "readAclRoleByName",
      summary: "Read an ACL role by name",
      right: "management, or a token with the role",
      query: pretty,
      answers: bare("The role.", Role),
    },
    "GET /acl/role/:id": {
      id: "readAclRole",
      summary: "Read an ACL role",
      right: "management, or a token with the role",
      query: pretty,
      answers: bare("The role.", Role),
    },
    "POST /acl/role/:id": {
      id: "updateAclRole",
      summary: "Replace an ACL role",
      description: "Applies to the next request of each token that names the role.",
      query: pretty,
      body: roleBody,
      answers: bare("The role.", Role),
    },
    "DELETE /acl/role/:id": {
      id: "deleteAclRole",
      summary: "Delete an ACL role",
      description: "Tokens that name it lose its policies.",
      answers: nothing,
    },
  },
);
