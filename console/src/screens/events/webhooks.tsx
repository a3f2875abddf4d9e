/** Subscriptions that deliver the event stream to a webhook or a queue. */
import { useState } from "preact/hooks";
import { type Api, api, type Schemas, wireRequest } from "../../api/client.ts";
import { Button } from "../../components/button.tsx";
import { confirmDelete } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { type FormEnds, ListScreen } from "../../components/list-screen.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useLive } from "../../lib/live.ts";
import { plural } from "../../lib/text.ts";
import { durationText, now, timeOf } from "../../lib/time.ts";
import { TOPICS } from "./topics.ts";

type Subscription = Schemas["EventSubscription"];

const LIST = "GET /v1/event/subscriptions";
const ONE = "PUT /v1/event/subscription/{name}";
type Body = Api[typeof ONE]["body"];

const needOf = (verb: "PUT" | "DELETE", { Name }: Pick<Subscription, "Name"> = { Name: "" }) =>
  wireRequest(`${verb} /v1/event/subscription/{name}`, { path: { name: Name } } as never);

export function Webhooks() {
  const subscriptions = useLive(["subscriptions"], (options) => api(LIST, options));
  const set = async ({ Name: name }: Subscription, verb: "pause" | "resume"): Promise<void> => {
    await api(`POST /v1/event/subscription/{name}/${verb}`, { path: { name } }).catch((failure: Error) =>
      toast(failure.message, "bad"),
    );
    subscriptions.reload();
  };
  const remove = async ({ Name: name }: Subscription): Promise<void> => {
    const request = ["DELETE /v1/event/subscription/{name}", { path: { name } }] as const;
    if (await confirmDelete("subscription", name, "Its dead letters are deleted, too.", ...request))
      subscriptions.reload();
  };
  return (
    <ListScreen
      label="Webhooks"
      resource={subscriptions}
      keyOf={({ Name }) => Name}
      columns={[
        { key: "name", label: "Name", render: ({ Name }) => Name },
        { key: "to", label: "To", render: ({ Target }) => Target.URL ?? "Queue" },
        { key: "topics", label: "Topics", isMinor: true, render: ({ Topics }) => linesOf(Topics).join(", ") },
        { key: "state", label: "State", width: "11rem", render: (row) => <State row={row} /> },
        { key: "failure", label: "Last failure", render: ({ LastError }) => LastError },
      ]}
      buttonsOf={(row) => (
        <Button needs={needOf("PUT", row)} onClick={() => void set(row, row.Paused === null ? "pause" : "resume")}>
          {row.Paused === null ? "Pause" : "Resume"}
        </Button>
      )}
      menuOf={(row, edit) => [
        { ...edit, needs: needOf("PUT", row) },
        {
          label: "Delete",
          icon: "trash",
          isDangerous: true,
          needs: needOf("DELETE", row),
          onSelect: () => void remove(row),
        },
      ]}
      add="Add webhook"
      addNeeds={needOf("PUT")}
      form={(row, ends) => <Form row={row} {...ends} />}
      none="No webhook yet"
      request={wireRequest(LIST)}
    >
      A webhook gets the events of the cluster as signed requests, in order. Messages to people are notifications.
    </ListScreen>
  );
}

function State({ row }: { readonly row: Subscription }) {
  const retry = timeOf(row.RetryAt);
  if (row.Paused !== null) return <Status tone="off">{`Paused: ${row.Paused}`}</Status>;
  if (row.Attempts > 0)
    return (
      <Status tone="warn">
        {`${plural(row.Attempts, "failed attempt")}${retry ? `, next in ${durationText(retry - now.value)}` : ""}`}
      </Status>
    );
  if (row.DeadLetters > 0) return <Status tone="warn">{plural(row.DeadLetters, "dead letter")}</Status>;
  return <Status tone="ok">{`Up to ${row.DeliveredIndex}`}</Status>;
}

/** `Job`, or `Job:shop` for one key. */
const linesOf = (topics: Subscription["Topics"]): string[] =>
  Object.entries(topics).flatMap(([topic, keys]) => keys.map((key) => (key === "*" ? topic : `${topic}:${key}`)));

function topicsOf(lines: string): Subscription["Topics"] {
  const topics: Record<string, string[]> = {};
  for (const line of lines.split("\n")) {
    const [topic = "", ...key] = line.trim().split(":");
    if (topic) (topics[topic] ??= []).push(key.join(":") || "*");
  }
  return topics;
}

/** A signing secret of the form that the service takes. */
const newSecret = (): string => `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;

function Form({ row, onClose, onDone }: FormEnds & { readonly row: Subscription | null }) {
  const [name, setName] = useState(row?.Name ?? "");
  const [type, setType] = useState(row?.Target.Type ?? "webhook");
  const [url, setUrl] = useState(row?.Target.URL ?? "");
  const [secret, setSecret] = useState(() => (row ? "" : newSecret()));
  const [topics, setTopics] = useState(linesOf(row?.Topics ?? {}).join("\n"));
  const [namespace, setNamespace] = useState(row?.Namespace ?? "*");
  const asked = topicsOf(topics);
  const body: Body = {
    ...(Object.keys(asked).length > 0 && { Topics: asked }),
    Namespace: namespace,
    Target: { Type: type, ...(type === "webhook" && { URL: url, ...(secret && { Secret: secret }) }) },
    ...(row && { MaxAttempts: row.MaxAttempts }),
  };
  const options = { path: { name }, body, sensitive: true };
  return (
    <FormDialog
      title={row ? `Edit ${row.Name}` : "Add webhook"}
      verb="Save webhook"
      onClose={onClose}
      perform={async () => {
        await api(ONE, options);
        onDone();
      }}
      request={wireRequest(ONE, options)}
    >
      {({ problems }) => (
        <>
          <TextField label="Name" value={name} onChange={setName} required mono disabled={row !== null} />
          <SelectField
            label="Deliver to"
            value={type}
            onChange={(chosen) => setType(chosen as typeof type)}
            options={[
              { value: "webhook", label: "Webhook" },
              { value: "queue", label: "Cloudflare Queue" },
            ]}
          />
          {type === "webhook" && (
            <>
              <TextField
                label="URL"
                value={url}
                onChange={setUrl}
                required
                mono
                hint="Begins with https://. The host must be public."
                error={problems["Target.URL"]}
              />
              <TextField
                label="Signing secret"
                value={secret}
                onChange={setSecret}
                mono
                hint={row ? "Empty: as before." : "Copy it to the receiver: it is not shown again."}
                error={problems["Target.Secret"]}
              />
              {secret && <CopyButton text={secret} label="the signing secret" />}
            </>
          )}
          <TextField
            label="Topics"
            value={topics}
            onChange={setTopics}
            rows={3}
            mono
            hint={`One per line, such as Job, or Job:shop for one object. Empty: all. There are ${TOPICS.map(([topic]) => topic).join(", ")}.`}
            error={problems["Topics"]}
          />
          <TextField
            label="Namespace"
            value={namespace}
            onChange={setNamespace}
            mono
            hint="A star stands for all."
            error={problems["Namespace"]}
          />
        </>
      )}
    </FormDialog>
  );
}
