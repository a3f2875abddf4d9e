import type { Failure } from "../../contracts/failure.ts";
import { only } from "../../lib/only.ts";
import { failure, mayHaveApplied } from "../../providers/outcome.ts";
import type {
  Batched,
  CallContext,
  Done,
  ExternalObject,
  Inspection,
  Listing,
  ObsoleteObject,
  Put,
  Reading,
  RemoteDestinationType,
} from "./destination-type.ts";
import { isCautious, stateOf } from "./variables.ts";

/**
 * Update policies, removal, inspection and listing for types whose variables are read and written many at a time. A
 * variable is ours when it is marked, when a push is recorded, or when a push of unknown outcome had its value.
 */

/** A variable as the provider shows it. */
export interface ShownVariable {
  /** Absent when the provider does not show it. */
  readonly value?: string;
  /** A digest or version that equals that of our last push when nothing has changed since. */
  readonly version?: string;
  /** Whether it carries our marker; absent without markers. */
  readonly owned?: boolean;
}

/** The reference of a push without a version. */
export const WRITTEN = "written";

export interface BulkPlace {
  /** All variables by name, as they were after the pushes with these references or later. */
  all(references?: readonly string[]): Promise<ReadonlyMap<string, ShownVariable> | Failure>;
  /** Creates or changes variables. The references by name, of those that the answer confirms. */
  write(doing: string, values: ReadonlyMap<string, string>): Promise<ReadonlyMap<string, string> | Failure>;
  /** Removes present variables. */
  remove(doing: string, names: readonly string[]): Promise<Done>;
}

interface BulkRules<Connection> {
  /** Such as "config var". */
  readonly noun: string;
  readonly windowMs: number;
  /** The most variables of one call. */
  readonly most: number;
  /** Whether `all` shows values. */
  readonly showsValues: boolean;
  /** The refusal of an object that the provider would refuse. */
  check(object: ExternalObject): Failure | null;
  placeOf(connection: Connection, context: CallContext): BulkPlace;
  /** The version of a value, where it can be calculated. */
  versionOf?(value: string): string;
  /** The version in a reference. Default: the reference itself. */
  versionIn?(reference: string): string;
  /** Whether import offers the variable. Default: all. */
  isOffered?(name: string): boolean;
}

type Operations<Connection> = Pick<RemoteDestinationType<Connection>, "put" | "remove" | "inspect" | "probe"> &
  Required<Pick<RemoteDestinationType<Connection>, "batch" | "reading">>;

