import * as z from "zod";
import { ROLE_FIELDS } from "../../auth/approle/roles.ts";
import { IssuedSecretId, networks, SecretIdRecord, uses } from "../../wire/auth.ts";
import { keys, seconds } from "../../wire/shapes.ts";
import { data, group, noContent, type Operation, warned } from "../operation.ts";
import { legacyTokenFieldTexts, loggedIn, TokenSettings, tokenFieldTexts } from "./auth-methods.ts";

const Role = z.object({
  ...TokenSettings.shape,
  bind_secret_id: z.boolean(),
  local_secret_ids: z.boolean(),
  secret_id_bound_cidrs: networks.nullable(),
  secret_id_num_uses: uses,
  secret_id_ttl: seconds,
});

const fieldTexts: Readonly<Record<string, string>> = {
  ...tokenFieldTexts,
  policies: legacyTokenFieldTexts.policies,
  period: legacyTokenFieldTexts.period,
  role_id: "The role id, unique in the auth method. Default: a random one.",
  bind_secret_id: "Whether logins need a secret id.",
  secret_id_bound_cidrs: "Networks that logins are accepted from.",
  bound_cidr_list: "Older name of `secret_id_bound_cidrs`.",
  secret_id_num_uses: "Logins with one secret id; 0 = any number.",
  secret_id_ttl: "Lifetime of secret ids; 0 = without an end.",
  local_secret_ids: "Stored and shown; set when the role is created.",
};

const requestTexts = {
  metadata: "Metadata of the tokens: an object, or its JSON text.",
  cidr_list: "Networks that the secret id is accepted from, inside those of the role.",
  token_bound_cidrs: "Networks that tokens are accepted from, inside those of the role.",
  num_uses: "Number of logins, at most the role's; 0 = any number.",
  ttl: "Lifetime, at most the role's; 0 = without an end.",
};

/** Answers of the paths of single fields. */
const shown: Readonly<Record<string, z.ZodType>> = {
  policies: z.object({ token_policies: z.array(z.string()) }),
  "bind-secret-id": z.object({ bind_secret_id: z.boolean() }),
  "secret-id-bound-cidrs": z.object({ secret_id_bound_cidrs: networks }),
  "bound-cidr-list": z.object({ bound_cidr_list: networks }),
  "secret-id-num-uses": z.object({ secret_id_num_uses: z.int() }),
  "secret-id-ttl": z.object({ secret_id_ttl: seconds }),
  period: z.object({ token_period: seconds }),
  "token-ttl": z.object({ token_ttl: seconds }),
  "token-max-ttl": z.object({ token_max_ttl: seconds }),
  "token-num-uses": z.object({ token_num_uses: z.int() }),
  "token-bound-cidrs": z.object({ token_bound_cidrs: networks }),
};

const ROLE = "/auth/approle/role/:name";

/** `token-ttl` as `TokenTtl`. */
const camel = (path: string): string =>
  path.replace(/(^|-)(\w)/g, (_all, _dash, letter: string) => letter.toUpperCase());

const fieldOperations = Object.fromEntries(
  ROLE_FIELDS.flatMap(({ path, names }): [string, Operation][] => {
    const named = `\`${names[0]}\``;
    const fields = Object.fromEntries(names.map((name) => [name, fieldTexts[name] ?? ""]));
    return [
      [
        `GET ${ROLE}/${path}`,
        {
          id: `readAppRole${camel(path)}`,
          summary: `Read ${named} of a role`,
          answers: data("The field.", shown[path] ?? z.never()),
        },
      ],
      [`POST ${ROLE}/${path}`, { id: `setAppRole${camel(path)}`, summary: `Set ${named} of a role`, body: { fields } }],
      [
        `DELETE ${ROLE}/${path}`,
        { id: `resetAppRole${camel(path)}`, summary: `Set ${named} of a role to its default` },
      ],
    ];
  }),
);

