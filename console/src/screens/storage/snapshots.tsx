/** Snapshots of a plugin. Nothing is kept about them: every list asks the plugin. */

import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { objectNamespace } from "../../app/cluster-links.ts";
import { confirmed } from "../../components/confirm.tsx";
import { TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { ListScreen } from "../../components/list-screen.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago } from "../../components/moments.tsx";
import { Status } from "../../components/status.tsx";
import type { Column } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { pageOf, useLiveList } from "../../lib/live.ts";
import { sizeText } from "../../lib/text.ts";
import type { Draft } from "./volume-dialog.tsx";

type Snapshot = Schemas["CsiSnapshot"];

interface SnapshotDialogProps {
  readonly volume: string;
  readonly plugin: string;
  readonly namespace: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function SnapshotDialog({ volume, plugin, namespace, onClose, onDone }: SnapshotDialogProps) {
  const [name, setName] = useState("");
  const options = {
    namespace,
    body: { Snapshots: [{ SourceVolumeID: volume, PluginID: plugin, ...(name ? { Name: name } : {}) }] },
  };
  const send = async (): Promise<void> => {
    const { Snapshots } = await api("POST /v1/volumes/snapshot", options);
    const made = Snapshots?.[0];
    toast(
      made?.IsReady === false
        ? "The snapshot is taken; the provider is not ready with it yet."
        : "The snapshot is taken.",
    );
    onDone();
  };
  return (
    <FormDialog
      title={`Take a snapshot of ${volume}`}
      verb="Take snapshot"
      shape="box"
      onClose={onClose}
      perform={send}
      request={wireRequest("POST /v1/volumes/snapshot", options)}
    >
      {({ isBusy }) => (
        <>
          <TextField
            label="Name"
            mono
            autofocus
            value={name}
            onChange={setName}
            hint="Left empty, the service makes one."
          />
          {isBusy && <p class="muted">The plugin works on it. It may take up to two minutes.</p>}
        </>
      )}
    </FormDialog>
  );
}

interface SnapshotsProps {
  readonly plugin: string;
  readonly onRestore: (draft: Draft) => void;
}

export function Snapshots({ plugin, onRestore }: SnapshotsProps) {
  const namespace = objectNamespace();
  const list = useLiveList(
    ["snapshots", plugin, namespace],
    async (from, options) => {
      const query = { plugin_id: plugin, ...pageOf(from) };
      const body = await api("GET /v1/volumes/snapshot", { query, namespace, ...options });
      return { rows: body.Snapshots, next: body.NextToken || null };
    },
    { everyMs: 15_000 },
  );
  const remove = async (snapshot: Snapshot): Promise<void> => {
    const options = { query: { plugin_id: plugin, snapshot_id: snapshot.ID }, namespace };
    const done = await confirmed(
      {
        title: "Delete a snapshot",
        text: `The provider deletes the snapshot ${snapshot.ID}. This cannot be undone.`,
        verb: "Delete the snapshot",
        isDangerous: true,
      },
      "DELETE /v1/volumes/snapshot",
      options,
    );
    if (!done) return;
    toast("The snapshot is deleted.");
    list.reload();
  };
  const columns: Column<Snapshot>[] = [
    { key: "id", label: "Snapshot", render: (row) => <span class="mono">{row.ID}</span> },
    {
      key: "ready",
      label: "State",
      width: "130px",
      render: (row) => (row.IsReady ? <Status tone="ok">ready</Status> : <Status tone="wait">not ready</Status>),
    },
    {
      key: "of",
      label: "Of the volume",
      isMinor: true,
      render: (row) => <span class="mono">{row.ExternalSourceVolumeID}</span>,
    },
    {
      key: "size",
      label: "Size",
      width: "100px",
      align: "end",
      isMinor: true,
      render: (row) => sizeText(row.SizeBytes),
    },
    { key: "taken", label: "Taken", width: "140px", isMinor: true, render: (row) => <Ago at={row.CreateTime} /> },
    {
      key: "actions",
      label: "Actions",
      isLabelHidden: true,
      width: "56px",
      render: (row) => (
        <Menu
          label={`Actions of the snapshot ${row.ID}`}
          items={[
            {
              label: "Make a volume of it",
              needs: "PUT volume/csi/*/create",
              onSelect: () =>
                onRestore({ kind: "csi", how: "create", value: { PluginID: plugin, SnapshotID: row.ID } }),
            },
            {
              label: "Delete",
              icon: "trash",
              isDangerous: true,
              needs: "DELETE volumes/snapshot",
              onSelect: () => void remove(row),
            },
          ]}
        />
      ),
    },
  ];
  return (
    <ListScreen
      label="Snapshots"
      resource={list}
      columns={columns}
      keyOf={(row) => row.ID}
      none="The provider has no snapshot"
    >
      Take one on the page of a volume.
    </ListScreen>
  );
}
