import type * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { failure, mayHaveApplied } from "../../providers/outcome.ts";
import { contentOf, type RestAnswer, type RestRefused } from "../../providers/rest.ts";
import type {
  CallContext,
  Done,
  ExternalObject,
  Inspection,
  Put,
  ReadObject,
  RemoteDestinationType,
  ToInspect,
} from "./destination-type.ts";

/**
 * Update policies, removal and inspection for types whose objects are named variables of one place, such as a project.
 * A type states how one variable is found, created, changed and removed.
 */

/** The comment or description of every variable of ours, for providers that have one. */
export const MARKER_TEXT = "managed by sallyport sync";

/** A variable as the provider shows it. */
export interface SeenVariable {
  /** The provider's id, where it is not the name. */
  readonly id?: string | undefined;
  /** Absent when the provider does not show it. */
  readonly value?: string | undefined;
  /** A version or time of change that equals the reference of our last push when nothing has changed since. */
  readonly version?: string | undefined;
  /** Whether it carries our marker; null without markers. */
  readonly owned: boolean | null;
}

/** A write's answer. `why`: the variable exists, against a creation, or is absent, against a change. */
export type Written =
  | { readonly ok: true; readonly reference: string }
  | { readonly ok: false; readonly why: "exists" | "absent" | null; readonly outcome: Failure };

/** A write from its answer. @param referenceOf null for the content of another variable */
export function writtenBy<Content>(
  answer: RestAnswer,
  schema: z.ZodType<Content>,
  referenceOf: (content: Content) => string | null,
  whyOf: (refused: RestRefused) => "exists" | "absent" | null = () => null,
): Written {
  if (!answer.ok) return { ok: false, why: whyOf(answer), outcome: answer.outcome };
  const read = contentOf(answer, schema);
  const reference = read.ok ? referenceOf(read.content) : null;
  if (reference !== null) return { ok: true, reference };
  return { ok: false, why: null, outcome: answer.unreadable().outcome };
}

type Wanted = Pick<ExternalObject, "name" | "value" | "reference">;

export interface VariablePlace {
  /** Changes need the provider's id, so that a variable is found before. */
  readonly hasIds?: true;
  /**
   * Finds a variable; null when it is absent from a place that is known to exist. `displaces`: its creation would remove
   * another writer's.
   */
  find(
    name: string,
  ): Promise<{ readonly ok: true; readonly seen: SeenVariable | null; readonly displaces?: true } | RestRefused>;
  create(object: Wanted): Promise<Written>;
  /** Changes an existing variable. May create it, where the provider does not distinguish. */
  change(object: Wanted, seen: SeenVariable | null): Promise<Written>;
  remove(name: string, seen: SeenVariable | null): Promise<{ readonly ok: true } | RestRefused>;
}

/** Limit of attempts while another writer creates and deletes the same variable. */
const maxRounds = 3;

type Pushed = Pick<ExternalObject, "name" | "value" | "reference" | "updatePolicy" | "knownToExist" | "unsureSince">;

/** The operations of a type whose objects are variables. @param check the refusal of an object that is not sent */
export const variableOperations = <Connection>(
  placeOf: (connection: Connection, context: CallContext) => VariablePlace,
  check: (object: ExternalObject, connection: Connection) => Failure | null,
): Pick<RemoteDestinationType<Connection>, "put" | "remove" | "inspect"> => ({
  put: async (object, connection, context) =>
    check(object, connection) ?? putVariable(placeOf(connection, context), object),
  remove: (object, connection, context) => removeVariable(placeOf(connection, context), object),
  inspect: (object, connection, context) => inspectVariable(placeOf(connection, context), object),
});

/**
 * Whether the next attempt after a write of unknown outcome might find an object that it cannot recognise, so that the
 * write is repeated at once. Under `replace` the next attempt repeats it.
 */
export const isCautious = ({ updatePolicy, knownToExist }: Pick<Pushed, "updatePolicy" | "knownToExist">): boolean =>
  updatePolicy === "if-not-exists" || (updatePolicy === "owned-only" && !knownToExist);

/** Makes a variable exist with its value, by the update policy. */
export async function putVariable(place: VariablePlace, object: Pushed): Promise<Put> {
  const writes: Writes = { doubt: null };
  const put = await pushed(place, object, writes);
  // The failure of a later call says nothing about the write before it.
  const isOpen = writes.doubt !== null && put.outcome !== "ok" && put.code !== "not_owned";
  return isOpen ? { ...put, unsure: true } : put;
}

interface Writes {
  /** The failure of a write of this push that may have been applied. */
  doubt: Failure | null;
}

