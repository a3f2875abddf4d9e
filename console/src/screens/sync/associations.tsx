import { useState } from "preact/hooks";
import { place, setQuery } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded, Progress } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { inParallel } from "../../lib/parallel.ts";
import { type Pages, useAction, usePages, useResource } from "../../lib/resource.ts";
import { syncMeaning, syncTone, syncWord } from "../../lib/sync-status.ts";
import { plural } from "../../lib/text.ts";
import { destinationPath, secretHref } from "./addresses.ts";
import { AssociationDetails } from "./association-details.tsx";
import { byOrigin, hasRules, isOf, OriginFilter, originWords } from "./origins.tsx";
import {
  type Association,
  type DestinationRef,
  isFailing,
  keyOf,
  MAX_CONCURRENT,
  readAssociations,
  readMountPaths,
  setSecret,
  worstOf,
} from "./reads.ts";

const FRESH_MS = 5_000;

interface Row {
  readonly key: string;
  readonly mount: string | null;
  readonly entry: Association;
}

/** The objects of a destination as far as they are read; kept fresh while they fit into one page. */
export function useAssociations(destination: DestinationRef) {
  const [isLong, setLong] = useState(false);
  const pages = usePages(
    ["associations", keyOf(destination)],
    async (from, signal) => {
      const page = await readAssociations(destination, from, signal);
      return { rows: page.entries, next: page.next };
    },
    { everyMs: isLong ? 0 : FRESH_MS },
  );
  if (!isLong && pages.hasMore) setLong(true);
  return pages;
}

interface Props {
  readonly destination: DestinationRef;
  readonly pages: Pages<readonly [key: string, Association]>;
  readonly isPurging: boolean;
  /** A check of the destination has just said why, above. */
  readonly isExplained: boolean;
  readonly onEdit: () => void;
}

/** Objects of one destination with status, error and next try. */
export function Associations({ destination, pages, isPurging, isExplained, onEdit }: Props) {
  const mounts = useResource(["mount paths"], readMountPaths);
  const { reload } = pages;
  const search = place.value.query.get("q") ?? "";
  const open = place.value.query.get("secret");
  const origin = place.value.query.get("origin") ?? "";
  const all = (pages.value ?? []).map(
    ([key, entry]): Row => ({ key, mount: mounts.value?.get(entry.accessor) ?? null, entry }),
  );
  const entries = all.map(({ entry }) => entry);
  const rows = all
    .filter(
      ({ mount, entry }) =>
        isOf(entry, origin) &&
        `${mount ?? ""}/${entry.secret_name} ${entry.sub_key ?? ""} ${entry.external_name} ${entry.error_code ?? ""}`
          .toLowerCase()
          .includes(search.toLowerCase()),
    )
    .sort((a, b) => byOrigin(a.entry, b.entry));
  const selected = open === null ? [] : all.filter(({ entry }) => `${entry.accessor}/${entry.secret_name}` === open);
  const [first] = selected;
  return (
    <Loaded resource={pages} label="Secrets">
      {() => (
        <>
          {all.length > 0 && (
            <Toolbar>
              <SearchInput
                label="Filter secrets"
                value={search}
                onChange={(q) => setQuery({ q })}
                placeholder="Path, name or error"
              />
              <OriginFilter entries={entries} value={origin} onChange={(to) => setQuery({ origin: to })} />
              <RetryAll destination={destination} rows={all} onDone={reload} />
              <Button icon="refresh" onClick={reload} isBusy={pages.isLoading}>
                Refresh
              </Button>
            </Toolbar>
          )}
          {!isExplained && <Reasons rows={all} onEdit={onEdit} />}
          <DataTable
            label="Secrets of the destination"
            rows={rows}
            columns={hasRules(entries) ? [...COLUMNS, ORIGIN] : COLUMNS}
            keyOf={({ key }) => key}
            onOpen={({ entry }) => setQuery({ secret: `${entry.accessor}/${entry.secret_name}` })}
            hasMore={pages.hasMore}
            loadMore={pages.loadMore}
            empty={
              all.length > 0 ? (
                <Empty title="No secret matches the filter" />
              ) : isPurging ? (
                <Empty title="All secrets are removed">The destination is deleted next.</Empty>
              ) : (
                <Empty title="No secret is synced here yet">
                  Sync a secret: it is copied at once, and each later change too.
                </Empty>
              )
            }
          />
          {first && (
            <Dialog title={first.entry.secret_name} shape="side" onClose={() => setQuery({ secret: null })}>
              <p>
                {first.mount !== null && (
                  <a href={secretHref(first.mount, first.entry.secret_name)}>
                    Open the secret {first.mount}/{first.entry.secret_name}
                  </a>
                )}
              </p>
              <AssociationDetails
                destination={destination}
                mount={first.mount}
                entries={selected.map(({ entry }) => entry)}
                onChanged={reload}
              />
            </Dialog>
          )}
        </>
      )}
    </Loaded>
  );
}

