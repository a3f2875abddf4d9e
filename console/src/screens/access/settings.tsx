/** A list of named settings (users, roles, entities, groups), and the form that writes one. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, isMissing, messagesOf, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox, TextField } from "../../components/field.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { fieldProblems, isSecretName, type JsonSchema, labelOf } from "../../lib/schema.ts";
import { changedBody, type FormValue, formOf } from "../../lib/settings.ts";
import { type Kind, OLD_NAMES, TEXTS } from "./kinds.ts";

const titled = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const manyOf = (noun: string): string => noun.replace(/y$/, "ie").concat("s");

interface Place {
  readonly kind: Kind;
  /** `auth/…`; none for identities. */
  readonly mount?: string | undefined;
}

interface ListProps extends Place {
  /** Shown below the form of one that exists. */
  readonly more?: ((name: string) => ComponentChildren) | undefined;
}

export function SettingsList({ kind, mount, more }: ListProps) {
  const { noun } = kind;
  const at = mount === undefined ? {} : { mount };
  const names = useResource([kind.list, mount], async (signal) => {
    try {
      return (await api(kind.list, { ...at, signal })).data.keys.map((name) => name.replace(/\/$/, ""));
    } catch (failure) {
      if (isMissing(failure)) return [];
      throw failure;
    }
  });
  const [opened, setOpened] = useState<string | null>(null);
  const create = (
    <Button
      icon="plus"
      kind={mount === undefined ? "normal" : "primary"}
      needs={wireRequest(`POST ${kind.item}`, at)}
      onClick={() => setOpened("")}
    >
      Create {noun}
    </Button>
  );
  return (
    <Card title={titled(manyOf(noun))} flush actions={create}>
      <Loaded resource={names} label={titled(manyOf(noun))}>
        {(rows) => (
          <DataTable
            label={titled(manyOf(noun))}
            rows={rows}
            keyOf={(name) => name}
            onOpen={setOpened}
            columns={[{ key: "name", label: "Name", render: (name) => <span class="mono">{name}</span> }]}
            empty={<Empty title={`No ${noun} yet`}>{kind.about}</Empty>}
          />
        )}
      </Loaded>
      {opened !== null && (
        <SettingsDialog
          {...{ kind, mount, more }}
          name={opened}
          onClose={() => setOpened(null)}
          onDone={() => {
            setOpened(null);
            names.reload();
          }}
        />
      )}
    </Card>
  );
}

