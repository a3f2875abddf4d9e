import schema from "schema:POST /v1/sys/notifications/channels/{name}";
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
import { type FormValue, SchemaForm } from "../../components/schema-form.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import { plural } from "../../lib/text.ts";
import { type Channel, SERVICES } from "./words.ts";

const LIST = "LIST /v1/sys/notifications/channels";
const WRITE = "POST /v1/sys/notifications/channels/{name}";
const TEST = "POST /v1/sys/notifications/channels/{name}/test";
const RESUME = "POST /v1/sys/notifications/channels/{name}/resume";
const ROOT = { namespace: "" };
type Body = NonNullable<Api[typeof WRITE]["body"]>;

export async function readChannels(signal: AbortSignal): Promise<Channel[]> {
  const { status, body } = await apiFull(LIST, { ...ROOT, signal, accept: [404], quiet: true });
  return status === 404 ? [] : Object.values(body.data.key_info);
}

/** Fields that a type has no use for. */
function unused(type: unknown): string[] {
  if (type === "slack" || type === "teams") return ["secret", "from", "to"];
  const isMail = type === "sendgrid" || type === "postmark" || type === "mailgun";
  return type === undefined ? ["url", "secret", "from", "to"] : isMail ? [] : ["from", "to"];
}

const SECRETS: Readonly<Record<string, string>> = {
  webhook: "Signing secret",
  pagerduty: "Integration key",
  opsgenie: "API key",
  sendgrid: "API key",
  postmark: "Server token",
  mailgun: "Sending key",
};

/** Where messages go, whether they arrive, and a test. */
export function Channels() {
  const channels = useResource(["notification-channels"], readChannels, { everyMs: 10_000 });
  const [form, setForm] = useState<Channel | "new" | null>(null);
  const [tested, setTested] = useState("");

  const test = async ({ name }: Channel): Promise<void> => {
    setTested(name);
    try {
      const { data } = await api(TEST, { ...ROOT, path: { name } });
      if (data.delivered) toast(`The test of ${name} was delivered.`);
      else toast(`The test of ${name} failed: ${data.error ?? "no outcome"}. It is sent again.`, "bad");
    } catch (failure) {
      toast(failure instanceof Error ? failure.message : String(failure), "bad");
    } finally {
      setTested("");
      channels.reload();
    }
  };
  const resume = async ({ name }: Channel): Promise<void> => {
    await api(RESUME, { ...ROOT, path: { name } }).catch((failure: Error) => toast(failure.message, "bad"));
    channels.reload();
  };
  const remove = async ({ name }: Channel): Promise<void> => {
    const request = ["DELETE /v1/sys/notifications/channels/{name}", { ...ROOT, path: { name } }] as const;
    const isDone = await confirm({
      title: `Delete the channel ${name}`,
      text: "Messages that were not delivered yet are lost. A channel that a rule sends to is kept.",
      verb: "Delete channel",
      isDangerous: true,
      request: wireRequest(...request),
      perform: () => api(...request),
    });
    if (isDone) channels.reload();
  };
  const add = (
    <Button icon="plus" onClick={() => setForm("new")}>
      Add channel
    </Button>
  );
  return (
    <>
      <Loaded resource={channels} label="Channels">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No channel yet" actions={add}>
              A channel is where messages go: Slack, Teams, PagerDuty, Opsgenie, e-mail or a webhook.
            </Empty>
          ) : (
            <>
              <Toolbar>{add}</Toolbar>
              <DataTable
                label="Channels"
                rows={rows}
                keyOf={({ name }) => name}
                columns={[
                  { key: "name", label: "Name", render: ({ name }) => name },
                  { key: "type", label: "Service", render: ({ type }) => SERVICES[type] },
                  { key: "to", label: "To", isMinor: true, render: ({ url, to }) => to?.join(", ") ?? url },
                  { key: "state", label: "State", render: (channel) => <State channel={channel} /> },
                  {
                    key: "actions",
                    label: "Actions",
                    isLabelHidden: true,
                    width: "9rem",
                    align: "end",
                    render: (channel) => (
                      <span class="button-row">
                        <Button onClick={() => void test(channel)} isBusy={tested === channel.name}>
                          Test
                        </Button>
                        <Menu
                          label={`Actions of ${channel.name}`}
                          items={[
                            { label: "Edit", icon: "edit", onSelect: () => setForm(channel) },
                            ...(channel.paused === null
                              ? []
                              : [{ label: "Resume", icon: "play" as const, onSelect: () => void resume(channel) }]),
                            { label: "Delete", icon: "trash", isDangerous: true, onSelect: () => void remove(channel) },
                          ]}
                        />
                      </span>
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
        <ChannelForm
          channel={form === "new" ? null : form}
          onClose={() => setForm(null)}
          onDone={() => {
            setForm(null);
            channels.reload();
          }}
        />
      )}
    </>
  );
}

function State({ channel: { paused, last_error, dead_letters } }: { readonly channel: Channel }) {
  if (paused !== null) return <Status tone="bad">{`Paused: ${paused}`}</Status>;
  if (last_error !== null) return <Status tone="warn">{`Sent again: ${last_error}`}</Status>;
  if (dead_letters > 0) return <Status tone="warn">{`${plural(dead_letters, "message")} not delivered`}</Status>;
  return <Status tone="ok">Works</Status>;
}

interface FormProps {
  readonly channel: Channel | null;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function ChannelForm({ channel, onClose, onDone }: FormProps) {
  const [name, setName] = useState(channel?.name ?? "");
  const [value, setValue] = useState<FormValue>(() => {
    if (!channel) return {};
    const { type, url, from, to } = channel;
    // A URL that is a secret is shown in part, and kept unless another one is entered.
    return { type, ...(url.endsWith("/…") ? {} : { url }), ...(from ? { from } : {}), ...(to ? { to } : {}) };
  });
  const hidden = unused(value["type"]);
  const body = Object.fromEntries(Object.entries(value).filter(([field]) => !hidden.includes(field))) as Body;
  const options = { ...ROOT, path: { name }, body, sensitive: true };
  const save = useAction(async () => {
    await api(WRITE, options);
    toast(`The channel ${name} is saved. Send a test.`);
    onDone();
  });
  const kept = channel ? "Empty: as before." : undefined;
  return (
    <Dialog
      title={channel ? `Edit ${channel.name}` : "Add channel"}
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="channel-form" isBusy={save.isBusy}>
            Save channel
          </Button>
        </>
      }
    >
      <form
        id="channel-form"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <TextField label="Name" value={name} onChange={setName} required mono disabled={channel !== null} />
        <SchemaForm
          schema={schema}
          value={value}
          onChange={setValue}
          hidden={hidden}
          first={["type", "url", "secret", "from", "to"]}
          problems={fieldProblems(save.error instanceof ApiError ? save.error.messages : [])}
          texts={{
            type: { label: "Service", names: SERVICES },
            url: { label: "URL", ...(kept && hidden.includes("secret") ? { hint: kept } : {}) },
            secret: {
              label: SECRETS[String(value["type"])] ?? "Secret",
              isSecret: true,
              ...(kept ? { hint: kept } : {}),
            },
            to: { rows: 2 },
          }}
        />
        {save.error !== null && <ErrorPanel error={save.error} />}
        <AsCommand request={wireRequest(WRITE, options)} />
      </form>
    </Dialog>
  );
}
