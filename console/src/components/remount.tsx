import { useState } from "preact/hooks";
import { api, wireRequest } from "../api/client.ts";
import { TextField } from "./field.tsx";
import { FormDialog } from "./form-dialog.tsx";
import { toast } from "./toasts.tsx";

interface RemountProps {
  /** Present path, such as `secret` or `auth/userpass`, without a slash at its end. */
  readonly path: string;
  readonly onClose: () => void;
  /** Gets the new path in the same form. */
  readonly onDone: (path: string) => void;
}

const REMOUNT = "POST /v1/sys/remount";

/** Moves an engine or an auth method to another path. */
export function RemountDialog({ path, onClose, onDone }: RemountProps) {
  const [entered, setEntered] = useState(path);
  const to = entered.trim().replace(/^\/+|\/+$/g, "");
  const options = { body: { from: path, to } };
  return (
    <FormDialog
      title={`Move ${path}/`}
      verb="Move to the new path"
      shape="box"
      onClose={onClose}
      isReady={to !== "" && to !== path}
      perform={async () => {
        await api(REMOUNT, options);
        toast(`${path}/ is ${to}/ now.`);
        onDone(to);
      }}
      request={wireRequest(REMOUNT, options)}
    >
      <p>
        All it holds stays, its accessor, too. Policies and clients name the old path until you change them: requests
        for it fail from now on.
      </p>
      <TextField label="New path" value={entered} onChange={setEntered} required mono autofocus />
    </FormDialog>
  );
}
