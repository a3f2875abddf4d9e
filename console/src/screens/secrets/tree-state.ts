/** The folders of one mount as far as they were read. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isDenied } from "../../api/client.ts";
import { type KvMount, parentOf } from "./addresses.ts";
import { listFolder, namedByRules } from "./reads.ts";

interface Folder {
  readonly names: readonly string[];
  readonly next: string | null;
  readonly isLoading: boolean;
  readonly error: unknown;
}

export type TreeRow =
  | { readonly kind: "folder"; readonly path: string; readonly depth: number; readonly isOpen: boolean }
  | { readonly kind: "secret"; readonly path: string; readonly depth: number }
  /** More names than were read. */
  | { readonly kind: "more"; readonly path: string; readonly depth: number }
  | { readonly kind: "loading"; readonly path: string; readonly depth: number }
  | { readonly kind: "error"; readonly path: string; readonly depth: number; readonly error: unknown };

export interface Tree {
  readonly rows: readonly TreeRow[];
  readonly isEmpty: boolean;
  /** The caller may not list the engine: the tree has what its rules name. */
  readonly isPartial: boolean;
  /** The folder that was opened last, empty or with a slash at its end. */
  readonly folder: string;
  readonly error: unknown;
  readonly toggle: (folder: string) => void;
  readonly setOpen: (folder: string, isOpen: boolean) => void;
  readonly loadMore: (folder: string) => void;
  /** Reads all open folders again, and the others when they are opened. */
  readonly reload: () => void;
}

const ROOT = "";

/** @param secret its folders are opened */
export function useTree(mount: KvMount, secret: string | null): Tree {
  const [folders, setFolders] = useState<ReadonlyMap<string, Folder>>(new Map());
  const [isPartial, setPartial] = useState(false);
  const [last, setLast] = useState(ROOT);
  const [open, setOpenFolders] = useState<ReadonlySet<string>>(new Set([ROOT]));

  /** The last read of each folder; results of earlier ones are dropped. */
  const reads = useRef(new Map<string, object>()).current;

  const read = async (folder: string, after: string | null): Promise<void> => {
    const own = {};
    reads.set(folder, own);
    const set = (change: (before: Folder | undefined) => Folder): void => {
      if (reads.get(folder) === own) setFolders((before) => new Map(before).set(folder, change(before.get(folder))));
    };
    set((before) => ({ names: before?.names ?? [], next: before?.next ?? null, isLoading: true, error: null }));
    try {
      const page = await listFolder(mount, folder, after).catch(async (failure: unknown) => {
        const names = folder === ROOT && isDenied(failure) ? await namedByRules(mount) : [];
        if (names.length === 0) throw failure;
        setPartial(true);
        return { names, next: null };
      });
      set((before) => ({
        names: after === null ? page.names : [...(before?.names ?? []), ...page.names],
        next: page.next,
        isLoading: false,
        error: null,
      }));
    } catch (error) {
      set((before) => ({ names: before?.names ?? [], next: before?.next ?? null, isLoading: false, error }));
    }
  };
  useEffect(() => {
    if (secret === null) return;
    const parents = secret
      .split("/")
      .slice(0, -1)
      .map((_, at, all) => `${all.slice(0, at + 1).join("/")}/`);
    setOpenFolders((before) => before.union(new Set(parents)));
    setLast(parents.at(-1) ?? ROOT);
  }, [secret]);
  useEffect(() => {
    for (const folder of open) if (!folders.has(folder)) void read(folder, null);
  }, [open, folders]);

  const setOpen = (folder: string, isOpen: boolean): void => {
    setOpenFolders((before) => (isOpen ? before.union(new Set([folder])) : before.difference(new Set([folder]))));
    setLast(isOpen ? folder : parentOf(folder.slice(0, -1)));
  };
  const rows = useMemo(() => rowsOf(folders, open), [folders, open]);
  const root = folders.get(ROOT);
  return {
    rows,
    isEmpty: root !== undefined && !root.isLoading && root.error === null && root.names.length === 0,
    isPartial,
    folder: last,
    error: root?.error ?? null,
    toggle: (folder) => setOpen(folder, !open.has(folder)),
    setOpen,
    loadMore: (path) => {
      const folder = folders.get(path);
      if (!folder?.isLoading) void read(path, folder?.next ?? null);
    },
    reload: () => {
      reads.clear();
      setPartial(false);
      setFolders((before) => new Map([...before].filter(([folder]) => open.has(folder))));
      for (const folder of open) void read(folder, null);
    },
  };
}

function rowsOf(folders: ReadonlyMap<string, Folder>, open: ReadonlySet<string>): TreeRow[] {
  const rows: TreeRow[] = [];
  const add = (path: string, depth: number): void => {
    const folder = folders.get(path);
    for (const name of folder?.names ?? []) {
      const child = `${path}${name}`;
      if (!name.endsWith("/")) rows.push({ kind: "secret", path: child, depth });
      else {
        const isOpen = open.has(child);
        rows.push({ kind: "folder", path: child, depth, isOpen });
        if (isOpen) add(child, depth + 1);
      }
    }
    if (!folder || (folder.isLoading && folder.names.length === 0)) rows.push({ kind: "loading", path, depth });
    else if (folder.error !== null) rows.push({ kind: "error", path, depth, error: folder.error });
    else if (folder.next !== null) rows.push({ kind: "more", path, depth });
  };
  add(ROOT, 0);
  return rows;
}
