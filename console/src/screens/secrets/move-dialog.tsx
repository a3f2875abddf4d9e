/** Gives a secret another path, also in another engine. */
import { useState } from "preact/hooks";
import { go } from "../../app/router.ts";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";
import { type KvMount, secretHref } from "./addresses.ts";
import { transfer } from "./bulk-job.ts";
import { readMounts } from "./reads.ts";
import { useSecretNames } from "./secret-names.ts";

interface MoveDialogProps {
  readonly mount: KvMount;
  readonly path: string;
  readonly onClose: () => void;
  /** Before the moved secret is opened. */
  readonly onDone: () => void;
}

export function MoveDialog({ mount, path, onClose, onDone }: MoveDialogProps) {
  const [target, setTarget] = useState(mount.path);
  const [typed, setTyped] = useState(path);
  const mounts = useResource(["move-mounts"], readMounts);
  const targets = mounts.value?.kv ?? [mount];
  const { version = mount.version } = targets.find((each) => each.path === target) ?? {};
  const names = useSecretNames(version === 2 ? target : "", typed);
  const name = typed.trim().replace(/^\/+/, "");
  const move = async (): Promise<void> => {
    await transfer({ mount: mount.path, version: mount.version }, path, name, { kind: "move", mount: target, version });
    toast(`${path} is moved.`);
    onDone();
    go(secretHref(target, name));
  };
  return (
    <FormDialog
      title={`Move or rename ${path}`}
      verb="Move the secret"
      onClose={onClose}
      perform={move}
      isReady={name !== "" && !name.endsWith("/") && (name !== path || target !== mount.path)}
    >
      <SelectField
        label="To the engine"
        value={target}
        onChange={setTarget}
        options={targets.map((each) => ({ value: each.path, label: `${each.path}/` }))}
      />
      <TextField label="New path" value={typed} onChange={setTyped} list={names} required mono autofocus />
      <p class="notice notice-warn">
        Older versions are deleted with the old path, and its syncs end. A secret that has the new path already is kept.
      </p>
    </FormDialog>
  );
}
