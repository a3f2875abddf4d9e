import schema from "schema:POST /v1/cloud-b/config";
import { useState } from "preact/hooks";
import { ApiError, api, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirm } from "../../components/confirm.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { type FieldTexts, type FormValue, SchemaForm } from "../../components/schema-form.tsx";
import { Loaded } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { type Resource, useAction } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import { durationText, now, timeOf } from "../../lib/time.ts";
import { type EngineConfig, isConfigured } from "./reads.ts";

const WRITE = "POST /v1/cloud-b/config";
const ROTATE = "POST /v1/cloud-b/rotate-root";

const TEXTS: Readonly<Record<string, FieldTexts>> = {
  subscription_id: { label: "Subscription ID" },
  tenant_id: { label: "Tenant ID", hint: "A UUID, or a domain of the tenant." },
  client_id: { label: "Client ID", hint: "Of the application that the engine acts as." },
  client_secret: { label: "Client secret", hint: "Never shown. Empty: it stays as it is." },
  environment: {
    label: "Cloud",
    placeholder: "AzurePublicCloud",
    list: ["AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud"],
  },
  identity_token_audience: {
    label: "Federation audience",
    placeholder: "api://AzureADTokenExchange",
    hint: "Logs in with a signed token instead of a client secret: see the tab Federation.",
  },
  identity_token_ttl: { label: "Life of identity tokens", placeholder: "1h" },
  root_password_ttl: { label: "Life of rotated secrets", placeholder: "182d" },
  rotation_period: { label: "Rotate every", placeholder: "30d" },
  rotation_schedule: { label: "Or on a schedule", placeholder: "0 3 * * 6", hint: "Cron with five fields, in UTC." },
  rotation_window: { label: "Window of the schedule", placeholder: "1h", hint: "How late a rotation may begin." },
  disable_automated_rotation: { label: "Do not rotate by itself" },
};

const FIRST = ["tenant_id", "subscription_id", "client_id", "client_secret", "rotation_period", "rotation_schedule"];

/** Settings as the form shows them; empty ones are left out. */
const formOf = (config: EngineConfig): FormValue =>
  Object.fromEntries(
    Object.entries(config)
      .filter(([name, value]) => name in (schema.properties ?? {}) && value !== "" && value !== 0 && value !== false)
      .map(([name, value]) => [name, typeof value === "number" ? String(value) : value]),
  );

function changesOf(before: FormValue, after: FormValue): FormValue {
  const changes: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)]))
    if (before[name] !== after[name]) changes[name] = after[name] ?? (before[name] === true ? false : "");
  return changes;
}

/** Configuration of an engine, and the rotation of its root secret. */
export function Config({ mount, config }: { readonly mount: string; readonly config: Resource<EngineConfig> }) {
  return (
    <Loaded resource={config} label="The configuration">
      {(settings) => (
        <div class="credentials-columns">
          <Settings key={JSON.stringify(settings)} mount={mount} settings={settings} onChanged={config.reload} />
          <Rotation mount={mount} settings={settings} onChanged={config.reload} />
        </div>
      )}
    </Loaded>
  );
}

interface PartProps {
  readonly mount: string;
  readonly settings: EngineConfig;
  readonly onChanged: () => void;
}

function Settings({ mount, settings, onChanged }: PartProps) {
  const [before] = useState(() => formOf(settings));
  const [value, setValue] = useState(before);
  const body = changesOf(before, value);
  const hasChanges = Object.keys(body).length > 0;
  const save = useAction(async () => {
    await api(WRITE, { mount, body, sensitive: true });
    toast(`${mount} is configured.`);
    onChanged();
  });
  const problems = fieldProblems(save.error instanceof ApiError ? save.error.messages : []);
  const remove = async (): Promise<void> => {
    const target = ["DELETE /v1/cloud-b/config", { mount }] as const;
    const done = await confirm({
      title: "Delete the configuration",
      text: <p>The engine forgets its tenant and its secret: it can neither issue credentials nor revoke them.</p>,
      verb: "Delete configuration",
      isDangerous: true,
      typed: mount,
      request: wireRequest(...target),
      perform: () => api(...target),
    });
    if (done) onChanged();
  };
  const shown = "client_secret" in body ? { ...body, client_secret: "…" } : body;
  return (
    <Card title="Configuration">
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <SchemaForm
          schema={schema}
          value={value}
          onChange={setValue}
          texts={TEXTS}
          first={FIRST}
          hidden={["rotation_policy"]}
          advanced={[
            "environment",
            "root_password_ttl",
            "identity_token_audience",
            "identity_token_ttl",
            "rotation_window",
            "disable_automated_rotation",
          ]}
          problems={problems}
        />
        {save.error !== null && <ErrorPanel error={save.error} />}
        <div class="row">
          <Button type="submit" kind="primary" isBusy={save.isBusy} disabled={!hasChanges}>
            Save configuration
          </Button>
          {isConfigured(settings) && (
            <Button kind="quiet" icon="trash" onClick={() => void remove()}>
              Delete configuration
            </Button>
          )}
        </div>
        <AsCommand request={wireRequest(WRITE, { mount, body: shown })} />
      </form>
    </Card>
  );
}

function Rotation({ mount, settings, onChanged }: PartProps) {
  const { rotation_period: period, rotation_schedule: schedule, root_password_expiration_date: ends } = settings;
  const isFederated = settings.identity_token_audience !== "";
  const rotate = async (): Promise<void> => {
    const done = await confirm({
      title: "Rotate the root secret",
      text: (
        <p>
          A new secret is made and tried before the old one is removed. From then on only the service knows it: whatever
          else uses the old secret stops working.
        </p>
      ),
      verb: "Rotate root secret",
      request: wireRequest(ROTATE, { mount }),
      perform: async () => {
        const answer = await api(ROTATE, { mount });
        toast(answer?.warnings?.join(" ") ?? "The root secret is rotated.", answer?.warnings ? "warn" : "ok");
      },
    });
    if (done) onChanged();
  };
  const plan = settings.disable_automated_rotation
    ? "switched off"
    : period > 0
      ? `every ${durationText(period * 1000)}`
      : schedule
        ? `on the schedule ${schedule} (UTC)`
        : "by hand only";
  const next = settings.next_rotation_date;
  return (
    <Card title="Root secret">
      {isFederated ? (
        <p class="muted">This engine logs in by federation: there is no secret to rotate.</p>
      ) : (
        <div class="stack">
          <Properties
            items={[
              ["Rotation", plan],
              ["Next rotation", next && <When at={next} />],
              [
                "Valid for",
                ends ? (
                  <Countdown to={ends} />
                ) : (
                  <span class="muted">not known: the secret was given, not made by a rotation</span>
                ),
              ],
            ]}
          />
          <div class="row">
            <Button icon="refresh" onClick={() => void rotate()} disabled={!isConfigured(settings)}>
              Rotate root secret now
            </Button>
          </div>
        </div>
      )}
    </Card>
  );
}

/** A time to come counts down; one that has passed says how long ago. */
function When({ at }: { readonly at: string }) {
  return (timeOf(at) ?? 0) > now.value ? (
    <>
      in <Countdown to={at} />
    </>
  ) : (
    <Ago at={at} />
  );
}
