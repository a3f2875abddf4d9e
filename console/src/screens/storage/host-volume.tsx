import { useState } from "preact/hooks";
import { ApiError, api, type Schemas, wireRequest } from "../../api/client.ts";
import { allocationHref, jobHref, objectNamespace } from "../../app/cluster-links.ts";
import { go, href } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { confirm } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago } from "../../components/moments.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useLive } from "../../lib/live.ts";
import { sizeText } from "../../lib/text.ts";
import { Allocations } from "../nodes/allocations.tsx";
import { NodeLink, useNodes } from "../nodes/node-names.tsx";
import { ExpandDialog } from "./expand-dialog.tsx";
import { type Capability, capabilityText } from "./fields.tsx";
import { HostState } from "./states.tsx";

export function HostVolumePage({ id }: { readonly id: string }) {
  const namespace = objectNamespace();
  const nodes = useNodes();
  const [expands, setExpands] = useState(false);
  const volume = useLive(["host", id, namespace], (options) =>
    api("GET /v1/volume/host/{id}", { path: { id }, namespace, ...options }),
  );
  const { value } = volume;
  const crumbs = [{ label: "Storage", href: href("storage") }];
  const remove = async (force: boolean): Promise<void> => {
    if (!value) return;
    const options = { path: { id }, namespace, query: force ? { force } : {} };
    let isUnanswered = false;
    const done = await confirm({
      title: force ? `Remove the record of ${value.Name}` : `Delete ${value.Name}`,
      text: force
        ? "Only the record goes, without asking the node. What the plugin has made stays on its disk. For a node that is gone for good."
        : value.PluginID
          ? "The node deletes the volume and all that lies in it. This cannot be undone."
          : "The volume is forgotten; its directory stays as it is.",
      verb: force ? "Remove the record" : "Delete the volume",
      isDangerous: true,
      typed: value.Name,
      request: wireRequest("DELETE /v1/volume/host/{id}/delete", options),
      perform: () =>
        api("DELETE /v1/volume/host/{id}/delete", options).catch((failure: unknown) => {
          isUnanswered = failure instanceof ApiError && failure.status >= 503;
          throw failure;
        }),
    });
    if (done) {
      toast(`The volume ${value.Name} is ${force ? "forgotten" : "deleted"}.`);
      go(href("storage"));
    } else if (isUnanswered) {
      toast("The node did not answer. If it is gone for good, remove the record only (menu of the volume).", "warn");
      volume.reload();
    }
  };
  const actions = value && (
    <>
      <Button
        needs={value.PluginID ? "PUT volume/host/create" : "PUT volume/host/register"}
        onClick={() => setExpands(true)}
      >
        Change capacity
      </Button>
      <Button kind="danger" icon="trash" needs="DELETE volume/host/*/delete" onClick={() => void remove(false)}>
        Delete
      </Button>
      <Menu
        label="More actions"
        items={[
          {
            label: "Remove the record only",
            isDangerous: true,
            needs: "DELETE volume/host/*/delete",
            onSelect: () => void remove(true),
          },
        ]}
      />
    </>
  );
  return (
    <Page title={value?.Name ?? "Host volume"} crumbs={crumbs} actions={actions}>
      <Loaded resource={volume} label="The volume">
        {(shown) => (
          <>
            <div class="grid storage-grid">
              <Card title="Volume">
                <Properties
                  items={[
                    ["State", <HostState state={shown.State} />],
                    ["Node", <NodeLink id={shown.NodeID} nodes={nodes} />],
                    ["Node pool", shown.NodePool],
                    ["Plugin", shown.PluginID || <span class="muted">none: registered</span>],
                    ["Namespace", shown.Namespace],
                    [
                      "Id",
                      <span class="storage-copy">
                        <span class="mono">{shown.ID}</span>
                        <CopyButton text={shown.ID} label="the id" />
                      </span>,
                    ],
                    ["Path", <span class="mono">{shown.HostPath}</span>],
                  ]}
                />
              </Card>
              <Card title="Capacity and use">
                <Properties
                  items={[
                    ["Capacity", shown.CapacityBytes ? sizeText(shown.CapacityBytes) : "not reported by the plugin"],
                    [
                      "At least",
                      shown.RequestedCapacityMinBytes ? sizeText(shown.RequestedCapacityMinBytes) : "not asked for",
                    ],
                    [
                      "At most",
                      shown.RequestedCapacityMaxBytes ? sizeText(shown.RequestedCapacityMaxBytes) : "no bound",
                    ],
                    ["Capabilities", <CapabilityList capabilities={shown.RequestedCapabilities} />],
                    ["Parameters", <Pairs pairs={shown.Parameters} />],
                    ["Created", <Ago at={shown.CreateTime} />],
                    ["Changed", <Ago at={shown.ModifyTime} />],
                  ]}
                />
              </Card>
            </div>
            <Card title="Allocations that use it" flush>
              <Allocations rows={shown.Allocations ?? []} none="No allocation uses it" />
            </Card>
            <HostClaims name={shown.Name} id={id} namespace={shown.Namespace} />
            <details class="more-fields storage-json">
              <summary>The volume as JSON</summary>
              <Json value={shown} label="the volume as JSON" />
            </details>
            {expands && (
              <ExpandDialog
                title={`Change the capacity of ${shown.Name}`}
                min={shown.RequestedCapacityMinBytes}
                max={shown.RequestedCapacityMaxBytes}
                onClose={() => setExpands(false)}
                requestOf={({ min, max }) => wireRequest(hostOp(shown.PluginID), hostBody(shown, namespace, min, max))}
                perform={async ({ min, max }) => {
                  await api(hostOp(shown.PluginID), hostBody(shown, namespace, min, max));
                  toast(`The capacity of ${shown.Name} is changed.`);
                  setExpands(false);
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

/** A registered volume is changed by registering it again. */
const hostOp = (plugin: string) => (plugin ? "PUT /v1/volume/host/create" : "PUT /v1/volume/host/register");

const hostBody = (volume: Schemas["HostVolume"], namespace: string, min: number, max: number) => ({
  namespace,
  body: {
    Volume: {
      ID: volume.ID,
      Name: volume.Name,
      ...(volume.PluginID ? {} : { NodeID: volume.NodeID, HostPath: volume.HostPath }),
      RequestedCapacityMinBytes: min,
      RequestedCapacityMaxBytes: max,
    },
  },
});

export const CapabilityList = ({ capabilities }: { readonly capabilities: readonly Capability[] }) => (
  <ul>
    {capabilities.map((entry) => (
      <li key={capabilityText(entry)} title={`${entry.AccessMode}, ${entry.AttachmentMode}`}>
        {capabilityText(entry)}
      </li>
    ))}
  </ul>
);

/** Parameters and the like, in monospace. */
export const Pairs = ({ pairs }: { readonly pairs: Readonly<Record<string, string>> | undefined | null }) => {
  const entries = Object.entries(pairs ?? {});
  return entries.length === 0 ? (
    <span class="muted">none</span>
  ) : (
    <ul class="mono">
      {entries.map(([name, value]) => (
        <li key={name}>
          {name}={value}
        </li>
      ))}
    </ul>
  );
};

function HostClaims({
  name,
  id,
  namespace,
}: {
  readonly name: string;
  readonly id: string;
  readonly namespace: string;
}) {
  const claims = useLive(["host-claims", name, namespace], async (options) => {
    const query = { volume_name: name, per_page: 200 };
    const { Claims } = await api("GET /v1/volumes/claims", { query, namespace, ...options });
    return Claims.filter(({ VolumeID }) => VolumeID === id);
  });
  if (!claims.value?.length) return null;
  return (
    <Card title="Sticky claims" flush>
      <DataTable
        label="Sticky claims of the volume"
        rows={claims.value}
        keyOf={(row) => row.ID}
        columns={[
          { key: "job", label: "Job", render: (row) => <a href={jobHref(row.JobID, row.Namespace)}>{row.JobID}</a> },
          { key: "group", label: "Group", render: (row) => row.TaskGroupName },
          {
            key: "allocation",
            label: "Allocation",
            render: (row) => <a href={allocationHref(row.AllocID, row.Namespace)}>{row.AllocID.slice(0, 8)}</a>,
          },
        ]}
      />
    </Card>
  );
}
