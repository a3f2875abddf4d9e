import { useEffect, useMemo, useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded, Progress } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { inParallel } from "../../lib/parallel.ts";
import { useAction, useResource } from "../../lib/resource.ts";
import { now } from "../../lib/time.ts";
import { roleOf } from "./engine-types.ts";
import { LeaseDialog } from "./lease.tsx";
import { confirmRevoke } from "./lease-actions.ts";
import { LeaseBook } from "./lease-book.ts";
import { type Lease, leaseName, leaseState, MAX_CONCURRENT, readLeaseIds } from "./reads.ts";
import { RevokePrefix } from "./revoke-prefix.tsx";

const FRESH_MS = 15_000;

interface Row {
  readonly id: string;
  readonly book: LeaseBook;
  /** Undefined until it is looked up; null when that was refused. */
  readonly lease: Lease | null | undefined;
}

interface Props {
  /** Of an engine's or a role's leases. */
  readonly prefixes: readonly string[];
  /** The number of irrevocable ones; null when it is not known. */
  readonly irrevocable: number | null;
  readonly onChanged?: () => void;
}

/** Leases below prefixes. Those in sight are looked up: their ends are not part of the list. */
export function Leases({ prefixes, irrevocable, onChanged }: Props) {
  const [prefix = ""] = prefixes;
  const [isLong, setLong] = useState(false);
  const ids = useResource(
    ["leases", prefixes],
    async (signal) => (await Promise.all(prefixes.map((each) => readLeaseIds(each, signal)))).flat(),
    { everyMs: isLong ? 0 : FRESH_MS },
  );
  const book = useMemo(() => new LeaseBook(), [prefix]);
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState<string | null>(null);
  const [isRevoking, setRevoking] = useState(false);
  const [isFiltered, setFiltered] = useState(false);
  const list = ids.value;
  useEffect(() => {
    if (list) book.keep(list);
    setLong((list?.length ?? 0) > 2_000);
  }, [list, book]);
  const [checked, setChecked] = useState(0);
  const find = useAction(async () => {
    setChecked(0);
    await inParallel(list ?? [], MAX_CONCURRENT, async (id) => {
      await book.read(id);
      setChecked((n) => n + 1);
    });
    setFiltered(true);
  });
  const known = book.leases.value;
  const rows = (list ?? [])
    .filter((id) => id.toLowerCase().includes(search.toLowerCase()) && (!isFiltered || known.get(id)?.revoke_error))
    .map((id): Row => ({ id, book, lease: known.get(id) }));
  const changed = (): void => {
    ids.reload();
    onChanged?.();
  };
  const revoking: Column<Row> = {
    key: "revoke",
    label: "Revoke",
    isLabelHidden: true,
    width: "7rem",
    align: "end",
    render: ({ id }) => (
      <Button
        kind="quiet"
        needs="POST sys/leases/revoke"
        onClick={() => void confirmRevoke(id).then((done) => done && changed())}
      >
        Revoke
      </Button>
    ),
  };
  const lookUp =
    prefixes.some((each) => search.startsWith(each)) && /\/[^/]{16,}$/.test(search) && !list?.includes(search);
  return (
    <>
      <Toolbar>
        <SearchInput label="Find a lease" value={search} onChange={setSearch} placeholder="Role or lease ID" />
        {lookUp && <Button onClick={() => setOpen(search)}>Look up</Button>}
        {(irrevocable ?? 0) > 0 && !find.isBusy && (
          <Button
            kind={isFiltered ? "primary" : "normal"}
            onClick={() => (isFiltered ? setFiltered(false) : void find.run())}
          >
            {isFiltered ? "Show all leases" : "Find irrevocable leases"}
          </Button>
        )}
        {find.isBusy && <Progress done={checked} total={list?.length ?? 0} label="Leases looked up" />}
        <Button icon="refresh" onClick={changed}>
          Refresh
        </Button>
        <Menu
          label="More actions with leases"
          items={[
            {
              label: "Revoke by prefix",
              icon: "trash",
              isDangerous: true,
              needs: `POST sys/leases/revoke-prefix/${prefixes[0]}/*`,
              onSelect: () => setRevoking(true),
            },
          ]}
        />
      </Toolbar>
      <Loaded resource={ids} label="Leases">
        {(all) => (
          <DataTable
            label="Leases"
            rows={rows}
            columns={[...COLUMNS, revoking]}
            keyOf={({ id }) => id}
            onOpen={({ id }) => setOpen(id)}
            empty={
              all.length > 0 ? (
                <Empty title={isFiltered ? "No irrevocable lease" : "No lease matches"} />
              ) : (
                <Empty title="No leases">Issue credentials of a role: each has a lease, with its end.</Empty>
              )
            }
          />
        )}
      </Loaded>
      {open !== null && (
        <LeaseDialog
          id={open}
          onClose={() => setOpen(null)}
          onChanged={(isGone) => {
            if (isGone) setOpen(null);
            else void book.read(open);
            changed();
          }}
        />
      )}
      {isRevoking && <RevokePrefix prefix={prefix} onClose={() => setRevoking(false)} onDone={changed} />}
    </>
  );
}

/** Looks a lease up when its row comes into sight. */
function Wanted({ row: { id, book, lease } }: { readonly row: Row }) {
  useEffect(() => book.want(id), [id, book, lease === undefined]);
  if (lease === undefined) return <span class="muted">reading …</span>;
  if (lease === null) return <span class="muted">not readable</span>;
  const { tone, word } = leaseState(lease, now.value);
  return (
    <Status tone={tone} title={lease.revoke_error}>
      {word}
    </Status>
  );
}

const COLUMNS: readonly Column<Row>[] = [
  { key: "role", label: "Role", render: ({ id }) => roleOf(id) },
  { key: "lease", label: "Lease", isMinor: true, render: ({ id }) => <code title={id}>{leaseName(id)}</code> },
  { key: "state", label: "State", width: "9rem", render: (row) => <Wanted row={row} /> },
  {
    key: "left",
    label: "Time left",
    width: "9rem",
    render: ({ lease }) => lease && <Countdown to={lease.expire_time} over="over" />,
  },
  {
    key: "issued",
    label: "Issued",
    width: "10rem",
    isMinor: true,
    render: ({ lease }) => lease && <Ago at={lease.issue_time} />,
  },
  {
    key: "renewed",
    label: "Renewed",
    width: "10rem",
    isMinor: true,
    render: ({ lease }) => lease && <Ago at={lease.last_renewal} none={lease.renewable ? "never" : "not renewable"} />,
  },
];
