import type { ListedPage } from "../contracts/kv-store.ts";

/**
 * Reads a page of a folder from the index of paths, sorted. Costs about one row per name or folder, independent of the
 * number of paths inside: a folder is skipped by a new query after it. Every cursor is read to its end, because an open
 * one locks the table.
 * @param folder empty for the root, else with a trailing slash; @param after the last name of the page before
 */
export function listFolder(sql: SqlStorage, folder: string, after: string, limit: number): ListedPage {
  const keys: string[] = [];
  let from = after === "" ? folder : behind(folder + after);
  // Reads one row after a folder, because another folder may follow, and doubles the count among plain names.
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

/**
 * Reads a page of the paths below a folder, at any depth, relative to it and sorted. Costs one row for each.
 * @param folder, after see `listFolder`
 */
export function listPaths(sql: SqlStorage, folder: string, after: string, limit: number): ListedPage {
  const paths = pathsFrom(sql, folder, after === "" ? folder : `${folder}${after}\u0000`, limit + 1);
  const keys = paths.slice(0, limit).map(({ path }) => path.slice(folder.length));
  return { keys, more: paths.length > limit };
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

/** The first path after `name`, and after its content when it is a folder. No path contains a NUL. */
const behind = (name: string): string => (name.endsWith("/") ? `${name.slice(0, -1)}0` : `${name}\u0000`);
