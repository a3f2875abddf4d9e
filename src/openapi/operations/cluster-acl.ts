import * as z from "zod";
import { AclRole, AclToken, BindingRule, indexes, OneTimeToken } from "../../wire/acl.ts";
import { index, texts, time } from "../../wire/shapes.ts";
import { bare, group } from "../operation.ts";
import { filter, page, list as pages, prefix, reverse, waiting } from "../parameters.ts";

const roleBody = {
  fields: {
    ID: "Of an existing role; absent to create one.",
    Name: "Unique: 1 to 128 of A-Z a-z 0-9 and -.",
    Policies: 'At least one policy that exists, as `[{"Name": "…"}]`.',
  },
};

const list = z.array(z.string()).nullable();
const leeway = z.string().describe("A Go duration; empty for upstream's default.");
const methodStub = { Name: z.string(), Type: z.enum(["OIDC", "JWT"]), Default: z.boolean(), Hash: z.string() };
const Method = z
  .object({
    ...methodStub,
    TokenLocality: z.enum(["local", "global"]),
    TokenNameFormat: z.string(),
    MaxTokenTTL: z.string(),
    Config: z.object({
      JWTValidationPubKeys: list,
      JWKSURL: z.string(),
      JWKSCACert: z.string(),
      OIDCDiscoveryURL: z.string(),
      OIDCClientID: z.string(),
      OIDCClientSecret: z.string().describe("`redacted` when there is one."),
      OIDCClientAssertion: z.null(),
      OIDCEnablePKCE: z.boolean(),
      OIDCDisableUserInfo: z.boolean(),
      OIDCScopes: list,
      BoundAudiences: list,
      BoundIssuer: list,
      AllowedRedirectURIs: list,
      DiscoveryCaPem: z.null(),
      SigningAlgs: list,
      ExpirationLeeway: leeway,
      NotBeforeLeeway: leeway,
      ClockSkewLeeway: leeway,
      ClaimMappings: texts.nullable(),
      ListClaimMappings: texts.nullable(),
      VerboseLogging: z.boolean(),
    }),
    CreateTime: time,
    ModifyTime: time,
    ...indexes,
  })
  .meta({ id: "AclAuthMethod", description: "A way to authenticate callers of `acl/login`." });

const methodBody = {
  fields: {
    Name: "1 to 128 of A-Z a-z 0-9 and -.",
    Type: { type: "string", enum: ["JWT", "OIDC"], description: "Signed tokens, or logins in a browser." },
    TokenLocality: "`local` or `global`: whether tokens are shown as global.",
    TokenNameFormat: "Names of tokens; auth_method_type, auth_method_name and value.<name> can be interpolated.",
    MaxTokenTTL: "Lifetime of tokens: nanoseconds, or a duration between 1m and 24h.",
    Default: "Whether clients use it when they name none.",
    Config: "Keys, and the required claims of a caller's token.",
  },
};

const ruleBody = {
  fields: {
    ID: "Of an existing rule; absent to create one.",
    AuthMethod: "The name of an auth method; it cannot be changed.",
    Selector: 'A filter over the caller\'s claims, such as `value.team == "ops"`; empty selects every caller.',
    BindType: { type: "string", enum: ["", "role", "policy", "management"] },
    BindName: "The name of a role or policy, in which `value.<name>` can be interpolated.",
  },
} as const;

