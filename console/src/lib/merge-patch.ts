/** The change of an object as a JSON Merge Patch (https://www.rfc-editor.org/rfc/rfc7386). */

type Members = Readonly<Record<string, unknown>>;

/** Numbers that keep their digits are objects, too. */
const { isRawJSON = () => false } = JSON as JSON & { readonly isRawJSON?: (value: unknown) => boolean };

const isMap = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isRawJSON(value);

/**
 * The patch that changes an object to another one: what differs, and null for each member that is gone.
 * @param before null when it is unknown; then a null removes a member
 * @param at the name of the object, for the error
 * @throws Error for a null that is new: a patch takes it for a removal
 */
export function mergePatch(before: Members | null, after: Members, at = ""): Members {
  if (before === null) return after;
  const changes = Object.entries(after).flatMap(([name, value]): [string, unknown][] => {
    const was = Object.hasOwn(before, name) ? before[name] : undefined;
    if (JSON.stringify(was) === JSON.stringify(value)) return [];
    const path = `${at}${name}`;
    if (value === null) throw new Error(`${path} is null, which a patch takes for its removal. Send the whole secret.`);
    return [[name, isMap(value) ? mergePatch(isMap(was) ? was : {}, value, `${path}.`) : value]];
  });
  const gone = Object.keys(before).filter((name) => !Object.hasOwn(after, name));
  return Object.fromEntries([...changes, ...gone.map((name) => [name, null] as const)]);
}
