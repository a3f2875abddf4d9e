import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import type { Networking, UpdatePolicy } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { asMap, choiceOrDefault, fieldsOf, stringList, stringMap } from "../../platform/http/fields.ts";
import { readNulls } from "../../platform/http/nulls.ts";
import { ignored, unknownFields } from "../../platform/http/unknown-fields.ts";
import { checkTemplate } from "../associations/naming.ts";
import { MARKER_TAG, type ProviderSettings } from "../destinations/destination-type.ts";
import { identityTokenFields } from "../destinations/identity-fields.ts";
import { type DestinationType, destinationTypes, type Granularity } from "../destinations/index.ts";
import { networkingFields, networkingWith } from "./networking.ts";

/** The literal shown in place of every sensitive value. */
export const MASK = "*****";

const END_RULE = "must be a date or a time with its offset, such as 2027-01-31 or 2027-01-31T12:00:00Z";
const End = z.union([z.literal(""), z.iso.date(), z.iso.datetime({ offset: true })]);

/** Fields that all types share. An empty text sets the default; an absent field keeps its value. */
export const CommonFields = z.object({
  granularity: choiceOrDefault("must be secret-path or secret-key", "secret-path", "secret-key"),
  secret_name_template: z.string("must be a text").nullish(),
  custom_tags: stringMap().nullish(),
  update_policy: choiceOrDefault(
    "must be replace, if-not-exists or owned-only",
    "replace",
    "if-not-exists",
    "owned-only",
  ),
  deletion_policy: choiceOrDefault("must be delete or retain", "delete", "retain"),
  credentials_expire_at: z
    .string(END_RULE)
    .refine((text) => End.safeParse(text).success, END_RULE)
    .nullish(),
  ...networkingFields,
});

/** A destination's validated settings, as stored. */
export interface Definition {
  readonly granularity: Granularity;
  /** Whether the caller set the granularity; otherwise it is the type's default. */
  readonly granularityGiven: boolean;
  /** The template as written; empty = the type's default. */
  readonly template: string;
  readonly customTags: Readonly<Record<string, string>>;
  readonly updatePolicy: UpdatePolicy;
  /** Whether an obsolete object is deleted at the provider or left there. */
  readonly deletionPolicy: "delete" | "retain";
  /** End of the login at the provider, ms since 1970; null = not known. */
  readonly credentialsEnd: number | null;
  readonly connection: Readonly<Record<string, unknown>>;
  readonly networking: Networking;
  /** The origin of the request that set `identity_token_audience`; empty without one. */
  readonly origin: string;
}

/** A valid definition, with warnings for the caller. */
export interface Defined {
  readonly definition: Definition;
  readonly warnings: readonly string[];
}

export const typeOf = (name: string): DestinationType<unknown> | undefined => destinationTypes.get(name);

/** The destination's template, or the type's default. */
export const effectiveTemplate = (
  type: DestinationType<unknown>,
  definition: Pick<Definition, "template" | "granularity">,
): string => definition.template || type.defaults.template[definition.granularity];

const orBefore = <T>(given: T | null | undefined, before: T | undefined): T | null | undefined =>
  given === undefined ? before : given;

/** The end that the body states, else the stored one, which belongs to the stored login only. */
function endOf(
  given: string | null | undefined,
  { sensitive }: DestinationType<unknown>,
  connection: Readonly<Record<string, unknown>>,
  base: Definition | null,
): number | null {
  if (given !== undefined) return given ? Date.parse(given) : null;
  const isNew = sensitive.some((field) => !isDeepStrictEqual(connection[field], base?.connection[field]));
  return isNew ? null : (base?.credentialsEnd ?? null);
}

/** Kept until the audience is written again: the issuer must not follow the address of each request. */
function originOf(
  connection: Readonly<Record<string, unknown>>,
  body: Readonly<Record<string, unknown>>,
  before: Definition | null,
  origin: string,
): string {
  if (!connection["identity_token_audience"]) return "";
  const given = body["identity_token_audience"];
  return before?.origin && (given === undefined || isMask(given)) ? before.origin : origin;
}

