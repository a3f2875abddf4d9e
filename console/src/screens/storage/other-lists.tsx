import { api, type Schemas } from "../../api/client.ts";
import { clusterNamespace } from "../../api/namespaces.ts";
import { allocationHref, hostVolumeHref, jobHref, pluginHref } from "../../app/cluster-links.ts";
import { IconButton } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { ListScreen } from "../../components/list-screen.tsx";
import { noneOf } from "../../components/states.tsx";
import type { Column } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { pageOf, useLive, useLiveList } from "../../lib/live.ts";
import { PluginState } from "./states.tsx";

type Claim = Schemas["VolumeClaim"];

export function Plugins() {
  const list = useLive(["plugins"], (options) => api("GET /v1/plugins", { query: { type: "csi" }, ...options }));
  type Plugin = NonNullable<typeof list.value>[number];
  const columns: Column<Plugin>[] = [
    { key: "id", label: "Plugin", sort: (row) => row.ID, render: (row) => row.ID },
    { key: "health", label: "Health", width: "150px", render: (plugin) => <PluginState plugin={plugin} /> },
    { key: "provider", label: "Provider", isMinor: true, render: (row) => row.Provider },
    {
      key: "controllers",
      label: "Controllers healthy",
      width: "150px",
      align: "end",
      isMinor: true,
      render: (row) =>
        row.ControllerRequired ? `${row.ControllersHealthy} of ${row.ControllersExpected}` : "not needed",
    },
    {
      key: "nodes",
      label: "Nodes healthy",
      width: "120px",
      align: "end",
      isMinor: true,
      render: (row) => `${row.NodesHealthy} of ${row.NodesExpected}`,
    },
  ];
  return (
    <ListScreen
      label="CSI plugins"
      resource={list}
      columns={columns}
      keyOf={(row) => row.ID}
      hrefOf={(row) => pluginHref(row.ID)}
      none={noneOf("CSI plugin")}
    >
      A plugin is there from its first healthy instance on. Name its socket in the configuration of a node's agent
      (csi.plugins). Plugins of host volumes are shown on the page of their node.
    </ListScreen>
  );
}

export function Claims() {
  const list = useLiveList(["claims"], async (from, options) => {
    const query = { namespace: clusterNamespace.value, ...pageOf(from) };
    const body = await api("GET /v1/volumes/claims", { query, ...options });
    return { rows: body.Claims, next: body.NextToken || null };
  });
  const remove = async (claim: Claim): Promise<void> => {
    const options = { path: { id: claim.ID }, namespace: claim.Namespace };
    const done = await confirmed(
      {
        title: "Delete a sticky claim",
        text: `The group ${claim.TaskGroupName} of ${claim.JobID} no longer comes back to the volume ${claim.VolumeName}. Its data stays.`,
        verb: "Delete the claim",
        isDangerous: true,
      },
      "DELETE /v1/volumes/claim/{id}",
      options,
    );
    if (!done) return;
    toast("The claim is deleted.");
    list.reload();
  };
  const columns: Column<Claim>[] = [
    {
      key: "volume",
      label: "Volume",
      render: (row) => <a href={hostVolumeHref(row.VolumeID, row.Namespace)}>{row.VolumeName}</a>,
    },
    {
      key: "job",
      label: "Job and group",
      render: (row) => (
        <>
          <a href={jobHref(row.JobID, row.Namespace)}>{row.JobID}</a> <span class="muted">{row.TaskGroupName}</span>
        </>
      ),
    },
    {
      key: "allocation",
      label: "Allocation",
      width: "120px",
      isMinor: true,
      render: (row) => (
        <a class="mono" href={allocationHref(row.AllocID, row.Namespace)}>
          {row.AllocID.slice(0, 8)}
        </a>
      ),
    },
    {
      key: "actions",
      label: "Actions",
      isLabelHidden: true,
      width: "56px",
      render: (row) => (
        <IconButton
          icon="trash"
          label={`Delete the claim on ${row.VolumeName}`}
          needs="DELETE volumes/claim/*"
          onClick={() => void remove(row)}
        />
      ),
    },
  ];
  return (
    <ListScreen
      label="Sticky claims"
      resource={list}
      columns={columns}
      keyOf={(row) => row.ID}
      none={noneOf("sticky claim")}
    >
      A group of a job that asks for a sticky host volume claims it, and so comes back to its data.
    </ListScreen>
  );
}
