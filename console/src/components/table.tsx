/**
 * A list as a table. Only the rows in sight are in the page, so 100 000 rows scroll as ten do; pages are read as the
 * end comes into sight. Arrow keys move between rows, Enter opens one. Columns with `isMinor` are left out on narrow
 * screens.
 */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { go } from "../app/router.ts";
import { count } from "../lib/text.ts";

export interface Column<Row> {
  readonly key: string;
  readonly label: string;
  /** The label is for screen readers only, as that of a column of buttons. */
  readonly isLabelHidden?: boolean;
  readonly render: (row: Row) => ComponentChildren;
  /** Makes the column sortable. Only for lists that are read as a whole. */
  readonly sort?: (row: Row) => string | number;
  /** CSS width, such as `12rem`; columns without one share the rest. */
  readonly width?: string;
  readonly align?: "end";
  readonly isMinor?: boolean;
}

export interface DataTableProps<Row> {
  /** Names the table for screen readers. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly keyOf: (row: Row) => string;
  /** Where a row leads; its first column becomes a link. */
  readonly hrefOf?: (row: Row) => string;
  /** Action of a row without a link. */
  readonly onOpen?: (row: Row) => void;
  readonly selected?: string | null;
  readonly hasMore?: boolean;
  readonly loadMore?: () => void;
  /** Shown instead of a table without rows. */
  readonly empty?: ComponentChildren;
  /** Height of the scrolling area; grows with the rows up to this. */
  readonly maxHeight?: string;
}

/** Gives a cell that is cut off its whole text as its title. */
function showCut({ target }: PointerEvent): void {
  const cell = target instanceof Element && target.closest("td");
  if (cell) cell.title = cell.scrollWidth > cell.clientWidth ? cell.textContent : "";
}

const ROW_PX = 36;
/** Rows in the page beyond those in sight. */
const SPARE = 12;

