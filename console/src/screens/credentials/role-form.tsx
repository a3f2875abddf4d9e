import { useState } from "preact/hooks";
import { kindsOf, type RoleKind } from "../../../../src/credentials/engines/description.ts";
import { api, wireRequest } from "../../api/client.ts";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { toast } from "../../components/toasts.tsx";
import { fieldKind, plainSchema } from "../../lib/schema.ts";
import { changedBody, type FormValue, formOf } from "../../lib/settings.ts";
import { type EngineForm, formFor, kindLabel, type RoleAddress } from "./engine-types.ts";
import { type Engine, type EngineRole, operations } from "./reads.ts";

interface Props {
  readonly engine: Engine;
  /** The role to change; none makes a new one. */
  readonly role?: { readonly address: RoleAddress; readonly settings: EngineRole };
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** A new role begins with one entry of its first list of objects. */
function newRole({ schema, first: [name = ""] }: EngineForm): FormValue {
  const field = schema.properties?.[name];
  return field && fieldKind(plainSchema(field)) === "groups" ? { [name]: [{}] } : {};
}

/** The form of a role, made from the description of its kind. */
export function RoleForm({ engine: { path: mount, type }, role, onClose, onDone }: Props) {
  const kinds = kindsOf(type);
  const [kind, setKind] = useState(role?.address.kind ?? (kinds[0] as RoleKind));
  const form = formFor(type, kind.path, kind.fields);
  const [before] = useState(() => {
    const known = Object.entries(role?.settings ?? {}).filter(([name]) => name in (form.schema.properties ?? {}));
    return formOf(Object.fromEntries(known));
  });
  const [name, setName] = useState(role?.address.name ?? "");
  const [value, setValue] = useState<FormValue>(() => (role ? before : newRole(form)));
  const write = operations.writeRole(type, kind);
  const unused = Object.entries(kind.fields).flatMap(([field, { only }]) =>
    only && !only.is.includes(String(value[only.field])) ? [field] : [],
  );
  const used = Object.fromEntries(Object.entries(value).filter(([field]) => !unused.includes(field)));
  const options = { mount, path: { name }, body: changedBody(before, used) };
  const save = async (): Promise<void> => {
    await api(write, options);
    toast(`The role ${name} is saved.`);
    onDone();
  };
  return (
    <FormDialog
      title={role ? `Edit ${name}` : "Create role"}
      verb={role ? "Save changes" : "Create role"}
      onClose={onClose}
      perform={save}
      request={wireRequest(write, options)}
    >
      {({ problems }) => (
        <>
          {!role && kinds.length > 1 && (
            <SelectField
              label="Kind"
              value={kind.path}
              onChange={(path) => {
                const chosen = kinds.find((each) => each.path === path) ?? kind;
                setKind(chosen);
                setValue(newRole(formFor(type, chosen.path, chosen.fields)));
              }}
              options={kinds.map((each) => ({ value: each.path, label: kindLabel(each) }))}
            />
          )}
          {!role && (
            <TextField
              label="Name"
              value={name}
              onChange={setName}
              required
              autofocus
              placeholder="reader"
              hint="Letters, digits, _ . and -."
            />
          )}
          <SchemaForm
            key={kind.path}
            {...form}
            hidden={[...form.hidden, ...unused]}
            value={value}
            onChange={setValue}
            problems={problems}
          />
          <p class="muted small">
            Names are looked up at {type.label} when the role is saved, if the provider has to know them.
          </p>
        </>
      )}
    </FormDialog>
  );
}
