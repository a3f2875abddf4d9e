/** Snapshots, restores and the lists of the deployment (docs/operate/backup.md), with their progress. */
import { useRef, useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { endSession } from "../../api/session.ts";
import { download, upload } from "../../api/transfer.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirm } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Field } from "../../components/field.tsx";
import { Card } from "../../components/page.tsx";
import { Loading, Progress } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { saveFile } from "../../lib/raw-text.ts";
import { useAction } from "../../lib/resource.ts";
import { count, plural, sizeText } from "../../lib/text.ts";

const ROOT = { namespace: "" };
const SNAPSHOT = wireRequest("GET /v1/sys/snapshot", ROOT);
const RESTORE = wireRequest("POST /v1/sys/snapshot", ROOT);

/** Only for callers who may take a snapshot. */
export function Upkeep() {
  const [dialog, setDialog] = useState<"take" | "restore" | null>(null);
  const close = (): void => setDialog(null);
  return (
    <Card title="Backup and lists">
      <div class="button-row">
        <Button onClick={() => setDialog("take")}>Take a snapshot</Button>
        <Button onClick={() => setDialog("restore")}>Restore one</Button>
        <Button onClick={() => void rebuild()} title="Mends lists of destinations that miss an entry">
          Rebuild the lists
        </Button>
      </div>
      {dialog === "take" && <TakeDialog onClose={close} />}
      {dialog === "restore" && <RestoreDialog onClose={close} />}
    </Card>
  );
}

const rebuild = (): Promise<boolean> =>
  confirm({
    title: "Rebuild the lists",
    text: "Brings the lists of destinations and associations in line with what they list. It may run at any time.",
    verb: "Rebuild the lists",
    request: wireRequest("POST /v1/sys/listings/rebuild", ROOT),
    perform: async () => {
      const { data } = await api("POST /v1/sys/listings/rebuild", ROOT);
      const text = `${plural(data.destinations, "destination")} and ${plural(data.listed_associations, "association")} are listed`;
      toast(data.behind > 0 ? `${text}; ${count(data.behind)} are still to come.` : `${text}.`);
    },
  });

function TakeDialog({ onClose }: { readonly onClose: () => void }) {
  const [bytes, setBytes] = useState(0);
  const aborting = useRef(new AbortController());
  const take = useAction(async () => {
    const blob = await download(SNAPSHOT, aborting.current.signal, setBytes);
    saveFile(blob, `sallyport-${new Date().toISOString().slice(0, 16).replace(":", "")}.snapshot`);
    toast(`The snapshot is complete: ${sizeText(blob.size)}.`);
    onClose();
  });
  return (
    <Dialog
      title="Take a snapshot"
      onClose={() => {
        aborting.current.abort();
        onClose();
      }}
      footer={
        <Button kind="primary" isBusy={take.isBusy} onClick={() => void take.run()}>
          Take the snapshot
        </Button>
      }
    >
      <p>
        One sealed file with every row of the deployment, of one moment. Writes wait for a few seconds meanwhile. It is
        of use only with the MASTER_KEY of this deployment, so keep that elsewhere.
      </p>
      {take.isBusy && <Loading label={`${sizeText(bytes)} received; the end is not known before`} />}
      {take.error !== null && <ErrorPanel error={take.error} />}
      <AsCommand request={SNAPSHOT} />
    </Dialog>
  );
}

function RestoreDialog({ onClose }: { readonly onClose: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [sent, setSent] = useState(0);
  const restore = useAction(async () => {
    if (!file) return;
    const { data } = (await upload(RESTORE, file, setSent)) as {
      readonly data: { readonly objects: number; readonly rows: number };
    };
    endSession(
      `${plural(data.objects, "object")} with ${plural(data.rows, "row")} are restored. Log in with a token of the snapshot.`,
    );
  });
  return (
    <Dialog
      title="Restore a snapshot"
      onClose={onClose}
      footer={
        <Button kind="danger" type="submit" form="restore" isBusy={restore.isBusy} disabled={!file}>
          Restore the snapshot
        </Button>
      }
    >
      <form
        id="restore"
        onSubmit={(event) => {
          event.preventDefault();
          void restore.run();
        }}
      >
        <p>
          Into a deployment that is empty and has the same MASTER_KEY; any other refuses it. Every other request is
          refused meanwhile, and only the tokens of the snapshot are valid afterwards.
        </p>
        <Field label="Snapshot" required>
          {(ids) => (
            <input
              {...ids}
              type="file"
              accept=".snapshot"
              class="input"
              onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)}
            />
          )}
        </Field>
      </form>
      {restore.isBusy && file && sent < file.size && (
        <Progress done={sent} total={file.size} label="Sent" textOf={sizeText} />
      )}
      {restore.isBusy && file && sent >= file.size && <Loading label="The service checks and restores it" />}
      {restore.error !== null && <ErrorPanel error={restore.error} />}
      <AsCommand request={RESTORE} />
    </Dialog>
  );
}