interface DialogProps extends ListProps {
  /** Empty for a new one. */
  readonly name: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function SettingsDialog({ kind, mount, more, name, onClose, onDone }: DialogProps) {
  const { noun, item, schema, first } = kind;
  const at = mount === undefined ? {} : { mount };
  const stored = useResource(
    [item, mount, name],
    async (signal) => (await api(`GET ${item}`, { ...at, path: { name }, signal })).data as FormValue,
    { skip: name === "" },
  );
  const [entered, setEntered] = useState(name);
  const remove = async (): Promise<void> => {
    const options = { ...at, path: { name } };
    const done = await confirmed(
      {
        title: `Delete the ${noun} ${name}`,
        text: kind.ends,
        verb: `Delete ${noun}`,
        isDangerous: true,
      },
      `DELETE ${item}`,
      options,
    );
    if (!done) return;
    toast(`The ${noun} ${name} is deleted.`);
    onDone();
  };
  const form = (before: FormValue) => (
    <SettingsForm
      schema={schema}
      hidden={kind.hidden}
      replaces={kind.replaces}
      first={first}
      before={before}
      requestOf={(body) => wireRequest(`POST ${item}`, { ...at, path: { name: entered || "NAME" }, body })}
      save={async (body) => {
        await api(`POST ${item}`, { ...at, path: { name: entered }, body, sensitive: hasSecrets(body) });
        toast(`The ${noun} ${entered} is saved.`);
        onDone();
      }}
    >
      {name === "" && <TextField label="Name" required mono autofocus value={entered} onChange={setEntered} />}
    </SettingsForm>
  );
  return (
    <Dialog
      title={name === "" ? `Create ${noun}` : `${titled(noun)} ${name}`}
      shape="side"
      onClose={onClose}
      footer={
        <>
          {name !== "" && (
            <Button kind="danger" icon="trash" onClick={() => void remove()}>
              Delete
            </Button>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="settings">
            {name === "" ? `Create ${noun}` : "Save changes"}
          </Button>
        </>
      }
    >
      {name === "" ? (
        form({})
      ) : (
        <Loaded resource={stored} label={titled(noun)}>
          {(shown) => (
            <>
              <Properties items={propertiesOf(shown, schema)} />
              {more?.(name)}
              {form(shown)}
            </>
          )}
        </Loaded>
      )}
    </Dialog>
  );
}

/** Stored fields that the form cannot change: ids, aliases, groups. */
const propertiesOf = (stored: FormValue, schema: JsonSchema): [string, ComponentChildren][] =>
  Object.entries(stored).flatMap(([field, value]) => {
    if (schema.properties?.[field] || value === null || field === "name" || field.includes("namespace")) return [];
    const texts = (Array.isArray(value) ? value : [value]).map((each) =>
      typeof each === "object" && each !== null ? `${each.name} (${each.mount_path ?? ""})` : String(each),
    );
    return [[titled(field.replaceAll("_", " ")), <span class="mono">{texts.join(", ")}</span>]];
  });

export const hasSecrets = (body: FormValue): boolean => Object.keys(body).some(isSecretName);

interface FormProps {
  readonly schema: JsonSchema;
  readonly first: readonly string[];
  readonly hidden?: readonly string[] | undefined;
  /** Sends all fields, not only those that were changed. */
  readonly replaces?: boolean | undefined;
  /** Stored secrets, which a write without them removes. */
  readonly secrets?: readonly string[];
  readonly before: FormValue;
  readonly requestOf: (body: FormValue) => ReturnType<typeof wireRequest>;
  readonly save: (body: FormValue) => Promise<void>;
  readonly children?: ComponentChildren;
}

const AGAIN = "One is stored, and not shown. A save replaces the whole configuration: enter it again.";

/** The form itself; a button with `form="settings"` sends it. */
export function SettingsForm({
  schema,
  first,
  hidden = [],
  replaces = false,
  secrets = [],
  before,
  requestOf,
  save,
  children,
}: FormProps) {
  const fields = Object.keys(schema.properties ?? {});
  const [stored] = useState(() =>
    formOf(Object.fromEntries(Object.entries(before).filter(([name]) => fields.includes(name))), replaces),
  );
  const [value, setValue] = useState(stored);
  const [removes, setRemoves] = useState(false);
  const body = replaces ? value : changedBody(stored, value);
  const write = useAction(() => save(body));
  const problems = fieldProblems(messagesOf(write.error));
  const shown = Object.entries(body).map(([name, entered]) => [name, isSecretName(name) ? "…" : entered]);
  return (
    <form
      id="settings"
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void write.run();
      }}
    >
      {children}
      <SchemaForm
        schema={{ ...schema, required: [...(schema.required ?? []), ...(removes ? [] : secrets)] }}
        value={value}
        onChange={setValue}
        texts={{ ...TEXTS, ...Object.fromEntries(secrets.map((name) => [name, { hint: AGAIN }])) }}
        first={first}
        hidden={["name", "id", "password_hash", ...hidden, ...(first.includes("policies") ? [] : OLD_NAMES)]}
        advanced={fields.filter((name) => !first.includes(name) && !secrets.includes(name))}
        problems={problems}
      />
      {secrets.length > 0 && (
        <Checkbox
          label={`Remove the stored ${secrets.map(labelOf).join(", ")}`}
          checked={removes}
          onChange={setRemoves}
        />
      )}
      {write.error !== null && <ErrorPanel error={write.error} />}
      <AsCommand request={requestOf(Object.fromEntries(shown))} />
    </form>
  );
}
