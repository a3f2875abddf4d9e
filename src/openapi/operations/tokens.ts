import * as z from "zod";
import { Auth, TokenRole } from "../../wire/auth.ts";
import { keys, seconds, texts, time, timeOrNull } from "../../wire/shapes.ts";
import { data, group, noContent, type Operation } from "../operation.ts";

const Token = z
  .object({
    accessor: z.string(),
    creation_time: z.int().describe("Seconds since 1970."),
    creation_ttl: seconds,
    display_name: z.string(),
    entity_id: z.string().describe("The entity of the holder; empty for none."),
    expire_time: timeOrNull,
    explicit_max_ttl: seconds,
    id: z.string().describe("The token; empty when it was named by its accessor."),
    issue_time: time,
    last_renewal: time.optional(),
    last_renewal_time: z.int().optional().describe("Seconds since 1970."),
    meta: texts.nullable(),
    namespace_path: z.string(),
    num_uses: z.int(),
    orphan: z.boolean(),
    path: z.string(),
    period: seconds.optional(),
    policies: z.array(z.string()),
    role: z.string().optional().describe("The role that it was made with."),
    identity_policies: z.array(z.string()).optional(),
    bound_cidrs: z.array(z.string()).optional(),
    renewable: z.boolean(),
    ttl: seconds.describe("Seconds left; 0 for a token that does not expire."),
    type: z.enum(["service", "batch"]),
  })
  .meta({ id: "Token" });

const made = (description: string) => ({
  200: { kind: "envelope", description, parts: { auth: Auth } } as const,
});
const shown = data("The token.", Token);

const creation: Pick<Operation, "body" | "answers"> = {
  body: {
    fields: {
      id: "Its value, instead of one that is made up. Needs `sudo`; in the root namespace only.",
      policies: "What it may; without them what its parent may.",
      no_parent: "It outlives the token that makes it. Needs `sudo`.",
      ttl: "Its life; 768 hours at most, and by default.",
      type: "`batch`: a token that is not stored, cannot be renewed or revoked, and ends with its parent.",
      entity_alias: "The alias of an entity that the token is made for. Needs a role that allows it.",
      lease: "An older name of `ttl`.",
      explicit_max_ttl: "The end of all renewals.",
      period: "Each renewal gives it this time, for ever. Needs `sudo`.",
      num_uses: "How many requests it is good for; 0 is any number.",
    },
  },
  answers: made("The token; its secret is returned only here."),
};
const named =
  "The rule for the path in the token's namespace applies, for any namespace of the request; a capability in the request's namespace also covers namespaces below it.";
const renewal: Pick<Operation, "body" | "answers"> = {
  body: { fields: { increment: "How long it shall last from now; 0 is its own time." } },
  answers: made("Renewed."),
};

export const tokens = group(
  "Tokens",
  { role: "The name of a token role in the namespace." },
  {
    "POST /auth/token/create": { id: "createToken", summary: "Create a child token", ...creation },
    "POST /auth/token/create-orphan": { id: "createOrphanToken", summary: "Create an orphan token", ...creation },
    "POST /auth/token/create/:role": {
      id: "createTokenOfRole",
      summary: "Create a token of a role",
      description: "The role decides about policies, parent, path and networks, and limits times and uses.",
      ...creation,
    },
    "LIST /auth/token/roles": { id: "listTokenRoles", summary: "List token roles", answers: data("Names.", keys) },
    "GET /auth/token/roles/:role": {
      id: "readTokenRole",
      summary: "Read a token role",
      answers: data("The role.", TokenRole),
    },
    "POST /auth/token/roles/:role": {
      id: "putTokenRole",
      summary: "Create or update a token role",
      description: "Fields that the body does not name keep their values.",
      body: {
        fields: {
          allowed_policies: "Policies that its tokens may have, whatever the caller has; all of them without a list.",
          allowed_policies_glob: "Patterns of such policies; `*` matches any text.",
          disallowed_policies: "Policies that its tokens never have.",
          disallowed_policies_glob: "Patterns of such policies.",
          allowed_entity_aliases: "Aliases, or patterns of them, that a token may be made for with `entity_alias`.",
          orphan: "Its tokens have no parent.",
          renewable: "Whether its tokens can be renewed; true by default.",
          path_suffix: "Added to the path of its tokens.",
          token_period: "Period of its tokens. A renewal uses the value of that time.",
          token_explicit_max_ttl: "End of all renewals. A renewal uses the value of that time.",
          token_type: "Type of its tokens; `default-service` and `default-batch` leave the choice to the request.",
          token_num_uses: "Maximum number of uses; 0 for any.",
          token_no_default_policy: "Its tokens do not get `default` by themselves.",
          token_bound_cidrs: "Networks that its tokens may be used from.",
          period: "An older name of `token_period`.",
          explicit_max_ttl: "An older name of `token_explicit_max_ttl`.",
          bound_cidrs: "An older name of `token_bound_cidrs`.",
        },
      },
      answers: {
        200: { kind: "envelope", description: "Changed, with warnings.", parts: {} },
        ...noContent,
      },
    },
    "DELETE /auth/token/roles/:role": {
      id: "deleteTokenRole",
      summary: "Delete a token role",
      description: "Its tokens live on, but are not renewed.",
    },
    "POST /auth/token/tidy": {
      id: "tidyTokens",
      summary: "Tidy the token store (no-op)",
      description: "Does nothing: expired tokens are removed as they expire.",
      answers: { 202: { kind: "envelope", description: "A warning that there was nothing to do.", parts: {} } },
    },
    "GET /auth/token/lookup-self": { id: "lookupOwnToken", summary: "Look up the caller's token", answers: shown },
    "POST /auth/token/lookup-self": {
      id: "lookupOwnTokenByPost",
      summary: "Look up the caller's token",
      answers: shown,
    },
    "POST /auth/token/lookup": {
      id: "lookupToken",
      summary: "Look up a token (default: the caller's)",
      description: named,
      answers: shown,
    },
    "GET /auth/token/lookup": {
      id: "lookupTokenByQuery",
      summary: "Look up a token by path (deprecated: paths are logged)",
      query: { token: "The token; without it, the caller's." },
      answers: shown,
    },
    "POST /auth/token/lookup-accessor": {
      id: "lookupTokenByAccessor",
      summary: "Look up a token by accessor",
      answers: shown,
    },
    "POST /auth/token/renew-self": { id: "renewOwnToken", summary: "Renew the caller's token", ...renewal },
    "POST /auth/token/renew": { id: "renewToken", summary: "Renew a token", ...renewal },
    "POST /auth/token/renew-accessor": { id: "renewTokenByAccessor", summary: "Renew a token by accessor", ...renewal },
    "POST /auth/token/revoke-self": { id: "revokeOwnToken", summary: "Revoke the caller's token and its children" },
    "POST /auth/token/revoke": { id: "revokeToken", summary: "Revoke a token and its children" },
    "POST /auth/token/revoke-accessor": {
      id: "revokeTokenByAccessor",
      summary: "Revoke a token and its children by accessor",
    },
    "POST /auth/token/revoke-orphan": { id: "revokeTokenOnly", summary: "Revoke a token but not its children" },
    "LIST /auth/token/accessors": {
      id: "listTokenAccessors",
      summary: "List token accessors",
      answers: data("Accessors.", keys),
    },
  },
);
