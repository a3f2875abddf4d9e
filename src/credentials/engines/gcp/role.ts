import * as z from "zod";
import { duration, stringList } from "../../../platform/http/fields.ts";
import type { RoleTtls } from "../../leases/lease-ttl.ts";
import { sharePercent } from "../../leases/share-lease.ts";
import type { Bindings } from "./bindings.ts";
import type { EngineConfig } from "./config.ts";
import type { Grant } from "./grants.ts";

export type RoleKind = "roleset" | "static-account" | "impersonated-account";
export type SecretType = "access_token" | "service_account_key";

/** A stored roleset, static account or impersonated account. */
export interface Role {
  readonly kind: RoleKind;
  readonly secret_type: SecretType;
  /** Of the service account. */
  readonly project: string;
  readonly service_account_email: string;
  readonly token_scopes: readonly string[];
  readonly bindings: Bindings;
  /** Seconds that an access token of an impersonated account lives; 0 = an hour. */
  readonly ttl: number;
  /** See `sharePercent`. Absent when it is 0, as in older roles. */
  readonly share_until?: number | undefined;
  /** Time at which the engine made the account, ms since 1970; 0: it was there. */
  readonly madeAt: number;
  /** Rights of the account, and of the engine on it, that the engine made or may have made. */
  readonly grants: readonly Grant[];
}

/** As upstream has them: word characters, with dots and hyphens inside. */
export const ROLE_NAME = /^\w(?:[\w.-]{0,254}\w)?$/;

const text = () => z.string().max(1_024);
const scopes = () =>
  stringList().refine(
    (list) => list.length <= 100 && list.every((scope) => /^[\x21-\x7e]{1,512}$/.test(scope)),
    "must be at most 100 OAuth scopes",
  );
const bindings = () => z.string("must be a text").max(262_144);

/** Body of `POST roleset/:name`. */
export const RolesetBody = z.object({
  secret_type: text().optional(),
  project: text().optional(),
  bindings: bindings().optional(),
  token_scopes: scopes().optional(),
  share_until: sharePercent().optional(),
});

/** Body of `POST static-account/:name`. */
export const StaticBody = z.object({
  service_account_email: text().optional(),
  secret_type: text().optional(),
  bindings: bindings().optional(),
  token_scopes: scopes().optional(),
  share_until: sharePercent().optional(),
});

/** Body of `POST impersonated-account/:name`. */
export const ImpersonatedBody = z.object({
  service_account_email: text().optional(),
  token_scopes: scopes().optional(),
  ttl: duration().optional(),
});

export type RoleBody = z.infer<typeof RolesetBody> & z.infer<typeof StaticBody> & z.infer<typeof ImpersonatedBody>;

/** The kind of a stored name. */
export function kindOfName(name: string): RoleKind {
  if (name.startsWith("static-account/")) return "static-account";
  return name.startsWith("impersonated-account/") ? "impersonated-account" : "roleset";
}

/** View of a role, as upstream has it. */
export function roleView(role: Role): Record<string, unknown> {
  const { kind, secret_type, project, service_account_email, token_scopes, bindings: bound, ttl, share_until } = role;
  const tokens = secret_type === "access_token" ? { token_scopes } : share_until ? { share_until } : {};
  if (kind === "roleset") return { secret_type, bindings: bound, service_account_email, project, ...tokens };
  const account = { service_account_project: project, service_account_email };
  if (kind === "impersonated-account") return { ...account, token_scopes, ttl };
  return { ...account, secret_type, ...(Object.keys(bound).length > 0 && { bindings: bound }), ...tokens };
}

/** Google's usual life of an access token, seconds. */
const TOKEN_TTL = 3_600;

/** TTLs of a role: of its tokens, or of the leases of its keys. */
export const ttlsOf = ({ secret_type, ttl }: Role, config: EngineConfig | null): RoleTtls => ({
  ttl: secret_type === "access_token" ? ttl || TOKEN_TTL : (config?.ttl ?? 0),
  max_ttl: config?.max_ttl ?? 0,
  explicit_max_ttl: 0,
});

/** The refusal of a request for a role that does not exist, in upstream's words. @param stored its name */
export function missingRole(stored: string, at: string): string {
  const name = stored.slice(stored.lastIndexOf("/") + 1);
  const kind = kindOfName(stored);
  if (kind === "roleset") {
    if (at.includes("/rotate")) return `roleset '${name}' not found`;
    return at.endsWith("token") ? `role set '${name}' does not exists` : `role set "${name}" does not exists`;
  }
  return kind === "static-account"
    ? `static account "${name}" does not exists`
    : `impersonated account "${name}" does not exists`;
}