export function DataTable<Row>({
  label,
  rows,
  columns,
  keyOf,
  hrefOf,
  onOpen,
  selected,
  hasMore = false,
  loadMore,
  empty,
  maxHeight,
}: DataTableProps<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [active, setActive] = useState(0);
  const [order, setOrder] = useState<{ readonly key: string; readonly isDescending: boolean } | null>(null);
  const wantsFocus = useRef(false);

  const sorted = useMemo(() => {
    const by = order && columns.find(({ key }) => key === order.key)?.sort;
    if (!by) return rows;
    const sign = order.isDescending ? -1 : 1;
    const keyed = rows.map((row) => ({ row, at: by(row) }));
    return keyed.sort((a, b) => sign * (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)).map(({ row }) => row);
  }, [rows, order, columns]);

  const first = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE);
  const last = Math.min(sorted.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE);
  const shownActive = Math.min(active, Math.max(0, sorted.length - 1));

  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    setView({ top: element.scrollTop, height: element.clientHeight });
    if (hasMore && element.scrollTop + element.clientHeight > element.scrollHeight - 20 * ROW_PX) loadMore?.();
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watching = new ResizeObserver(measure);
    watching.observe(element);
    return () => watching.disconnect();
  }, [hasMore, loadMore, sorted.length]);
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    box.current?.querySelector<HTMLElement>(`tr[data-at="${shownActive}"]`)?.focus();
  });

  if (sorted.length === 0 && empty !== undefined && !hasMore) return <>{empty}</>;

  const open = (row: Row): void => {
    if (onOpen) onOpen(row);
    else if (hrefOf) go(hrefOf(row));
  };
  const moveTo = (at: number): void => {
    const target = Math.max(0, Math.min(sorted.length - 1, at));
    const element = box.current;
    if (!element) return;
    wantsFocus.current = true;
    setActive(target);
    const top = target * ROW_PX;
    const room = element.clientHeight - 2 * ROW_PX;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + room) element.scrollTop = top - room;
    measure();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!(event.target instanceof HTMLTableRowElement)) return;
    const page = Math.max(1, Math.floor(view.height / ROW_PX) - 2);
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: shownActive + 1,
      ArrowUp: shownActive - 1,
      PageDown: shownActive + page,
      PageUp: shownActive - page,
      Home: 0,
      End: sorted.length - 1,
    };
    const target = moves[event.key];
    if (target !== undefined) {
      event.preventDefault();
      moveTo(target);
    } else if (event.key === "Enter") {
      const row = sorted[shownActive];
      if (row !== undefined) open(row);
    }
  };
  const isActive = Boolean(hrefOf ?? onOpen);
  return (
    <div class="table-box" ref={box} onScroll={measure} style={maxHeight ? { maxHeight } : undefined}>
      <table
        class={isActive ? "table table-active" : "table"}
        aria-label={label}
        aria-rowcount={hasMore ? -1 : sorted.length + 1}
        onKeyDown={onKeyDown}
      >
        <colgroup>
          {columns.map(({ key, width, isMinor }) => (
            <col key={key} class={isMinor ? "minor" : undefined} style={width ? { width } : undefined} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <Heading key={column.key} column={column} order={order} onOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Spacer rows={first} />}
          {sorted.slice(first, last).map((row, offset) => {
            const at = first + offset;
            const key = keyOf(row);
            return (
              <tr
                key={key}
                data-at={at}
                aria-rowindex={at + 2}
                aria-selected={selected === undefined ? undefined : key === selected}
                tabIndex={isActive ? (at === shownActive ? 0 : -1) : undefined}
                onFocus={() => setActive(at)}
                onPointerOver={showCut}
                onClick={(event) => {
                  const isOwn =
                    event.target instanceof Element && event.target.closest("a, button, input, select, label");
                  if (isActive && !isOwn && getSelection()?.isCollapsed !== false) open(row);
                }}
              >
                {columns.map((column, index) => (
                  <td key={column.key} class={cellClass(column)}>
                    {index === 0 && hrefOf ? (
                      <a href={hrefOf(row)} tabIndex={-1}>
                        {column.render(row)}
                      </a>
                    ) : (
                      column.render(row)
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
          {last < sorted.length && <Spacer rows={sorted.length - last} />}
        </tbody>
      </table>
      {hasMore && (
        <div class="table-more">
          <button type="button" class="button button-quiet" onClick={loadMore}>
            {count(sorted.length)} shown; load more
          </button>
        </div>
      )}
    </div>
  );
}

const cellClass = ({ align, isMinor }: { readonly align?: "end"; readonly isMinor?: boolean }): string =>
  [align === "end" ? "end" : "", isMinor ? "minor" : ""].filter(Boolean).join(" ");

type Order = { readonly key: string; readonly isDescending: boolean } | null;

function Heading<Row>({
  column,
  order,
  onOrder,
}: {
  readonly column: Column<Row>;
  readonly order: Order;
  readonly onOrder: (order: Order) => void;
}) {
  const { key, label, sort, isLabelHidden } = column;
  if (!sort)
    return (
      <th scope="col" class={cellClass(column)}>
        {isLabelHidden ? <span class="unseen">{label}</span> : label}
      </th>
    );
  const isSorted = order?.key === key;
  return (
    <th
      scope="col"
      class={cellClass(column)}
      aria-sort={isSorted ? (order.isDescending ? "descending" : "ascending") : "none"}
    >
      <button
        type="button"
        class="sort"
        onClick={() => onOrder(isSorted && order.isDescending ? null : { key, isDescending: isSorted })}
      >
        {label}
        <span aria-hidden="true">{isSorted ? (order.isDescending ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

/** Its cell spans nothing: a span over columns that are left out on phones would make new ones. */
export function Spacer({ rows, rowPx = ROW_PX }: { readonly rows: number; readonly rowPx?: number }) {
  return (
    <tr aria-hidden="true" class="spacer">
      <td style={{ height: `${rows * rowPx}px` }} />
    </tr>
  );
}
