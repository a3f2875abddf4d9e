import * as z from "zod";
import { withoutUndefined } from "../../../lib/json.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration, stringList, stringMap } from "../../../platform/http/fields.ts";
import type { RoleTtls } from "../../leases/lease-ttl.ts";
import { sharePercent, storedShare } from "../../leases/share-lease.ts";
import type { CloudAccount, EngineConfig } from "./config.ts";

export const CREDENTIAL_TYPES = ["iam_user", "assumed_role", "federation_token", "session_token"] as const;
export type CredentialType = (typeof CREDENTIAL_TYPES)[number];

/** A stored role. Durations in seconds, 0 = not set. Lists and maps that were never written are null. */
export interface Role {
  readonly credential_type: CredentialType;
  readonly role_arns: readonly string[] | null;
  readonly policy_arns: readonly string[] | null;
  /** Compact JSON; empty without one. */
  readonly policy_document: string;
  readonly iam_groups: readonly string[] | null;
  readonly iam_tags: Readonly<Record<string, string>> | null;
  readonly default_sts_ttl: number;
  readonly max_sts_ttl: number;
  readonly user_path: string;
  readonly permissions_boundary_arn: string;
  readonly session_tags: Readonly<Record<string, string>> | null;
  readonly external_id: string;
  readonly mfa_serial_number: string;
  /** See `sharePercent`. Absent when it is 0, as in older roles. */
  readonly share_until?: number | undefined;
}

const NEW_ROLE: Omit<Role, "credential_type"> = {
  role_arns: null,
  policy_arns: null,
  policy_document: "",
  iam_groups: null,
  iam_tags: null,
  default_sts_ttl: 0,
  max_sts_ttl: 0,
  user_path: "",
  permissions_boundary_arn: "",
  session_tags: null,
  external_id: "",
  mfa_serial_number: "",
};

const text = (most = 2048) => z.string().max(most);

/** Body of `POST roles/:name`. Absent fields keep their values. */
export const RoleBody = z.object({
  credential_type: text(64).optional(),
  role_arns: stringList().optional(),
  policy_arns: stringList().optional(),
  policy_document: text(131_072).optional(),
  iam_groups: stringList().optional(),
  iam_tags: stringMap().optional(),
  default_sts_ttl: duration().optional(),
  max_sts_ttl: duration().optional(),
  user_path: text(512).optional(),
  permissions_boundary_arn: text().optional(),
  session_tags: stringMap().optional(),
  external_id: text(1224).optional(),
  mfa_serial_number: text(256).optional(),
  share_until: sharePercent().optional(),
});
export type RoleBody = z.infer<typeof RoleBody>;

/** Word characters, `-`, `.` and `@`; the case is kept. */
export const ROLE_NAME = /^\w(?:[\w.@-]{0,254}\w)?$/;

const USER_PATH = /^\/([\x21-\x7F]{0,510}\/)?$/;

/** Merges a body into a role. @param account refused credential types of an engine without a key; null: unknown */
export function draftRole(before: Role | null, body: RoleBody, account: CloudAccount | null): Result<Role> {
  const document = body.policy_document === undefined ? ok(undefined) : compacted(body.policy_document);
  if (!document.ok) return document;
  const given = withoutUndefined({ ...body, policy_document: document.value });
  const role = { ...NEW_ROLE, credential_type: "", ...before, ...given };
  const problems = problemsOf(role);
  if (problems.length > 0) {
    // Upstream quotes the list of its problems.
    const listed = problems.map((each) => `\t* ${each}\n`).join("");
    const counted = `${problems.length} error${problems.length === 1 ? "" : "s"} occurred:\n${listed}\n`;
    return refuse("invalid", `error(s) validating supplied role data: ${JSON.stringify(counted)}`);
  }
  const type = role.credential_type;
  if (account?.federation && (type === "federation_token" || type === "session_token")) {
    const because = "the provider issues it to keys of a user only, and the engine logs in with identity tokens";
    return refuse("invalid", `credential_type: ${type} is not possible here: ${because}`);
  }
  return ok({ ...role, share_until: storedShare(body.share_until, before?.share_until) } as Role);
}

