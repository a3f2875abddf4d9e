import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isDenied } from "../../api/client.ts";
import { clusterNamespace } from "../../api/namespaces.ts";
import { place, setQuery } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Page } from "../../components/page.tsx";
import { Empty, Loading } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { count, plural } from "../../lib/text.ts";
import { durationText, now } from "../../lib/time.ts";
import { AuditLog } from "../audit/index.tsx";
import { EventBuffer, type EventRow, MAX_EVENTS, type Row } from "./buffer.ts";
import { Details } from "./details.tsx";
import { EventList } from "./event-list.tsx";
import { FilterBar, topicsOf, topicsText } from "./filters.tsx";
import { EventStream, type Filters, type StreamState } from "./stream.ts";
import { Subscriber } from "./subscriber.tsx";
import { Webhooks } from "./webhooks.tsx";

/** The page is drawn at most this often, however many lines arrive. */
const DRAW_MS = 120;
/** Actions of the service itself are in its audit log, which is read as often as this. */
const SERVICE_MS = 2_000;
/** Topics that a token with few rights may be able to follow. */
const LESSER = ["Job", "Allocation", "Evaluation", "Deployment", "HostVolume", "CSIVolume", "Node"];

interface View {
  readonly rows: readonly Row[];
  readonly received: number;
  readonly dropped: number;
  readonly size: number;
  readonly matches: number;
  readonly lastIndex: number | null;
  readonly perSecond: number;
}

const NOTHING: View = { rows: [], received: 0, dropped: 0, size: 0, matches: 0, lastIndex: null, perSecond: 0 };

export default function EventsScreen() {
  return (
    <Page title="Events" about="What happens, as it happens.">
      <Tabs
        label="Kinds of events"
        tabs={[
          { name: "cluster", label: "Cluster", content: () => <ClusterEvents /> },
          { name: "subscribe", label: "Subscription", content: () => <Subscriber /> },
          { name: "webhooks", label: "Webhooks", content: () => <Webhooks /> },
          {
            name: "service",
            label: "Secrets and sync",
            content: () => <AuditLog kind="action" everyMs={SERVICE_MS} />,
          },
        ]}
      />
    </Page>
  );
}

/** The event stream: nodes, volumes, jobs, policies. */
function ClusterEvents() {
  const { query } = place.value;
  const filters: Filters = {
    topics: topicsOf(query.get("topics")),
    namespace: query.get("in") ?? clusterNamespace.value,
    from: query.get("from") === "now" ? "now" : "backlog",
  };
  const { stream, view, hold, isHeld, search, setSearch, redraw } = useStream(filters);
  const [selected, setSelected] = useState<EventRow | null>(null);
  const state = stream.state.value;

  const setFilters = (changed: Filters): void => {
    setSelected(null);
    setQuery({
      topics: topicsText(changed.topics) || null,
      in: changed.namespace === clusterNamespace.value ? null : changed.namespace,
      from: changed.from === "now" ? "now" : null,
    });
  };
  const isPaused = state.name === "paused";
  const actions = (
    <>
      <Button
        kind="quiet"
        title="Forgets the rows of this page. The service keeps its events."
        onClick={() => {
          setSelected(null);
          stream.buffer.clear();
          redraw();
        }}
      >
        Clear the list
      </Button>
      <Button
        kind={isPaused ? "primary" : "normal"}
        icon={isPaused ? "play" : "pause"}
        onClick={() => (isPaused ? stream.start() : stream.pause())}
      >
        {isPaused ? resumeText(stream.lastIndex) : "Pause"}
      </Button>
    </>
  );
  return (
    <>
      <FilterBar filters={filters} namespace={clusterNamespace.value} onChange={setFilters} />
      <div class="events-bar">
        <StreamStatus state={state} perSecond={view.perSecond} />
        <span class="muted small" title="The index is the position in the stream: a client resumes from it.">
          {view.lastIndex === null ? "" : `up to index ${view.lastIndex}, `}
          {search ? `${count(view.matches)} of ` : ""}
          {plural(view.size, "row")} kept
          {view.dropped > 0 && `, ${count(view.dropped)} older dropped from this page (it keeps ${count(MAX_EVENTS)})`}
        </span>
        <SearchInput label="Search in what is kept" value={search} onChange={setSearch} />
        {actions}
      </div>
      {state.name === "refused" && (
        <Refused error={state.error} filters={filters} onFilters={setFilters} onRetry={() => stream.start()} />
      )}
      <div class={selected ? "events-split" : ""}>
        {view.rows.length > 0 ? (
          <EventList
            rows={view.rows}
            selected={selected}
            onOpen={setSelected}
            onHold={hold}
            waiting={isHeld ? stream.buffer.received - view.received : 0}
            showsNamespace={filters.namespace === "*"}
          />
        ) : (
          state.name !== "refused" && <Nothing state={state} search={search} filters={filters} />
        )}
        {selected && (
          <Details
            row={selected}
            onClose={() => setSelected(null)}
            onFollow={(topic) => setFilters({ ...filters, topics: [topic] })}
          />
        )}
      </div>
      <AsCommand request={stream.request} />
    </>
  );
}

