import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { go, href } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";
import { METHODS } from "./kinds.ts";

const methodHref = (path: string): string => href("access", ["method", path.replace(/\/$/, "")]);

export function Methods() {
  const methods = useResource(["auth-methods"], async (signal) =>
    Object.entries((await api("GET /v1/sys/auth", { signal })).data).map(([path, mount]) => ({ path, ...mount })),
  );
  const [enables, setEnables] = useState(false);
  return (
    <>
      <Toolbar>
        <Button icon="plus" kind="primary" needs="POST sys/auth/*" onClick={() => setEnables(true)}>
          Enable a method
        </Button>
        <p class="muted">A method checks who logs in. Open one for its users or roles.</p>
      </Toolbar>
      <Loaded resource={methods} label="Auth methods">
        {(rows) => (
          <DataTable
            label="Auth methods"
            rows={rows}
            keyOf={({ path }) => path}
            hrefOf={({ path }) => methodHref(path)}
            columns={[
              { key: "path", label: "Path", render: ({ path }) => <span class="mono">auth/{path}</span> },
              { key: "type", label: "Type", width: "9rem", render: ({ type }) => type },
              { key: "description", label: "Description", isMinor: true, render: ({ description }) => description },
              {
                key: "accessor",
                label: "Accessor",
                isMinor: true,
                render: ({ accessor }) => <span class="mono">{accessor}</span>,
              },
            ]}
            empty={<Empty title="No auth method" />}
          />
        )}
      </Loaded>
      {enables && <EnableDialog onClose={() => setEnables(false)} />}
    </>
  );
}

function EnableDialog({ onClose }: { readonly onClose: () => void }) {
  const [type, setType] = useState("userpass");
  const [entered, setEntered] = useState("");
  const [description, setDescription] = useState("");
  const path = entered.trim().replace(/^(auth)?\/|\/$/g, "") || type;
  const options = { path: { path }, body: { type, ...(description && { description }) } };
  const enable = async (): Promise<void> => {
    await api("POST /v1/sys/auth/{path}", options as never);
    go(methodHref(path));
  };
  return (
    <FormDialog
      title="Enable an auth method"
      verb="Enable the method"
      onClose={onClose}
      perform={enable}
      request={wireRequest("POST /v1/sys/auth/{path}", options as never)}
    >
      <SelectField
        label="Kind"
        value={type}
        onChange={setType}
        options={Object.entries(METHODS).map(([value, { label }]) => ({ value, label }))}
      />
      <TextField
        label="Path"
        mono
        value={entered}
        placeholder={type}
        onChange={setEntered}
        hint="Log-ins name it. Left empty, it is the name of the kind."
      />
      <TextField label="Description" value={description} onChange={setDescription} />
    </FormDialog>
  );
}