/** The operations of a type with these rules. Its connection is checked by reading all variables. */
export function bulkOperations<Connection>(rules: BulkRules<Connection>): Operations<Connection> {
  const {
    noun,
    windowMs,
    most,
    showsValues,
    placeOf,
    isOffered = () => true,
    versionIn = (reference) => reference,
  } = rules;
  const unnamed = failure("unknown", "unreadable_answer", `The answer does not name the ${noun}.`);
  const subject = (names: readonly string[]): string => only(names) ?? `${names.length} ${noun}s`;

  /** The outcome for an existing variable that the update policy keeps; null when it may be written. */
  function keptBy(object: ExternalObject, shown: ShownVariable | undefined): Put | null {
    const { name, value, updatePolicy: policy, knownToExist, unsureSince } = object;
    if (shown === undefined || policy === "replace") return null;
    const isSame = shown.value === value || (shown.version !== undefined && shown.version === rules.versionOf?.(value));
    const isOurWrite = unsureSince !== undefined && (isSame || shown.owned === true);
    if (policy === "if-not-exists") {
      return isOurWrite ? { outcome: "ok", reference: shown.version ?? WRITTEN } : { outcome: "ok", left: true };
    }
    if (knownToExist || isOurWrite || shown.owned) return null;
    const message = `The ${noun} ${name} exists already and was not written by this service.`;
    return failure("client", "not_owned", message);
  }

  async function putMany(
    objects: readonly ExternalObject[],
    connection: Connection,
    context: CallContext,
  ): Promise<Batched<Put>> {
    const place = placeOf(connection, context);
    const outcomes = new Map<string, Put>();
    for (const object of objects) {
      const refused = rules.check(object);
      if (refused !== null) outcomes.set(object.name, refused);
    }
    const valid = objects.filter(({ name }) => !outcomes.has(name));
    // Under `replace`, and where an earlier push is known, nothing has to be read.
    if (valid.some(isCautious)) {
      const present = await place.all();
      if ("outcome" in present) return present;
      for (const object of valid) {
        const kept = keptBy(object, present.get(object.name));
        if (kept !== null) outcomes.set(object.name, kept);
      }
    }
    const wanted = valid.filter(({ name }) => !outcomes.has(name));
    if (wanted.length === 0) return outcomes;
    const values = new Map(wanted.map(({ name, value }) => [name, value]));
    const write = () => place.write(`Writing ${subject([...values.keys()])}`, values);
    let written = await write();
    const isUnsure = "outcome" in written && mayHaveApplied(written);
    if (isUnsure && wanted.some(isCautious)) {
      const again = showsValues ? await foundAfter(written, place, wanted) : await write();
      // Its failure says nothing about the write before it.
      written = "outcome" in again ? { ...again, unsure: true } : again;
    }
    // A refusal of the whole is found by smaller batches.
    if ("outcome" in written && (outcomes.size === 0 || written.outcome === "client")) return written;
    for (const { name } of wanted) {
      const reference = "outcome" in written ? undefined : written.get(name);
      if (reference !== undefined) outcomes.set(name, { outcome: "ok", reference });
      else outcomes.set(name, "outcome" in written ? written : unnamed);
    }
    return outcomes;
  }

  /** The outcome of a write without an answer: the references when all its values are there, else the failure. */
  async function foundAfter(
    failed: Batched<string>,
    place: BulkPlace,
    wanted: readonly ExternalObject[],
  ): Promise<Batched<string>> {
    const present = await place.all();
    if ("outcome" in present) return failed;
    const isThere = wanted.every(({ name, value }) => present.get(name)?.value === value);
    return isThere ? new Map(wanted.map(({ name }) => [name, present.get(name)?.version ?? WRITTEN])) : failed;
  }

  async function removeMany(
    objects: readonly ObsoleteObject[],
    connection: Connection,
    context: CallContext,
  ): Promise<Batched<Done>> {
    const place = placeOf(connection, context);
    // Shows a missing place, which a removal must not take for an absent variable.
    const present = await place.all(objects.flatMap(({ reference }) => reference ?? []));
    if ("outcome" in present) return present;
    // Without a marker or a record of a push, a variable is not ours.
    const isOurs = ({ name, reference }: ObsoleteObject) => present.get(name)?.owned ?? reference !== null;
    const ours = objects.filter((object) => !object.ownedOnly || isOurs(object));
    const obsolete = ours.map(({ name }) => name).filter((name) => present.has(name));
    if (obsolete.length > 0) {
      const removed = await place.remove(`Deleting ${subject(obsolete)}`, obsolete);
      if (removed.outcome !== "ok") return removed;
    }
    return new Map(objects.map(({ name }) => [name, { outcome: "ok" }]));
  }

  const reading: Reading<Connection> = {
    async list(_cursor, connection, context): Promise<Listing> {
      const present = await placeOf(connection, context).all();
      if ("outcome" in present) return present;
      return { outcome: "ok", names: [...present.keys()].filter(isOffered).sort(), next: null };
    },
  };
  if (showsValues) {
    reading.read = async (name, connection, context) => {
      const present = await placeOf(connection, context).all();
      if ("outcome" in present) return present;
      const value = present.get(name)?.value;
      return { outcome: "ok", content: value === undefined ? null : { value } };
    };
  }

  return {
    batch: { windowMs, most, putMany, removeMany },
    reading,
    async put(object, connection, context) {
      const put = await putMany([object], connection, context);
      return "outcome" in put ? put : (put.get(object.name) ?? unnamed);
    },
    async remove(object, connection, context) {
      const removed = await removeMany([object], connection, context);
      return "outcome" in removed ? removed : (removed.get(object.name) ?? unnamed);
    },
    async inspect({ name, reference, desired }, connection, context): Promise<Inspection> {
      const present = await placeOf(connection, context).all(reference === null ? [] : [reference]);
      if ("outcome" in present) return present;
      const shown = present.get(name);
      if (shown === undefined) return { outcome: "ok", state: "absent", owned: null };
      const { value, version, owned = null } = shown;
      // The answer to our write had no version to compare with.
      const known = reference === WRITTEN ? { value } : { value, version };
      return { outcome: "ok", state: stateOf(known, reference && versionIn(reference), desired?.value), owned };
    },
    /** A missing right to write shows at the first push. */
    async probe(connection, context): Promise<Done> {
      const present = await placeOf(connection, context).all();
      return "outcome" in present ? present : { outcome: "ok" };
    },
  };
}
