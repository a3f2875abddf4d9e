import { type EngineDescription, rotationFields, shareUntil } from "../description.ts";

const config = {
  access_key: { label: "Access key ID", help: "The key that the engine calls the provider with." },
  secret_key: {
    label: "Secret access key",
    help: "Not with `identity_token_audience`. Never returned.",
    secret: true,
  },
  region: { placeholder: "us-east-1", label: "Region", help: "The region of STS; `us-east-1` by default." },
  iam_endpoint: { advanced: true, label: "IAM endpoint", help: "A URL in place of the provider's own." },
  sts_endpoint: { advanced: true, label: "STS endpoint", help: "A URL in place of the region's own." },
  sts_region: { advanced: true, label: "STS region", help: "The region of signatures for `sts_endpoint`." },
  sts_fallback_endpoints: {
    advanced: true,
    label: "STS fallback endpoints",
    help: "URLs that are called while the ones before do not answer.",
  },
  sts_fallback_regions: {
    advanced: true,
    label: "STS fallback regions",
    help: "One for each of `sts_fallback_endpoints`.",
  },
  max_retries: {
    advanced: true,
    label: "Maximum retries",
    help: "Stored only: the service repeats calls by its own rules.",
  },
  username_template: {
    restored: true,
    advanced: true,
    label: "Username template",
    help: "Names of users and sessions; a write without it restores the default.",
  },
  role_arn: { advanced: true, label: "Role ARN", help: "The role that identity tokens assume." },
  identity_token_audience: {
    advanced: true,
    label: "Identity token audience",
    help: "Assumes `role_arn` with an identity token for this audience instead of a key.",
  },
  identity_token_ttl: {
    advanced: true,
    label: "Identity token TTL",
    help: "Life of such a token; an hour by default.",
  },
  ...rotationFields({ scheduled: "When the key is rotated", period: "Rotates" }),
} as const satisfies EngineDescription["config"];

/** Of roles with these credential types. */
const of = (...is: readonly string[]) => ({ only: { field: "credential_type", is } });
const ofSession = of("assumed_role", "federation_token", "session_token");
const ofUser = of("iam_user");
const ofRole = of("assumed_role");
const ofPolicies = of("iam_user", "assumed_role", "federation_token");

const roles = {
  credential_type: {
    required: true,
    label: "Credential type",
    placeholder: "Choose",
    help: "A session of a role, a federation or session token, or an IAM user with an access key. Required.",
  },
  role_arns: { ...ofRole, label: "Role ARNs", help: "Roles that may be assumed, of `assumed_role`." },
  policy_arns: {
    ...ofPolicies,
    label: "Policy ARNs",
    help: "Managed policies of the user, or limits of the session.",
  },
  policy_document: {
    ...ofPolicies,
    rows: 6,
    label: "Policy document",
    help: "An inline policy of the user, or a limit of the session.",
  },
  iam_groups: {
    ...ofPolicies,
    label: "IAM groups",
    help: "Groups that the user joins, or whose policies limit the session.",
  },
  iam_tags: { ...ofUser, advanced: true, label: "IAM tags", help: "Tags of the user, of `iam_user`." },
  default_sts_ttl: {
    ...ofSession,
    placeholder: "1h",
    label: "Default STS TTL",
    help: "Life of a session by default; an hour when unset.",
  },
  max_sts_ttl: { ...ofSession, label: "Maximum STS TTL", help: "The most that a session may live; 0 is the mount's." },
  user_path: { ...ofUser, advanced: true, label: "User path", help: "Path of the user, of `iam_user`." },
  permissions_boundary_arn: {
    ...ofUser,
    advanced: true,
    label: "Permissions boundary",
    help: "A managed policy, of `iam_user`.",
  },
  session_tags: {
    ...ofRole,
    advanced: true,
    label: "Session tags",
    help: "Tags of the session, of `assumed_role`.",
  },
  external_id: {
    ...ofRole,
    advanced: true,
    label: "External ID",
    help: "The id that the role's trust requires, of `assumed_role`.",
  },
  mfa_serial_number: {
    ...of("session_token"),
    advanced: true,
    label: "MFA serial number",
    help: "The device of the root user, of `session_token`.",
  },
  share_until: shareUntil,
} as const satisfies EngineDescription["config"];

export const description = {
  type: "cloud-a",
  upstream: "aws",
  label: "AWS",
  about: "Sessions of roles, federated sessions, or leased IAM users with access keys.",
  paths: { config: "/config/root", rotate: "/config/rotate-root", roles: "/roles", issue: ["/creds", "/sts"] },
  keepsConfig: true,
  updatesRoles: true,
  deletesAnyRole: true,
  config,
  documents: {
    "/config/lease": {
      lease: { label: "Lease", help: "TTL of leases of users." },
      lease_max: { label: "Maximum lease", help: "The most that such a lease may live." },
    },
  },
  roles,
  kinds: [
    {
      path: "/static-roles",
      issue: [],
      reads: ["/static-creds"],
      answersWrites: true,
      owns: "keys",
      fields: {
        username: { label: "User name", help: "An IAM user that exists." },
        rotation_period: { label: "Rotation period", help: "Time after which the key is replaced; a minute at least." },
        assume_role_arn: {
          label: "Assumed role",
          help: "A role, mostly of another account, that may manage the user.",
        },
        assume_role_session_name: { label: "Session name", help: "Of `assume_role_arn`; required with it." },
        external_id: { label: "External ID", help: "The id that the trust of `assume_role_arn` requires." },
        adopt_oldest_key: {
          label: "Adopt oldest key",
          help: "Deletes the oldest access key of a user that has two of others. Without it such a user is refused.",
        },
      },
    },
  ],
  answer: {
    access_key: { label: "Access key ID", variable: "AWS_ACCESS_KEY_ID" },
    secret_key: { label: "Secret access key", variable: "AWS_SECRET_ACCESS_KEY", secret: true },
    session_token: { label: "Session token", variable: "AWS_SESSION_TOKEN", secret: true },
    arn: { label: "ARN" },
  },
} as const satisfies EngineDescription;
