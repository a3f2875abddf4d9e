import { ok, type Result, refuse } from "../../../lib/result.ts";
import { projectPattern, projectRule } from "../../../providers/cloud-c-gcp/key.ts";
import { storedShare } from "../../leases/share-lease.ts";
import { type Bindings, parseBindings } from "./bindings.ts";
import type { Role, RoleBody, RoleKind, SecretType } from "./role.ts";

/** Checks of a role's body, before the first call. Texts are upstream's. */

/** A role as its body asks for it, and warnings for the caller. */
export interface Draft {
  readonly role: Role;
  readonly warnings: readonly string[];
}

const EMAIL = /^[^\s@/]{1,64}@[^\s@/]{3,253}$/;

const isSecretType = (type: string): type is SecretType => type === "access_token" || type === "service_account_key";

/** Merges a body into a role. Absent fields keep their values. */
export function draftRole(kind: RoleKind, before: Role | null, body: RoleBody): Result<Draft> {
  switch (kind) {
    case "roleset":
      return draftRoleset(before, body);
    case "static-account":
      return draftStatic(before, body);
    case "impersonated-account":
      return draftImpersonated(before, body);
  }
}

function draftRoleset(before: Role | null, body: RoleBody): Result<Draft> {
  const type = body.secret_type ?? before?.secret_type ?? "access_token";
  if (!isSecretType(type))
    return refuse("invalid", `invalid "secret_type" value: ${JSON.stringify(type.slice(0, 64))}`);
  if (before && type !== before.secret_type) {
    return refuse("invalid", "cannot change secret_type after roleset creation");
  }
  const project = projectOf(before, body);
  if (!project.ok) return project;
  const scopes = scopesOf(type, before, body, "token_scopes must be provided for creating access token role set");
  if (!scopes.ok) return scopes;
  if (body.bindings === undefined && !before) return refuse("invalid", "bindings are required for new role set");
  const bindings = bindingsOf(before, body);
  if (!bindings.ok) return bindings;
  const share = shareOf(type, before, body);
  if (!share.ok) return share;
  const isIgnored = type !== "access_token" && body.token_scopes !== undefined;
  return ok({
    role: {
      ...EMPTY,
      ...before,
      kind: "roleset",
      secret_type: type,
      project: project.value,
      token_scopes: scopes.value,
      bindings: bindings.value,
      share_until: share.value,
    },
    warnings: isIgnored ? ["ignoring token_scopes, only valid for 'access_token' secret type role set"] : [],
  });
}

function draftStatic(before: Role | null, body: RoleBody): Result<Draft> {
  const type = body.secret_type ?? before?.secret_type ?? "access_token";
  if (!isSecretType(type)) return refuse("invalid", `invalid secret_type ${JSON.stringify(type.slice(0, 64))}`);
  if (before && type !== before.secret_type) return refuse("invalid", "cannot update secret_type");
  const email = emailOf(before, body);
  if (!email.ok) return email;
  const scopes = scopesOf(type, before, body, NO_SCOPES);
  if (!scopes.ok) return scopes;
  const cleared = body.bindings?.trim() === "" ? ok({}) : null;
  const bindings = cleared ?? bindingsOf(before, body);
  if (!bindings.ok) return bindings;
  const share = shareOf(type, before, body);
  if (!share.ok) return share;
  return ok({
    role: {
      ...EMPTY,
      ...before,
      kind: "static-account",
      secret_type: type,
      service_account_email: email.value,
      token_scopes: scopes.value,
      bindings: bindings.value,
      share_until: share.value,
    },
    warnings: [],
  });
}

function draftImpersonated(before: Role | null, body: RoleBody): Result<Draft> {
  const email = emailOf(before, body);
  if (!email.ok) return email;
  const scopes = scopesOf("access_token", before, body, NO_SCOPES);
  if (!scopes.ok) return scopes;
  return ok({
    role: {
      ...EMPTY,
      ...before,
      kind: "impersonated-account",
      service_account_email: email.value,
      token_scopes: scopes.value,
      ttl: body.ttl ?? before?.ttl ?? 0,
    },
    warnings: [],
  });
}

const EMPTY: Role = {
  kind: "roleset",
  secret_type: "access_token",
  project: "",
  service_account_email: "",
  token_scopes: [],
  bindings: {},
  ttl: 0,
  madeAt: 0,
  grants: [],
};

const NO_SCOPES = "non-empty token_scopes must be provided for generating access_token secrets";

function projectOf(before: Role | null, { project }: RoleBody): Result<string> {
  if (project === undefined) {
    return before ? ok(before.project) : refuse("invalid", "project argument is required for new role set");
  }
  if (project === "") return refuse("invalid", "given empty project");
  if (!projectPattern.test(project)) return refuse("invalid", `project: ${projectRule}`);
  if (before && before.project !== project) {
    return refuse("invalid", `cannot change project for existing role set (old: ${before.project}, new: ${project})`);
  }
  return ok(project);
}

function emailOf(before: Role | null, { service_account_email: email }: RoleBody): Result<string> {
  if (before) {
    const isKept = email === undefined || email === before.service_account_email;
    return isKept ? ok(before.service_account_email) : refuse("invalid", "cannot update email");
  }
  if (email === undefined || email === "") return refuse("invalid", "email is required");
  return EMAIL.test(email) ? ok(email) : refuse("invalid", "service_account_email: must be an e-mail address");
}

function scopesOf(
  type: SecretType,
  before: Role | null,
  { token_scopes: given }: RoleBody,
  required: string,
): Result<readonly string[]> {
  if (type !== "access_token") return ok([]);
  if (given?.length === 0) return refuse("invalid", "cannot provide empty token_scopes");
  const scopes = given ?? before?.token_scopes ?? [];
  return scopes.length > 0 ? ok([...new Set(scopes)]) : refuse("invalid", required);
}

/** Access tokens have no lease, and leave nothing behind that a share could spare. */
function shareOf(type: SecretType, before: Role | null, { share_until: given }: RoleBody): Result<number | undefined> {
  if (type === "access_token" && given) return refuse("invalid", "share_until: access tokens have no lease to share");
  return ok(storedShare(given, before?.share_until));
}

const bindingsOf = (before: Role | null, { bindings }: RoleBody): Result<Bindings> =>
  bindings === undefined ? ok(before?.bindings ?? {}) : parseBindings(bindings);
