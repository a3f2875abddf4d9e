import { Button, LinkButton } from "../../components/button.tsx";
import { Menu } from "../../components/menu.tsx";
import { Page } from "../../components/page.tsx";
import { Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { count, plural } from "../../lib/text.ts";
import { createHref, destinationPath } from "./addresses.ts";
import { Apps } from "./apps.tsx";
import { DestinationList } from "./destinations.tsx";
import { useSyncFigures } from "./figures.ts";
import { Matrix } from "./matrix.tsx";
import { askToPause, Queue, resume } from "./queue.tsx";
import { failuresOf, readConfig, readDestinations } from "./reads.ts";
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
          {list && list.length > 0 && <SyncSecretButton destinations={list} onDone={destinations.reload} />}
          <LinkButton href={createHref()} icon="plus" kind="primary" needs={`POST ${destinationPath()}`}>
            Create destination
          </LinkButton>
          {settings && !settings.disabled && (
            <Menu
              label="More actions"
              items={[
                {
                  label: "Pause all syncing",
                  icon: "pause" as const,
                  needs: "PATCH sys/sync/config",
                  onSelect: () => void askToPause().then((done) => done && config.reload()),
                },
              ]}
            />
          )}
        </>
      }
    >
      {settings?.disabled && (
        <div class="notice notice-warn sync-paused" role="status">
          <Status tone="warn">Syncing is paused</Status>
          <span>No call to any provider starts. Changes are kept as pending, and go out when syncing goes on.</span>
          <Button
            icon="play"
            needs="PATCH sys/sync/config"
            onClick={() => void resuming.run()}
            isBusy={resuming.isBusy}
          >
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
              <Loaded resource={destinations} label="Destinations">
                {(refs) => <DestinationList refs={refs} figures={figures} />}
              </Loaded>
            ),
          },
          {
            name: "matrix",
            label: "Secrets",
            content: () => (
              <Loaded resource={destinations} label="Destinations">
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
  const counts: Record<string, number> = {};
  for (const { byStatus } of all)
    for (const [status, value] of Object.entries(byStatus)) counts[status] = (counts[status] ?? 0) + value;
  const failures = failuresOf(counts);
  const synced = counts["SYNCED"] ?? 0;
  const waiting = sum(({ queued, waiting: behind }) => queued + behind);
  const perMinute = pace && [...pace.values()].reduce((n, value) => n + value, 0);
  return (
    <ul class="sync-summary">
      <li>{synced > 0 ? <Status tone="ok">{`${count(synced)} synced`}</Status> : "0 synced"}</li>
      <li>{waiting > 0 ? <Status tone="wait">{`${count(waiting)} pending`}</Status> : "0 pending"}</li>
      <li>{failures ? <Status tone={failures.tone}>{failures.word}</Status> : "0 failing"}</li>
      <li class="muted">
        {perMinute === null
          ? "speed: measuring …"
          : `speed: ${plural(Math.round(perMinute), "push", "pushes")} a minute`}
      </li>
      {capacity !== undefined && (
        <li class="muted">
          queue: {count(sum(({ queued }) => queued))} of {count(capacity)} places in use
        </li>
      )}
    </ul>
  );
}
