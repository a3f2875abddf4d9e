import { useState } from "preact/hooks";
import type { RoleKind } from "../../../../src/credentials/engines/description.ts";
import { api, messagesOf, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirm, confirmed } from "../../components/confirm.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Loaded } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { type Resource, useAction, useResource } from "../../lib/resource.ts";
import { fieldProblems, labelOf } from "../../lib/schema.ts";
import { type FormValue, formOf } from "../../lib/settings.ts";
import { durationText, now, timeOf } from "../../lib/time.ts";
import { DryRun } from "./dry-run.tsx";
import { type EngineForm, formFor } from "./engine-types.ts";
import { type Engine, type EngineConfig, isConfigured, operations, readConfig } from "./reads.ts";

/** Settings as the form shows them; empty ones are left out. */
const shownOf = ({ schema }: EngineForm, config: EngineConfig): FormValue =>
  formOf(Object.fromEntries(Object.entries(config).filter(([name]) => name in (schema.properties ?? {}))));

function changesOf(before: FormValue, after: FormValue): FormValue {
  const changes: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)]))
    if (JSON.stringify(before[name]) !== JSON.stringify(after[name])) changes[name] = after[name] ?? "";
  return changes;
}

/** Configuration of an engine, its further documents, and the rotation of its root secret. */
export function Config({
  engine,
  config,
}: {
  readonly engine: Engine;
  readonly config: Resource<EngineConfig | null>;
}) {
  const { type } = engine;
  return (
    <Loaded resource={config} label="The configuration">
      {(settings) => {
        const shared = { engine, settings: settings ?? {}, onChanged: config.reload };
        return (
          <div class="credentials-columns">
            <Settings
              key={JSON.stringify(settings)}
              {...shared}
              title="Configuration"
              path={type.paths.config}
              fields={type.config}
              onDelete={!type.keepsConfig && isConfigured(engine, settings)}
            />
            <div class="stack">
              {type.paths.rotate !== null && <Rotation {...shared} isReady={isConfigured(engine, settings)} />}
              {type.paths.dryRun !== undefined && isConfigured(engine, settings) && <DryRun engine={engine} />}
              {Object.entries(type.documents ?? {}).map(([path, fields]) => (
                <Document key={path} engine={engine} path={path} fields={fields} />
              ))}
            </div>
          </div>
        );
      }}
    </Loaded>
  );
}

interface DocumentProps {
  readonly engine: Engine;
  readonly path: string;
  readonly fields: RoleKind["fields"];
}

/** A further document of the configuration. */
function Document({ engine, path, fields }: DocumentProps) {
  const document = useResource(["document", engine.path, path], (signal) => readConfig(engine, signal, path));
  const title = labelOf(path.slice(path.lastIndexOf("/") + 1));
  return (
    <Loaded resource={document} label={title}>
      {(settings) => (
        <Settings
          key={JSON.stringify(settings)}
          {...{ engine, title, path, fields, settings: settings ?? {}, onChanged: document.reload, onDelete: false }}
        />
      )}
    </Loaded>
  );
}

interface PartProps {
  readonly engine: Engine;
  readonly settings: EngineConfig;
  readonly onChanged: () => void;
}

interface SettingsProps extends PartProps, DocumentProps {
  readonly title: string;
  /** Whether there is something to delete. */
  readonly onDelete: boolean;
}

function Settings({
  engine: { path: mount, type },
  settings,
  onChanged,
  title,
  path,
  fields,
  onDelete,
}: SettingsProps) {
  const form = formFor(type, path, fields);
  const [before] = useState(() => shownOf(form, settings));
  const [value, setValue] = useState(before);
  const changes = changesOf(before, value);
  const hasChanges = Object.keys(changes).length > 0;
  const kept = form.restored.filter((name) => name in value).map((name) => [name, value[name]]);
  const body = { ...Object.fromEntries(kept), ...changes };
  const write = operations.writeConfig(type, path);
  const save = useAction(async () => {
    await api(write, { mount, body, sensitive: true });
    toast(`${mount} is configured.`);
    onChanged();
  });
  const problems = fieldProblems(messagesOf(save.error));
  const remove = async (): Promise<void> => {
    const target = [operations.deleteConfig(type), { mount }] as const;
    const done = await confirmed(
      {
        title: "Delete the configuration",
        text: <p>The engine forgets its identity at {type.label}: it can neither issue credentials nor revoke them.</p>,
        verb: "Delete configuration",
        isDangerous: true,
        typed: mount,
      },
      ...target,
    );
    if (done) onChanged();
  };
  const shown = Object.fromEntries(
    Object.entries(body).map(([name, entered]) => [name, form.secrets.includes(name) ? "…" : entered]),
  );
  const label = title.toLowerCase();
  return (
    <Card title={title}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <SchemaForm {...form} value={value} onChange={setValue} problems={problems} />
        {save.error !== null && <ErrorPanel error={save.error} />}
        <div class="row">
          <Button
            type="submit"
            kind="primary"
            isBusy={save.isBusy}
            disabled={!hasChanges}
            needs={wireRequest(write, { mount })}
          >
            Save {label}
          </Button>
          {onDelete && (
            <Button kind="quiet" icon="trash" needs={`DELETE ${mount}/config`} onClick={() => void remove()}>
              Delete {label}
            </Button>
          )}
        </div>
        <AsCommand request={wireRequest(write, { mount, body: shown })} />
      </form>
    </Card>
  );
}

function Rotation({
  engine: { path: mount, type },
  settings,
  onChanged,
  isReady,
}: PartProps & { readonly isReady: boolean }) {
  const { rotation_period: period = 0, rotation_schedule: schedule, root_password_expiration_date: ends } = settings;
  const isFederated = Boolean(settings.identity_token_audience);
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
      request: wireRequest(operations.rotate(type), { mount }),
      perform: async () => {
        const answer = await api(operations.rotate(type), { mount });
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
            <Button
              icon="refresh"
              needs={`POST ${mount}/rotate-root`}
              onClick={() => void rotate()}
              disabled={!isReady}
            >
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
