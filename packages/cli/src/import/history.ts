import { membersOf } from "../../../relay/src/json-text.ts";

/** A secret at its source. Values are texts of JSON objects, read one at a time and kept nowhere. */

type State = "live" | "deleted" | "destroyed";

/** The settings of a secret, as the API of KV version 2 writes them. */
export interface Settings {
  readonly max_versions: number;
  readonly cas_required: boolean;
  readonly delete_version_after: string;
  readonly custom_metadata: Readonly<Record<string, string>> | null;
}

export const NO_SETTINGS: Settings = {
  max_versions: 0,
  cas_required: false,
  delete_version_after: "0s",
  custom_metadata: null,
};

/** The versions of a secret that still have a row; older ones were removed by `max_versions`. */
export interface Versions {
  /** 0 without any version. */
  readonly current: number;
  readonly states: ReadonlyMap<number, State>;
}

export interface History extends Versions {
  readonly settings: Settings;
  /** @returns null when the version was deleted meanwhile */
  value(version: number): Promise<string | null>;
}

/** Where a secret is written: a mount of version 1 keeps one value, one of version 2 keeps versions. */
export interface Mount {
  /** With a final slash. */
  readonly path: string;
  readonly version: 1 | 2;
}

/** How many versions a mount keeps unless it is configured. */
export const DEFAULT_VERSIONS = 10;

// biome-ignore lint/suspicious/noExplicitAny: fields of answers, each is converted below
type Given = Readonly<Record<string, any>>;

export function settingsIn(fields: Given): Settings {
  const { max_versions, cas_required, delete_version_after, custom_metadata } = fields;
  const custom = Object.entries(custom_metadata ?? {}).map(([name, value]) => [name, String(value)]);
  return {
    max_versions: Number(max_versions ?? 0),
    cas_required: cas_required === true,
    delete_version_after: String(delete_version_after ?? "0s"),
    custom_metadata: custom.length === 0 ? null : Object.fromEntries(custom),
  };
}

/** The answer to a read of a secret's metadata. */
export function versionsIn(fields: Given, now = Date.now()): Versions {
  const states = Object.entries((fields["versions"] ?? {}) as Record<string, Given>)
    .map(([version, each]) => [Number(version), stateOf(each, now)] as const)
    .sort(([a], [b]) => a - b);
  return { current: Number(fields["current_version"] ?? 0), states: new Map(states) };
}

/** `deletion_time` is also that of a deletion to come. */
export function stateOf({ destroyed, deletion_time }: Given, now = Date.now()): State {
  if (destroyed === true) return "destroyed";
  const deleted = typeof deletion_time === "string" && deletion_time !== "" && !(Date.parse(deletion_time) > now);
  return deleted ? "deleted" : "live";
}

/** The value in the `data` of an answer of KV version 2. */
export function valueIn(data: string | null): string | null {
  const value = data === null ? "null" : (membersOf(data).get("data") ?? "null");
  return value === "null" ? null : value;
}
