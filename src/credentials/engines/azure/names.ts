import type { Dialect } from "../../../compat/dialect.ts";
import { description } from "./description.ts";

/** Roles in neutral and upstream names. */

/** Fields of a role: neutral name, upstream name. */
const FIELD_NAMES = [
  ["cloud_roles", description.roles.cloud_roles.upstream],
  ["cloud_groups", description.roles.cloud_groups.upstream],
] as const;

/** Values of `sign_in_audience`; the upstream spelling is the provider's own. */
const AUDIENCE_NAMES = description.roles.sign_in_audience.values;

const providerAudiences: ReadonlyMap<string, string> = new Map(AUDIENCE_NAMES);
const neutralAudiences: ReadonlyMap<string, string> = new Map(AUDIENCE_NAMES.map(([ours, theirs]) => [theirs, ours]));

/** Neutral names of the audiences. */
export const AUDIENCES: readonly string[] = AUDIENCE_NAMES.map(([neutral]) => neutral);

/** The audiences in the caller's dialect. */
export const audiencesOf = (dialect: Dialect): string[] =>
  AUDIENCE_NAMES.map(([neutral, upstream]) => (dialect === "upstream" ? upstream : neutral));

/** The provider's spelling of an audience; empty stays empty. */
export const providerAudience = (neutral: string): string => providerAudiences.get(neutral) ?? neutral;

/** A role's body with neutral names. If a field is present under both names, the neutral one wins. */
export function neutralRole(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const role: Record<string, unknown> = { ...body };
  for (const [neutral, upstream] of FIELD_NAMES) {
    if (role[neutral] === undefined && role[upstream] !== undefined) role[neutral] = role[upstream];
    delete role[upstream];
  }
  const audience = role["sign_in_audience"];
  if (typeof audience === "string") role["sign_in_audience"] = neutralAudiences.get(audience) ?? audience;
  return role;
}

/** Upstream names of differing fields, each with the neutral one. */
export const UPSTREAM_FIELDS: Readonly<Record<string, string>> = Object.fromEntries(
  FIELD_NAMES.map(([ours, theirs]) => [theirs, ours]),
);

/** Duration fields of a role. */
export const DURATIONS = ["ttl", "max_ttl", "explicit_max_ttl"] as const;

/**
 * A role in the caller's dialect. In the upstream dialect durations are returned as written, unset ones omitted, and the
 * application of a role with `persist_app` too, because clients compare them with what they wrote. `written` is internal
 * to both.
 */
export function translateRole(
  dialect: Dialect,
  { written, ...role }: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  // Static roles have upstream's names.
  if (dialect === "neutral" || !("cloud_roles" in role)) return role;
  const upstream = new Map<string, string>(FIELD_NAMES);
  const translated = Object.entries(role).map(([field, value]) => [upstream.get(field) ?? field, value] as const);
  const shown: Record<string, unknown> = {
    ...Object.fromEntries(translated),
    sign_in_audience: providerAudience(String(role["sign_in_audience"] ?? "")),
    ...(role["persist_app"] === true && { application_object_id: "" }),
  };
  for (const field of DURATIONS) {
    const text = (written as Readonly<Record<string, unknown>> | undefined)?.[field];
    if (text === undefined && role[field] === 0) delete shown[field];
    // Seconds are a number in any case.
    if (typeof text === "string" && !/^\+?\d*$/.test(text.trim())) shown[field] = text;
  }
  return shown;
}