const resumeText = (lastIndex: number | null): string => (lastIndex === null ? "Resume" : `Resume at ${lastIndex + 1}`);

/** The stream of the filters, and what is drawn of its buffer. */
function useStream(filters: Filters) {
  const [view, setView] = useState(NOTHING);
  const [search, setSearch] = useState("");
  const [isHeld, setHeld] = useState(false);
  const held = useRef(false);
  const drawing = useRef<ReturnType<typeof setTimeout> | null>(null);
  // The backlog comes at once: the first second says nothing of the rate.
  const rate = useRef({ at: performance.now(), received: Number.POSITIVE_INFINITY, perSecond: 0 });

  const [stream, draw] = useMemo(() => {
    const buffer = new EventBuffer();
    const paint = (): void => {
      drawing.current = null;
      const { current: last } = rate;
      const elapsed = performance.now() - last.at;
      if (elapsed >= 1000) {
        const perSecond = Math.max(0, Math.round(((buffer.received - last.received) * 1000) / elapsed));
        rate.current = { at: performance.now(), received: buffer.received, perSecond };
      }
      const { perSecond } = rate.current;
      const { received, dropped, size, matches } = buffer;
      const numbers = { dropped, size, matches, lastIndex: made.lastIndex, perSecond };
      // While it is held, the list keeps its rows; only the numbers go on.
      setView((before) =>
        held.current ? { ...before, ...numbers } : { ...numbers, received, rows: buffer.newestFirst() },
      );
    };
    const schedule = (): void => {
      drawing.current ??= setTimeout(() => requestAnimationFrame(paint), DRAW_MS);
    };
    const made = new EventStream(buffer, filters, schedule);
    return [made, schedule] as const;
  }, []);

  const asked = JSON.stringify(filters);
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) stream.start();
    else stream.change(filters);
    isFirst.current = false;
  }, [asked]);
  useEffect(() => {
    const timer = setTimeout(() => {
      stream.buffer.search(search);
      draw();
    }, 150);
    return () => clearTimeout(timer);
  }, [search]);
  // The rate falls to zero when nothing comes.
  useEffect(() => {
    const timer = setInterval(draw, 1000);
    return () => {
      clearInterval(timer);
      stream.stop();
    };
  }, []);

  const hold = (wanted: boolean): void => {
    if (held.current === wanted) return;
    held.current = wanted;
    setHeld(wanted);
    draw();
  };
  return { stream, view, hold, isHeld, search, setSearch, redraw: draw };
}

function StreamStatus({ state, perSecond }: { readonly state: StreamState; readonly perSecond: number }) {
  switch (state.name) {
    case "live":
      return <Status tone="ok">{perSecond > 0 ? `Live, ${count(perSecond)} per second` : "Live"}</Status>;
    case "connecting":
      return <Status tone="wait">Connecting</Status>;
    case "paused":
      return <Status tone="off">Paused</Status>;
    case "waiting":
      return (
        <Status tone="warn" title={state.why}>
          {`${state.why}; next attempt in ${durationText(Math.max(0, state.until - now.value))}`}
        </Status>
      );
    default:
      return <Status tone="bad">Not connected</Status>;
  }
}

function Nothing({
  state,
  search,
  filters,
}: {
  readonly state: StreamState;
  readonly search: string;
  readonly filters: Filters;
}) {
  if (state.name === "connecting") return <Loading label="Connecting" />;
  if (search) return <Empty title="No stored line has this text" />;
  return (
    <div class="card">
      <Empty title={filters.from === "now" ? "Nothing has happened yet" : "There is no event of this kind yet"}>
        Events come from nodes, volumes, policies and reported jobs. Make a host volume in Storage, and its events
        appear here. Pushes of secrets and leases are on the other tab.
      </Empty>
    </div>
  );
}

function Refused({
  error,
  filters,
  onFilters,
  onRetry,
}: {
  readonly error: unknown;
  readonly filters: Filters;
  readonly onFilters: (filters: Filters) => void;
  readonly onRetry: () => void;
}) {
  const isRefused = isDenied(error);
  const isAll = filters.topics.length === 0;
  return (
    <>
      <ErrorPanel
        error={error}
        onRetry={onRetry}
        {...(isRefused
          ? { title: isAll ? "Your token may not follow all topics" : "Your token may not follow these topics" }
          : {})}
      />
      {isRefused && (
        <div class="events-lesser">
          <span>{isAll ? "Choose a topic to follow:" : "Choose another one:"}</span>
          {LESSER.map((topic) => (
            <Button key={topic} onClick={() => onFilters({ ...filters, topics: [topic] })}>
              {topic}
            </Button>
          ))}
        </div>
      )}
    </>
  );
}
