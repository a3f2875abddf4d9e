import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { allocationHref, objectNamespace, pluginHref } from "../../app/cluster-links.ts";
import { go, href } from "../../app/router.ts";
import { Button, IconButton } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useLive } from "../../lib/live.ts";
import { sizeText } from "../../lib/text.ts";
import { durationText, timeOf } from "../../lib/time.ts";
import { NodeLink, type NodeStub, useNodes } from "../nodes/node-names.tsx";
import { ExpandDialog } from "./expand-dialog.tsx";
import { CapabilityList, Pairs } from "./host-volume.tsx";
import { SnapshotDialog } from "./snapshots.tsx";
import { ClaimState, CsiState, healthText, OperationState } from "./states.tsx";

type Volume = Schemas["CsiVolume"];
type Claim = Schemas["CsiClaim"];
type CsiOperation = Schemas["CsiOperation"];

const WRITE = "PUT volume/csi/*";

export function CsiVolumePage({ id }: { readonly id: string }) {
  const namespace = objectNamespace();
  const nodes = useNodes();
  const [dialog, setDialog] = useState<"expand" | "snapshot" | null>(null);
  const options = { path: { id }, namespace };
  const volume = useLive(["csi", id, namespace], (more) => api("GET /v1/volume/csi/{id}", { ...options, ...more }));
  const { value } = volume;
  const crumbs = [
    { label: "Storage", href: href("storage") },
    { label: "CSI volumes", href: href("storage", [], { tab: "csi" }) },
  ];
  const leave = (text: string): void => {
    toast(text);
    go(href("storage", [], { tab: "csi" }));
  };
  const remove = async (): Promise<void> => {
    const done = await confirmed(
      {
        title: `Delete ${id}`,
        text: "The provider deletes the volume and all that lies in it. This cannot be undone.",
        verb: "Delete the volume",
        isDangerous: true,
        typed: id,
      },
      "DELETE /v1/volume/csi/{id}/delete",
      options,
    );
    if (done) leave(`The volume ${id} is deleted.`);
  };
  const deregister = async (force: boolean): Promise<void> => {
    const asked = { ...options, query: force ? { force } : {} };
    const done = await confirmed(
      {
        title: `Deregister ${id}`,
        text: force
          ? "The record goes, and claims of allocations that have ended go with it. No plugin is asked to undo anything. The provider keeps the volume."
          : "The record goes; the provider keeps the volume, and it can be registered again.",
        verb: "Deregister the volume",
        isDangerous: true,
      },
      "DELETE /v1/volume/csi/{id}",
      asked,
    );
    if (done) leave(`The volume ${id} is deregistered.`);
  };
  const actions = value && (
    <>
      <Button needs={WRITE} onClick={() => setDialog("snapshot")}>
        Take snapshot
      </Button>
      <Button needs={WRITE} onClick={() => setDialog("expand")}>
        Expand
      </Button>
      <Button kind="danger" icon="trash" needs={WRITE} onClick={() => void remove()}>
        Delete
      </Button>
      <Menu
        label="More actions"
        items={[
          { label: "Deregister", needs: WRITE, onSelect: () => void deregister(false) },
          {
            label: "Deregister with ended claims",
            isDangerous: true,
            needs: WRITE,
            onSelect: () => void deregister(true),
          },
        ]}
      />
    </>
  );
  return (
    <Page title={id} crumbs={crumbs} actions={actions}>
      <Loaded resource={volume} label="The volume">
        {(shown) => (
          <>
            <div class="grid storage-grid">
              <Card title="Volume">
                <Properties
                  items={[
                    ["State", <CsiState volume={shown} />],
                    ["Name", shown.Name === shown.ID ? "" : shown.Name],
                    ["Plugin", <a href={pluginHref(shown.PluginID)}>{shown.PluginID}</a>],
                    ["Plugin's health", healthText(shown)],
                    ["Provider", `${shown.Provider} ${shown.ProviderVersion}`],
                    ["External id", <span class="mono">{shown.ExternalID}</span>],
                    ["Namespace", shown.Namespace],
                    ["Created", <Ago at={shown.CreateTime} />],
                    ["Changed", <Ago at={shown.ModifyTime} />],
                  ]}
                />
              </Card>
              <Card title="Capacity and use">
                <Properties
                  items={[
                    ["Capacity", shown.Capacity ? sizeText(shown.Capacity) : "not reported by the plugin"],
                    ["At least", shown.RequestedCapacityMin ? sizeText(shown.RequestedCapacityMin) : "not asked for"],
                    ["At most", shown.RequestedCapacityMax ? sizeText(shown.RequestedCapacityMax) : "no bound"],
                    ["Capabilities", <CapabilityList capabilities={shown.RequestedCapabilities} />],
                    ["Used now as", shown.AccessMode ? `${shown.AccessMode}, ${shown.AttachmentMode}` : "not in use"],
                    ["Parameters", <Pairs pairs={shown.Parameters} />],
                    ["From snapshot", shown.SnapshotID && <span class="mono">{shown.SnapshotID}</span>],
                    ["Clone of", shown.CloneID && <span class="mono">{shown.CloneID}</span>],
                  ]}
                />
              </Card>
            </div>
            <Claims id={id} namespace={namespace} nodes={nodes} />
            <Operations id={id} namespace={namespace} nodes={nodes} />
            <details class="more-fields storage-json">
              <summary>The volume as JSON</summary>
              <Json value={shown} label="the volume as JSON" />
            </details>
            {dialog === "snapshot" && (
              <SnapshotDialog
                volume={id}
                plugin={shown.PluginID}
                namespace={namespace}
                onClose={() => setDialog(null)}
                onDone={() => {
                  setDialog(null);
                  go(href("storage", ["plugin", shown.PluginID], { tab: "snapshots" }));
                }}
              />
            )}
            {dialog === "expand" && (
              <ExpandDialog
                title={`Expand ${id}`}
                min={shown.RequestedCapacityMin}
                max={shown.RequestedCapacityMax}
                capacity={shown.Capacity}
                onClose={() => setDialog(null)}
                requestOf={(sizes) => wireRequest("PUT /v1/volume/csi/{id}/create", expansion(shown, namespace, sizes))}
                perform={async (sizes) => {
                  await api("PUT /v1/volume/csi/{id}/create", expansion(shown, namespace, sizes));
                  toast(`The volume ${id} is expanded.`);
                  setDialog(null);
                  volume.reload();
                }}
              />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

const expansion = (
  { ID, Name, PluginID, RequestedCapabilities }: Volume,
  namespace: string,
  { min, max }: { readonly min: number; readonly max: number },
) => ({
  path: { id: ID },
  namespace,
  body: {
    Volumes: [
      {
        ID,
        Name,
        PluginID,
        RequestedCapabilities,
        RequestedCapacityMin: min,
        ...(max ? { RequestedCapacityMax: max } : {}),
      },
    ],
  },
});

interface PartProps {
  readonly id: string;
  readonly namespace: string;
  readonly nodes: readonly NodeStub[];
}

function Claims({ id, namespace, nodes }: PartProps) {
  const claims = useLive(
    ["csi-claims", id, namespace],
    (more) => api("GET /v1/volume/csi/{id}/claims", { path: { id }, namespace, ...more }),
    { everyMs: 2_000 },
  );
  const detach = async (node: string): Promise<void> => {
    const options = { path: { id }, namespace, query: { node } };
    const done = await confirmed(
      {
        title: `Detach ${id} from a node`,
        text: "What allocations that have ended hold on the node is released at once. While one runs there, this is refused.",
        verb: "Detach",
      },
      "DELETE /v1/volume/csi/{id}/detach",
      options,
    );
    if (done) toast("The volume is detached from the node.");
    claims.reload();
  };
  const columns: Column<Claim>[] = [
    {
      key: "allocation",
      label: "Allocation",
      width: "110px",
      render: (row) => (
        <a class="mono" href={allocationHref(row.AllocID, namespace)}>
          {row.AllocID.slice(0, 8)}
        </a>
      ),
    },
    { key: "state", label: "State", width: "170px", render: (claim) => <ClaimState claim={claim} /> },
    { key: "node", label: "Node", isMinor: true, render: (row) => <NodeLink id={row.NodeID} nodes={nodes} /> },
    { key: "mode", label: "Mode", width: "80px", isMinor: true, render: (row) => row.Mode },
    {
      key: "error",
      label: "Last failure",
      width: "34%",
      render: (row) =>
        row.LastError ? (
          <span title={row.LastError}>
            {row.NextRetry && (
              <>
                again in <Countdown to={row.NextRetry} over="a moment" />:{" "}
              </>
            )}
            {row.LastError}
          </span>
        ) : row.ExpansionOwed ? (
          "has to grow on the node"
        ) : (
          <span class="muted">none</span>
        ),
    },
    {
      key: "actions",
      label: "Actions",
      isLabelHidden: true,
      width: "56px",
      render: (row) => (
        <IconButton icon="close" label="Detach from the node" needs={WRITE} onClick={() => void detach(row.NodeID)} />
      ),
    },
  ];
  return (
    <Card title="Claims" flush>
      <Loaded resource={claims} label="Claims">
        {(rows) => (
          <DataTable
            label="Claims of the volume"
            rows={rows}
            columns={columns}
            keyOf={(row) => `${row.AllocID} ${row.NodeID}`}
            empty={
              <Empty title="No allocation claims it">
                An allocation whose group asks for this volume claims it as soon as it is reported.
              </Empty>
            }
          />
        )}
      </Loaded>
    </Card>
  );
}

function Operations({ id, namespace, nodes }: PartProps) {
  const operations = useLive(
    ["csi-operations", id, namespace],
    (more) => api("GET /v1/volume/csi/{id}/operations", { path: { id }, namespace, ...more }),
    { everyMs: 2_000 },
  );
  const columns: Column<CsiOperation>[] = [
    { key: "method", label: "Operation", render: (row) => row.Method },
    { key: "state", label: "State", width: "130px", render: ({ State }) => <OperationState state={State} /> },
    { key: "node", label: "Node", isMinor: true, render: (row) => <NodeLink id={row.NodeID} nodes={nodes} /> },
    { key: "began", label: "Began", width: "140px", isMinor: true, render: (row) => <Ago at={row.CreateTime} /> },
    {
      key: "took",
      label: "Took",
      width: "100px",
      align: "end",
      isMinor: true,
      render: ({ CreateTime, EndTime }) => {
        const [from, to] = [timeOf(CreateTime), timeOf(EndTime)];
        if (from === null || to === null) return <span class="muted">under way</span>;
        return to - from < 1000 ? `${Math.round(to - from)} ms` : durationText(to - from);
      },
    },
    {
      key: "error",
      label: "Failure",
      width: "28%",
      render: ({ Error: failure }) => <span title={failure}>{failure}</span>,
    },
  ];
  return (
    <Card title="Operations of the last hour" flush>
      <Loaded resource={operations} label="Operations">
        {(rows) => (
          <DataTable
            label="Operations of the volume"
            rows={rows}
            columns={columns}
            keyOf={(row) => row.ID}
            empty={<Empty title="No operation of its plugin in the last hour" />}
          />
        )}
      </Loaded>
    </Card>
  );
}
