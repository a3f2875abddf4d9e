import schema from "schema:POST /v1/sys/sync/repo-host-apps/{name}";
import { useState } from "preact/hooks";
import { api, apiFull, type Schemas, wireRequest } from "../../api/client.ts";
import { IconButton } from "../../components/button.tsx";
import { confirmDelete } from "../../components/confirm.tsx";
import { TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { type FormEnds, ListScreen } from "../../components/list-screen.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import type { Column } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { inParallel } from "../../lib/parallel.ts";
import { useResource } from "../../lib/resource.ts";
import type { FormValue } from "../../lib/settings.ts";
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
  const remove = async (name: string): Promise<void> => {
    const text = "Its private key is deleted here. It is refused while a destination uses the application.";
    const op = "DELETE /v1/sys/sync/repo-host-apps/{name}";
    if (await confirmDelete("application", name, text, op, { path: { name } })) apps.reload();
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
      render: ({ name }) => (
        <IconButton
          icon="trash"
          label={`Delete ${name}`}
          needs={`DELETE sys/sync/repo-host-apps/${name}`}
          onClick={() => void remove(name)}
        />
      ),
    },
  ];
  return (
    <ListScreen
      label="Applications"
      resource={apps}
      columns={columns}
      keyOf={({ name }) => name}
      add="Add application"
      addNeeds="POST sys/sync/repo-host-apps/*"
      form={(_, ends) => <AppForm {...ends} />}
      none="No applications yet"
    >
      A destination of GitHub logs in with an access token or as an application. For the second, add the application's
      ID and private key here.
    </ListScreen>
  );
}

function AppForm({ onClose, onDone }: FormEnds) {
  const [name, setName] = useState("");
  const [value, setValue] = useState<FormValue>({});
  const options = { path: { name }, body: value as { app_id: number; private_key: string } };
  const save = async (): Promise<void> => {
    await api("POST /v1/sys/sync/repo-host-apps/{name}", { ...options, sensitive: true });
    toast(`The application ${name} is saved.`);
    onDone();
  };
  return (
    <FormDialog
      title="Add application"
      verb="Add application"
      onClose={onClose}
      perform={save}
      request={wireRequest("POST /v1/sys/sync/repo-host-apps/{name}", {
        ...options,
        body: { ...options.body, private_key: "…" },
      })}
    >
      {({ problems }) => (
        <>
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
        </>
      )}
    </FormDialog>
  );
}
