import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { type Resource, useAction } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import { count, providerName } from "../../lib/text.ts";
import { destinationHref } from "./addresses.ts";
import type { SyncFigures } from "./figures.ts";
import type { DestinationRef, Figures } from "./reads.ts";

type Config = Schemas["SyncConfig"];

const change = (body: Partial<Config>) => ["PATCH /v1/sys/sync/config", { body }] as const;

export function askToPause(): Promise<boolean> {
  return confirmed(
    {
      title: "Pause all syncing",
      text: (
        <p>
          No call to any provider starts until you resume, in any namespace. Nothing is forgotten: changes of secrets
          are kept as pending.
        </p>
      ),
      verb: "Pause all syncing",
    },
    ...change({ disabled: true }),
  );
}

export const resume = () => api(...change({ disabled: false }));

/** Pause, capacity, and what waits where. */
export function Queue({
  config,
  figures,
}: {
  readonly config: Resource<Config | null>;
  readonly figures: SyncFigures;
}) {
  return (
    <Loaded resource={config} label="The configuration">
      {(settings) => (
        <div class="sync-queue">
          {settings ? (
            <Capacity settings={settings} figures={figures} onChanged={config.reload} />
          ) : (
            <p class="notice">
              Your token may not see the queue (<code>sys/sync/config</code>: read). It belongs to the whole service,
              and only the root and the administrative namespace show it.
            </p>
          )}
          <Waiting figures={figures} />
        </div>
      )}
    </Loaded>
  );
}

function Capacity({
  settings,
  figures: { metrics },
  onChanged,
}: {
  readonly settings: Config;
  readonly figures: SyncFigures;
  readonly onChanged: () => void;
}) {
  const [entered, setEntered] = useState(String(settings.queue_capacity));
  const queued = [...(metrics?.byDestination.values() ?? [])].reduce((all, each) => all + each.queued, 0);
  const wanted = { queue_capacity: Number(entered) };
  const save = useAction(async () => {
    await api(...change(wanted));
    toast(`The queue holds ${count(wanted.queue_capacity)} operations at most.`);
    onChanged();
  });
  const problems = fieldProblems(save.error && save.error instanceof Error ? [save.error.message] : []);
  return (
    <Card title="Queue">
      <Properties
        items={[
          ["State", settings.disabled ? <Status tone="warn">Paused</Status> : <Status tone="ok">Running</Status>],
          ["In use", metrics && `${count(queued)} of ${count(settings.queue_capacity)} places`],
          [
            "Reserved ahead",
            metrics?.granted && `${count(metrics.granted)} places, by destinations for their next work`,
          ],
        ]}
      />
      <form
        class="form sync-capacity"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <TextField
          label="Capacity"
          type="number"
          value={entered}
          onChange={setEntered}
          error={problems["queue_capacity"]}
          hint="Operations that may be queued over all destinations. A full queue refuses to set further secrets; changes of secrets wait."
        />
        {save.error !== null && !problems["queue_capacity"] && <ErrorPanel error={save.error} />}
        <div class="row">
          <Button
            type="submit"
            isBusy={save.isBusy}
            disabled={!(wanted.queue_capacity >= 1)}
            needs="PATCH sys/sync/config"
          >
            Set capacity
          </Button>
        </div>
        <AsCommand request={wireRequest(...change(wanted))} />
      </form>
    </Card>
  );
}

type Row = readonly [key: string, figures: Figures];

/** Of the key `TYPE/NAME`. */
function refOf(key: string): DestinationRef {
  const [type = "", name = ""] = key.split("/");
  return { type, name };
}

const COLUMNS: readonly Column<Row>[] = [
  { key: "destination", label: "Destination", render: ([key]) => refOf(key).name, sort: ([key]) => refOf(key).name },
  {
    key: "provider",
    label: "Provider",
    isMinor: true,
    render: ([key]) => providerName(refOf(key).type),
    sort: ([key]) => providerName(refOf(key).type),
  },
  {
    key: "queued",
    label: "Queued",
    width: "8rem",
    align: "end",
    sort: ([, row]) => row.queued,
    render: ([, row]) => count(row.queued),
  },
  {
    key: "waiting",
    label: "Waits for room",
    width: "9rem",
    align: "end",
    sort: ([, row]) => row.waiting,
    render: ([, row]) => count(row.waiting),
  },
  {
    key: "tries",
    label: "Tries so far",
    width: "9rem",
    align: "end",
    isMinor: true,
    sort: ([, row]) => row.tries,
    render: ([, row]) => count(row.tries),
  },
];

function Waiting({ figures: { metrics } }: { readonly figures: SyncFigures }) {
  if (!metrics)
    return (
      <p class="muted">
        Your token may not see figures of each destination (<code>sys/metrics</code>: read, in the root namespace).
      </p>
    );
  const rows = [...metrics.byDestination].sort(([, a], [, b]) => b.queued + b.waiting - (a.queued + a.waiting));
  return (
    <div>
      <DataTable
        label="Queue by destination"
        rows={rows}
        columns={COLUMNS}
        keyOf={([key]) => key}
        hrefOf={([key]) => destinationHref(refOf(key))}
        empty={<Empty title="Nothing is queued" />}
      />
    </div>
  );
}
