import { api } from "../../api/client.ts";
import { Masked } from "../../components/masked.tsx";
import { Ago } from "../../components/moments.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Tag } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";

interface Stored {
  readonly value: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly updated_at: string;
}

type Row = readonly [name: string, object: Stored];

const COLUMNS: readonly Column<Row>[] = [
  { key: "name", label: "Name", render: ([name]) => <code title={name}>{name}</code> },
  {
    key: "value",
    label: "Value",
    render: ([name, { value }]) => <Masked value={value} label={`the value of ${name}`} />,
  },
  {
    key: "tags",
    label: "Tags",
    isMinor: true,
    render: ([, { tags }]) => Object.entries(tags).map(([key, value]) => <Tag key={key}>{`${key} = ${value}`}</Tag>),
  },
  {
    key: "updated",
    label: "Changed",
    width: "9rem",
    isMinor: true,
    render: ([, { updated_at }]) => <Ago at={updated_at} />,
  },
];

/** Objects of a destination of the type in-mem, with values. */
export function StoredObjects({ name }: { readonly name: string }) {
  const objects = useResource(["objects", name], async (signal) => {
    const { data } = await api("GET /v1/sys/sync/destinations/in-mem/{name}/objects", {
      path: { name },
      signal,
      sensitive: true,
    });
    return Object.entries(data.objects);
  });
  return (
    <Loaded resource={objects} label="Objects">
      {(rows) => (
        <DataTable
          label="Objects"
          rows={rows}
          columns={COLUMNS}
          keyOf={([key]) => key}
          empty={<Empty title="No objects">A secret that is synced here becomes an object.</Empty>}
        />
      )}
    </Loaded>
  );
}
