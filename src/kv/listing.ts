import type { ListedPage } from "../contracts/kv-store.ts";

/**
 * Reads a page of a folder from the index of paths, sorted. Costs about a row for each name or folder, however many
 * paths lie inside: a folder is skipped by starting the walk anew behind it. No walk is left halfway, as that would lock the table.
 * @param folder empty for the root, else with its trailing slash; @param after a name: the page starts behind it
 */
export function listFolder(sql: SqlStorage, folder: string, after: string, limit: number): ListedPage {
  const keys: string[] = [];
  let from = after === "" ? folder : behind(folder + after);
  // One behind a folder, as another may follow, and twice as many each time among plain names.
  for (let count = 1; ; ) {
    const paths = pathsFrom(sql, folder, from, count);
    let inside: string | undefined;
    for (const { path } of paths) {
      if (keys.length === limit) return { keys, more: true };
      const slash = path.indexOf("/", folder.length);
      if (slash >= 0) inside = path.slice(0, slash + 1);
      keys.push((inside ?? path).slice(folder.length));
      if (inside !== undefined) break;
    }
    const last = inside ?? (paths.length < count ? undefined : paths.at(-1)?.path);
    if (last === undefined) return { keys, more: false };
    from = behind(last);
    count = inside === undefined ? Math.min(count * 2, limit - keys.length + 1) : 1;
  }
}

function pathsFrom(sql: SqlStorage, folder: string, from: string, count: number) {
  const cursor =
    folder === ""
      ? sql.exec<{ path: string }>("SELECT path FROM secrets WHERE path >= ? ORDER BY path LIMIT ?", from, count)
      : sql.exec<{ path: string }>(
          "SELECT path FROM secrets WHERE path >= ? AND path < ? ORDER BY path LIMIT ?",
          from,
          behind(folder),
          count,
        );
  return cursor.toArray();
}

/** The first path behind `name`, and behind everything inside it when it is a folder. No path holds a NUL. */
const behind = (name: string): string => (name.endsWith("/") ? `${name.slice(0, -1)}0` : `${name}\u0000`);
