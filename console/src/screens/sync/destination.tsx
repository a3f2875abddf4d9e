import { useEffect, useState } from "preact/hooks";
import { api, isMissing } from "../../api/client.ts";
import { go, place } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status, Tag } from "../../components/status.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { labelOf } from "../../lib/schema.ts";
import { count, plural, providerName } from "../../lib/text.ts";
import { boardHref, destinationPath } from "./addresses.ts";
import { Associations, useAssociations } from "./associations.tsx";
import { Drift } from "./drift.tsx";
import { EditDestination } from "./edit.tsx";
import { StoredObjects } from "./objects.tsx";
import { type Destination, type DestinationRef, healthOf, readDestination, totalOf } from "./reads.ts";
import { DeleteDestination, PurgeState } from "./removal.tsx";
import { Rules } from "./rules.tsx";
import { SyncSecretButton } from "./sync-secret.tsx";

const FRESH_MS = 5_000;

/** One destination: its secrets, differences, settings. */
export function DestinationPage({ type, name }: DestinationRef) {
  const ref = { type, name };
  const path = destinationPath(ref);
  const destination = useResource(["destination", type, name], (signal) => readDestination(ref, signal), {
    everyMs: FRESH_MS,
  });
  const associations = useAssociations(ref);
  const [dialog, setDialog] = useState<"edit" | "delete" | null>(null);
  const verify = useAction(async () => {
    const { data } = await api("POST /v1/sys/sync/destinations/{type}/{name}/verify", { path: { ...ref } });
    setVerified(data);
  });
  const [verified, setVerified] = useState<{ ok: boolean; error_code?: string; message: string } | null>(null);
  // A new one says at once whether its login works.
  useEffect(() => {
    if (place.value.query.get("verify")) void verify.run();
  }, []);
  const state = destination.value;
  const crumbs = [{ label: "Sync", href: boardHref() }];
  if (isMissing(destination.error))
    return (
      <Page title={name} crumbs={crumbs}>
        <Empty title="There is no such destination" actions={<a href={boardHref()}>Go to the sync board</a>}>
          It was deleted, or is in another namespace.
        </Empty>
      </Page>
    );
  const isEnding = state?.purge_initiated_at !== undefined && !state.purge_error;
  return (
    <Page
      title={name}
      crumbs={crumbs}
      about={providerName(type)}
      actions={
        state && (
          <>
            <Button icon="check" needs={`POST ${path}/verify`} onClick={() => void verify.run()} isBusy={verify.isBusy}>
              Verify
            </Button>
            <Button icon="edit" needs={`PATCH ${path}`} onClick={() => setDialog("edit")}>
              Edit
            </Button>
            {!isEnding && <SyncSecretButton destinations={[ref]} onDone={associations.reload} kind="primary" />}
            <Menu
              label="More actions"
              items={[
                {
                  label: "Delete destination",
                  needs: `DELETE ${path}`,
                  icon: "trash",
                  isDangerous: true,
                  onSelect: () => setDialog("delete"),
                },
              ]}
            />
          </>
        )
      }
    >
      {verify.error !== null && <ErrorPanel title="The destination could not be verified" error={verify.error} />}
      {verified && (
        <div class={verified.ok ? "notice sync-verified" : "notice notice-warn sync-verified"} role="status">
          <Status tone={verified.ok ? "ok" : "bad"}>{verified.ok ? "Verified" : "Failing"}</Status>
          <span>{verified.message}</span>
          {verified.error_code && <code>{verified.error_code}</code>}
          {!verified.ok && <Button onClick={() => setDialog("edit")}>Edit credentials</Button>}
        </div>
      )}
      <Loaded resource={destination} label="The destination">
        {(found) => (
          <>
            <State destination={found} counts={countsOf(associations)} />
            <PurgeState destination={found} onChanged={destination.reload} />
            <Tabs
              label="Parts of the destination"
              tabs={[
                {
                  name: "secrets",
                  label: "Secrets",
                  content: () => (
                    <Associations
                      destination={ref}
                      pages={associations}
                      isPurging={isEnding}
                      isExplained={verified?.ok === false}
                      onEdit={() => setDialog("edit")}
                    />
                  ),
                },
                {
                  name: "rules",
                  label: "Rules",
                  content: () => <Rules destination={ref} onChange={associations.reload} />,
                },
                {
                  name: "drift",
                  label: "Drift",
                  content: () => <Drift destination={ref} pushed={associations.value ?? []} />,
                },
                ...(type === "in-mem"
                  ? [{ name: "objects", label: "Objects", content: () => <StoredObjects name={name} /> }]
                  : []),
                { name: "settings", label: "Settings", content: () => <Settings destination={found} /> },
              ]}
            />
            {dialog === "edit" && (
              <EditDestination
                destination={found}
                onClose={() => setDialog(null)}
                onDone={() => {
                  setDialog(null);
                  setVerified(null);
                  destination.reload();
                  associations.reload();
                  toast(`${name} is changed.`);
                }}
              />
            )}
            {dialog === "delete" && (
              <DeleteDestination
                destination={found}
                onClose={() => setDialog(null)}
                onDone={(isGone) => {
                  setDialog(null);
                  if (isGone) go(boardHref());
                  else destination.reload();
                }}
              />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

type Counts = Readonly<Record<string, number>>;

/** Counts by status; undefined until all are read. */
function countsOf({ value, hasMore }: ReturnType<typeof useAssociations>): Counts | undefined {
  if (!value || hasMore) return undefined;
  const counts: Record<string, number> = {};
  for (const [, { sync_status }] of value) counts[sync_status] = (counts[sync_status] ?? 0) + 1;
  return counts;
}

interface StateProps {
  readonly destination: Destination;
  readonly counts: Counts | undefined;
}

function State({ destination, counts }: StateProps) {
  const { tone, word } = healthOf(destination, counts);
  const breaker = destination.circuit_breaker;
  return (
    <ul class="sync-summary">
      <li>
        <Status tone={tone}>{word}</Status>
      </li>
      {counts && totalOf(counts) > 0 && (
        <li>
          {count(counts["SYNCED"] ?? 0)} of {plural(totalOf(counts), "object")} synced
        </li>
      )}
      {breaker && (
        <li>
          {breaker.failures} failures in a row, next try in <Countdown to={breaker.next_attempt_at} over="0 s" />
        </li>
      )}
      <li class="muted">
        {destination.options.granularity_level === "secret-key"
          ? "one object for each key"
          : "one object for each secret"}
      </li>
      {destination.purge_initiated_at && (
        <li class="muted">
          purge begun <Ago at={destination.purge_initiated_at} />
        </li>
      )}
    </ul>
  );
}

const UPDATES: Readonly<Record<string, string>> = {
  replace: "the last write wins",
  "if-not-exists": "an object that is there keeps its value",
  "owned-only": "only objects with our marker are touched",
};

const DELETIONS: Readonly<Record<string, string>> = {
  delete: "objects of secrets that are no longer synced are deleted",
  retain: "objects of secrets that are no longer synced stay there",
};

function Settings({ destination: { connection_details: connection, options } }: { readonly destination: Destination }) {
  const tags = Object.entries(options.custom_tags);
  return (
    <div class="grid">
      <Card title="Connection">
        {Object.keys(connection).length === 0 ? (
          <p class="muted">The objects are kept in the service. There is nothing to connect to.</p>
        ) : (
          <Properties
            items={Object.entries(connection).map(([key, value]) => [labelOf(key), <Shown key={key} value={value} />])}
          />
        )}
      </Card>
      <Card title="Policies">
        <Properties
          items={[
            ["Name template", <code key="template">{options.secret_name_template}</code>],
            ["Granularity", options.granularity_level],
            ["Update policy", `${options.update_policy}: ${UPDATES[options.update_policy] ?? ""}`],
            ["Deletion policy", `${options.deletion_policy}: ${DELETIONS[options.deletion_policy] ?? ""}`],
            [
              "Custom tags",
              tags.length === 0 ? "none" : tags.map(([key, value]) => <Tag key={key}>{`${key} = ${value}`}</Tag>),
            ],
          ]}
        />
      </Card>
    </div>
  );
}

function Shown({ value }: { readonly value: unknown }) {
  if (value === "*****") return <span class="muted">set; the service never shows it again</span>;
  if (Array.isArray(value)) return <>{value.join(", ")}</>;
  return <code>{typeof value === "object" ? JSON.stringify(value) : String(value)}</code>;
}
