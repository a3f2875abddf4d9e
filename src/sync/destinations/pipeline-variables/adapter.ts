import { failure } from "../../../providers/outcome.ts";
import { type BulkPlace, bulkOperations, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY } from "../defaults.ts";
import { type CallContext, remoteType } from "../destination-type.ts";
import { checkObject } from "../object-rules.ts";
import { type GroupVariable, groupClient, type VariableGroup } from "./client.ts";
import { type PipelineConnection, pipelineConnection } from "./connection.ts";
import { description } from "./description.ts";

/** A variable becomes an environment variable, which Windows bounds by 32 767 characters. */
const maxValueBytes = 32_000;
const MAX_NAME = 400;
const MOST = 100;
/** Each write replaces the whole group, so a burst of changes is one. */
const WINDOW_MS = 2_000;

/**
 * The plain variable that names the variables of this service, because secret values cannot be read back. Its text is
 * in the write that it describes. A group cannot be empty, so it stays when it is the last one.
 */
export const MARKER = "SALLYPORT_VARIABLES";
const NONE = "-";

/** Variables with these prefixes are not available to tasks ("Define variables", Azure Pipelines). */
const RESERVED = /^(?:ENDPOINT|INPUT|SECRET|PATH|SECUREFILE)/;

/**
 * Secret variables of a variable group of Azure DevOps. One external object is one variable; names differ by more than
 * case. The provider has no conditional write: of two writers at the same time the later one wins.
 */
export const pipelineVariables = remoteType(description, pipelineConnection, {
  targets: ({ organization, variable_group_id: group }) => [`${organization.toLowerCase()}/${group}`],
  defaults: EACH_KEY,
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: MAX_NAME,
    replacement: "_",
    adapt: (name) => {
      const upper = name.toUpperCase();
      return /^\d/.test(upper) || RESERVED.test(upper) || upper === MARKER ? `_${upper}` : upper;
    },
    collisionKey: (name) => name.toUpperCase(),
  },
  maxValueBytes,
  pace: { atOnce: 1, burst: 100, perMinute: 600 },
  ...bulkOperations({
    noun: "variable",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: false,
    check: (object) =>
      checkObject(object, {
        name: /^(?!ENDPOINT|INPUT|SECRET|PATH|SECUREFILE|SALLYPORT_VARIABLES$)[A-Z_][A-Z0-9_]{0,399}$/,
        rule: `be 1 to ${MAX_NAME} capital letters, digits or _, not beginning with a digit or a reserved word`,
        maxBytes: maxValueBytes,
        notEmpty: true,
      }),
    placeOf,
  }),
});

function placeOf(given: PipelineConnection, context: CallContext): BulkPlace {
  const group = groupClient(given, context);

  /** Replaces the group by itself with a change. @returns its variables by upper-case name */
  async function change(doing: string, values: ReadonlyMap<string, string>, removed: readonly string[]) {
    const before = await group.read();
    if (!before.ok) return before.outcome;
    const next = changed(before.group, values, removed);
    const written = await group.replace(doing, before.group, next);
    if (!written.ok) return written.outcome;
    const names = byName(written.group);
    // A writer that had read the group before this write has replaced it without these variables.
    const after = await group.read();
    if (after.ok && after.group.modifiedOn !== written.group.modifiedOn) {
      const seen = byName(after.group);
      const isLost = [...values.keys()].some((name) => !seen.has(name)) || removed.some((name) => seen.has(name));
      if (isLost) return failure("external", "conflict", `${doing} was undone by another writer of the group.`);
    }
    return names;
  }

  return {
    async all() {
      const answer = await group.read();
      if (!answer.ok) return answer.outcome;
      const ours = namedBy(answer.group);
      const names = [...byName(answer.group).keys()].filter((name) => name !== MARKER);
      return new Map(names.map((name) => [name, { owned: ours.has(name) }]));
    },
    async write(doing, values) {
      const present = await change(doing, values, []);
      if ("outcome" in present) return present;
      return new Map([...values.keys()].filter((name) => present.has(name)).map((name) => [name, WRITTEN]));
    },
    async remove(doing, names) {
      const present = await change(doing, new Map(), names);
      return "outcome" in present ? present : { outcome: "ok" };
    },
  };
}

/** The variables by upper-case name: the provider does not tell names by case. */
const byName = ({ variables }: VariableGroup): ReadonlyMap<string, GroupVariable> =>
  new Map(Object.entries(variables).map(([name, variable]) => [name.toUpperCase(), variable]));

/** The names that the marker lists. */
function namedBy(group: VariableGroup): Set<string> {
  const text = byName(group).get(MARKER)?.value ?? NONE;
  return new Set(text === NONE ? [] : text.split(","));
}

/** All variables after a change: those of others as they were, secret ones without their values. */
function changed(
  group: VariableGroup,
  values: ReadonlyMap<string, string>,
  removed: readonly string[],
): Record<string, GroupVariable> {
  const ended = new Set([...values.keys(), ...removed, MARKER]);
  const kept = Object.entries(group.variables).filter(([name]) => !ended.has(name.toUpperCase()));
  const next: Record<string, GroupVariable> = Object.fromEntries(kept);
  for (const [name, value] of values) next[name] = { value, isSecret: true };
  const ours = namedBy(group);
  for (const name of values.keys()) ours.add(name);
  const present = new Set(Object.keys(next).map((name) => name.toUpperCase()));
  const named = [...ours].filter((name) => present.has(name)).sort();
  if (named.length > 0 || present.size === 0) next[MARKER] = { value: named.join(",") || NONE };
  return next;
}
