import { useState } from "preact/hooks";
import { engineDescriptions } from "../../../../src/credentials/engines/descriptions.ts";
import { api, wireRequest } from "../../api/client.ts";
import { go, href } from "../../app/router.ts";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { toast } from "../../components/toasts.tsx";
import { mountHref } from "./addresses.ts";

const KINDS = [
  { value: "kv-2", label: "Key/value with versions" },
  { value: "kv-1", label: "Key/value, one value a path" },
  ...engineDescriptions.map(({ type, label }) => ({ value: type, label: `${label} credentials` })),
];

/** Creates a secrets engine. */
export function EnableMount({ onClose, onDone }: { readonly onClose: () => void; readonly onDone: () => void }) {
  const [kind, setKind] = useState("kv-2");
  const [path, setPath] = useState("");
  const [description, setDescription] = useState("");
  const version = /^kv-(\d)$/.exec(kind)?.[1];
  const type = (version ? "kv" : kind) as "kv" | "cloud-b";
  const mount = path.trim().replace(/^\/|\/$/g, "");
  const options = {
    path: { path: mount || "PATH" },
    body: { type, ...(description ? { description } : {}), ...(version ? { options: { version } } : {}) },
  } as const;
  const enable = async (): Promise<void> => {
    await api("POST /v1/sys/mounts/{path}", options);
    toast(`The engine ${mount} is enabled.`);
    onDone();
    onClose();
    go(type === "kv" ? mountHref(mount) : href("credentials", [mount]));
  };
  return (
    <FormDialog
      title="Enable engine"
      verb="Enable engine"
      onClose={onClose}
      perform={enable}
      request={wireRequest("POST /v1/sys/mounts/{path}", options)}
    >
      <SelectField label="Kind" value={kind} onChange={setKind} options={KINDS} />
      <TextField
        label="Path"
        value={path}
        onChange={setPath}
        required
        mono
        autofocus
        placeholder="team/app"
        hint="Policies and requests name it. It may have slashes."
      />
      <TextField label="Description" value={description} onChange={setDescription} />
    </FormDialog>
  );
}
