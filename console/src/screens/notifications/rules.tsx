import schema from "schema:POST /v1/sys/notifications/rules/{name}";
import { useState } from "preact/hooks";
import { type Api, ApiError, api, apiFull, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirm } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Menu } from "../../components/menu.tsx";
import { Toolbar } from "../../components/page.tsx";
import { type FormValue, formOf, SchemaForm } from "../../components/schema-form.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import { durationText } from "../../lib/time.ts";
import { readChannels } from "./channels.tsx";
import { CONDITIONS, type Rule, SEVERITY } from "./words.ts";

const LIST = "LIST /v1/sys/notifications/rules";
const WRITE = "POST /v1/sys/notifications/rules/{name}";
const ROOT = { namespace: "" };
type Body = NonNullable<Api[typeof WRITE]["body"]>;

const ADVANCED = ["subjects", "group_by", "repeat", "recovery", "quiet_hours", "title", "text"];

async function readRules(signal: AbortSignal): Promise<Rule[]> {
  const { status, body } = await apiFull(LIST, { ...ROOT, signal, accept: [404], quiet: true });
  return status === 404 ? [] : Object.values(body.data.key_info);
}

export function Rules() {
  const rules = useResource(["notification-rules"], readRules);
  const [form, setForm] = useState<Rule | "new" | null>(null);
  const remove = async ({ name }: Rule): Promise<void> => {
    const request = ["DELETE /v1/sys/notifications/rules/{name}", { ...ROOT, path: { name } }] as const;
    const isDone = await confirm({
      title: `Delete the rule ${name}`,
      text: "Messages that it has sent are resolved.",
      verb: "Delete rule",
      isDangerous: true,
      request: wireRequest(...request),
      perform: () => api(...request),
    });
    if (isDone) rules.reload();
  };
  const add = (
    <Button icon="plus" onClick={() => setForm("new")}>
      Add rule
    </Button>
  );
  return (
    <>
      <Loaded resource={rules} label="Rules">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No rule yet" actions={add}>
              A rule says which condition is told to which channels. Add a channel first.
            </Empty>
          ) : (
            <>
              <Toolbar>{add}</Toolbar>
              <DataTable
                label="Rules"
                rows={rows}
                keyOf={({ name }) => name}
                columns={[
                  { key: "name", label: "Name", render: ({ name }) => name },
                  { key: "condition", label: "Condition", render: ({ condition }) => CONDITIONS[condition] },
                  {
                    key: "for",
                    label: "For",
                    width: "6rem",
                    isMinor: true,
                    render: (rule) => (rule.for === 0 ? "at once" : durationText(rule.for * 1000)),
                  },
                  {
                    key: "severity",
                    label: "Severity",
                    width: "7rem",
                    render: ({ severity }) => <Status tone={SEVERITY[severity]}>{severity}</Status>,
                  },
                  { key: "channels", label: "Channels", isMinor: true, render: ({ channels }) => channels.join(", ") },
                  {
                    key: "actions",
                    label: "Actions",
                    isLabelHidden: true,
                    width: "4rem",
                    align: "end",
                    render: (rule) => (
                      <Menu
                        label={`Actions of ${rule.name}`}
                        items={[
                          { label: "Edit", icon: "edit", onSelect: () => setForm(rule) },
                          { label: "Delete", icon: "trash", isDangerous: true, onSelect: () => void remove(rule) },
                        ]}
                      />
                    ),
                  },
                ]}
              />
            </>
          )
        }
      </Loaded>
      <AsCommand request={wireRequest(LIST, ROOT)} />
      {form !== null && (
        <RuleForm
          rule={form === "new" ? null : form}
          onClose={() => setForm(null)}
          onDone={() => {
            setForm(null);
            rules.reload();
          }}
        />
      )}
    </>
  );
}

interface FormProps {
  readonly rule: Rule | null;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Limits that only some conditions have. */
const LIMITS: Readonly<Record<string, readonly unknown[]>> = {
  within: ["backup-missing", "secret-expires", "root-secret-ends"],
  percent: ["sync-queue-full"],
};

function RuleForm({ rule, onClose, onDone }: FormProps) {
  const [name, setName] = useState(rule?.name ?? "");
  const [value, setValue] = useState<FormValue>(() => {
    if (!rule) return { recovery: true };
    const { name: _, ...fields } = rule;
    return formOf(fields);
  });
  const channels = useResource(["notification-channels"], readChannels);
  const hidden = Object.keys(LIMITS).filter((field) => !LIMITS[field]?.includes(value["condition"]));
  const fields = Object.fromEntries(Object.entries(value).filter(([field]) => !hidden.includes(field)));
  const body = { ...fields, recovery: value["recovery"] === true } as Body;
  const options = { ...ROOT, path: { name }, body };
  const save = useAction(async () => {
    await api(WRITE, options);
    toast(`The rule ${name} is saved.`);
    onDone();
  });
  const names = channels.value?.map((channel) => channel.name).join(", ");
  return (
    <Dialog
      title={rule ? `Edit ${rule.name}` : "Add rule"}
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="notification-rule" isBusy={save.isBusy}>
            Save rule
          </Button>
        </>
      }
    >
      <form
        id="notification-rule"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <TextField label="Name" value={name} onChange={setName} required mono disabled={rule !== null} />
        <SchemaForm
          schema={schema}
          value={value}
          onChange={setValue}
          hidden={hidden}
          first={["condition", "channels", "for", "within", "percent", "severity"]}
          advanced={ADVANCED}
          problems={fieldProblems(save.error instanceof ApiError ? save.error.messages : [])}
          texts={{
            condition: { names: CONDITIONS },
            channels: { rows: 2, ...(names ? { hint: `Channels: ${names}.` } : {}) },
            for: { hint: "How long it must last before it is sent, such as 5m. Empty: at once." },
            text: { rows: 3 },
          }}
        />
        {save.error !== null && <ErrorPanel error={save.error} />}
        <AsCommand request={wireRequest(WRITE, options)} />
      </form>
    </Dialog>
  );
}
