import * as z from "zod";
import type { Dialect } from "../../../compat/dialect.ts";
import { isPlainObject, withoutUndefined } from "../../../lib/json.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration, flag, integer, stringList } from "../../../platform/http/fields.ts";
import { internal, withAliases } from "../../../platform/http/unknown-fields.ts";
import { metadataMap } from "../../leases/metadata.ts";
import { sharePercent, storedShare } from "../../leases/share-lease.ts";
import { AUDIENCES, audiencesOf, DURATIONS, neutralRole, UPSTREAM_FIELDS } from "./names.ts";
import type { Provision } from "./provision.ts";

/** A role definition with its scope; id and name are the provider's own. */
export interface RoleRef {
  readonly role_name: string;
  readonly role_id: string;
  readonly scope: string;
}

export interface GroupRef {
  readonly group_name: string;
  readonly object_id: string;
}

type Written = Readonly<Partial<Record<(typeof DURATIONS)[number], string | number>>>;

/** A stored role. Durations in seconds, 0 = not set. Lists that were never written are null. */
export interface Role {
  readonly cloud_roles: readonly RoleRef[] | null;
  readonly cloud_groups: readonly GroupRef[] | null;
  readonly application_object_id: string;
  /** Client id of that application; empty without one. */
  readonly application_id: string;
  readonly persist_app: boolean;
  readonly ttl: number;
  readonly max_ttl: number;
  readonly explicit_max_ttl: number;
  readonly permanently_delete: boolean;
  /** Neutral name of the audience. */
  readonly sign_in_audience: string;
  readonly tags: readonly string[] | null;
  /** Answered with credentials. Absent when it is empty, as in older roles. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** See `sharePercent`. Absent when it is 0, as in older roles. */
  readonly share_until?: number | undefined;
  /** Number of principals that are made ahead of requests. Absent when it is 0, as in older roles. */
  readonly pool_size?: number | undefined;
  /** Seconds after which they are replaced; 0 or absent: a day. */
  readonly pool_ttl?: number | undefined;
  /** Durations as written, for the upstream dialect; older roles lack it. */
  readonly written?: Written;
  /** The application of a role with `persist_app`; it lives as long as the role. */
  readonly managed: Provision | null;
}

const NEW_ROLE: Role = {
  cloud_roles: null,
  cloud_groups: null,
  application_object_id: "",
  application_id: "",
  persist_app: false,
  ttl: 0,
  max_ttl: 0,
  explicit_max_ttl: 0,
  permanently_delete: false,
  sign_in_audience: "",
  tags: null,
  managed: null,
};

/** View of `GET roles/:name`, in neutral names. */
export const roleView = ({ managed: _, application_id: __, ...shown }: Role): Record<string, unknown> => ({ ...shown });

/** Letters, digits and underscores; dots and hyphens inside. Stored in lower case. */
export const ROLE_NAME = /^\w(?:[\w.-]{0,254}\w)?$/;

const MAX_REFS = 100;
const MAX_POOL = 50;
const MIN_POOL_TTL = 600;
const poolSize = () =>
  integer()
    .min(0)
    .refine((size) => size <= MAX_POOL, `must be at most ${MAX_POOL}`);
const isPoolTtl = (seconds: number) => seconds === 0 || seconds >= MIN_POOL_TTL;
const text = () => z.string().max(1024);

const RoleItem = z.object({
  role_name: text().nullish(),
  role_id: text().nullish(),
  scope: z.string("required").min(1, "required").max(1024),
});
const GroupItem = z.object({ group_name: text().nullish(), object_id: text().nullish() });

/** A JSON array, or its text, as upstream clients send it. Empty text is an empty list. */
function jsonList<Item extends z.ZodType>(item: Item) {
  const parsed = z.unknown().transform((value, context) => {
    if (typeof value !== "string") return value;
    if (value.trim() === "") return [];
    try {
      return JSON.parse(value) as unknown;
    } catch {
      context.addIssue({ code: "custom", message: "must be a JSON array, or one escaped as a string" });
      return z.NEVER;
    }
  });
  return parsed.pipe(z.array(item).max(MAX_REFS));
}

const refs = () => jsonList(RoleItem).transform((items) => items.map(roleRef));
const roleRef = (item: z.infer<typeof RoleItem>): RoleRef => ({
  role_name: item.role_name ?? "",
  role_id: item.role_id ?? "",
  scope: item.scope,
});

const NAMELESS_ROLE = "each element needs role_name or role_id";
const NAMELESS_GROUP = "each element needs group_name or object_id";

/** Adds the durations of a role's body as written. */
const withWritten = (body: Readonly<Record<string, unknown>>) => ({
  ...body,
  written: Object.fromEntries(DURATIONS.flatMap((field) => (body[field] === undefined ? [] : [[field, body[field]]]))),
});

