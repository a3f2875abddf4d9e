import * as z from "zod";
import { AclPolicyStub, AclToken, indexes } from "../../wire/acl.ts";
import { texts } from "../../wire/shapes.ts";
import { bare, group, type Operation } from "../operation.ts";
import { filter, list, namespace, page, prefix, reverse, waiting } from "../parameters.ts";

const parsed = z.looseObject({}).nullable().describe("The rules as they were read, as upstream shows them.");
const Policy = z.object({ ...AclPolicyStub.shape, Rules: z.string(), RulesJSON: parsed }).meta({ id: "AclPolicy" });

const choice = z.object({
  Default: z.string().optional(),
  Allowed: z.array(z.string()).nullish(),
  Denied: z.array(z.string()).nullish(),
});
const Namespace = z
  .object({
    Name: z.string(),
    Description: z.string(),
    Meta: texts.nullable(),
    ...indexes,
    Quota: z.string().describe("As it was given; like the others below it governs nothing here."),
    Capabilities: z.record(z.string(), z.array(z.string()).nullable()).nullable(),
    NodePoolConfiguration: choice.nullable(),
    VaultConfiguration: choice.nullable().optional(),
    ConsulConfiguration: choice.nullable().optional(),
    RequiredExtraClaims: texts.nullable().optional(),
    OptionalExtraClaims: texts.nullable().optional(),
  })
  .meta({ id: "ClusterNamespace" });

const written = {
  fields: {
    AccessorID: "Of the token in the path.",
    Type: { type: "string", enum: ["client", "management"], default: "client" },
    Policies: "Names of policies; none for a management token.",
    Roles: "Roles, each by its ID or Name; none for a management token.",
    ExpirationTTL: 'How long it lives, such as "8h"; or `ExpirationTime`.',
    ExpirationTime: "When it ends, in RFC 3339.",
  },
};
const namespaceBody = { fields: { Name: "As in the path.", Meta: "Texts by name." } };
const putNamespace: Omit<Operation, "id"> = {
  summary: "Create or update a cluster namespace",
  method: "put",
  body: namespaceBody,
  errors: [409],
};

export const clusterAccess = group(
  "Cluster access",
  { name: "The name.", accessor: "The token's accessor." },
  {
    "POST /acl/bootstrap": {
      id: "bootstrapAcl",
      summary: "Bootstrap the first management token",
      description: "With the setting `BOOTSTRAP_SECRET`, that secret is required.",
      answers: bare("The token.", AclToken),
      errors: [403],
    },
    "GET /acl/policies": {
      id: "listAclPolicies",
      summary: "List ACL policies visible to the caller",
      query: { ...prefix, ...list },
      answers: bare("Policies without their rules.", z.array(AclPolicyStub)),
    },
    "GET /acl/policy/self": {
      id: "readOwnAclPolicies",
      summary: "List the caller's ACL policies",
      query: list,
      answers: bare("The policies.", z.array(Policy)),
    },
    "GET /acl/capabilities/self": {
      id: "readOwnAclCapabilities",
      summary: "List the caller's capabilities in a cluster namespace",
      query: namespace,
      answers: bare(
        "The capabilities, such as `node:write` or `namespace:host-volume-create`.",
        z.object({ Capabilities: z.array(z.string()) }),
      ),
    },
    "GET /acl/policy/:name": {
      id: "readAclPolicy",
      summary: "Read a policy",
      right: "management, or the policy itself",
      query: waiting,
      answers: bare("The policy.", Policy),
    },
    "POST /acl/policy/:name": {
      id: "writeAclPolicy",
      summary: "Create or update a policy",
      body: {
        fields: {
          Name: "As in the path.",
          Rules: "The policy document, in HCL or JSON; it holds at least one rule.",
          JobACL: { type: "null", description: "Not supported." },
        },
      },
    },
    "DELETE /acl/policy/:name": { id: "deleteAclPolicy", summary: "Delete a policy" },
    "GET /acl/tokens": {
      id: "listAclTokens",
      summary: "List tokens",
      query: {
        prefix: "Only accessors that begin with this.",
        global: "Only global ones.",
        ...list,
      },
      answers: bare("Tokens without their secrets.", z.array(AclToken.omit({ ExpirationTTL: true, SecretID: true }))),
    },
    "GET /acl/token/self": {
      id: "readOwnAclToken",
      summary: "Look up the caller's token",
      description: "Without a token: the built-in anonymous token.",
      query: waiting,
      answers: bare("The token.", AclToken),
    },
    "GET /acl/token/:accessor": {
      id: "readAclToken",
      summary: "Read a token",
      right: "management, or the token itself",
      query: waiting,
      answers: bare("The token.", AclToken),
    },
    "POST /acl/token": {
      id: "createAclToken",
      summary: "Create a token",
      body: written,
      answers: bare("The token.", AclToken),
    },
    "POST /acl/token/:accessor": {
      id: "updateAclToken",
      summary: "Update a token",
      body: written,
      answers: bare("The token.", AclToken),
    },
    "DELETE /acl/token/:accessor": { id: "deleteAclToken", summary: "Delete a token and its children" },
    "GET /namespaces": {
      id: "listClusterNamespaces",
      summary: "List cluster namespaces visible to the caller",
      query: { ...prefix, ...page, ...filter, ...reverse },
      answers: bare("The namespaces.", z.array(Namespace)),
    },
    "GET /namespace/:name": {
      id: "readClusterNamespace",
      summary: "Read a cluster namespace",
      right: "any right in the namespace",
      answers: bare("The namespace.", Namespace),
    },
    "POST /namespace": {
      ...putNamespace,
      id: "writeClusterNamespaceByName",
      body: { ...namespaceBody, required: ["Name"] },
    },
    "POST /namespace/:name": { ...putNamespace, id: "writeClusterNamespace" },
    "DELETE /namespace/:name": {
      id: "deleteClusterNamespace",
      summary: "Delete an empty cluster namespace",
      errors: [409],
    },
  },
);