/** A policy document as compact JSON; an empty text stays empty. */
function compacted(given: string): Result<string> {
  if (given.trim() === "") return ok("");
  try {
    return ok(JSON.stringify(JSON.parse(given)));
  } catch {
    return refuse("invalid", "cannot parse policy document: it must be JSON");
  }
}

type Draft = Omit<Role, "credential_type"> & { readonly credential_type: string };

const some = (list: Readonly<Record<string, string>> | readonly string[] | null): boolean =>
  Object.keys(list ?? {}).length > 0;

/** The contradictions in a role, in upstream's words. */
function problemsOf(role: Draft): string[] {
  const type = role.credential_type;
  const isUser = type === "iam_user";
  const isSession = ["assumed_role", "federation_token", "session_token"].includes(type);
  const { default_sts_ttl: ttl, max_sts_ttl: max } = role;
  const only = "parameter only valid for assumed_role, federation_token, and session_token credential types";
  const boundary = role.permissions_boundary_arn === "" ? null : boundaryProblem(role.permissions_boundary_arn);
  const rules: readonly (readonly [broken: boolean, problem: string])[] = [
    [type === "", "did not supply credential_type"],
    [type !== "" && !isUser && !isSession, `unrecognized credential type: ${type}`],
    [!isSession && ttl > 0, `default_sts_ttl ${only}`],
    [!isSession && max > 0, `max_sts_ttl ${only}`],
    [max > 0 && ttl > max, '"default_sts_ttl" value must be less than or equal to "max_sts_ttl" value'],
    [role.user_path !== "" && !isUser, "user_path parameter only valid for iam_user credential type"],
    [
      role.user_path !== "" && isUser && !USER_PATH.test(role.user_path),
      `the specified value for user_path is invalid. It must match "${String.raw`^\/([\x21-\x7F]{0,510}\/)?$`}" regexp`,
    ],
    [
      role.permissions_boundary_arn !== "" && !isUser,
      "cannot supply permissions_boundary_arn when credential_type isn't iam_user",
    ],
    [boundary !== null && isUser, `invalid permissions_boundary_arn parameter: ${boundary}`],
    [
      type === "session_token" && (role.policy_document !== "" || some(role.policy_arns) || some(role.role_arns)),
      "cannot supply a policy or role when using credential_type session_token",
    ],
    ...(["role_arns", "session_tags"] as const).map(
      (field) =>
        [
          some(role[field]) && type !== "assumed_role" && !(field === "role_arns" && type === "session_token"),
          `cannot supply ${field} when credential_type isn't assumed_role`,
        ] as const,
    ),
    [
      role.external_id !== "" && type !== "assumed_role",
      "cannot supply external_id when credential_type isn't assumed_role",
    ],
  ];
  return rules.filter(([broken]) => broken).map(([, problem]) => problem);
}

function boundaryProblem(arn: string): string | null {
  const [prefix, , service = "", , , resource = ""] = arn.split(":");
  if (prefix !== "arn" || resource === "") return "arn: invalid prefix or sections";
  if (service !== "iam") return `expected a service of iam but got ${service.slice(0, 64)}`;
  const [kind = ""] = resource.split("/");
  return kind === "policy" ? null : `expected a resource type of policy but got ${kind.slice(0, 64)}`;
}

const DEFAULT_SESSION = 3_600;

/** TTLs of a role's leases: of a session's own, or of `config/lease`. */
export function ttlsOf(role: Role, config: () => EngineConfig | null): RoleTtls {
  if (role.credential_type !== "iam_user") {
    const { default_sts_ttl: ttl, max_sts_ttl: max } = role;
    return { ttl: ttl || DEFAULT_SESSION, max_ttl: max, explicit_max_ttl: 0 };
  }
  return userTtls(config());
}

/** TTLs of leases of users, also after their role has changed. */
export const userTtls = (config: EngineConfig | null): RoleTtls => ({
  ttl: config?.lease?.lease ?? 0,
  max_ttl: config?.lease?.lease_max ?? 0,
  explicit_max_ttl: 0,
});
