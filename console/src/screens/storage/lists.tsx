import { useState } from "preact/hooks";
import { apiFull, type Schemas } from "../../api/client.ts";
import { clusterNamespace } from "../../api/namespaces.ts";
import { csiVolumeHref, hostVolumeHref, pluginHref } from "../../app/cluster-links.ts";
import { useAsked } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { ListScreen, useSearch } from "../../components/list-screen.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago } from "../../components/moments.tsx";
import { Page } from "../../components/page.tsx";
import { noneOf } from "../../components/states.tsx";
import type { Column } from "../../components/table.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { pageOf, useLiveList, withText } from "../../lib/live.ts";
import { sizeText } from "../../lib/text.ts";
import { NodeLink, useNodes } from "../nodes/node-names.tsx";
import { Claims, Plugins } from "./other-lists.tsx";
import { CsiState, HostState } from "./states.tsx";
import { type Draft, VolumeDialog } from "./volume-dialog.tsx";

type HostStub = Schemas["HostVolumeStub"];
type CsiStub = Schemas["CsiVolumeStub"];

const HOST = "PUT volume/host/create";
const CSI = "PUT volume/csi/*/create";

export function StorageLists() {
  const [draft, setDraft] = useState<Draft | null>(null);
  useAsked("new", (kind) => setDraft({ kind: kind === "csi" ? "csi" : "host", how: "create" }));
  const actions = (
    <>
      <Menu
        label="Register what exists already"
        items={[
          {
            label: "Register a host volume",
            needs: "PUT volume/host/register",
            onSelect: () => setDraft({ kind: "host", how: "register" }),
          },
          { label: "Register a CSI volume", needs: CSI, onSelect: () => setDraft({ kind: "csi", how: "register" }) },
        ]}
      >
        Register
      </Menu>
      <Button icon="plus" needs={CSI} onClick={() => setDraft({ kind: "csi", how: "create" })}>
        Create CSI volume
      </Button>
      <Button kind="primary" icon="plus" needs={HOST} onClick={() => setDraft({ kind: "host", how: "create" })}>
        Create host volume
      </Button>
    </>
  );
  return (
    <Page
      title="Storage"
      about="Host volumes are directories on one node; CSI volumes are storage at a provider, through a plugin."
      actions={actions}
    >
      <Tabs
        label="Kinds of storage"
        tabs={[
          { name: "host", label: "Host volumes", content: () => <HostVolumes onCreate={setDraft} /> },
          { name: "csi", label: "CSI volumes", content: () => <CsiVolumes onCreate={setDraft} /> },
          { name: "plugins", label: "Plugins", content: () => <Plugins /> },
          { name: "claims", label: "Sticky claims", content: () => <Claims /> },
        ]}
      />
      {draft && <VolumeDialog draft={draft} onClose={() => setDraft(null)} />}
    </Page>
  );
}

const namespaceColumn = <Row extends { readonly Namespace: string }>(): Column<Row>[] =>
  clusterNamespace.value === "*"
    ? [{ key: "namespace", label: "Namespace", width: "130px", isMinor: true, render: (row) => row.Namespace }]
    : [];

interface ListProps {
  readonly onCreate: (draft: Draft) => void;
}

function HostVolumes({ onCreate }: ListProps) {
  const search = useSearch("Host volumes by name or ID");
  const { text } = search;
  const nodes = useNodes();
  const list = useLiveList(["host", text], async (from, options) => {
    const query = { type: "host", ...pageOf(from), ...withText(text) } as const;
    const { body, nextToken } = await apiFull("GET /v1/volumes", { query, ...options });
    return { rows: body as HostStub[], next: nextToken };
  });
  const columns: Column<HostStub>[] = [
    { key: "name", label: "Name", render: (row) => row.Name },
    { key: "state", label: "State", width: "130px", render: ({ State }) => <HostState state={State} /> },
    {
      key: "node",
      label: "Node",
      width: "18%",
      isMinor: true,
      render: (row) => <NodeLink id={row.NodeID} nodes={nodes} />,
    },
    {
      key: "plugin",
      label: "Plugin",
      width: "130px",
      isMinor: true,
      render: ({ PluginID }) => PluginID || <span class="muted">registered</span>,
    },
    {
      key: "size",
      label: "Capacity",
      width: "110px",
      align: "end",
      isMinor: true,
      render: ({ CapacityBytes }) =>
        CapacityBytes ? sizeText(CapacityBytes) : <span class="muted">not reported</span>,
    },
    ...namespaceColumn<HostStub>(),
    { key: "changed", label: "Changed", width: "140px", isMinor: true, render: (row) => <Ago at={row.ModifyTime} /> },
  ];
  return (
    <ListScreen
      label="Host volumes"
      resource={list}
      search={search}
      columns={columns}
      keyOf={(row) => row.ID}
      hrefOf={(row) => hostVolumeHref(row.ID, row.Namespace)}
      none={noneOf("host volume")}
      noMatch="No host volume has this in its name or ID"
      firstStep={
        <Button icon="plus" needs={HOST} onClick={() => onCreate({ kind: "host", how: "create" })}>
          Create the first one
        </Button>
      }
    >
      A host volume is a directory on a node that an agent makes. Jobs on that node use it by its name.
    </ListScreen>
  );
}

function CsiVolumes({ onCreate }: ListProps) {
  const search = useSearch("CSI volumes by name or ID");
  const { text } = search;
  const list = useLiveList(["csi", text], async (from, options) => {
    const query = { type: "csi", ...pageOf(from), ...withText(text) } as const;
    const { body, nextToken } = await apiFull("GET /v1/volumes", { query, ...options });
    return { rows: body as CsiStub[], next: nextToken };
  });
  const columns: Column<CsiStub>[] = [
    { key: "id", label: "ID", render: (row) => row.ID },
    { key: "name", label: "Name", width: "18%", isMinor: true, render: (row) => (row.Name === row.ID ? "" : row.Name) },
    { key: "state", label: "State", width: "150px", render: (volume) => <CsiState volume={volume} /> },
    {
      key: "plugin",
      label: "Plugin",
      width: "120px",
      isMinor: true,
      render: (row) => <a href={pluginHref(row.PluginID)}>{row.PluginID}</a>,
    },
    {
      key: "claims",
      label: "Claims",
      width: "160px",
      isMinor: true,
      render: ({ CurrentReaders, CurrentWriters }) =>
        CurrentReaders + CurrentWriters === 0 ? (
          <span class="muted">not in use</span>
        ) : (
          `${CurrentWriters} write, ${CurrentReaders} read`
        ),
    },
    ...namespaceColumn<CsiStub>(),
    { key: "changed", label: "Changed", width: "140px", isMinor: true, render: (row) => <Ago at={row.ModifyTime} /> },
  ];
  return (
    <ListScreen
      label="CSI volumes"
      resource={list}
      search={search}
      columns={columns}
      keyOf={(row) => `${row.Namespace} ${row.ID}`}
      hrefOf={(row) => csiVolumeHref(row.ID, row.Namespace)}
      none={noneOf("CSI volume")}
      noMatch="No CSI volume has this in its name or ID"
      firstStep={
        <Button icon="plus" needs={CSI} onClick={() => onCreate({ kind: "csi", how: "create" })}>
          Create the first one
        </Button>
      }
    >
      A CSI volume is made by a plugin that nodes run. The tab Plugins shows which there are.
    </ListScreen>
  );
}
