/** Resources, volumes and attributes of a node. */
import { useState } from "preact/hooks";
import { api, type Schemas } from "../../api/client.ts";
import { csiVolumeHref, hostVolumeHref, pluginHref } from "../../app/cluster-links.ts";
import { SearchInput } from "../../components/field.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { useLive } from "../../lib/live.ts";
import { count, sizeText } from "../../lib/text.ts";

type Node = Schemas["Node"];

const MIB = 2 ** 20;
/** A zero was not reported. */
const some = (amount: number, text: string): string | null => (amount > 0 ? text : null);

export function Resources({ node }: { readonly node: Node }) {
  const { Cpu, Memory, Disk } = node.NodeResources;
  const plugins = Object.keys({ ...node.CSIControllerPlugins, ...node.CSINodePlugins });
  const drivers = Object.entries(node.Drivers).filter(([, { Detected }]) => Detected);
  return (
    <Card title="Resources">
      <Properties
        items={
          [
            ["Cores", some(Cpu.TotalCpuCores, count(Cpu.TotalCpuCores))],
            ["CPU", some(Cpu.CpuShares, `${count(Cpu.CpuShares)} MHz`)],
            ["Memory", some(Memory.MemoryMB, sizeText(Memory.MemoryMB * MIB))],
            ["Disk", some(Disk.DiskMB, sizeText(Disk.DiskMB * MIB))],
            ["Address", node.HTTPAddr],
            ["Drivers", drivers.map(([name, { Healthy }]) => (Healthy ? name : `${name} (unhealthy)`)).join(", ")],
            ["CSI plugins", plugins.length > 0 && plugins.map((id) => <a href={pluginHref(id)}>{id} </a>)],
          ].filter(([, value]) => value !== false) as never
        }
      />
    </Card>
  );
}

/** Volumes that lie on the node, or that it has attached. */
export function Volumes({ id }: { readonly id: string }) {
  const volumes = useLive(["node-volumes", id], async (options) => {
    const read = (type: "host" | "csi") =>
      api("GET /v1/volumes", { query: { type, node_id: id, namespace: "*", per_page: 500 }, ...options });
    const [host, csi] = await Promise.all([read("host"), read("csi")]);
    return [
      ...(host as Schemas["HostVolumeStub"][]).map(({ ID, Name, Namespace, PluginID, CapacityBytes }) => ({
        kind: "host",
        name: Name,
        href: hostVolumeHref(ID, Namespace),
        plugin: PluginID,
        size: CapacityBytes,
      })),
      ...(csi as Schemas["CsiVolumeStub"][]).map(({ ID, Name, Namespace, PluginID }) => ({
        kind: "CSI",
        name: Name || ID,
        href: csiVolumeHref(ID, Namespace),
        plugin: PluginID,
        size: 0,
      })),
    ];
  });
  return (
    <Card title="Volumes" flush>
      <Loaded resource={volumes} label="Volumes of the node">
        {(rows) => (
          <DataTable
            label="Volumes of the node"
            rows={rows}
            keyOf={({ href }) => href}
            hrefOf={({ href }) => href}
            columns={[
              { key: "name", label: "Name", render: ({ name }) => name },
              { key: "kind", label: "Kind", width: "90px", render: ({ kind }) => kind },
              { key: "plugin", label: "Plugin", isMinor: true, render: ({ plugin }) => plugin },
              {
                key: "size",
                label: "Capacity",
                width: "110px",
                align: "end",
                render: ({ size }) => some(size, sizeText(size)),
              },
            ]}
            empty={<Empty title="No volume is on this node" />}
          />
        )}
      </Loaded>
    </Card>
  );
}

export function Attributes({ node }: { readonly node: Node }) {
  const [search, setSearch] = useState("");
  const meta = Object.entries(node.Meta).map(([name, value]) => [`meta.${name}`, value] as const);
  const rows = [...meta, ...Object.entries(node.Attributes)].filter((row) => row.join(" ").includes(search));
  return (
    <Card title="Attributes" actions={<SearchInput label="Filter attributes" value={search} onChange={setSearch} />}>
      {rows.length > 0 ? (
        <Properties items={rows} />
      ) : (
        <Empty title={search ? "No attribute matches the filter" : "The node has reported no attribute"} />
      )}
    </Card>
  );
}
