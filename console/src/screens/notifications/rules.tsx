import schema from "schema:POST /v1/sys/notifications/rules/{name}";
import { useState } from "preact/hooks";
import { type Api, api, apiFull, wireRequest } from "../../api/client.ts";
import { confirmDelete } from "../../components/confirm.tsx";
import { TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { type FormEnds, ListScreen } from "../../components/list-screen.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";
import { type FormValue, formOf } from "../../lib/settings.ts";
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

const needOf = (verb: "POST" | "DELETE", { name }: Pick<Rule, "name"> = { name: "" }) =>
  wireRequest(`${verb} /v1/sys/notifications/rules/{name}`, { ...ROOT, path: { name } });

export function Rules() {
  const rules = useResource(["notification-rules"], readRules);
  const remove = async ({ name }: Rule): Promise<void> => {
    const request = ["DELETE /v1/sys/notifications/rules/{name}", { ...ROOT, path: { name } }] as const;
    if (await confirmDelete("rule", name, "Messages that it has sent are resolved.", ...request)) rules.reload();
  };
  return (
    <ListScreen
      label="Rules"
      resource={rules}
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
      ]}
      menuOf={(rule, edit) => [
        { ...edit, needs: needOf("POST", rule) },
        {
          label: "Delete",
          icon: "trash",
          isDangerous: true,
          needs: needOf("DELETE", rule),
          onSelect: () => void remove(rule),
        },
      ]}
      add="Add rule"
      addNeeds={needOf("POST")}
      form={(rule, ends) => <RuleForm rule={rule} {...ends} />}
      none="No rule yet"
      request={wireRequest(LIST, ROOT)}
    >
      A rule sends a message to its channels while its condition holds. Add a channel first.
    </ListScreen>
  );
}

interface FormProps extends FormEnds {
  readonly rule: Rule | null;
}

/** Limits that only some conditions have. */
const LIMITS: Readonly<Record<string, readonly unknown[]>> = {
  within: ["backup-missing", "secret-expires", "root-secret-ends", "destination-key-ends"],
  percent: ["sync-queue-full"],
};

function RuleForm({ rule, onClose, onDone }: FormProps) {
  const [name, setName] = useState(rule?.name ?? "");
  const [value, setValue] = useState<FormValue>(() => {
    if (!rule) return { recovery: true };
    const { name: _, ...fields } = rule;
    return formOf(fields, true);
  });
  const channels = useResource(["notification-channels"], readChannels);
  const hidden = Object.keys(LIMITS).filter((field) => !LIMITS[field]?.includes(value["condition"]));
  const fields = Object.fromEntries(Object.entries(value).filter(([field]) => !hidden.includes(field)));
  const body = { ...fields, recovery: value["recovery"] === true } as Body;
  const options = { ...ROOT, path: { name }, body };
  const save = async (): Promise<void> => {
    await api(WRITE, options);
    toast(`The rule ${name} is saved.`);
    onDone();
  };
  const names = channels.value?.map((channel) => channel.name) ?? [];
  return (
    <FormDialog
      title={rule ? `Edit ${rule.name}` : "Add rule"}
      verb="Save rule"
      onClose={onClose}
      perform={save}
      request={wireRequest(WRITE, options)}
    >
      {({ problems }) => (
        <>
          <TextField label="Name" value={name} onChange={setName} required mono disabled={rule !== null} />
          <SchemaForm
            schema={{ ...schema, required: ["condition", "channels"] }}
            value={value}
            onChange={setValue}
            hidden={hidden}
            first={["condition", "channels", "for", "within", "percent", "severity"]}
            advanced={ADVANCED}
            problems={problems}
            texts={{
              condition: { names: CONDITIONS, hint: "" },
              channels: {
                rows: 2,
                list: names,
                hint:
                  channels.value?.length === 0 ? "There is none yet: add one first." : "The receivers of the message.",
              },
              severity: { hint: "PagerDuty and Opsgenie get it as the severity or priority of the alert." },
              for: { hint: "How long the condition lasts before the message is sent, such as 5m. Empty: no delay." },
              text: { rows: 3 },
            }}
          />
        </>
      )}
    </FormDialog>
  );
}
