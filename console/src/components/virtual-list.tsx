/** Rows of equal height of which only those in sight are in the page. */
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface VirtualListProps<Row> {
  readonly rows: readonly Row[];
  readonly rowPx: number;
  readonly keyOf: (row: Row) => string;
  readonly render: (row: Row, at: number) => ComponentChildren;
  /** Role and name of the scrolling area. */
  readonly role: "tree" | "list" | "log";
  readonly label: string;
  readonly className?: string;
  /** This row is kept in sight when the number changes. */
  readonly show?: number;
  /** For rows without a link or a button: the keys scroll then. */
  readonly isFocusable?: boolean;
  readonly boxRef?: RefObject<HTMLDivElement | null>;
  readonly onScroll?: (box: HTMLDivElement) => void;
  readonly onKeyDown?: (event: KeyboardEvent) => void;
}

const SPARE = 10;

export function VirtualList<Row>({
  rows,
  rowPx,
  keyOf,
  render,
  role,
  label,
  className = "",
  show,
  isFocusable = false,
  boxRef,
  onScroll,
  onKeyDown,
}: VirtualListProps<Row>) {
  const own = useRef<HTMLDivElement>(null);
  const box = boxRef ?? own;
  const [view, setView] = useState({ top: 0, height: 800 });
  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    setView({ top: element.scrollTop, height: element.clientHeight });
    onScroll?.(element);
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watching = new ResizeObserver(measure);
    watching.observe(element);
    return () => watching.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || show === undefined || show < 0) return;
    const top = show * rowPx;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + element.clientHeight - rowPx)
      element.scrollTop = top - element.clientHeight + rowPx;
  }, [show, rowPx]);
  const first = Math.max(0, Math.floor(view.top / rowPx) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowPx) + SPARE);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the role is one with keys, or there is no handler
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: all roles of the list have a name
    <div
      ref={box}
      class={`virtual ${className}`}
      role={role}
      aria-label={label}
      tabIndex={isFocusable ? 0 : undefined}
      onScroll={measure}
      onKeyDown={onKeyDown}
    >
      <div role="presentation" style={{ height: `${first * rowPx}px` }} />
      {rows.slice(first, last).map((row, offset) => (
        <div key={keyOf(row)} role="presentation" style={{ height: `${rowPx}px` }}>
          {render(row, first + offset)}
        </div>
      ))}
      <div role="presentation" style={{ height: `${Math.max(0, rows.length - last) * rowPx}px` }} />
    </div>
  );
}