async function pushed(place: VariablePlace, object: Pushed, writes: Writes): Promise<Put> {
  const { name, value, updatePolicy: policy } = object;
  let seen: SeenVariable | null = null;
  let exists = object.knownToExist;
  for (let round = 0; round < maxRounds; round++) {
    if (policy !== "replace" || (exists && place.hasIds)) {
      const found = await place.find(name);
      if (!found.ok) return found.outcome;
      seen = found.seen;
      if (found.displaces && policy !== "replace") {
        return policy === "if-not-exists" ? { outcome: "ok", left: true } : notOwned(name);
      }
      exists = seen !== null;
      // A creation of unknown outcome is ours: an earlier push's by its value, this push's also where none is shown.
      const mayBeOurs = object.unsureSince !== undefined || writes.doubt !== null;
      const shown = writes.doubt === null ? seen?.value : (seen?.value ?? value);
      const isOurs = seen?.owned ?? (object.knownToExist || (mayBeOurs && shown === value));
      if (seen !== null && policy === "if-not-exists") {
        const isDone = mayBeOurs && isOurs && (seen.value ?? value) === value;
        return isDone ? { outcome: "ok", reference: seen.version ?? seen.id ?? name } : { outcome: "ok", left: true };
      }
      if (seen !== null && policy === "owned-only" && !isOurs) return notOwned(name);
    }
    const written = exists ? await place.change(object, seen) : await place.create(object);
    if (written.ok) return { outcome: "ok", reference: written.reference };
    // A creation that finds nothing lacks its place.
    if (written.why === "absent" && !exists) return written.outcome;
    if (written.why !== null) {
      if (written.why === "exists" && policy === "if-not-exists") return writes.doubt ?? { outcome: "ok", left: true };
      exists = written.why === "exists";
      continue;
    }
    const mustRepeat = isCautious(object) && mayHaveApplied(written.outcome) && (seen?.owned ?? null) === null;
    if (!mustRepeat || writes.doubt !== null) return written.outcome;
    writes.doubt = written.outcome;
    // A change needs the id of the variable, which the creation may have made.
    if (place.hasIds && seen === null) continue;
    const again = await place.change(object, seen);
    if (again.ok) return { outcome: "ok", reference: again.reference };
    if (again.why === null) return again.outcome;
    exists = false;
  }
  return failure("external", "contended", `The variable ${name} is being created and deleted by another caller.`);
}

/** Makes a variable not exist. A variable without a marker is ours when a push is recorded. */
export async function removeVariable(
  place: VariablePlace,
  { name, reference, ownedOnly }: Parameters<RemoteDestinationType<never>["remove"]>[0],
): Promise<Done> {
  let seen: SeenVariable | null = null;
  if (ownedOnly || place.hasIds) {
    const found = await place.find(name);
    if (!found.ok) return found.outcome;
    seen = found.seen;
    if (seen === null || (ownedOnly && !(seen.owned ?? reference !== null))) return { outcome: "ok" };
  }
  const removed = await place.remove(name, seen);
  if (removed.ok) return { outcome: "ok" };
  if (removed.status !== 404) return removed.outcome;
  // The place itself may be missing, or invisible to the credentials.
  const found = await place.find(name);
  if (!found.ok) return found.outcome;
  return found.seen === null ? { outcome: "ok" } : removed.outcome;
}

/** Compares a variable with our last push: by its value where the provider shows it, else by its version. */
export async function inspectVariable(
  place: VariablePlace,
  { name, reference, desired }: ToInspect,
): Promise<Inspection> {
  const found = await place.find(name);
  if (!found.ok) return found.outcome;
  const { seen } = found;
  if (seen === null) return { outcome: "ok", state: "absent", owned: null };
  return { outcome: "ok", state: stateOf(seen, reference, desired?.value), owned: seen.owned };
}

/** Reads the value of a variable, for import. */
export async function readVariable(place: Pick<VariablePlace, "find">, name: string): Promise<ReadObject> {
  const found = await place.find(name);
  if (!found.ok) return found.outcome;
  const value = found.seen?.value;
  return { outcome: "ok", content: value === undefined ? null : { value } };
}

/** Compares a present variable with the reference and the content of our last push. */
export function stateOf(
  { value, version }: Pick<SeenVariable, "value" | "version">,
  reference: string | null,
  desired: string | undefined,
): "unchanged" | "changed" | "present" {
  if (reference === null) return "present";
  if (value !== undefined && desired !== undefined) return value === desired ? "unchanged" : "changed";
  if (version === undefined) return "present";
  return version === reference ? "unchanged" : "changed";
}

const notOwned = (name: string): Failure =>
  failure("client", "not_owned", `The variable ${name} exists already and was not written by this service.`);
