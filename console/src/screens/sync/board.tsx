import { Button, LinkButton } from "../../components/button.tsx";
import { Page } from "../../components/page.tsx";
import { Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { count, plural } from "../../lib/text.ts";
import { createHref } from "./addresses.ts";
import { Apps } from "./apps.tsx";
import { DestinationList } from "./destinations.tsx";
import { useSyncFigures } from "./figures.ts";
import { Matrix } from "./matrix.tsx";
import { askToPause, Queue, resume } from "./queue.tsx";
import { isFailing, readConfig, readDestinations } from "./reads.ts";
import { SyncSecretButton } from "./sync-secret.tsx";

const FRESH_MS = 10_000;

/** All destinations, all synced secrets, the queue. */
export function Board() {
  const destinations = useResource(["destinations"], readDestinations, { everyMs: FRESH_MS });
  const config = useResource(["sync config"], readConfig, { everyMs: FRESH_MS });
  const figures = useSyncFigures();
  const resuming = useAction(async () => {
    await resume();
    config.reload();
    toast("Syncing goes on.");
  });
  const settings = config.value;
  const list = destinations.value;
  return (
    <Page
      title="Sync"
      about="Keeps copies of secrets at cloud providers, repositories and deployments up to date."
      actions={
        <>
          {settings && !settings.disabled && (
            <Button
              icon="pause"
              onClick={() => void askToPause().then((done) => done && config.reload())}
              title="Stops all calls to providers, for all destinations"
            >
              Pause syncing
            </Button>
          )}
          {list && list.length > 0 && <SyncSecretButton destinations={list} onDone={destinations.reload} />}
          <LinkButton href={createHref()} icon="plus" kind="primary">
            Create destination
          </LinkButton>
        </>
      }
    >
      {settings?.disabled && (
        <div class="notice notice-warn sync-paused" role="status">
          <Status tone="warn">Syncing is paused</Status>
          <span>No call to any provider starts. Changes are kept as pending, and go out when syncing goes on.</span>
          <Button icon="play" onClick={() => void resuming.run()} isBusy={resuming.isBusy}>
            Resume syncing
          </Button>
        </div>
      )}
      <Summary figures={figures} capacity={settings?.queue_capacity} destinations={list?.length} />
      <Tabs
        label="Parts of the sync board"
        tabs={[
          {
            name: "destinations",
            label: "Destinations",
            badge: list?.length,
            content: () => (
              <Loaded resource={destinations} label="Reading destinations">
                {(refs) => <DestinationList refs={refs} figures={figures} />}
              </Loaded>
            ),
          },
          {
            name: "matrix",
            label: "Secrets",
            content: () => (
              <Loaded resource={destinations} label="Reading destinations">
                {(refs) => <Matrix refs={refs} />}
              </Loaded>
            ),
          },
          { name: "queue", label: "Queue", content: () => <Queue config={config} figures={figures} /> },
          { name: "apps", label: "GitHub apps", content: () => <Apps /> },
        ]}
      />
    </Page>
  );
}

interface SummaryProps {
  readonly figures: ReturnType<typeof useSyncFigures>;
  readonly capacity: number | undefined;
  readonly destinations: number | undefined;
}

/** The state of everything in one line; for tokens that may read the metrics. */
function Summary({ figures, capacity, destinations }: SummaryProps) {
  const { metrics, pace } = figures;
  if (!metrics || !destinations) return null;
  const all = [...metrics.byDestination.values()];
  const sum = (of: (entry: (typeof all)[number]) => number): number => all.reduce((n, entry) => n + of(entry), 0);
  const failing = sum(({ byStatus }) =>
    Object.entries(byStatus).reduce((n, [status, value]) => n + (isFailing(status) ? value : 0), 0),
  );
  const synced = sum(({ byStatus }) => byStatus["SYNCED"] ?? 0);
  const waiting = sum(({ queued, waiting: behind }) => queued + behind);
  const perMinute = pace && [...pace.values()].reduce((n, value) => n + value, 0);
  return (
    <ul class="sync-summary">
      <li>
        <Status tone={synced > 0 ? "ok" : "off"}>{`${count(synced)} synced`}</Status>
      </li>
      <li>
        <Status tone={waiting > 0 ? "wait" : "off"}>{`${count(waiting)} pending`}</Status>
      </li>
      <li>
        <Status tone={failing > 0 ? "bad" : "off"}>{`${count(failing)} failing`}</Status>
      </li>
      <li class="muted">
        {perMinute === null ? "pace: measuring …" : `pace: ${plural(Math.round(perMinute), "push", "pushes")} a minute`}
      </li>
      {capacity !== undefined && (
        <li class="muted">
          queue: {count(metrics.granted ?? 0)} of {count(capacity)} granted
        </li>
      )}
    </ul>
  );
}
