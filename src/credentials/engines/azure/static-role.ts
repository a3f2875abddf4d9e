import * as z from "zod";
import { withoutUndefined } from "../../../lib/json.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration, echoed, flag, signedDuration } from "../../../platform/http/fields.ts";
import { internal } from "../../../platform/http/unknown-fields.ts";
import { metadataMap } from "../../leases/metadata.ts";
import { isUuid } from "./service.ts";

/** A password of a static role's application. Times in ms since 1970. */
interface HeldKey {
  readonly id: string;
  readonly endsAt: number;
  /** Made by others and imported: it stays at the provider when the role is deleted. */
  readonly imported: boolean;
}

/** A stored static role: an application that others have made, with a password that is replaced on time. */
export interface StaticRole {
  readonly kind: "static";
  readonly application_object_id: string;
  /** Client id of the application; empty: not looked up yet. */
  readonly application_id: string;
  /** Seconds that each password lives. */
  readonly rotation_period: number;
  /** Seconds that the former password works on after a rotation; -1: none. */
  readonly rotation_grace_period: number;
  readonly seamless_rotation: boolean;
  /** Answered with the credentials. */
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Null: no password yet. */
  readonly key: HeldKey | null;
  /** The password before, until its removal at `removeAt`. */
  readonly previous: { readonly id: string; readonly removeAt: number } | null;
  /** Time of the last rotation or import, ms since 1970. */
  readonly rotatedAt: number;
}

/** A password of others that a write takes over. */
export interface Import {
  readonly id: string;
  /** Its text; empty: it is replaced at once, or with `later` by the first rotation. */
  readonly text: string;
  readonly later: boolean;
}

const Fields = z.object({
  application_object_id: z.string().max(128).optional(),
  rotation_period: duration().optional(),
  ttl: duration().optional(),
  rotation_grace_period: signedDuration().optional(),
  seamless_rotation: flag().optional(),
  metadata: metadataMap().optional(),
  defer_initial_creds: flag().optional(),
  secret_id: z.string().max(128).optional(),
  client_secret: z.string().max(4096).optional(),
  skip_import_rotation: flag().optional(),
  ...echoed("expiration"),
  imports: internal(z.literal(true).optional()),
});

/** Body of `POST static-roles/:name`. Absent fields keep their values. */
export const StaticBody = Fields;
export type StaticBody = z.infer<typeof StaticBody>;

/** Body of `POST static-roles/:name/import`. */
export const ImportBody = Fields.omit({ defer_initial_creds: true, imports: true }).transform(
  (body): StaticBody => ({ ...body, imports: true }),
);

/** Body of `POST static-creds/:name/token`. */
export const TokenBody = z.object({ scope: z.string().min(1).max(1024) });
export type TokenBody = z.infer<typeof TokenBody>;

const HOUR = 3_600;
const MIN_PERIOD = 720 * HOUR;
const DEFAULT_PERIOD = 17_520 * HOUR;
const DEFAULT_GRACE = 300;
const NO_GRACE = -1;

/** The stored name of a static role begins with its path. */
export const isStaticName = (name: string): boolean => name.startsWith("static-roles/");

export const isStatic = (role: object): role is StaticRole => "kind" in role && role.kind === "static";

const NEW_ROLE: StaticRole = {
  kind: "static",
  application_object_id: "",
  application_id: "",
  rotation_period: DEFAULT_PERIOD,
  rotation_grace_period: DEFAULT_GRACE,
  seamless_rotation: true,
  metadata: null,
  key: null,
  previous: null,
  rotatedAt: 0,
};

