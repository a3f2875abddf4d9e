import schema from "schema:POST /v1/sys/notifications/channels/{name}";
import { useState } from "preact/hooks";
import { type Api, api, apiFull, wireRequest } from "../../api/client.ts";
import { Button } from "../../components/button.tsx";
import { confirmDelete } from "../../components/confirm.tsx";
import { TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { type FormEnds, ListScreen } from "../../components/list-screen.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";
import type { FormValue } from "../../lib/settings.ts";
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

const USUAL: ReadonlySet<unknown> = new Set(["pagerduty", "opsgenie", "sendgrid", "postmark"]);

/** Fields that a new channel needs. The services of `USUAL` have one address for all. */
const needed = (type: unknown): string[] =>
  ["type", "url", "secret", "from", "to"].filter((field) => field !== "url" || !USUAL.has(type));

/** Hints of the URL. */
const URLS: Readonly<Record<string, string>> = {
  webhook: "Begins with https://. The host must be public.",
  slack: "The URL of an incoming webhook: https://hooks.slack.com/services/…",
  teams: "The URL of a workflow with the trigger: When a Teams webhook request is received.",
  mailgun: "https://api.mailgun.net/v3/DOMAIN/messages",
};

const SECRETS: Readonly<Record<string, string>> = {
  webhook: "Signing secret",
  pagerduty: "Integration key",
  opsgenie: "API key",
  sendgrid: "API key",
  postmark: "Server token",
  mailgun: "Sending key",
};

/** Where messages go, whether they arrive, and a test. */
const needOf = (verb: "POST" | "DELETE", { name }: Pick<Channel, "name"> = { name: "" }) =>
  wireRequest(`${verb} /v1/sys/notifications/channels/{name}`, { ...ROOT, path: { name } });

export function Channels() {
  const channels = useResource(["notification-channels"], readChannels, { everyMs: 10_000 });
  const [tested, setTested] = useState("");

  const test = async ({ name }: Channel): Promise<void> => {
    setTested(name);
    try {
      const { data } = await api(TEST, { ...ROOT, path: { name } });
      if (data.delivered) toast(`The test of ${name} was delivered.`);
      else toast(`The test of ${name} failed, and is sent again: ${data.error ?? "no outcome"}`, "bad");
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
    const text = "Messages that were not delivered yet are lost. A channel that a rule sends to is kept.";
    if (await confirmDelete("channel", name, text, ...request)) channels.reload();
  };
  return (
    <ListScreen
      label="Channels"
      resource={channels}
      keyOf={({ name }) => name}
      columns={[
        { key: "name", label: "Name", render: ({ name }) => name },
        { key: "type", label: "Service", render: ({ type }) => SERVICES[type] },
        { key: "to", label: "To", isMinor: true, render: ({ url, to }) => to?.join(", ") ?? url },
        { key: "state", label: "State", render: (channel) => <State channel={channel} /> },
      ]}
      buttonsOf={(channel) => (
        <Button
          needs={wireRequest(TEST, { ...ROOT, path: channel })}
          onClick={() => void test(channel)}
          isBusy={tested === channel.name}
        >
          Test
        </Button>
      )}
      menuOf={(channel, edit) => [
        { ...edit, needs: needOf("POST", channel) },
        ...(channel.paused === null && channel.dead_letters === 0
          ? []
          : [
              {
                label: channel.paused === null ? "Forget what was not delivered" : "Resume",
                icon: "play" as const,
                needs: wireRequest(RESUME, { ...ROOT, path: channel }),
                onSelect: () => void resume(channel),
              },
            ]),
        {
          label: "Delete",
          icon: "trash",
          isDangerous: true,
          needs: needOf("DELETE", channel),
          onSelect: () => void remove(channel),
        },
      ]}
      add="Add channel"
      addNeeds={needOf("POST")}
      form={(channel, ends) => <ChannelForm channel={channel} {...ends} />}
      none="No channel yet"
      request={wireRequest(LIST, ROOT)}
    >
      A channel is where messages go: Slack, Teams, PagerDuty, Opsgenie, e-mail or a webhook.
    </ListScreen>
  );
}

function State({ channel: { paused, last_error, dead_letters } }: { readonly channel: Channel }) {
  if (paused !== null) return <Status tone="bad">{`Paused: ${paused}`}</Status>;
  if (last_error !== null) return <Status tone="warn">{`Not delivered, sent again: ${last_error}`}</Status>;
  if (dead_letters > 0) return <Status tone="warn">{`${plural(dead_letters, "message")} not delivered`}</Status>;
  return <Status tone="ok">No failure so far</Status>;
}

interface FormProps extends FormEnds {
  readonly channel: Channel | null;
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
  const save = async (): Promise<void> => {
    await api(WRITE, options);
    toast(`The channel ${name} is saved. Send a test.`);
    onDone();
  };
  const kept = channel ? "Empty: as before." : undefined;
  return (
    <FormDialog
      title={channel ? `Edit ${channel.name}` : "Add channel"}
      verb="Save channel"
      onClose={onClose}
      perform={save}
      request={wireRequest(WRITE, options)}
    >
      {({ problems }) => (
        <>
          <TextField label="Name" value={name} onChange={setName} required mono disabled={channel !== null} />
          <SchemaForm
            schema={{ ...schema, required: channel ? ["type"] : needed(value["type"]) }}
            value={value}
            onChange={setValue}
            hidden={hidden}
            first={["type", "url", "secret", "from", "to"]}
            problems={problems}
            texts={{
              type: { label: "Service", names: SERVICES },
              url: {
                label: "URL",
                hint:
                  kept && hidden.includes("secret")
                    ? kept
                    : (URLS[String(value["type"])] ?? "Only for another address than the default of the service."),
              },
              secret: {
                label: SECRETS[String(value["type"])] ?? "Secret",
                isSecret: true,
                ...(kept ? { hint: kept } : {}),
              },
              to: { rows: 2 },
            }}
          />
        </>
      )}
    </FormDialog>
  );
}
