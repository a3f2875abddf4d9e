import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "../../app/router.ts";
import { Icon } from "../../components/icons.tsx";
import { VirtualList } from "../../components/virtual-list.tsx";
import { baseOf, parentOf, secretHref } from "./addresses.ts";
import type { Tree, TreeRow } from "./tree-state.ts";

const ROW_PX = 30;

interface TreeViewProps {
  readonly tree: Tree;
  readonly mount: string;
  readonly selected: string | null;
}

/** Folders and secrets. Arrow keys move and open, Enter selects. */
export function TreeView({ tree, mount, selected }: TreeViewProps) {
  const { rows } = tree;
  const box = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<string | null>(secretId(selected));
  const wantsFocus = useRef(false);
  const found = rows.findIndex((row) => idOf(row) === active);
  const at = Math.max(0, found);
  useEffect(() => setActive(secretId(selected)), [selected]);
  useEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    box.current?.querySelector<HTMLElement>(`[data-at="${at}"]`)?.focus();
  });

  const moveTo = (index: number): void => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (!row) return;
    wantsFocus.current = true;
    setActive(idOf(row));
  };
  const openRow = (row: TreeRow): void => {
    if (row.kind === "folder") tree.toggle(row.path);
    else if (row.kind === "secret") go(secretHref(mount, row.path));
    else if (row.kind === "more" || row.kind === "error") tree.loadMore(row.path);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const row = rows[at];
    if (!row) return;
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: rows.length - 1,
    };
    const target = moves[event.key];
    if (target !== undefined) moveTo(target);
    else if (event.key === "ArrowRight" && row.kind === "folder")
      row.isOpen ? moveTo(at + 1) : tree.setOpen(row.path, true);
    else if (event.key === "ArrowLeft") {
      if (row.kind === "folder" && row.isOpen) tree.setOpen(row.path, false);
      else
        moveTo(
          rows.findIndex((other) => other.kind === "folder" && other.path === parentOf(row.path.replace(/\/$/, ""))),
        );
    } else if (event.key === "Enter" || event.key === " ") openRow(row);
    else return;
    event.preventDefault();
  };
  return (
    <VirtualList
      rows={rows}
      rowPx={ROW_PX}
      keyOf={idOf}
      role="tree"
      label="Folders and secrets"
      className="secrets-tree"
      boxRef={box}
      show={found}
      onKeyDown={onKeyDown}
      render={(row, index) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys of all rows
        <div
          class="secrets-tree-row"
          role="treeitem"
          data-at={index}
          tabIndex={index === at ? 0 : -1}
          aria-level={row.depth + 1}
          aria-expanded={row.kind === "folder" ? row.isOpen : undefined}
          aria-selected={row.kind === "secret" && row.path === selected}
          style={{ paddingLeft: `${8 + row.depth * 16}px` }}
          onClick={() => {
            setActive(idOf(row));
            openRow(row);
          }}
        >
          <TreeLabel row={row} />
        </div>
      )}
    />
  );
}

const secretId = (path: string | null): string | null => (path === null ? null : `secret ${path}`);

const idOf = (row: TreeRow): string => `${row.kind} ${row.path}`;

/** At the top level with its folders, which the caller may not list. */
const nameOf = ({ path, depth }: TreeRow): string => (depth === 0 ? path : baseOf(path));

function TreeLabel({ row }: { readonly row: TreeRow }) {
  if (row.kind === "folder")
    return (
      <>
        <Icon name={row.isOpen ? "down" : "right"} size={12} />
        <span class="secrets-tree-name">{nameOf(row)}</span>
      </>
    );
  if (row.kind === "secret")
    return (
      <>
        <Icon name="key" size={12} />
        <span class="secrets-tree-name">{nameOf(row)}</span>
      </>
    );
  if (row.kind === "loading") return <span class="muted">reading …</span>;
  if (row.kind === "more") return <span class="secrets-tree-more">Show more</span>;
  return <span class="bad">{row.error instanceof Error ? row.error.message : "could not be read"}; try again</span>;
}
