/** Options and preview of a bulk action: every name, and its target. */
import { useState } from "preact/hooks";
import { secretsNamespace } from "../../api/namespaces.ts";
import { Typed } from "../../components/confirm.tsx";
import { Checkbox, SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { VirtualList } from "../../components/virtual-list.tsx";
import { useResource } from "../../lib/resource.ts";
import { plural } from "../../lib/text.ts";
import { DestinationField } from "../sync/destination-field.tsx";
import { keyOf, readDestinations } from "../sync/reads.ts";
import type { KvMount } from "./addresses.ts";
import { type BulkAction, type BulkJob, owner, storeJob, targetOf } from "./bulk-job.ts";
import { readMounts } from "./reads.ts";

interface BulkDialogProps {
  readonly kind: BulkAction["kind"];
  readonly mount: KvMount;
  readonly folder: string;
  readonly paths: readonly string[];
  readonly onClose: () => void;
  readonly onStart: (job: BulkJob) => void;
}

const VERBS: Readonly<Record<BulkAction["kind"], string>> = {
  delete: "Delete",
  copy: "Copy",
  move: "Move",
  sync: "Sync",
};

export function BulkDialog({ kind, mount, folder, paths, onClose, onStart }: BulkDialogProps) {
  const [isForever, setForever] = useState(mount.version === 1);
  const [typed, setTyped] = useState("");
  const [target, setTarget] = useState(mount.path);
  const [into, setInto] = useState("");
  const [destination, setDestination] = useState("");
  const mounts = useResource(["bulk-mounts"], readMounts, { skip: kind !== "copy" && kind !== "move" });
  const destinations = useResource(["bulk-destinations"], readDestinations, { skip: kind !== "sync" });
  const targets = mounts.value?.kv ?? [mount];
  const { version = mount.version } = targets.find(({ path }) => path === target) ?? {};
  const ref = destinations.value?.find((each) => keyOf(each) === destination);
  const targetFolder = into.trim().replace(/^\/+|\/+$/g, "");
  const action: BulkAction =
    kind === "delete"
      ? { kind, isForever }
      : kind === "sync"
        ? { kind, type: ref?.type ?? "", name: ref?.name ?? "" }
        : { kind, mount: target, version, folder: targetFolder === "" ? "" : `${targetFolder}/` };
  const isReady =
    kind === "delete"
      ? !isForever || typed === String(paths.length)
      : kind === "sync"
        ? ref !== undefined
        : target !== mount.path || targetFolder !== folder.replace(/\/$/, "");
  const start = async (): Promise<void> => {
    const items = paths.map((path) => ({ path, state: "left" as const }));
    const job: BulkJob = {
      owner: owner(),
      namespace: secretsNamespace.value,
      mount: mount.path,
      version: mount.version,
      folder,
      action,
      items,
    };
    storeJob(job);
    onStart(job);
  };
  return (
    <FormDialog
      title={`${VERBS[kind]} ${plural(paths.length, "secret")}`}
      verb={`${VERBS[kind]} ${plural(paths.length, "secret")}`}
      shape="wide"
      isDangerous={kind === "delete"}
      onClose={onClose}
      perform={start}
      isReady={isReady}
    >
      {kind === "delete" && mount.version === 2 && (
        <Checkbox
          label="With all versions and metadata, for good"
          hint="Otherwise the newest version of each is deleted, and Undelete brings it back."
          checked={isForever}
          onChange={setForever}
        />
      )}
      {kind === "delete" && isForever && (
        <TextField
          label={<Typed text={String(paths.length)} />}
          hint="Values are removed here and at destinations. This cannot be undone."
          value={typed}
          onChange={setTyped}
          mono
        />
      )}
      {(kind === "copy" || kind === "move") && (
        <>
          <SelectField
            label="To the engine"
            value={target}
            onChange={setTarget}
            options={targets.map(({ path }) => ({ value: path, label: `${path}/` }))}
          />
          <TextField
            label="Into the folder"
            value={into}
            onChange={setInto}
            mono
            placeholder="the root of the engine"
            hint={folder === "" ? "Left empty, the paths stay." : `It takes the place of ${folder}`}
          />
          <p class="muted">
            {version === 2
              ? "The newest version and the custom metadata are copied."
              : "The newest values are copied: an engine of version 1 has no metadata."}
            {" A target that exists is not changed."}
            {kind === "move" &&
              " Then the source is deleted with its older versions, unless it changed meanwhile; its syncs end."}
          </p>
        </>
      )}
      {kind === "sync" && (
        <DestinationField
          destinations={destinations.value ?? []}
          value={destination}
          onChange={setDestination}
          hint={
            destinations.error instanceof Error
              ? destinations.error.message
              : destinations.value?.length === 0
                ? "There is no destination yet."
                : ""
          }
        />
      )}
      <VirtualList
        rows={paths}
        rowPx={26}
        keyOf={(path) => path}
        role="list"
        label="Secrets of the action"
        className="secrets-bulk-preview"
        isFocusable
        render={(path) => (
          <div role="listitem" class="mono">
            {path}
            {(kind === "copy" || kind === "move") && (
              <span class="muted">{` → ${target}/${targetOf({ folder, action }, path)}`}</span>
            )}
          </div>
        )}
      />
    </FormDialog>
  );
}
