import schema from "schema:POST /v1/cloud-b/roles/{name}";
import { useState } from "preact/hooks";
import { ApiError, api, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { changedBody, type FieldTexts, type FormValue, formOf, SchemaForm } from "../../components/schema-form.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import type { EngineRole } from "./reads.ts";

const WRITE = "POST /v1/cloud-b/roles/{name}";

const TEXTS: Readonly<Record<string, FieldTexts>> = {
  cloud_roles: { label: "Role assignments" },
  cloud_groups: { label: "Groups" },
  ttl: { label: "Life of leases", placeholder: "1h", hint: "Seconds, or 1h30m. Empty: the engine's." },
  max_ttl: { label: "Longest life with renewals", placeholder: "24h", hint: "Empty: the engine's." },
  explicit_max_ttl: { label: "Hard end of all renewals", placeholder: "48h" },
  application_object_id: {
    label: "Existing application",
    hint: "Object ID. Credentials are then secrets of this application, and the assignments above give it nothing.",
  },
  persist_app: { label: "One application for the life of the role", hint: "Each lease is a secret of its own in it." },
  permanently_delete: {
    label: "Delete applications beyond recovery",
    hint: "They do not lie in the tenant's recycle bin for 30 days.",
  },
  sign_in_audience: { label: "Sign-in audience" },
  tags: { label: "Tags", hint: "Of applications that the engine makes." },
  pool_size: { label: "Pool size", hint: "Principals that are made and verified ahead of requests." },
  pool_ttl: { label: "Pool TTL", hint: "A principal of the pool is replaced after this time. Empty: a day." },
};

interface Props {
  readonly mount: string;
  /** The role to change; none makes a new one. */
  readonly role?: { readonly name: string; readonly settings: EngineRole };
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function RoleForm({ mount, role, onClose, onDone }: Props) {
  const [before] = useState(() => (role ? formOf(role.settings) : {}));
  const [name, setName] = useState(role?.name ?? "");
  const [value, setValue] = useState<FormValue>(role ? before : { cloud_roles: [{}] });
  const body = changedBody(before, value);
  const options = { mount, path: { name }, body };
  const save = useAction(async () => {
    await api(WRITE, options);
    toast(`The role ${name} is saved.`);
    onDone();
  });
  const problems = fieldProblems(save.error instanceof ApiError ? save.error.messages : []);
  return (
    <Dialog
      title={role ? `Edit ${role.name}` : "Create role"}
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="role-form" isBusy={save.isBusy}>
            {role ? "Save changes" : "Create role"}
          </Button>
        </>
      }
    >
      <form
        id="role-form"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        {!role && (
          <TextField
            label="Name"
            value={name}
            onChange={setName}
            required
            autofocus
            placeholder="reader"
            hint="Letters, digits, _ . and -; stored in lower case."
          />
        )}
        <SchemaForm
          schema={schema}
          value={value}
          onChange={setValue}
          texts={TEXTS}
          first={["cloud_roles", "cloud_groups", "ttl", "max_ttl"]}
          advanced={[
            "explicit_max_ttl",
            "application_object_id",
            "persist_app",
            "permanently_delete",
            "sign_in_audience",
            "tags",
            "pool_size",
            "pool_ttl",
          ]}
          problems={problems}
        />
        {save.error !== null && <ErrorPanel error={save.error} />}
        <p class="muted small">
          Names are looked up at Azure when the role is saved; one that is not there is refused.
        </p>
        <AsCommand request={wireRequest(WRITE, options)} />
      </form>
    </Dialog>
  );
}
