import { useMemo } from "preact/hooks";
import { isDenied } from "../../api/client.ts";
import { place, setQuery } from "../../app/router.ts";
import { LinkButton } from "../../components/button.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { inParallel } from "../../lib/parallel.ts";
import { useResource } from "../../lib/resource.ts";
import { count, providerName } from "../../lib/text.ts";
import { createHref, destinationHref, destinationPath } from "./addresses.ts";
import type { SyncFigures } from "./figures.ts";
import {
  type Destination,
  type DestinationRef,
  healthOf,
  keyOf,
  MAX_CONCURRENT,
  readAssociations,
  readDestination,
  totalOf,
} from "./reads.ts";

const FRESH_MS = 10_000;
/** States are read for so many rows. */
const MAX_STATES = 500;

/** State of a row: null counts are unknown, undefined ones are being read. */
interface Row {
  readonly ref: DestinationRef;
  /** Null when it cannot be read, for the reason `why`. */
  readonly state: Destination | null | undefined;
  readonly why: unknown;
  readonly counts: Readonly<Record<string, number>> | null | undefined;
  readonly isMore: boolean;
  readonly waiting: number | null;
  readonly pace: number | null;
}

type State = Pick<Row, "state" | "why" | "counts" | "isMore">;

async function readState(ref: DestinationRef, isCounted: boolean, signal: AbortSignal): Promise<State> {
  let why: unknown = null;
  const unread = (failure: unknown): null => {
    why = failure;
    return null;
  };
  const state = await readDestination(ref, signal, { quiet: true }).catch(unread);
  if (isCounted || !state) return { state, why, counts: null, isMore: false };
  const page = await readAssociations(ref, null, signal, { quiet: true }).catch(unread);
  if (!page) return { state, why, counts: null, isMore: false };
  const counts: Record<string, number> = {};
  for (const [, { sync_status }] of page.entries) counts[sync_status] = (counts[sync_status] ?? 0) + 1;
  return { state, why, counts, isMore: page.next !== null };
}

const SEVERITY: Readonly<Record<Tone, number>> = { bad: 0, warn: 1, wait: 2, info: 3, ok: 4, off: 5 };

/** Destinations with health, speed, and pauses after failures. */
export function DestinationList({
  refs,
  figures,
}: {
  readonly refs: readonly DestinationRef[];
  readonly figures: SyncFigures;
}) {
  const { metrics, pace } = figures;
  const isCounted = metrics !== null;
  const states = useResource(
    ["states", refs.map(keyOf), isCounted],
    async (signal) => {
      const read = await inParallel(refs.slice(0, MAX_STATES), MAX_CONCURRENT, (ref) =>
        readState(ref, isCounted, signal),
      );
      return new Map(read.map((state, at) => [keyOf(refs[at] as DestinationRef), state]));
    },
    { everyMs: FRESH_MS, skip: metrics === undefined },
  );
  const search = place.value.query.get("q") ?? "";
  const rows = useMemo(
    () =>
      refs
        .filter(({ type, name }) =>
          `${name} ${type} ${providerName(type)}`.toLowerCase().includes(search.toLowerCase()),
        )
        .map((ref): Row => {
          const key = keyOf(ref);
          const known = states.value?.get(key);
          const own = metrics?.byDestination.get(key);
          return {
            ref,
            state: known?.state,
            why: known?.why,
            counts: own ? own.byStatus : known && (known.counts ?? (metrics ? {} : null)),
            isMore: known?.isMore ?? false,
            waiting: own ? own.queued + own.waiting : metrics ? 0 : null,
            pace: pace ? (pace.get(key) ?? 0) : null,
          };
        }),
    [refs, states.value, metrics, pace, search],
  );
  if (refs.length === 0)
    return (
      <Empty
        title="No destinations yet"
        actions={
          <LinkButton href={createHref()} icon="plus" kind="primary" needs={`POST ${destinationPath()}`}>
            Create destination
          </LinkButton>
        }
      >
        A destination is a place at a provider, such as an AWS account or a GitHub repository, that gets copies of
        secrets. Create one, then sync a secret to it. The type In memory needs no account.
      </Empty>
    );
  return (
    <>
      <Toolbar>
        <SearchInput
          label="Filter destinations"
          value={search}
          onChange={(q) => setQuery({ q })}
          placeholder="Name or provider"
        />
        {refs.length > MAX_STATES && (
          <span class="muted small">States are shown for the first {count(MAX_STATES)} destinations.</span>
        )}
      </Toolbar>
      <DataTable
        label="Destinations"
        rows={rows}
        columns={metrics ? [...COLUMNS, ...MEASURED, BREAKER] : [...COLUMNS, BREAKER]}
        keyOf={({ ref }) => keyOf(ref)}
        hrefOf={({ ref }) => destinationHref(ref)}
        empty={<Empty title="No destination matches the filter" />}
      />
    </>
  );
}

/** Null where the state or, without figures, the secrets cannot be read. */
const health = ({ state, counts, why }: Row) => (state && !why ? healthOf(state, counts ?? undefined) : null);

const unreadWord = (why: unknown): string => (isDenied(why) ? "not allowed to see" : "could not be read");

const COLUMNS: readonly Column<Row>[] = [
  { key: "name", label: "Name", render: ({ ref }) => ref.name, sort: ({ ref }) => ref.name },
  {
    key: "provider",
    label: "Provider",
    width: "13rem",
    render: ({ ref }) => providerName(ref.type),
    sort: ({ ref }) => providerName(ref.type),
    isMinor: true,
  },
  {
    key: "health",
    label: "Health",
    width: "10rem",
    sort: (row) => SEVERITY[health(row)?.tone ?? "info"],
    render: (row) => {
      if (row.state === undefined) return <span class="muted">reading …</span>;
      const found = health(row);
      return found ? <Status tone={found.tone}>{found.word}</Status> : <span class="muted">{unreadWord(row.why)}</span>;
    },
  },
  {
    key: "synced",
    label: "Synced",
    width: "6rem",
    align: "end",
    isMinor: true,
    sort: ({ counts }) => counts?.["SYNCED"] ?? 0,
    render: ({ counts, isMore }) =>
      counts ? `${count(counts["SYNCED"] ?? 0)} of ${count(totalOf(counts))}${isMore ? "+" : ""}` : "–",
  },
];

const MEASURED: readonly Column<Row>[] = [
  {
    key: "waiting",
    label: "Pending",
    width: "6rem",
    align: "end",
    isMinor: true,
    sort: ({ waiting }) => waiting ?? 0,
    render: ({ waiting }) => (waiting === null ? "–" : count(waiting)),
  },
  {
    key: "pace",
    label: "Pushes / min",
    width: "8rem",
    align: "end",
    isMinor: true,
    sort: ({ pace }) => pace ?? 0,
    render: ({ pace }) => (pace === null ? "–" : count(Math.round(pace))),
  },
];

const BREAKER: Column<Row> = {
  key: "breaker",
  label: "Calls to the provider",
  width: "13rem",
  isMinor: true,
  sort: ({ state }) => state?.circuit_breaker?.failures ?? 0,
  render: ({ state }) => {
    const breaker = state?.circuit_breaker;
    if (!breaker) return <span class="muted">{state ? "allowed" : "–"}</span>;
    return (
      <>
        paused, next try <Countdown to={breaker.next_attempt_at} over="now" />
      </>
    );
  },
};