const isMask = (value: unknown): boolean => typeof value === "string" && /^\*+$/.test(value);

/**
 * The settings that stand where a body leaves a field out. A body that repeats the fixed fields and the login states the
 * whole destination, as Terraform's do: the other settings that it leaves out are unset. Secrets of identity tokens stay,
 * which clients write once, and the policies, which upstream does not have.
 */
function keptBy(
  type: DestinationType<unknown>,
  body: Readonly<Record<string, unknown>>,
  before: Definition,
): Definition {
  const isNamed = (field: string) => body[field] !== undefined && body[field] !== null;
  const isSecret = (field: string) => type.sensitive.includes(field);
  const isOwn = (field: string) => !(field in identityTokenFields);
  const stored = Object.keys(before.connection).filter(isOwn);
  const fixed = stored.filter((field) => type.immutable.includes(field) || isSecret(field));
  // A new secret alone replaces the old one, and nothing else.
  const isMore = fieldsOf(type.connection)
    .filter((field) => isOwn(field) && isNamed(field))
    .some((field) => !isSecret(field) || isNamed("secret_name_template"));
  if (!isMore || !(fixed.length > 0 ? fixed : stored).every(isNamed)) return before;
  const secrets = Object.entries(before.connection).filter(([field]) => isSecret(field));
  return {
    ...before,
    connection: Object.fromEntries(secrets),
    granularityGiven: false,
    customTags: {},
    networking: {},
  };
}

/** A body, and how it changes a destination. `patch`: a JSON merge patch. */
interface Change {
  readonly body: Readonly<Record<string, unknown>>;
  readonly mode: "write" | "patch";
  /** The origin of the request. */
  readonly origin: string;
}

/**
 * Validates a create or update body. On an existing destination, masked fields keep their value, and absent ones unless
 * the body states the whole destination.
 * @param before the stored definition, or null when the destination is new
 */
export function define(
  type: DestinationType<unknown>,
  { body: asked, mode, origin }: Change,
  before: Definition | null,
  settings: ProviderSettings,
): Result<Defined> {
  const wanted = mode === "patch" && before ? patched(asked, before) : ok(asked);
  if (!wanted.ok) return wanted;
  const body = wanted.value;
  const base = before && mode === "write" ? keptBy(type, body, before) : before;
  const common = CommonFields.safeParse(readNulls(CommonFields, body));
  if (!common.success) return refuse("invalid", messageOf(common.error));
  const given = Object.entries(body).filter(([key, value]) => !(type.sensitive.includes(key) && isMask(value)));
  const details = readNulls(type.connection, Object.fromEntries(given));
  const parsed = type.connection.safeParse({ ...base?.connection, ...details });
  if (!parsed.success) return refuse("invalid", messageOf(parsed.error));
  const connection = parsed.data as Record<string, unknown>;
  const refused =
    (before ? refusedChange(type, before.connection, connection) : null) ??
    type.checkSettings?.(resolved(type, connection), settings) ??
    null;
  if (refused !== null) return refuse("invalid", refused);
  const { data } = common;
  const chosen = orBefore(data.granularity, base?.granularityGiven ? base.granularity : undefined);
  const granularity = chosen ?? type.defaults.granularity;
  const template = orBefore(data.secret_name_template, base?.template) ?? "";
  // Clients send back the default that a read showed.
  const defaults = [granularity, before?.granularity ?? granularity].map((each) => type.defaults.template[each]);
  const definition: Definition = {
    granularity,
    granularityGiven: chosen != null,
    template: defaults.includes(template) ? "" : template,
    customTags: orBefore(data.custom_tags, base?.customTags) ?? {},
    updatePolicy: orBefore(data.update_policy, base?.updatePolicy) ?? "replace",
    deletionPolicy: orBefore(data.deletion_policy, base?.deletionPolicy) ?? "delete",
    credentialsEnd: endOf(data.credentials_expire_at, type, connection, base),
    connection,
    networking: networkingWith(base?.networking ?? {}, data),
    origin: originOf(connection, body, before, origin),
  };
  const checked = checkTemplate(effectiveTemplate(type, definition), granularity);
  if (!checked.ok) return refuse("invalid", checked.message);
  if (Object.keys(definition.customTags).length > 0 && type.kind === "remote" && !type.checkTags) {
    return refuse("invalid", `custom_tags: a destination of type ${type.type} takes no tags`);
  }
  const tags = type.checkTags?.(tagsOf(definition)) ?? null;
  if (tags !== null) return refuse("invalid", tags);
  const unknown = unknownFields({ names: knownFields(type), caseless: false }, body);
  return ok({
    definition,
    warnings: [...(checked.warning === null ? [] : [checked.warning]), ...ignored(unknown)],
  });
}

