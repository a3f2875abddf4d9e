import schema from "schema:POST /v1/sys/sync/repo-host-apps/{name}";
import { useState } from "preact/hooks";
import { ApiError, api, apiFull, type Schemas, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button, IconButton } from "../../components/button.tsx";
import { confirm } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Toolbar } from "../../components/page.tsx";
import { type FormValue, SchemaForm } from "../../components/schema-form.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { inParallel } from "../../lib/parallel.ts";
import { useAction, useResource } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import { MAX_CONCURRENT } from "./reads.ts";

type App = Pick<Schemas["RepoHostApp"], "name"> & Partial<Schemas["RepoHostApp"]>;

/** Names of all applications; none for callers who may not list them. */
export async function readAppNames(signal: AbortSignal): Promise<string[]> {
  const { status, body } = await apiFull("LIST /v1/sys/sync/repo-host-apps", { signal, accept: [404], quiet: true });
  return status === 404 ? [] : body.data.keys;
}

async function readApps(signal: AbortSignal): Promise<App[]> {
  return inParallel(await readAppNames(signal), MAX_CONCURRENT, async (name) => {
    try {
      return (await api("GET /v1/sys/sync/repo-host-apps/{name}", { path: { name }, signal, quiet: true })).data;
    } catch {
      return { name };
    }
  });
}

/** Applications of GitHub, with which destinations log in instead of a person's token. */
export function Apps() {
  const apps = useResource(["apps"], readApps);
  const [isOpen, setOpen] = useState(false);
  const remove = async (name: string): Promise<void> => {
    const target = ["DELETE /v1/sys/sync/repo-host-apps/{name}", { path: { name } }] as const;
    const done = await confirm({
      title: `Delete the application ${name}`,
      text: <p>Its private key is deleted here. It is refused while a destination uses the application.</p>,
      verb: "Delete application",
      isDangerous: true,
      request: wireRequest(...target),
      perform: () => api(...target),
    });
    if (done) apps.reload();
  };
  const columns: readonly Column<App>[] = [
    { key: "name", label: "Name", render: ({ name }) => name },
    { key: "id", label: "App ID", width: "8rem", render: ({ app_id }) => app_id ?? "–" },
    {
      key: "fingerprint",
      label: "Fingerprint of the key",
      isMinor: true,
      render: ({ fingerprint }) => <code>{fingerprint ?? "not readable"}</code>,
    },
    {
      key: "actions",
      label: "Actions",
      isLabelHidden: true,
      width: "4rem",
      align: "end",
      render: ({ name }) => <IconButton icon="trash" label={`Delete ${name}`} onClick={() => void remove(name)} />,
    },
  ];
  const add = (
    <Button icon="plus" onClick={() => setOpen(true)}>
      Add application
    </Button>
  );
  return (
    <>
      <Loaded resource={apps} label="Applications">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No applications yet" actions={add}>
              A destination of GitHub logs in with an access token or as an application. For the second, add the
              application's ID and private key here.
            </Empty>
          ) : (
            <>
              <Toolbar>{add}</Toolbar>
              <DataTable label="Applications" rows={rows} columns={columns} keyOf={({ name }) => name} />
            </>
          )
        }
      </Loaded>
      {isOpen && (
        <AppForm
          onClose={() => setOpen(false)}
          onDone={() => {
            setOpen(false);
            apps.reload();
          }}
        />
      )}
    </>
  );
}

function AppForm({ onClose, onDone }: { readonly onClose: () => void; readonly onDone: () => void }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState<FormValue>({});
  const options = { path: { name }, body: value as { app_id: number; private_key: string } };
  const save = useAction(async () => {
    await api("POST /v1/sys/sync/repo-host-apps/{name}", { ...options, sensitive: true });
    toast(`The application ${name} is saved.`);
    onDone();
  });
  const problems = fieldProblems(save.error instanceof ApiError ? save.error.messages : []);
  return (
    <Dialog
      title="Add application"
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="app-form" isBusy={save.isBusy}>
            Add application
          </Button>
        </>
      }
    >
      <form
        id="app-form"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <TextField label="Name" value={name} onChange={setName} required autofocus hint="How destinations name it." />
        <SchemaForm
          schema={schema}
          value={value}
          onChange={setValue}
          problems={problems}
          texts={{
            app_id: { label: "App ID", hint: "From the application's settings at GitHub." },
            private_key: { rows: 6, hint: "PEM text, PKCS#1 or PKCS#8." },
          }}
        />
        {save.error !== null && <ErrorPanel error={save.error} />}
        <AsCommand
          request={wireRequest("POST /v1/sys/sync/repo-host-apps/{name}", {
            ...options,
            body: { ...options.body, private_key: "…" },
          })}
        />
      </form>
    </Dialog>
  );
}
