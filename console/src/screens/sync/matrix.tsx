import { useMemo, useState } from "preact/hooks";
import { place, setQuery } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox, SearchInput, Segments } from "../../components/field.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { syncMeaning, syncTone, syncWord } from "../../lib/sync-status.ts";
import { plural, providerName } from "../../lib/text.ts";
import { secretHref } from "./addresses.ts";
import { AssociationDetails } from "./association-details.tsx";
import { type MatrixRow, useMatrix } from "./matrix-rows.ts";
import { type Association, type DestinationRef, isFailing, keyOf, worstOf } from "./reads.ts";
import { SyncSecretButton } from "./sync-secret.tsx";

const FRESH_MS = 8_000;
/** Columns before the person chooses others. */
const FIRST = 6;

const FILTERS = [
  { value: "", label: "All", matches: () => true },
  { value: "failing", label: "Failing", matches: isFailing },
  { value: "pending", label: "Pending", matches: (status: string) => status === "PENDING" },
];

/** Secrets against destinations. */
export function Matrix({ refs }: { readonly refs: readonly DestinationRef[] }) {
  const [chosen, setChosen] = useState<readonly string[] | null>(null);
  const [isChoosing, setChoosing] = useState(false);
  const shown = useMemo(
    () => (chosen ? refs.filter((ref) => chosen.includes(keyOf(ref))) : refs.slice(0, FIRST)),
    [refs, chosen],
  );
  const [isShort, setShort] = useState(true);
  const matrix = useMatrix(shown, isShort ? FRESH_MS : 0);
  if (isShort !== (matrix.chunks <= 1 && !matrix.hasMore)) setShort(!isShort);

  const { query } = place.value;
  const [search, filter, open] = ["q", "show", "secret"].map((name) => query.get(name) ?? "") as [
    string,
    string,
    string,
  ];
  const matches = FILTERS.find(({ value }) => value === filter)?.matches;
  const rows = useMemo(
    () =>
      (matrix.value?.rows ?? []).filter(
        ({ mount, secret, cells }) =>
          `${mount ?? ""}/${secret}`.toLowerCase().includes(search.toLowerCase()) &&
          (!matches || filter === "" || [...cells.values()].flat().some(({ sync_status }) => matches(sync_status))),
      ),
    [matrix.value, search, filter, matches],
  );
  const columns = useMemo(() => [SECRET, ...shown.map(columnOf)], [shown]);
  const selected = matrix.value?.rows.find(({ id }) => id === open);
  if (refs.length === 0)
    return <Empty title="No destinations yet">Create a destination first, then sync secrets to it.</Empty>;
  return (
    <>
      <Toolbar>
        <SearchInput
          label="Filter secrets"
          value={search}
          onChange={(q) => setQuery({ q })}
          placeholder="Path of a secret"
        />
        <Segments label="Status" value={filter} options={FILTERS} onChange={(show) => setQuery({ show })} />
        {refs.length > 1 && (
          <Button onClick={() => setChoosing(true)}>
            {shown.length} of {plural(refs.length, "destination")}
          </Button>
        )}
        <Button icon="refresh" onClick={matrix.reload} isBusy={matrix.isLoading && matrix.value !== undefined}>
          Refresh
        </Button>
      </Toolbar>
      {[...(matrix.value?.failures ?? [])].map(([key, error]) => (
        <ErrorPanel key={key} title={`The secrets of ${key} could not be read`} error={error} />
      ))}
      <Loaded resource={matrix} label="Associations">
        {(data) => (
          <DataTable
            label="Secrets by destination"
            rows={rows}
            columns={columns}
            keyOf={({ id }) => id}
            onOpen={({ id }) => setQuery({ secret: id })}
            hasMore={matrix.hasMore}
            loadMore={matrix.loadMore}
            empty={
              data.rows.length > 0 ? (
                <Empty title="No secret matches" />
              ) : (
                <Empty
                  title="No secret is synced to these destinations"
                  actions={<SyncSecretButton destinations={shown} onDone={matrix.reload} kind="primary" />}
                >
                  Choose a secret: the service copies it, and each later change.
                </Empty>
              )
            }
          />
        )}
      </Loaded>
      {isChoosing && (
        <Choose refs={refs} shown={shown.map(keyOf)} onChange={setChosen} onClose={() => setChoosing(false)} />
      )}
      {selected && (
        <SecretDialog
          row={selected}
          refs={shown}
          onClose={() => setQuery({ secret: null })}
          onChanged={matrix.reload}
        />
      )}
    </>
  );
}

