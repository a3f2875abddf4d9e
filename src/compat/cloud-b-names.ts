import type { Dialect } from "./dialect.ts";

/** The type of the mount, as either system calls it. */
export const neutralMountType = (type: string): string => (type === "azure" ? "cloud-b" : type);

/** The type of a mount as the caller calls it. */
export const wordMountType = (dialect: Dialect, type: string): string =>
  dialect === "upstream" && type === "cloud-b" ? "azure" : type;

/** Fields of a role of the credentials engine, the neutral name first. */
const FIELD_NAMES = [
  ["cloud_roles", "azure_roles"],
  ["cloud_groups", "azure_groups"],
] as const;

/** Upstream's names of fields that are called differently here. */
export const UPSTREAM_FIELDS: readonly string[] = FIELD_NAMES.map(([, upstream]) => upstream);

/** Values of `sign_in_audience`; the upstream spelling is the provider's own. */
const AUDIENCE_NAMES = [
  ["DirectoryMyOrg", "AzureADMyOrg"],
  ["DirectoryMultipleOrgs", "AzureADMultipleOrgs"],
  ["DirectoryandPersonalAccount", "AzureADandPersonalMicrosoftAccount"],
  ["PersonalAccount", "PersonalMicrosoftAccount"],
] as const;

const providerAudiences: ReadonlyMap<string, string> = new Map(AUDIENCE_NAMES);
const neutralAudiences: ReadonlyMap<string, string> = new Map(AUDIENCE_NAMES.map(([ours, theirs]) => [theirs, ours]));

/** The audiences by their neutral names. */
export const AUDIENCES: readonly string[] = AUDIENCE_NAMES.map(([neutral]) => neutral);

/** The audiences as the caller calls them. */
export const audiencesOf = (dialect: Dialect): string[] =>
  AUDIENCE_NAMES.map(([neutral, upstream]) => (dialect === "upstream" ? upstream : neutral));

/** An audience as the provider spells it; empty stays empty. */
export const providerAudience = (neutral: string): string => providerAudiences.get(neutral) ?? neutral;

/** The body of a role with neutral names, whichever it was written with. What is written in both, counts by its neutral name. */
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

const neutralFields: ReadonlyMap<string, string> = new Map(FIELD_NAMES.map(([ours, theirs]) => [theirs, ours]));

/** A field of a body by its neutral name, whichever it was written with. */
export const neutralField = (name: string): string => neutralFields.get(name) ?? name;

/** What else a value of a field may be called. */
export const otherName = (value: string): string => neutralAudiences.get(value) ?? providerAudience(value);

/** A refusal that begins with a role's field, with the field's upstream name. */
export const wordField = (message: string): string =>
  FIELD_NAMES.reduce((text, [neutral, upstream]) => text.replace(new RegExp(`^${neutral}\\b`), upstream), message);

/** Durations of a role. */
export const DURATIONS = ["ttl", "max_ttl", "explicit_max_ttl"] as const;

/**
 * A role in the caller's words. The upstream dialect has durations as they were written, and none that was not: clients
 * compare them with theirs. `written` is no field of either.
 */
export function wordRole(
  dialect: Dialect,
  { written, ...role }: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  if (dialect === "neutral") return role;
  const upstream = new Map<string, string>(FIELD_NAMES);
  const worded = Object.entries(role).map(([field, value]) => [upstream.get(field) ?? field, value] as const);
  const shown: Record<string, unknown> = {
    ...Object.fromEntries(worded),
    sign_in_audience: providerAudience(String(role["sign_in_audience"] ?? "")),
  };
  for (const field of DURATIONS) {
    const text = (written as Readonly<Record<string, unknown>> | undefined)?.[field];
    if (text === undefined && role[field] === 0) delete shown[field];
    // Seconds are a number, however they were written.
    if (typeof text === "string" && !/^\+?\d*$/.test(text.trim())) shown[field] = text;
  }
  return shown;
}
