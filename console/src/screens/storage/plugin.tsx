import { useState } from "preact/hooks";
import { api, type Schemas } from "../../api/client.ts";
import { csiVolumeHref, objectNamespace } from "../../app/cluster-links.ts";
import { href } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { Ago } from "../../components/moments.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status, Tag } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { pageOf, useLive, useLiveList } from "../../lib/live.ts";
import { labelOf } from "../../lib/schema.ts";
import { sizeText } from "../../lib/text.ts";
import { NodeLink, useNodes } from "../nodes/node-names.tsx";
import { Snapshots } from "./snapshots.tsx";
import { healthText, PluginState } from "./states.tsx";
import { type Draft, VolumeDialog } from "./volume-dialog.tsx";

interface Instance extends Omit<Schemas["CsiPluginInstance"], "PluginID"> {
  readonly node: string;
  readonly role: "controller" | "node";
}

export function PluginPage({ id }: { readonly id: string }) {
  const [draft, setDraft] = useState<Draft | null>(null);
  const plugin = useLive(["plugin", id], (options) => api("GET /v1/plugin/csi/{id}", { path: { id }, ...options }));
  const crumbs = [
    { label: "Storage", href: href("storage") },
    { label: "Plugins", href: href("storage", [], { tab: "plugins" }) },
  ];
  return (
    <Page
      title={id}
      crumbs={crumbs}
      actions={
        plugin.value && (
          <Button
            icon="plus"
            needs="PUT volume/csi/*/create"
            onClick={() => setDraft({ kind: "csi", how: "create", value: { PluginID: id } })}
          >
            Create volume
          </Button>
        )
      }
    >
      <Loaded resource={plugin} label="The plugin">
        {(shown) => {
          const instances: Instance[] = [
            ...Object.entries(shown.Controllers).map(([node, of]) => ({ ...of, node, role: "controller" as const })),
            ...Object.entries(shown.Nodes).map(([node, of]) => ({ ...of, node, role: "node" as const })),
          ];
          return (
            <>
              <Card>
                <div class="storage-summary">
                  <Properties
                    items={[
                      ["Health", <PluginState plugin={shown} />],
                      ["Instances", healthText(shown)],
                      ["Provider", `${shown.Provider} ${shown.Version}`],
                      ["Can do", <Abilities instances={instances} />],
                    ]}
                  />
                </div>
              </Card>
              <div class="storage-tabs">
                <Tabs
                  label="Of the plugin"
                  tabs={[
                    {
                      name: "instances",
                      label: "Instances",
                      badge: instances.length,
                      content: () => <Instances rows={instances} />,
                    },
                    {
                      name: "external",
                      label: "At the provider",
                      content: () => <External plugin={id} onRegister={setDraft} />,
                    },
                    {
                      name: "snapshots",
                      label: "Snapshots",
                      content: () => <Snapshots plugin={id} onRestore={setDraft} />,
                    },
                  ]}
                />
              </div>
            </>
          );
        }}
      </Loaded>
      {draft && <VolumeDialog draft={draft} onClose={() => setDraft(null)} />}
    </Page>
  );
}

/** Capabilities of any controller. */
function Abilities({ instances }: { readonly instances: readonly Instance[] }) {
  const names = instances.flatMap(({ ControllerInfo }) =>
    Object.entries(ControllerInfo ?? {}).flatMap(([name, is]) => (is ? [name.replace(/^Supports/, "")] : [])),
  );
  return (
    <span class="storage-abilities">
      {[...new Set(names)].map((name) => (
        <Tag key={name}>{labelOf(name).toLowerCase()}</Tag>
      ))}
    </span>
  );
}

function Instances({ rows }: { readonly rows: readonly Instance[] }) {
  const nodes = useNodes();
  const columns: Column<Instance>[] = [
    { key: "node", label: "Node", sort: (row) => row.node, render: (row) => <NodeLink id={row.node} nodes={nodes} /> },
    { key: "role", label: "Role", width: "110px", sort: (row) => row.role, render: (row) => row.role },
    {
      key: "health",
      label: "Health",
      width: "130px",
      sort: (row) => String(row.Healthy),
      render: (row) => (row.Healthy ? <Status tone="ok">healthy</Status> : <Status tone="bad">unhealthy</Status>),
    },
    {
      key: "why",
      label: "Says",
      width: "36%",
      isMinor: true,
      render: (row) => <span title={row.HealthDescription}>{row.HealthDescription}</span>,
    },
    { key: "version", label: "Version", width: "100px", isMinor: true, render: (row) => row.ProviderVersion },
    { key: "since", label: "Since", width: "140px", isMinor: true, render: (row) => <Ago at={row.UpdateTime} /> },
  ];
  return <DataTable label="Instances" rows={rows} columns={columns} keyOf={(row) => `${row.role} ${row.node}`} />;
}

/** Volumes that the provider has, registered here or not. */
function External({ plugin, onRegister }: { readonly plugin: string; readonly onRegister: (draft: Draft) => void }) {
  const namespace = objectNamespace();
  const list = useLiveList(
    ["external", plugin, namespace],
    async (from, options) => {
      const query = { plugin_id: plugin, ...pageOf(from) };
      const body = await api("GET /v1/volumes/external", { query, namespace, ...options });
      return { rows: body.Volumes, next: body.NextToken || null };
    },
    { everyMs: 15_000 },
  );
  const known = useLive(["known", plugin], async (options) => {
    const query = { type: "csi", plugin_id: plugin, per_page: 1_000 } as const;
    const volumes = await api("GET /v1/volumes", { query, namespace: "*", ...options });
    return new Map((volumes as Schemas["CsiVolumeStub"][]).map((volume) => [volume.ExternalID, volume]));
  });
  type External = NonNullable<typeof list.value>[number];
  const columns: Column<External>[] = [
    { key: "id", label: "External id", render: (row) => <span class="mono">{row.ExternalID}</span> },
    {
      key: "state",
      label: "Condition",
      width: "150px",
      render: (row) =>
        row.IsAbnormal ? (
          <Status tone="bad" title={row.Status}>
            abnormal
          </Status>
        ) : (
          <Status tone="ok" title={row.Status}>
            normal
          </Status>
        ),
    },
    {
      key: "size",
      label: "Capacity",
      width: "110px",
      align: "end",
      isMinor: true,
      render: (row) => sizeText(row.CapacityBytes),
    },
    {
      key: "nodes",
      label: "Attached to",
      isMinor: true,
      render: (row) => (row.PublishedExternalNodeIDs ?? []).join(", ") || <span class="muted">no node</span>,
    },
    {
      key: "actions",
      label: "Here",
      width: "30%",
      render: (row) => {
        const volume = known.value?.get(row.ExternalID);
        if (volume) return <a href={csiVolumeHref(volume.ID, volume.Namespace)}>{volume.ID}</a>;
        const value = { PluginID: plugin, ExternalID: row.ExternalID };
        return (
          <Button
            kind="quiet"
            needs="PUT volume/csi/*"
            onClick={() => onRegister({ kind: "csi", how: "register", value })}
          >
            Register
          </Button>
        );
      },
    },
  ];
  return (
    <Loaded resource={list} label="Asking the plugin for its volumes">
      {(rows) => (
        <DataTable
          label="Volumes at the provider"
          rows={rows}
          columns={columns}
          keyOf={(row) => row.ExternalID}
          hasMore={list.hasMore}
          loadMore={list.loadMore}
          empty={
            <div class="card">
              <Empty title="The provider has no volume" />
            </div>
          }
        />
      )}
    </Loaded>
  );
}
