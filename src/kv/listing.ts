/** One page of the names directly below a folder; a name with a trailing slash is a folder itself. */
export interface ListedPage {
  readonly keys: string[];
  readonly more: boolean;
}

/**
 * Reads a page of a folder from the index of paths, sorted. Costs a row for each name and one more for a folder, however many
 * paths lie inside: a folder is skipped by starting the walk anew behind it.
 * @param folder empty for the root, else with its trailing slash; @param after a name: the page starts behind it
 */
export function listFolder(sql: SqlStorage, folder: string, after: string, limit: number): ListedPage {
  const keys: string[] = [];
  let from = after === "" ? folder : behind(folder + after);
  for (;;) {
    const walk = pathsFrom(sql, folder, from);
    let inside: string | undefined;
    for (const { path } of walk) {
      if (keys.length === limit) return { keys, more: true };
      const slash = path.indexOf("/", folder.length);
      if (slash >= 0) inside = path.slice(0, slash + 1);
      keys.push((inside ?? path).slice(folder.length));
      if (inside !== undefined) break;
    }
    if (inside === undefined) return { keys, more: false };
    from = behind(inside);
  }
}

function pathsFrom(sql: SqlStorage, folder: string, from: string) {
  if (folder === "") {
    return sql.exec<{ path: string }>("SELECT path FROM secrets WHERE path >= ? ORDER BY path", from);
  }
  return sql.exec<{ path: string }>(
    "SELECT path FROM secrets WHERE path >= ? AND path < ? ORDER BY path",
    from,
    behind(folder),
  );
}

/** The first path behind `name`, and behind everything inside it when it is a folder. No path holds a NUL. */
const behind = (name: string): string => (name.endsWith("/") ? `${name.slice(0, -1)}0` : `${name}\u0000`);
