import { useState } from "preact/hooks";
import { type Api, api } from "../../api/client.ts";
import { Button } from "../../components/button.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { usePages } from "../../lib/resource.ts";
import { count } from "../../lib/text.ts";
import { byOrigin, hasRules, isOf, OriginFilter, originWords } from "./origins.tsx";
import { type Association, type DestinationRef, isFailing, keyOf } from "./reads.ts";

type Data = Api["GET /v1/sys/sync/destinations/{type}/{name}/drift"]["answer"]["data"];
type Found = Data["objects"][string];
type State = Found["state"] | "failing";
type Shown = Omit<Found, "state"> & { readonly state: State };
type Row = readonly [key: string, object: Shown];

/** An object that waits for a push which fails again and again has no push under way. */
const withFailure = (found: Shown, entry: Association | undefined): Shown =>
  found.state === "pending" && entry && isFailing(entry.sync_status)
    ? { ...found, state: "failing", ...(entry.error_message ? { error_message: entry.error_message } : {}) }
    : found;

const STATES: Readonly<Record<State, readonly [Tone, string, string]>> = {
  in_sync: ["ok", "In sync", "The provider has what was pushed"],
  changed: ["bad", "Changed", "Another user has written the object; set the secret again to repair it"],
  missing: ["bad", "Missing", "The object is gone at the provider"],
  unexpected: ["warn", "Unexpected", "The object should not be there any more"],
  failing: ["bad", "Failing", "It was never pushed, or its last push failed"],
  pending: ["wait", "Pending", "A push is under way"],
  present: ["info", "Present", "The provider shows that it is there, not what it holds"],
  clean_up_owed: ["warn", "Clean-up owed", "The object is in sync, and an earlier value may still be readable"],
  unreadable: ["warn", "Not readable", "The provider does not show the object"],
};

const COLUMNS: readonly Column<Row>[] = [
  {
    key: "state",
    label: "State",
    width: "9rem",
    render: ([, { state }]) => (
      <Status tone={STATES[state][0]} title={STATES[state][2]}>
        {STATES[state][1]}
      </Status>
    ),
  },
  {
    key: "name",
    label: "Name at the provider",
    render: ([, { external_name }]) => <code title={external_name}>{external_name}</code>,
  },
  {
    key: "owned",
    label: "Has our marker",
    width: "9rem",
    isMinor: true,
    render: ([, { owned }]) => (owned === undefined ? "–" : owned ? "yes" : "no"),
  },
  {
    key: "explanation",
    label: "Explanation",
    isMinor: true,
    render: ([, { state, error_code, error_message }]) => (
      <span class={error_message ? undefined : "muted"} title={error_message}>
        {error_code && <code>{error_code}</code>} {error_message ?? STATES[state][2]}
      </span>
    ),
  },
];

const ORIGIN: Column<Row> = {
  key: "origin",
  label: "Origin",
  width: "9rem",
  isMinor: true,
  render: ([, found]) => originWords(found),
};

/** Compares what was pushed with what the provider shows, on demand: each object costs a call to the provider. */
export function Drift({
  destination,
  pushed,
}: {
  readonly destination: DestinationRef;
  /** Known state of its objects, by the same keys. */
  readonly pushed: readonly (readonly [key: string, Association])[];
}) {
  const known = new Map(pushed);
  const [isWanted, setWanted] = useState(false);
  const [isAll, setAll] = useState(false);
  const [origin, setOrigin] = useState("");
  const pages = usePages(
    ["drift", keyOf(destination)],
    async (from, signal) => {
      const { data } = await api("GET /v1/sys/sync/destinations/{type}/{name}/drift", {
        path: { ...destination },
        query: from === null ? {} : { after: from },
        signal,
      });
      return { rows: Object.entries(data.objects).map(([key, found]): Row => [key, found]), next: data.next || null };
    },
    { skip: !isWanted },
  );
  const start = (
    <Button
      icon="refresh"
      onClick={() => (isWanted ? pages.reload() : setWanted(true))}
      isBusy={isWanted && pages.isLoading}
    >
      Compare with the provider
    </Button>
  );
  if (!isWanted)
    return (
      <Empty title="Compare what was pushed with what is there" actions={start}>
        Finds objects that another user has changed or deleted. It costs one call to the provider for each object, and
        changes nothing.
      </Empty>
    );
  const all = (pages.value ?? []).map(([key, found]): Row => [key, withFailure(found, known.get(key))]);
  const entries = all.map(([, found]) => found);
  const rows = all.filter(([, found]) => isOf(found, origin)).sort(([, a], [, b]) => byOrigin(a, b));
  const counts = Map.groupBy(rows, ([, { state }]) => state);
  const shown = isAll ? rows : rows.toSorted((a, b) => rank(a) - rank(b));
  return (
    <Loaded resource={pages} label="Comparing">
      {() => (
        <>
          <Toolbar>
            {start}
            {[...counts].map(([state, found]) => (
              <Status
                key={state}
                tone={STATES[state][0]}
              >{`${count(found.length)} ${STATES[state][1].toLowerCase()}`}</Status>
            ))}
            {rows.length > 1 && (
              <Button kind="quiet" onClick={() => setAll(!isAll)}>
                {isAll ? "Differences first" : "In order of names"}
              </Button>
            )}
            <OriginFilter entries={entries} value={origin} onChange={setOrigin} />
          </Toolbar>
          <DataTable
            label="Comparison with the provider"
            rows={shown}
            columns={hasRules(entries) ? [...COLUMNS, ORIGIN] : COLUMNS}
            keyOf={([key]) => key}
            hasMore={pages.hasMore}
            loadMore={pages.loadMore}
            empty={<Empty title="There is nothing to compare">No secret is synced to this destination.</Empty>}
          />
        </>
      )}
    </Loaded>
  );
}

const rank = ([, { state }]: Row): number => ["bad", "warn", "wait", "info", "ok"].indexOf(STATES[state][0]);