/** Why secrets fail: each kind of error once, in the provider's words about the first object. */
function Reasons({ rows, onEdit }: { readonly rows: readonly Row[]; readonly onEdit: () => void }) {
  const reasons = new Map<string, Association[]>();
  for (const { entry } of rows) {
    if (!isFailing(entry.sync_status)) continue;
    const key = `${entry.sync_status} ${entry.error_code}`;
    reasons.set(key, [...(reasons.get(key) ?? []), entry]);
  }
  return (
    <>
      {[...reasons].map(([key, [first, ...others]]) => (
        <div key={key} class="notice notice-warn sync-verified">
          <Status tone={syncTone(first?.sync_status ?? "")}>
            {`${plural(others.length + 1, "object")} ${syncWord(first?.sync_status ?? "").toLowerCase()}`}
          </Status>
          <span>
            {first?.error_message ?? first?.error_code}{" "}
            <span class="muted">{syncMeaning(first?.sync_status ?? "")}.</span>
          </span>
          {first?.sync_status === "CLIENT_SIDE_ERROR" && <Button onClick={onEdit}>Edit credentials</Button>}
        </div>
      ))}
    </>
  );
}

const COLUMNS: readonly Column<Row>[] = [
  {
    key: "secret",
    label: "Secret",
    render: ({ mount, entry }) => (
      <span title={`${mount ?? "?"}/${entry.secret_name}`}>
        <span class="muted">{mount ?? "?"}/</span>
        {entry.secret_name}
        {entry.sub_key !== undefined && <span class="muted"> : {entry.sub_key}</span>}
      </span>
    ),
  },
  {
    key: "status",
    label: "Status",
    width: "10rem",
    render: ({ entry: { sync_status: status } }) => (
      <Status tone={syncTone(status)} title={syncMeaning(status)}>
        {syncWord(status)}
      </Status>
    ),
  },
  {
    key: "error",
    label: "Error",
    isMinor: true,
    render: ({ entry: { error_code, error_message, note } }) => (
      <span title={error_message ?? note}>
        {error_code && <code>{error_code}</code>} {error_message ?? <span class="muted">{note}</span>}
      </span>
    ),
  },
  {
    key: "next",
    label: "Next try",
    width: "7rem",
    isMinor: true,
    render: ({ entry }) => entry.next_attempt_at && <Countdown to={entry.next_attempt_at} over="now" />,
  },
  {
    key: "external",
    label: "Name at the provider",
    isMinor: true,
    render: ({ entry }) => <code title={entry.external_name}>{entry.external_name}</code>,
  },
  {
    key: "version",
    label: "Version",
    width: "5rem",
    align: "end",
    isMinor: true,
    render: ({ entry }) => entry.synced_version ?? "–",
  },
  {
    key: "updated",
    label: "Changed",
    width: "9rem",
    isMinor: true,
    render: ({ entry }) => <Ago at={entry.updated_at} />,
  },
];

const ORIGIN: Column<Row> = {
  key: "origin",
  label: "Origin",
  width: "9rem",
  isMinor: true,
  render: ({ entry }) => originWords(entry),
};

/** Pushes all secrets that fail, one request each. */
function RetryAll({
  destination,
  rows,
  onDone,
}: {
  readonly destination: DestinationRef;
  readonly rows: readonly Row[];
  readonly onDone: () => void;
}) {
  const [done, setDone] = useState(0);
  const failing = new Map(
    rows
      .filter(({ mount, entry }) => mount !== null && isFailing(entry.sync_status))
      .map((row) => [`${row.mount}/${row.entry.secret_name}`, row]),
  );
  const [total, setTotal] = useState(0);
  const retry = useAction(async () => {
    setDone(0);
    setTotal(failing.size);
    const reasons: string[] = [];
    await inParallel([...failing.values()], MAX_CONCURRENT, async ({ mount, entry }) => {
      await setSecret(destination, mount ?? "", entry.secret_name).then(
        ({ data }) => {
          const worst = "associated_secrets" in data ? worstOf(Object.values(data.associated_secrets)) : undefined;
          if (worst && isFailing(worst.sync_status)) reasons.push(worst.error_message ?? syncWord(worst.sync_status));
        },
        (failure: Error) => reasons.push(failure.message),
      );
      setDone((n) => n + 1);
    });
    if (reasons.length > 0) toast(`${reasons.length} of ${failing.size} failed again: ${reasons[0]}`, "bad");
    else toast(`${plural(failing.size, "secret")} pushed again.`);
    onDone();
  });
  if (retry.isBusy) return <Progress done={done} total={total} label="Secrets pushed" />;
  if (failing.size === 0) return null;
  return (
    <Button
      icon="sync"
      needs={`POST ${destinationPath(destination)}/associations/set`}
      onClick={() => void retry.run()}
    >
      {failing.size === 1 ? "Push 1 failing secret" : `Push ${failing.size} failing secrets`}
    </Button>
  );
}
