import * as z from "zod";
import { data, group, noContent } from "../operation.ts";
import { legacyRoleFieldTexts, loggedIn, TokenSettings, tokenFieldTexts } from "./auth-methods.ts";

const texts = z.array(z.string());

const Config = z.object({
  kubernetes_host: z.string(),
  kubernetes_ca_cert: z.string(),
  pem_keys: texts,
  issuer: z.string(),
  disable_iss_validation: z.boolean(),
  disable_local_ca_jwt: z.boolean(),
  use_annotations_as_alias_metadata: z.boolean(),
  token_reviewer_jwt_set: z.boolean(),
});

const Role = z.object({
  ...TokenSettings.shape,
  bound_service_account_names: texts,
  bound_service_account_namespaces: texts,
  bound_service_account_namespace_selector: z.string(),
  audience: z.string(),
  alias_name_source: z.string(),
});

const configTexts = {
  kubernetes_host: "The URL of the cluster's API. Tokens are reviewed there, unless `pem_keys` are given alone.",
  kubernetes_ca_cert: "Must be empty: an operator sets the private authorities that are trusted.",
  token_reviewer_jwt: "The token that reviews others; stored sealed, never returned. Default: the token of the login.",
  pem_keys: "Public keys or certificates of the cluster's issuer as PEM texts.",
  issuer: "The `iss` claim, when `disable_iss_validation` is false. Default: `kubernetes/serviceaccount`.",
  disable_iss_validation: "Whether any issuer is accepted. Default: true.",
};

const roleTexts = {
  bound_service_account_names: "Names of service accounts; `*` matches any text.",
  bound_service_account_namespaces: "Namespaces of service accounts; `*` matches any text.",
  bound_service_account_namespace_selector: "Must be empty.",
  audience: "The audience that tokens must have.",
  alias_name_source: "The name of the entity's alias: `serviceaccount_uid` (default) or `serviceaccount_name`.",
};

export const authKubernetes = group(
  "Logins",
  { name: "The role's name, in any letter case." },
  {
    "GET /auth/kubernetes/config": {
      id: "readKubernetesConfig",
      summary: "Read the configuration of logins of service accounts",
      answers: data("The configuration.", Config),
    },
    "POST /auth/kubernetes/config": {
      id: "writeKubernetesConfig",
      summary: "Configure logins of service accounts",
      body: { fields: configTexts },
    },
    "LIST /auth/kubernetes/role": { id: "listKubernetesRoles", summary: "List the roles" },
    "GET /auth/kubernetes/role/:name": {
      id: "readKubernetesRole",
      summary: "Read a role",
      answers: data("The role.", Role),
    },
    "POST /auth/kubernetes/role/:name": {
      id: "writeKubernetesRole",
      summary: "Create or update a role",
      body: { fields: { ...roleTexts, ...tokenFieldTexts, ...legacyRoleFieldTexts } },
      answers: { ...noContent, 200: { kind: "envelope", description: "Warnings.", parts: {} } },
    },
    "DELETE /auth/kubernetes/role/:name": { id: "deleteKubernetesRole", summary: "Delete a role" },
    "POST /auth/kubernetes/login": {
      id: "loginWithKubernetes",
      summary: "Log in by the token of a service account",
      body: { fields: { role: "The role.", jwt: "The token of the service account." } },
      answers: loggedIn,
      errors: [403],
    },
  },
);