/**
 * A JSON merge patch (RFC 7396) as the body of a write: null clears a field, `custom_tags` merge key by key, and
 * `tags_to_remove` names tags to take away.
 */
function patched(
  patch: Readonly<Record<string, unknown>>,
  before: Definition,
): Result<Readonly<Record<string, unknown>>> {
  const parsed = Patch.safeParse(patch);
  if (!parsed.success) return refuse("invalid", messageOf(parsed.error));
  const { tags_to_remove, custom_tags } = parsed.data;
  const tags: Record<string, string | null> =
    custom_tags === null ? {} : { ...before.customTags, ...(custom_tags as Record<string, string | null>) };
  for (const key of tags_to_remove ?? []) delete tags[key];
  const others = Object.entries(patch).filter(([key]) => key !== "tags_to_remove" && key !== "custom_tags");
  // An empty text clears a field of the connection; the common fields accept null.
  const cleared = others.map(([key, value]): [string, unknown] => [
    key,
    value === null && !(key in CommonFields.shape) ? "" : value,
  ]);
  const kept = Object.entries(tags).filter((entry): entry is [string, string] => entry[1] !== null);
  return ok({ ...Object.fromEntries(cleared), custom_tags: Object.fromEntries(kept) });
}

const Patch = z.object({
  tags_to_remove: stringList().nullish(),
  custom_tags: z
    .preprocess(
      asMap,
      z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]).transform(String).nullable()),
    )
    .nullish(),
});

function refusedChange(
  type: DestinationType<unknown>,
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): string | null {
  const [was, is] = [resolved(type, before), resolved(type, after)];
  const fixed = type.immutable.find((field) => JSON.stringify(is[field]) !== JSON.stringify(was[field]));
  if (fixed !== undefined) return `field ${JSON.stringify(fixed)} cannot be updated`;
  return type.checkChange?.(was, is) ?? null;
}

/** Fields accepted without a warning: parts of the path, and parameters of other methods. */
const KNOWN_ELSEWHERE = ["name", "type", "tags_to_remove", "purge", "force_delete", "dry_run"];

const knownFields = (type: DestinationType<unknown>): ReadonlyMap<string, null> =>
  new Map(
    [...fieldsOf(type.connection), ...Object.keys(CommonFields.shape), ...KNOWN_ELSEWHERE].map((name) => [name, null]),
  );

/** The connection as provider calls use it: one spelling per value, defaults filled in. */
export const resolved = (
  type: DestinationType<unknown>,
  connection: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> =>
  (type.resolve?.(connection) as Readonly<Record<string, unknown>> | undefined) ?? connection;

/** All tags of an object: the caller's and the marker, which cannot be replaced. */
export const tagsOf = (definition: Pick<Definition, "customTags">): Record<string, string> => ({
  ...definition.customTags,
  [MARKER_TAG]: "",
});

/** The connection details as a read shows them. */
export function masked(
  type: DestinationType<unknown>,
  connection: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(connection).map(([key, value]) => [key, type.sensitive.includes(key) ? MASK : value]),
  );
}

const messageOf = (failure: z.ZodError): string =>
  failure.issues
    .slice(0, 5)
    .map((issue) => `${issue.path.join(".")}: ${issue.message}`)
    .join("; ");