/** Body of `POST roles/:name`, in neutral or upstream names. */
export const RoleBody = withAliases(
  z
    .unknown()
    .transform((body) => (isPlainObject(body) ? withWritten(neutralRole(body)) : body))
    .pipe(
      z.object({
        cloud_roles: refs()
          .refine((items) => items.every((item) => item.role_name !== "" || item.role_id !== ""), NAMELESS_ROLE)
          .optional(),
        cloud_groups: jsonList(GroupItem)
          .transform((items): GroupRef[] =>
            items.map((item) => ({ group_name: item.group_name ?? "", object_id: item.object_id ?? "" })),
          )
          .refine((items) => items.every((item) => item.group_name !== "" || item.object_id !== ""), NAMELESS_GROUP)
          .optional(),
        application_object_id: z.string().max(128).optional(),
        persist_app: flag().optional(),
        ttl: duration().optional(),
        max_ttl: duration().optional(),
        explicit_max_ttl: duration().optional(),
        permanently_delete: flag().optional(),
        sign_in_audience: z.string().max(64).optional(),
        tags: stringList().optional(),
        metadata: metadataMap().optional(),
        share_until: sharePercent().optional(),
        pool_size: poolSize().optional(),
        pool_ttl: duration().optional(),
        written: internal(z.custom<Written>().optional()),
      }),
    ),
  UPSTREAM_FIELDS,
);
export type RoleBody = z.infer<typeof RoleBody>;

/**
 * Merges a body into a role, before its references are looked up. Absent fields keep their values.
 * @param dialect the neutral one requires a role or an application, the upstream one also accepts groups alone
 */
export function draftRole(before: Role | null, body: RoleBody, dialect: Dialect): Result<Role> {
  const old = before ?? NEW_ROLE;
  const given = withoutUndefined(body);
  const tags = body.tags === undefined ? ok(old.tags) : cleanTags(body.tags);
  if (!tags.ok) return tags;
  const written = { ...old.written, ...body.written };
  const { metadata = old.metadata } = given;
  const kept = metadata && Object.keys(metadata).length > 0 ? metadata : undefined;
  const pool = {
    pool_size: given.pool_size ?? old.pool_size ?? 0,
    pool_ttl: given.pool_ttl ?? old.pool_ttl ?? 0,
  };
  const role: Role = {
    ...old,
    ...given,
    metadata: kept,
    share_until: storedShare(given.share_until, old.share_until),
    pool_size: pool.pool_size || undefined,
    pool_ttl: pool.pool_ttl || undefined,
    tags: tags.value,
    written,
  } as Role;
  if (!isPoolTtl(pool.pool_ttl)) return refuse("invalid", `pool_ttl: must be at least ${MIN_POOL_TTL} seconds`);
  const { ttl, max_ttl: max, explicit_max_ttl: explicit } = role;
  if (max > 0 && ttl > max) return refuse("invalid", "ttl cannot be greater than max_ttl");
  if (explicit > 0 && ttl > explicit) return refuse("invalid", "ttl cannot be greater than explicit_max_ttl");
  if (explicit > 0 && max > explicit) return refuse("invalid", "max_ttl cannot be greater than explicit_max_ttl");
  if (role.sign_in_audience !== "" && !AUDIENCES.includes(role.sign_in_audience)) {
    return refuse(
      "invalid",
      `Invalid value for sign_in_audience field. Valid values are: ${audiencesOf(dialect).join(", ")}`,
    );
  }
  const own = withOwnApplication(old, role);
  if (!own.ok) return own;
  const { application_object_id: application, persist_app: persists, cloud_roles, cloud_groups } = own.value;
  if (application !== "" && !persists && role.permanently_delete) {
    return refuse("invalid", "permanently_delete must be false if application_object_id is provided");
  }
  if ((application !== "" || persists) && pool.pool_size > 0) {
    return refuse("invalid", "pool_size: a pool is of principals; an application that is there has passwords");
  }
  const some = (list: readonly unknown[] | null): boolean => (list?.length ?? 0) > 0;
  if ((application !== "" && !persists) || some(cloud_roles)) return own;
  if (dialect === "upstream" && some(cloud_groups)) return own;
  return refuse(
    "invalid",
    dialect === "upstream"
      ? "either Azure role definitions, group definitions, or an Application Object ID must be provided"
      : "either cloud_roles or application_object_id must be provided",
  );
}

/** Clients send back the id of the managed application; any other id conflicts with `persist_app`. */
function withOwnApplication(old: Role, role: Role): Result<Role> {
  const managed = old.managed?.made?.objectId ?? "";
  const asked = role.application_object_id;
  if (role.persist_app) {
    return asked === "" || asked === managed
      ? ok({ ...role, application_object_id: managed })
      : refuse("invalid", "application_object_id: persist_app makes an application of its own; leave this out");
  }
  return ok(asked !== "" && asked === managed ? { ...role, application_object_id: "", application_id: "" } : role);
}

function cleanTags(given: readonly string[]): Result<string[]> {
  const tags = [...new Set(given.map((tag) => tag.trim()).filter((tag) => tag !== ""))];
  if (tags.some((tag) => Buffer.byteLength(tag) > 256)) {
    return refuse("invalid", "tags: individual tag size must be between 1 and 256 characters (inclusive)");
  }
  if (tags.length > MAX_REFS) return refuse("invalid", `tags: at most ${MAX_REFS}`);
  return tags.some((tag) => /\s/.test(tag)) ? refuse("invalid", "tags: whitespaces are not allowed in tags") : ok(tags);
}
