/** Named settings of auth methods and identities that the console can change, each with its schema. */
import approleSchema from "schema:POST /v1/auth/approle/role/{name}";
import jwtConfig from "schema:POST /v1/auth/jwt/config";
import jwtSchema from "schema:POST /v1/auth/jwt/role/{name}";
import kubernetesConfig from "schema:POST /v1/auth/kubernetes/config";
import kubernetesSchema from "schema:POST /v1/auth/kubernetes/role/{name}";
import tokenRoleSchema from "schema:POST /v1/auth/token/roles/{role}";
import userpassSchema from "schema:POST /v1/auth/userpass/users/{name}";
import entitySchema from "schema:POST /v1/identity/entity/name/{name}";
import groupSchema from "schema:POST /v1/identity/group/name/{name}";
import namespaceSchema from "schema:POST /v1/sys/namespaces/{name}";
import leaseCountSchema from "schema:POST /v1/sys/quotas/lease-count/{name}";
import rateLimitSchema from "schema:POST /v1/sys/quotas/rate-limit/{name}";
import type { FieldTexts } from "../../components/schema-form.tsx";
import type { JsonSchema } from "../../lib/schema.ts";

export interface Kind {
  /** `user`, `role` … */
  readonly noun: string;
  /** Paths of the API document. All kinds take the same requests, so one of them stands for the types. */
  readonly list: "LIST /v1/auth/userpass/users";
  readonly item: "/v1/auth/userpass/users/{name}";
  readonly schema: JsonSchema;
  readonly first: readonly string[];
  /** Says what the first one is for. */
  readonly about: string;
  /** The effect of its deletion. */
  readonly ends: string;
  /** A write replaces all fields: one that it leaves out gets its default. */
  readonly replaces?: boolean;
  /** Fields without a use in the form. */
  readonly hidden?: readonly string[];
}

const LOGINS_END = "Log-ins through it fail from now on. Tokens that are out keep their rights until they end.";

const kind = (
  list: string,
  noun: string,
  schema: JsonSchema,
  first: readonly string[],
  about: string,
  more: Partial<Pick<Kind, "ends" | "replaces" | "hidden">> = {},
): Kind => ({
  ends: LOGINS_END,
  ...more,
  list: `LIST ${list}` as Kind["list"],
  item: `${list}/{name}` as Kind["item"],
  noun,
  schema,
  first,
  about,
});

const POLICIES = ["token_policies", "token_ttl"];
const CLAIMS = ["role_type", "user_claim", "bound_audiences", "bound_subject", "bound_claims"];

export const ENTITIES = kind(
  "/v1/identity/entity/name",
  "entity",
  entitySchema,
  ["policies", "metadata"],
  "An entity is a person or a program: its policies hold for all its log-ins.",
);
export const GROUPS = kind(
  "/v1/identity/group/name",
  "group",
  groupSchema,
  ["policies", "member_entity_ids", "member_group_ids"],
  "The policies of a group hold for all entities in it.",
);

export const TOKEN_ROLES = kind(
  "/v1/auth/token/roles",
  "token role",
  tokenRoleSchema,
  ["allowed_policies", "disallowed_policies", "orphan", "token_type", "token_period"],
  "A token role says which policies tokens may have that are created through it.",
  { ends: "No token can be created through it any more. Tokens that are out keep their rights." },
);
export const RATE_LIMITS = kind(
  "/v1/sys/quotas/rate-limit",
  "rate limit",
  rateLimitSchema,
  ["path", "rate", "interval", "block_interval"],
  "A rate limit answers requests above a number in a time with 429; of one path, or of all.",
  { ends: "Requests are no longer limited by it.", replaces: true, hidden: ["type", "role", "secondary_rate"] },
);
export const LEASE_LIMITS = kind(
  "/v1/sys/quotas/lease-count",
  "lease limit",
  leaseCountSchema,
  ["path", "max_leases"],
  "A lease limit refuses credentials with 429 once an engine has as many leases.",
  { ends: "Leases are no longer limited by it.", replaces: true, hidden: ["type"] },
);
export const NAMESPACES = kind(
  "/v1/sys/namespaces",
  "namespace",
  namespaceSchema,
  ["custom_metadata"],
  "A namespace has engines, policies and tokens of its own. Namespaces in it are shown once it is selected.",
  { ends: "Its engines, secrets, policies and tokens are deleted with it. This cannot be undone." },
);

interface Method {
  readonly label: string;
  readonly kind: Kind;
  readonly config?: JsonSchema;
}

/** A schema with a flag that is set by default, which the API document leaves out. */
const setByDefault = (schema: JsonSchema, name: string): JsonSchema => ({
  ...schema,
  properties: { ...schema.properties, [name]: { ...schema.properties?.[name], default: true } },
});

const JWT_CONFIG = setByDefault(jwtConfig, "namespace_in_state");

const jwtRoles = (type: string): Kind =>
  kind(
    `/v1/auth/${type}/role`,
    "role",
    jwtSchema,
    [...CLAIMS, "allowed_redirect_uris", ...POLICIES],
    "A role says which claims a caller needs, and which policies its token gets.",
  );

/** Types of auth methods that a deployment can enable. */
export const METHODS: Readonly<Record<string, Method>> = {
  userpass: {
    label: "User names and passwords",
    kind: kind(
      "/v1/auth/userpass/users",
      "user",
      userpassSchema,
      ["password", ...POLICIES],
      "A user logs in with a name and a password.",
    ),
  },
  approle: {
    label: "AppRole: programs with a role ID and a secret ID",
    kind: kind(
      "/v1/auth/approle/role",
      "role",
      approleSchema,
      [...POLICIES, "secret_id_ttl", "secret_id_num_uses"],
      "A role is for one program: it logs in with the role's ID and a secret ID.",
    ),
  },
  oidc: { label: "OpenID Connect: people through an identity provider", kind: jwtRoles("oidc"), config: JWT_CONFIG },
  jwt: { label: "JWT: workloads with a signed token", kind: jwtRoles("jwt"), config: JWT_CONFIG },
  kubernetes: {
    label: "Kubernetes: service accounts",
    kind: kind(
      "/v1/auth/kubernetes/role",
      "role",
      kubernetesSchema,
      ["bound_service_account_names", "bound_service_account_namespaces", ...POLICIES],
      "A role says which service accounts may log in, and which policies they get.",
    ),
    config: setByDefault(kubernetesConfig, "disable_iss_validation"),
  },
};

/** Older names of fields, which do the same as `token_…`. */
export const OLD_NAMES = ["policies", "ttl", "max_ttl", "period", "num_uses", "bound_cidrs", "bound_cidr_list"];

export const TEXTS: Readonly<Record<string, FieldTexts>> = {
  token_policies: { label: "Policies", rows: 2 },
  policies: { label: "Policies", rows: 2 },
  token_ttl: { label: "Life of tokens", placeholder: "1h" },
  token_max_ttl: { label: "Longest life with renewals", placeholder: "24h" },
};
