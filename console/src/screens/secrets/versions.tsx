import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { go } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { confirm, confirmed } from "../../components/confirm.tsx";
import { SelectField } from "../../components/field.tsx";
import { Menu, type MenuItem } from "../../components/menu.tsx";
import { Ago } from "../../components/moments.tsx";
import { Card } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import type { Resource } from "../../lib/resource.ts";
import { secretHref } from "./addresses.ts";
import { Comparison } from "./comparison.tsx";
import { readVersion, stateOf, type VersionState } from "./reads.ts";
import type { At } from "./secret.tsx";

interface Row {
  readonly number: number;
  readonly state: VersionState;
  readonly created: string;
  /** The callers that wrote and ended it; empty for unknown ones. */
  readonly writer: string;
  readonly ender: string;
  readonly isNewest: boolean;
}

const TONES: Readonly<Record<VersionState, Tone>> = { live: "ok", deleted: "off", destroyed: "bad" };
const WORDS: Readonly<Record<VersionState, string>> = { live: "Live", deleted: "Deleted", destroyed: "Destroyed" };

interface VersionsProps {
  readonly at: At;
  readonly metadata: Resource<Schemas["SecretMetadata"] | null>;
  readonly onChange: () => void;
}

/** All versions, what can be done with each, and what changed between two of them. */
export function Versions({ at, metadata, onChange }: VersionsProps) {
  return (
    <Loaded resource={metadata} label="The versions">
      {(found) => {
        if (found === null) return <Empty title="No metadata" />;
        const rows = Object.entries(found.versions)
          .map(
            ([name, entry]): Row => ({
              number: Number(name),
              state: stateOf(entry),
              created: entry.created_time,
              writer: entry.created_by?.actor ?? "",
              ender: entry.deleted_by?.actor ?? "",
              isNewest: Number(name) === found.current_version,
            }),
          )
          .sort((a, b) => b.number - a.number);
        return (
          <>
            <DataTable
              label="Versions"
              rows={rows}
              columns={columnsOf(at, found.current_version, onChange)}
              keyOf={({ number }) => String(number)}
              empty={<Empty title="No version is kept" />}
              maxHeight="420px"
            />
            <Compare key={found.current_version} at={at} rows={rows} />
          </>
        );
      }}
    </Loaded>
  );
}

const columnsOf = (at: At, newest: number, onChange: () => void): Column<Row>[] => [
  {
    key: "number",
    label: "Version",
    width: "7rem",
    render: ({ number, isNewest }) => (
      <a href={secretHref(at.mount, at.path.path, { version: isNewest ? null : String(number) })}>
        {isNewest ? `${number}, newest` : number}
      </a>
    ),
  },
  {
    key: "state",
    label: "State",
    width: "10rem",
    render: ({ state, ender }) => (
      <>
        <Status tone={TONES[state]}>{WORDS[state]}</Status>
        {state !== "live" && ender !== "" && <span class="muted"> by {ender}</span>}
      </>
    ),
  },
  { key: "created", label: "Written", render: ({ created }) => <Ago at={created} /> },
  { key: "writer", label: "By", render: ({ writer }) => writer },
  {
    key: "actions",
    label: "Actions",
    isLabelHidden: true,
    width: "3.5rem",
    align: "end",
    render: (row) => <Menu label={`Actions of version ${row.number}`} items={actionsOf(row, at, newest, onChange)} />,
  },
];

function actionsOf({ number, state, isNewest }: Row, at: At, newest: number, onChange: () => void): MenuItem[] {
  const options = { ...at, body: { versions: [number] } };
  const show: MenuItem = {
    label: "Show the values",
    icon: "eye",
    onSelect: () => go(secretHref(at.mount, at.path.path, { version: isNewest ? null : String(number) })),
  };
  const restore: MenuItem = {
    label: "Roll back to this version",
    icon: "refresh",
    needs: wireRequest("POST /v1/secret/data/{path}", { ...at, body: { data: {} } }),
    onSelect: () =>
      void confirm({
        title: `Roll back to version ${number}?`,
        text: `Its values become version ${newest + 1}. The versions between stay.`,
        verb: `Roll back to version ${number}`,
        perform: async () => {
          const found = await readVersion(at.mount, at.path.path, number);
          if (!found?.data) throw new Error(`Version ${number} can no longer be read.`);
          const body = { data: found.data, options: { cas: newest } };
          await api("POST /v1/secret/data/{path}", { ...at, body, sensitive: true }).catch((failure: Error) => {
            onChange();
            throw failure.message.includes("check-and") ? new Error("Another version was written meanwhile.") : failure;
          });
        },
      }).then((isDone) => {
        if (!isDone) return;
        toast(`Version ${number} is now version ${newest + 1}.`);
        onChange();
      }),
  };
  const undelete: MenuItem = {
    label: "Undelete",
    needs: wireRequest("POST /v1/secret/undelete/{path}", options),
    icon: "refresh",
    onSelect: () =>
      void api("POST /v1/secret/undelete/{path}", options).then(
        () => {
          toast(`Version ${number} is back.`);
          onChange();
        },
        (failure: Error) => toast(failure.message, "bad"),
      ),
  };
  const remove: MenuItem = {
    label: "Delete",
    needs: wireRequest("POST /v1/secret/delete/{path}", options),
    icon: "trash",
    isDangerous: true,
    onSelect: () =>
      void confirmed(
        {
          title: `Delete version ${number}?`,
          text: "It can be brought back with Undelete.",
          verb: `Delete version ${number}`,
          isDangerous: true,
        },
        "POST /v1/secret/delete/{path}",
        options,
      ).then((isDone) => isDone && onChange()),
  };
  const destroy: MenuItem = {
    label: "Destroy",
    needs: wireRequest("POST /v1/secret/destroy/{path}", options),
    icon: "trash",
    isDangerous: true,
    onSelect: () =>
      void confirmed(
        {
          title: `Destroy version ${number}?`,
          text: "Its values are removed for good. This cannot be undone.",
          verb: `Destroy version ${number}`,
          isDangerous: true,
        },
        "POST /v1/secret/destroy/{path}",
        options,
      ).then((isDone) => isDone && onChange()),
  };
  if (state === "destroyed") return [show];
  if (state === "deleted") return [show, undelete, destroy];
  return isNewest ? [show, remove, destroy] : [show, restore, remove, destroy];
}

function Compare({ at, rows }: { readonly at: At; readonly rows: readonly Row[] }) {
  const live = rows.filter(({ state }) => state === "live");
  const [from, setFrom] = useState(String(live[1]?.number ?? ""));
  const [to, setTo] = useState(String(live[0]?.number ?? ""));
  const [compared, setCompared] = useState<readonly [number, number] | null>(null);
  if (live.length < 2) return null;
  const options = live.map(({ number }) => ({ value: String(number), label: `Version ${number}` }));
  return (
    <Card title="What changed">
      <form
        class="inline-form"
        onSubmit={(event) => {
          event.preventDefault();
          setCompared([Number(from), Number(to)]);
        }}
      >
        <SelectField label="From" value={from} onChange={setFrom} options={options} />
        <SelectField label="To" value={to} onChange={setTo} options={options} />
        <Button type="submit">Compare</Button>
      </form>
      {compared && <Comparison key={compared.join(" ")} at={at} from={compared[0]} to={compared[1]} />}
    </Card>
  );
}
