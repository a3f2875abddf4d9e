/** The changes of secrets that each client of event notifications is told of, and the types of their events. */

export const MOUNT = "notified";

type Call = (verb: string, path: string, body?: object) => Promise<unknown>;

const CHANGES: readonly (readonly [type: string, verb: string, path: string, body?: object])[] = [
  ["kv-v2/data-write", "POST", "data/app/db", { data: { password: "first" } }],
  ["kv-v2/data-write", "POST", "data/app/db", { data: { password: "second" } }],
  ["kv-v2/delete", "POST", "delete/app/db", { versions: [1] }],
  ["kv-v2/undelete", "POST", "undelete/app/db", { versions: [1] }],
  ["kv-v2/destroy", "POST", "destroy/app/db", { versions: [1] }],
  ["kv-v2/metadata-write", "POST", "metadata/app/db", { max_versions: 5 }],
  ["kv-v2/data-delete", "DELETE", "data/app/db"],
  ["kv-v2/metadata-delete", "DELETE", "metadata/app/db"],
];

export const CHANGED_TYPES = CHANGES.map(([type]) => type);

/** Makes the changes, one after another, in the mount `MOUNT`. */
export async function makeChanges(call: Call): Promise<void> {
  for (const [, verb, path, body] of CHANGES) await call(verb, `${MOUNT}/${path}`, body);
}
