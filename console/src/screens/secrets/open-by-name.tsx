import { useState } from "preact/hooks";
import { go } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { TextField } from "../../components/field.tsx";
import { secretHref } from "./addresses.ts";

/** For callers who may read secrets and not list them. */
export function OpenByName({ mount }: { readonly mount: string }) {
  const [path, setPath] = useState("");
  const wanted = path.trim().replace(/^\/|\/$/g, "");
  return (
    <form
      class="form secrets-by-name"
      onSubmit={(event) => {
        event.preventDefault();
        if (wanted) go(secretHref(mount, wanted));
      }}
    >
      <p class="muted">
        Your token may not list the names here. Type the path of a secret that it may read, or find it with Ctrl K.
      </p>
      <TextField label="Path of the secret" value={path} onChange={setPath} mono required placeholder="app/database" />
      <Button type="submit">Open the secret</Button>
    </form>
  );
}
