/**
 * The list of events, newest first. Only the rows in sight are in the page. While the person reads (scrolled down, or a
 * row has the focus) the list stands still and a button says how much is new; the buffer goes on meanwhile.
 */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Status } from "../../components/status.tsx";
import { Spacer } from "../../components/table.tsx";
import { count } from "../../lib/text.ts";
import { momentText, timeText } from "../../lib/time.ts";
import type { EventRow, Row } from "./buffer.ts";

const ROW_PX = 32;
const SPARE = 10;

interface EventListProps {
  readonly rows: readonly Row[];
  readonly selected: EventRow | null;
  readonly onOpen: (row: EventRow) => void;
  /** The person reads: the rows must not move. */
  readonly onHold: (isHeld: boolean) => void;
  readonly waiting: number;
  readonly showsNamespace: boolean;
}

export function EventList({ rows, selected, onOpen, onHold, waiting, showsNamespace }: EventListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 700 });
  const [active, setActive] = useState(0);
  const wantsFocus = useRef(false);

  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const { scrollTop: top, clientHeight: height } = element;
    setView((last) => (last.top === top && last.height === height ? last : { top, height }));
    const hasFocus = document.activeElement instanceof HTMLElement && document.activeElement.tagName === "TR";
    onHold(top > 0 || (hasFocus && element.contains(document.activeElement)));
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watching = new ResizeObserver(measure);
    watching.observe(element);
    return () => watching.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    box.current?.querySelector<HTMLElement>(`tr[data-at="${active}"]`)?.focus({ preventScroll: true });
  });

  const first = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE);
  const current = Math.min(active, Math.max(0, rows.length - 1));

  const moveTo = (at: number): void => {
    const element = box.current;
    if (!element) return;
    const target = Math.max(0, Math.min(rows.length - 1, at));
    wantsFocus.current = true;
    setActive(target);
    const top = target * ROW_PX;
    const room = element.clientHeight - 3 * ROW_PX;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + room) element.scrollTop = top - room;
    measure();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!(event.target instanceof HTMLTableRowElement)) return;
    const page = Math.max(1, Math.floor(view.height / ROW_PX) - 2);
    const target = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: rows.length - 1,
    }[event.key];
    if (target !== undefined) {
      event.preventDefault();
      moveTo(target);
      return;
    }
    const row = rows[current];
    if (event.key === "Enter" && row?.kind === "event") onOpen(row);
    if (event.key === "Escape") toNewest();
  };
  const toNewest = (): void => {
    if (document.activeElement instanceof HTMLElement && box.current?.contains(document.activeElement))
      document.activeElement.blur();
    setActive(0);
    if (box.current) box.current.scrollTop = 0;
    measure();
    onHold(false);
  };
  const columns = showsNamespace ? 6 : 5;
  return (
    <div class="events-frame">
      {waiting > 0 && (
        <button type="button" class="events-new" onClick={toNewest}>
          {count(waiting)} new, show
        </button>
      )}
      <div class="table-box events-box" ref={box} onScroll={measure}>
        <table
          class="table table-active events-table"
          aria-label="Events"
          aria-rowcount={rows.length + 1}
          onKeyDown={onKeyDown}
        >
          <colgroup>
            <col class="events-col-time" />
            <col class="events-col-index minor" />
            <col class="events-col-type" />
            <col />
            <col class="events-col-says" />
            {showsNamespace && <col class="events-col-namespace minor" />}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">Time</th>
              <th scope="col" class="end minor">
                Index
              </th>
              <th scope="col">Event</th>
              <th scope="col">Object</th>
              <th scope="col">Says</th>
              {showsNamespace && (
                <th scope="col" class="minor">
                  Namespace
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <Spacer rows={first} rowPx={ROW_PX} />}
            {rows.slice(first, last).map((row, offset) => {
              const at = first + offset;
              const isCurrent = at === current;
              if (row.kind === "mark")
                return (
                  <tr
                    key={row.id}
                    data-at={at}
                    aria-rowindex={at + 2}
                    class="events-mark"
                    tabIndex={isCurrent ? 0 : -1}
                    onFocus={() => {
                      setActive(at);
                      measure();
                    }}
                    onBlur={() => setTimeout(measure, 0)}
                  >
                    <td colSpan={columns}>
                      <Status tone={row.tone} title={row.text}>
                        {`${momentText(row.received)}  ${row.text}`}
                      </Status>
                    </td>
                  </tr>
                );
              return (
                <tr
                  key={row.id}
                  data-at={at}
                  aria-rowindex={at + 2}
                  aria-selected={row.id === selected?.id}
                  tabIndex={isCurrent ? 0 : -1}
                  onFocus={() => {
                    setActive(at);
                    measure();
                  }}
                  onBlur={() => setTimeout(measure, 0)}
                  onClick={() => onOpen(row)}
                >
                  <td class="muted">
                    {row.happened === null ? (
                      <span
                        title={
                          row.since === null
                            ? `The event has no time; this page got it at ${timeText(row.received)}`
                            : `The event has no time; the one before happened at ${timeText(row.since)}`
                        }
                      >
                        {row.since === null ? `until ${momentText(row.received)}` : `after ${momentText(row.since)}`}
                      </span>
                    ) : (
                      <span title={timeText(row.happened)}>{momentText(row.happened)}</span>
                    )}
                  </td>
                  <td class="end mono minor">{row.index}</td>
                  <td title={`${row.topic} ${row.type}`}>
                    <span class="events-topic">{row.topic}</span>{" "}
                    {row.type !== row.topic && <span class="muted">{row.type}</span>}
                  </td>
                  <td class="mono" title={row.key}>
                    {row.name}
                  </td>
                  <td class="muted" title={row.summary}>
                    {row.summary}
                  </td>
                  {showsNamespace && <td class="minor muted">{row.namespace}</td>}
                </tr>
              );
            })}
            {last < rows.length && <Spacer rows={rows.length - last} rowPx={ROW_PX} />}
          </tbody>
        </table>
      </div>
    </div>
  );
}
