import { type Dialect, STATUS_NAMES, TYPE_NAMES } from "./dialect.ts";

/*
 * Sync answers in the caller's dialect. Each kind of answer has its own function with fixed positions of such names:
 * names given by users, which may equal `repo-host`, are never translated.
 */

const upstreamTypes: ReadonlyMap<string, string> = new Map(TYPE_NAMES);
const upstreamStatuses: ReadonlyMap<string, string> = new Map(STATUS_NAMES);

/** A destination type in the caller's dialect. */
export const translateType = (dialect: Dialect, neutral: string): string =>
  (dialect === "upstream" ? upstreamTypes.get(neutral) : undefined) ?? neutral;

/** A sync status in the caller's dialect. */
export const translateStatus = (dialect: Dialect, neutral: string): string =>
  (dialect === "upstream" ? upstreamStatuses.get(neutral) : undefined) ?? neutral;

/** `type/…`, of which only the type is translated. */
function translateKey(dialect: Dialect, key: string): string {
  const end = key.indexOf("/");
  return translateType(dialect, key.slice(0, end)) + key.slice(end);
}

const mapEntries = <T, U>(
  record: Readonly<Record<string, T>>,
  change: (key: string, value: T) => readonly [string, U],
): Record<string, U> => Object.fromEntries(Object.entries(record).map(([key, value]) => change(key, value)));

/** Any object with a destination type. */
const translateTyped = <T extends { readonly type: string }>(dialect: Dialect, data: T): T => ({
  ...data,
  type: translateType(dialect, data.type),
});

/**
 * One destination. In the upstream dialect the granularity is included only if it was set, because clients compare it.
 */
export function translateDestination<
  T extends {
    readonly type: string;
    readonly granularity_given: boolean;
    readonly options: { readonly granularity_level: string };
  },
>(dialect: Dialect, { granularity_given: isGiven, ...data }: T) {
  const { granularity_level, ...options } = data.options;
  const isShown = dialect === "neutral" || isGiven;
  return translateTyped(dialect, { ...data, options: { ...(isShown && { granularity_level }), ...options } });
}

/** Destinations by type; keys are sorted by the shown names. */
export function translateDestinationList<
  T extends { readonly keys: readonly string[]; readonly key_info: Readonly<Record<string, unknown>> },
>(dialect: Dialect, data: T): T {
  const keys = data.keys.map((key) => translateKey(dialect, key)).sort();
  return { ...data, keys, key_info: mapEntries(data.key_info, (key, names) => [translateKey(dialect, key), names]) };
}

interface WithStatus {
  readonly sync_status: string;
}

/** One association in a destination's list. */
export const translateAssociation = <T extends WithStatus>(dialect: Dialect, entry: T): T => ({
  ...entry,
  sync_status: translateStatus(dialect, entry.sync_status),
});

/** The associations of a destination. */
export function translateAssociations<
  T extends {
    readonly store_type: string;
    readonly associated_secrets: Readonly<Record<string, WithStatus>>;
    readonly sync_operation_counters: Readonly<Record<string, number>>;
  },
>(dialect: Dialect, data: T): T {
  return {
    ...data,
    store_type: translateType(dialect, data.store_type),
    associated_secrets: mapEntries(data.associated_secrets, (id, entry) => [id, translateAssociation(dialect, entry)]),
    sync_operation_counters: mapEntries(data.sync_operation_counters, (status, n) => [
      translateStatus(dialect, status),
      n,
    ]),
  };
}

/** The destinations of a secret. */
export function translateSecretDestinations<
  T extends { readonly associated_destinations: Readonly<Record<string, WithStatus & { readonly type: string }>> },
>(dialect: Dialect, data: T): T {
  const associated_destinations = mapEntries(data.associated_destinations, (key, entry) => [
    translateKey(dialect, key),
    translateTyped(dialect, translateAssociation(dialect, entry)),
  ]);
  return { ...data, associated_destinations };
}

const OF_TYPE = /^((?:\w+: )?a destination of type )([a-z-]+)(?= )/;
const LISTED = /^[\w-]+\/[\w.-]+( and \d+ more)?$/;

/** A refusal. Two kinds contain types: "a destination of type x …", and a list "… destinations …: x/name, y/name". */
export function translateMessage(dialect: Dialect, message: string): string {
  const end = message.indexOf(": ") + 2;
  const start = message.slice(0, end);
  const list = message.slice(end).split(", ");
  // After other texts, such as "secret not found: ", follows a path given by a user.
  if (/\bdestinations\b/.test(start) && list.every((item) => LISTED.test(item))) {
    return start + list.map((item) => translateKey(dialect, item)).join(", ");
  }
  return message.replace(OF_TYPE, (_all, before: string, type: string) => before + translateType(dialect, type));
}