/** Merges a body into a role. @param seamless of a new role that does not say */
export function draftStatic(before: StaticRole | null, body: StaticBody, seamless = true): Result<StaticRole> {
  const given = withoutUndefined(body);
  const old = before ?? { ...NEW_ROLE, seamless_rotation: seamless };
  const application = given.application_object_id ?? old.application_object_id;
  if (application === "") return refuse("invalid", "application_object_id: required");
  if (!isUuid(application)) return refuse("invalid", "application_object_id: must be a UUID");
  if (before && application.toLowerCase() !== before.application_object_id.toLowerCase()) {
    return refuse("invalid", "application_object_id: cannot be changed; delete the role and write another one");
  }
  const { rotation_period: named, ttl } = given;
  if (named !== undefined && ttl !== undefined && named !== ttl) {
    return refuse("invalid", "ttl: is another name of rotation_period; send one of them");
  }
  const period = periodOf(named ?? ttl, old.rotation_period);
  if (period < MIN_PERIOD) return refuse("invalid", "rotation_period: must be at least 720h");
  const grace = given.rotation_grace_period === 0 ? DEFAULT_GRACE : given.rotation_grace_period;
  const kept = grace ?? old.rotation_grace_period;
  if (kept < NO_GRACE) return refuse("invalid", "rotation_grace_period: must be -1 or more");
  if (kept > (period - HOUR) / 2) {
    return refuse("invalid", "rotation_grace_period: must be at most half of rotation_period without an hour");
  }
  const metadata = given.metadata ?? old.metadata ?? {};
  return ok({
    ...old,
    application_object_id: before?.application_object_id ?? application,
    rotation_period: period,
    rotation_grace_period: kept,
    seamless_rotation: given.seamless_rotation ?? old.seamless_rotation,
    metadata: Object.keys(metadata).length > 0 ? metadata : null,
  });
}

/** 0 restores the default. */
const periodOf = (given: number | undefined, before: number): number =>
  (given === 0 ? DEFAULT_PERIOD : given) ?? before;

/** The import that a body asks for; null without one. */
export function importOf(body: StaticBody, before: StaticRole | null): Result<Import | null> {
  const { secret_id: id = "", client_secret: text = "", skip_import_rotation: later = false, imports = false } = body;
  if (id === "") {
    if (imports) return refuse("invalid", "secret_id: required");
    return text === "" ? ok(null) : refuse("invalid", "client_secret: needs secret_id");
  }
  if (!isUuid(id)) return refuse("invalid", "secret_id: must be a UUID");
  // Clients send the fields of the creation with each update.
  if (!imports && before) return ok(null);
  return ok({ id: id.toLowerCase(), text, later: later && text === "" });
}

/** View of a role: never a secret. Upstream clients read the period as `ttl`. */
export function staticView(role: StaticRole): Record<string, unknown> {
  const { application_object_id, application_id, rotation_period, rotation_grace_period, seamless_rotation } = role;
  const { metadata, key, rotatedAt } = role;
  return {
    application_object_id,
    client_id: application_id,
    rotation_period,
    ttl: rotation_period,
    rotation_grace_period,
    seamless_rotation,
    metadata: metadata ?? {},
    ...(key && {
      secret_id: key.id,
      expiration: new Date(key.endsAt).toISOString(),
      last_vault_rotation: new Date(rotatedAt).toISOString(),
    }),
  };
}

/** Seconds that a former password outlives its rotation; 0: it is removed when the new one works. */
export const graceOf = ({ seamless_rotation: seamless, rotation_grace_period: grace }: StaticRole): number =>
  seamless && grace > 0 ? grace : 0;

/** Time of the next rotation, ms since 1970: the new password works before the end of the one that it replaces. */
export function rotationOf(role: StaticRole): number {
  const end = Math.min(role.rotatedAt + role.rotation_period * 1000, role.key?.endsAt ?? Number.POSITIVE_INFINITY);
  return end - (graceOf(role) || DEFAULT_GRACE) * 1000;
}

/** Time of the next work at the provider: a rotation, or the removal of the password before. */
export const dueOf = (role: StaticRole): number =>
  Math.min(rotationOf(role), role.previous?.removeAt ?? Number.POSITIVE_INFINITY);