export const approle = group(
  "Logins",
  {
    name: "The role's name, in any letter case.",
    accessor: "The accessor of the auth method.",
    alias: "The locked name: of a user, or a role id.",
  },
  {
    "LIST /auth/approle/role": { id: "listAppRoles", summary: "List the roles" },
    [`GET ${ROLE}`]: { id: "readAppRole", summary: "Read a role", answers: data("The role.", Role) },
    [`POST ${ROLE}`]: {
      id: "writeAppRole",
      summary: "Create or update a role",
      body: { fields: fieldTexts },
    },
    [`DELETE ${ROLE}`]: { id: "deleteAppRole", summary: "Delete a role with its secret ids" },
    [`GET ${ROLE}/role-id`]: {
      id: "readAppRoleRoleId",
      summary: "Read the role id of a role",
      answers: data("The role id.", z.object({ role_id: z.string() })),
    },
    [`POST ${ROLE}/role-id`]: {
      id: "setAppRoleRoleId",
      summary: "Set the role id of a role",
      body: { fields: { role_id: "Unique in the auth method." } },
    },
    [`GET ${ROLE}/local-secret-ids`]: {
      id: "readAppRoleLocalSecretIds",
      summary: "Read `local_secret_ids` of a role",
      answers: data("The field.", z.object({ local_secret_ids: z.boolean() })),
    },
    ...fieldOperations,
    [`LIST ${ROLE}/secret-id`]: {
      id: "listSecretIds",
      summary: "List the accessors of the secret ids of a role",
      answers: data("Their accessors.", keys),
    },
    [`POST ${ROLE}/secret-id`]: {
      id: "issueSecretId",
      summary: "Generate a secret id",
      body: { fields: requestTexts },
      answers: data("The secret id, which no later answer shows.", IssuedSecretId),
    },
    [`POST ${ROLE}/custom-secret-id`]: {
      id: "addSecretId",
      summary: "Create a custom secret id",
      body: { fields: { secret_id: "The secret id.", ...requestTexts } },
      answers: data("The secret id.", IssuedSecretId),
    },
    [`POST ${ROLE}/secret-id/lookup`]: {
      id: "lookupSecretId",
      summary: "Look up a secret id",
      body: { fields: { secret_id: "The secret id." } },
      answers: { ...data("The secret id.", SecretIdRecord), ...noContent },
    },
    [`POST ${ROLE}/secret-id-accessor/lookup`]: {
      id: "lookupSecretIdByAccessor",
      summary: "Look up a secret id by its accessor",
      body: { fields: { secret_id_accessor: "Its accessor." } },
      answers: data("The secret id.", SecretIdRecord),
    },
    ...Object.fromEntries(
      (["POST", "DELETE"] as const).flatMap((verb): [string, Operation][] => {
        const id = verb === "POST" ? "destroy" : "delete";
        return [
          [
            `${verb} ${ROLE}/secret-id/destroy`,
            {
              id: `${id}SecretId`,
              summary: "Destroy a secret id",
              body: { fields: { secret_id: "The secret id." } },
            },
          ],
          [
            `${verb} ${ROLE}/secret-id-accessor/destroy`,
            {
              id: `${id}SecretIdByAccessor`,
              summary: "Destroy a secret id by its accessor",
              body: { fields: { secret_id_accessor: "Its accessor." } },
            },
          ],
        ];
      }),
    ),
    "POST /auth/approle/tidy/secret-id": {
      id: "tidySecretIds",
      summary: "Remove expired secret ids",
      answers: warned("Done; a warning says so, as clients expect.", 202),
    },
    "POST /auth/approle/login": {
      id: "loginWithAppRole",
      summary: "Log in by role id and secret id",
      body: { fields: { role_id: "The role id.", secret_id: "The secret id, unless the role needs none." } },
      answers: loggedIn,
    },
    "GET /sys/locked-users": {
      id: "listLockedUsers",
      summary: "List locked users",
      query: { mount_accessor: "Only those of one auth method." },
      answers: data(
        "Locked names by namespace and auth method.",
        z.object({
          total: z.int(),
          by_namespace: z.array(
            z.object({
              namespace_id: z.string(),
              namespace_path: z.string(),
              counts: z.int(),
              mount_accessors: z.array(
                z.object({ mount_accessor: z.string(), counts: z.int(), alias_identifiers: z.array(z.string()) }),
              ),
            }),
          ),
        }),
        { flat: true },
      ),
    },
    "POST /sys/locked-users/:accessor/unlock/:alias+": { id: "unlockUser", summary: "Unlock a user" },
  },
);