export const clusterAcl = group(
  "Cluster logins",
  { id: "The ID.", name: "The name." },
  {
    "GET /acl/roles": {
      id: "listAclRoles",
      summary: "List ACL roles visible to the caller",
      query: { ...prefix, ...pages },
      answers: bare("Management sees all roles, other tokens their own.", z.array(AclRole)),
    },
    "POST /acl/role": {
      id: "createAclRole",
      summary: "Create an ACL role",
      body: roleBody,
      answers: bare("The role.", AclRole),
    },
    "GET /acl/role/name/:name": {
      id: "readAclRoleByName",
      summary: "Read an ACL role by name",
      right: "management, or a token with the role",
      query: waiting,
      answers: bare("The role.", AclRole),
    },
    "GET /acl/role/:id": {
      id: "readAclRole",
      summary: "Read an ACL role",
      right: "management, or a token with the role",
      query: waiting,
      answers: bare("The role.", AclRole),
    },
    "POST /acl/role/:id": {
      id: "updateAclRole",
      summary: "Replace an ACL role",
      description: "Applies to the next request of each token that names the role.",
      body: roleBody,
      answers: bare("The role.", AclRole),
    },
    "DELETE /acl/role/:id": {
      id: "deleteAclRole",
      summary: "Delete an ACL role",
      description: "Tokens that name it lose its policies.",
    },
    "GET /acl/auth-methods": {
      id: "listAclAuthMethods",
      summary: "List auth methods",
      query: { ...page, ...filter, ...reverse },
      answers: bare("Methods without their configuration.", z.array(z.object({ ...methodStub, ...indexes }))),
    },
    "POST /acl/auth-method": {
      id: "createAclAuthMethod",
      summary: "Create or update an auth method",
      body: methodBody,
      answers: bare("The method.", Method),
      errors: [409],
    },
    "GET /acl/auth-method/:name": {
      id: "readAclAuthMethod",
      summary: "Read an auth method",
      query: waiting,
      answers: bare("The method.", Method),
    },
    "POST /acl/auth-method/:name": {
      id: "updateAclAuthMethod",
      summary: "Create or update an auth method",
      description: "An update keeps fields that the body leaves empty, except `Default`.",
      body: methodBody,
      answers: bare("The method.", Method),
      errors: [409],
    },
    "DELETE /acl/auth-method/:name": {
      id: "deleteAclAuthMethod",
      summary: "Delete an auth method",
      description: "Its binding rules and the tokens of its logins stay.",
    },
    "GET /acl/binding-rules": {
      id: "listAclBindingRules",
      summary: "List binding rules",
      query: pages,
      answers: bare(
        "Rules without their selectors.",
        z.array(
          BindingRule.pick({
            ID: true,
            Description: true,
            AuthMethod: true,
            Hash: true,
            CreateIndex: true,
            ModifyIndex: true,
          }),
        ),
      ),
    },
    "POST /acl/binding-rule": {
      id: "createAclBindingRule",
      summary: "Create a binding rule",
      body: ruleBody,
      answers: bare("The rule.", BindingRule),
    },
    "GET /acl/binding-rule/:id": {
      id: "readAclBindingRule",
      summary: "Read a binding rule",
      query: waiting,
      answers: bare("The rule.", BindingRule),
    },
    "POST /acl/binding-rule/:id": {
      id: "updateAclBindingRule",
      summary: "Update a binding rule",
      body: ruleBody,
      answers: bare("The rule.", BindingRule),
    },
    "DELETE /acl/binding-rule/:id": { id: "deleteAclBindingRule", summary: "Delete a binding rule" },
    "POST /acl/token/onetime": {
      id: "createOneTimeToken",
      summary: "Create a one-time token for the caller's token",
      description: "Valid for ten minutes, in place of an earlier one of the same token.",
      answers: bare("The one-time token.", z.object({ OneTimeToken, Index: index })),
    },
    "POST /acl/token/onetime/exchange": {
      id: "exchangeOneTimeToken",
      summary: "Exchange a one-time token for its token",
      body: { fields: { OneTimeSecretID: "The one-time secret." }, required: ["OneTimeSecretID"] },
      answers: bare("The token, with its secret.", z.object({ Token: AclToken, Index: index })),
      errors: [403],
    },
    "POST /acl/oidc/auth-url": {
      id: "beginOidcLogin",
      summary: "Start a browser login",
      body: {
        fields: {
          AuthMethodName: "An auth method of type OIDC.",
          RedirectURI: "Where the issuer sends the browser afterwards; one that the method allows.",
          ClientNonce: "A random text that the client keeps.",
        },
        required: ["AuthMethodName", "RedirectURI", "ClientNonce"],
      },
      answers: bare("Where the person logs in.", z.object({ AuthURL: z.string() })),
      errors: [502],
    },
    "POST /acl/oidc/complete-auth": {
      id: "completeOidcLogin",
      summary: "Complete a browser login",
      description: "Each state is used once, within ten minutes.",
      body: {
        fields: {
          AuthMethodName: "As at the beginning.",
          RedirectURI: "As at the beginning.",
          ClientNonce: "As at the beginning.",
          State: "From the redirect.",
          Code: "From the redirect.",
          Iss: "From the redirect, if it has one; it must be the issuer of the method.",
        },
        required: ["AuthMethodName", "RedirectURI", "ClientNonce", "State", "Code"],
      },
      answers: bare("The token, with its secret.", AclToken),
      errors: [401, 403],
    },
    "POST /acl/login": {
      id: "loginToCluster",
      summary: "Log in by a signed token",
      description: "401 when the signed token is not valid; 400 when no binding rule gives its caller anything.",
      body: {
        fields: { AuthMethodName: "The auth method.", LoginToken: "A JSON Web Token." },
        required: ["AuthMethodName", "LoginToken"],
      },
      answers: bare("The token, with its secret.", AclToken),
      errors: [401, 403],
    },
  },
);