/** `AWS` of `AWS Secrets Manager`; `In memory` as it is. */
const shortName = (type: string): string =>
  type === "in-mem" ? providerName(type) : (providerName(type).split(" ")[0] ?? type);

const SECRET: Column<MatrixRow> = {
  key: "secret",
  label: "Secret",
  width: "18rem",
  render: ({ mount, secret }) => (
    <span class="sync-secret" title={`${mount ?? "?"}/${secret}`}>
      <span class="muted">{mount ?? "?"}/</span>
      {secret}
    </span>
  ),
};

const columnOf = (ref: DestinationRef): Column<MatrixRow> => ({
  key: keyOf(ref),
  label: `${ref.name} · ${shortName(ref.type)}`,
  width: "13rem",
  render: ({ cells }) => <Cell entries={cells.get(keyOf(ref))} />,
});

function Cell({ entries }: { readonly entries: readonly Association[] | undefined }) {
  const worst = entries && worstOf(entries);
  if (!entries || !worst)
    return (
      <span class="muted" title="Not synced to this destination">
        –
      </span>
    );
  const { sync_status, error_code, error_message, next_attempt_at } = worst;
  const alike = entries.filter((entry) => entry.sync_status === sync_status).length;
  const part =
    worst.sub_key === undefined
      ? ""
      : alike === entries.length
        ? ` · ${plural(alike, "key")}`
        : ` · ${alike} of ${plural(entries.length, "key")}`;
  return (
    <span class="sync-cell">
      <Status tone={syncTone(sync_status)} title={error_message ?? syncMeaning(sync_status)}>
        {syncWord(sync_status) + part}
      </Status>
      {error_code && <code>{error_code}</code>}
      {next_attempt_at && (
        <span class="muted">
          <Countdown to={next_attempt_at} over="now" />
        </span>
      )}
    </span>
  );
}

interface ChooseProps {
  readonly refs: readonly DestinationRef[];
  readonly shown: readonly string[];
  readonly onChange: (keys: readonly string[]) => void;
  readonly onClose: () => void;
}

function Choose({ refs, shown, onChange, onClose }: ChooseProps) {
  return (
    <Dialog
      title="Destinations in the table"
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={() => onChange(refs.map(keyOf))}>Select all</Button>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </>
      }
    >
      <div class="form">
        {refs.map((ref) => {
          const key = keyOf(ref);
          return (
            <Checkbox
              key={key}
              label={ref.name}
              hint={providerName(ref.type)}
              checked={shown.includes(key)}
              onChange={(isOn) => onChange(isOn ? [...shown, key] : shown.filter((other) => other !== key))}
            />
          );
        })}
      </div>
    </Dialog>
  );
}

interface SecretDialogProps {
  readonly row: MatrixRow;
  readonly refs: readonly DestinationRef[];
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

/** One secret at each destination, in full. */
function SecretDialog({ row, refs, onClose, onChanged }: SecretDialogProps) {
  const { mount, secret, cells } = row;
  return (
    <Dialog title={secret} shape="side" onClose={onClose}>
      <p>
        {mount === null ? (
          <span class="muted">The mount is gone, or your token may not see it.</span>
        ) : (
          <a href={secretHref(mount, secret)}>
            Open the secret {mount}/{secret}
          </a>
        )}
      </p>
      {refs
        .filter((ref) => cells.has(keyOf(ref)))
        .map((ref) => (
          <AssociationDetails
            key={keyOf(ref)}
            destination={ref}
            mount={mount}
            entries={cells.get(keyOf(ref)) ?? []}
            onChanged={onChanged}
            hasLink
          />
        ))}
    </Dialog>
  );
}
