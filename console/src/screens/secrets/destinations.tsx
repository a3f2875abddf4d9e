/** Where a secret is synced to, and how it is there. */
import { useState } from "preact/hooks";
import { api, isMissing, type Schemas } from "../../api/client.ts";
import { href } from "../../app/router.ts";
import { Button, LinkButton } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";
import { syncMeaning, syncTone, syncWord } from "../../lib/sync-status.ts";
import { providerName } from "../../lib/text.ts";
import { originWords } from "../sync/origins.tsx";
import { SyncTo } from "./sync-to.tsx";

type Found = Schemas["DestinationsOfSecret"]["associated_destinations"];
type Entry = Found[string];

interface DestinationsProps {
  readonly mount: string;
  readonly path: string;
  /** Number of the newest version; null when it is not known. */
  readonly newest: number | null;
}

const EVERY_MS = 4_000;

export function Destinations({ mount, path, newest }: DestinationsProps) {
  const [isAdding, setAdding] = useState(false);
  const found = useResource(["destinations", mount, path], (signal) => readDestinations(mount, path, signal), {
    everyMs: EVERY_MS,
  });
  const add = (
    <Button icon="plus" needs="POST sys/sync/destinations/*/associations/set" onClick={() => setAdding(true)}>
      Sync to a destination
    </Button>
  );
  return (
    <>
      <Loaded resource={found} label="The destinations">
        {(entries) =>
          entries.length === 0 ? (
            <div class="card">
              <Empty title="Not synced anywhere" actions={add}>
                Sync copies this secret to a cloud's own store and repeats each change there.
              </Empty>
            </div>
          ) : (
            <>
              <div class="toolbar">{add}</div>
              <div class="grid">
                {entries.map(([key, entry]) => (
                  <DestinationCard
                    key={key}
                    mount={mount}
                    path={path}
                    entry={entry}
                    newest={newest}
                    onChange={found.reload}
                  />
                ))}
              </div>
            </>
          )
        }
      </Loaded>
      {isAdding && <SyncTo mount={mount} path={path} onClose={() => setAdding(false)} onDone={found.reload} />}
    </>
  );
}

async function readDestinations(mount: string, path: string, signal: AbortSignal): Promise<[string, Entry][]> {
  try {
    const { data } = await api("GET /v1/sys/sync/associations/destinations", {
      query: { mount, secret_name: path },
      signal,
    });
    return Object.entries(data.associated_destinations);
  } catch (failure) {
    if (isMissing(failure)) return [];
    throw failure;
  }
}

interface CardProps extends DestinationsProps {
  readonly entry: Entry;
  readonly onChange: () => void;
}

function DestinationCard({ mount, path, entry, newest, onChange }: CardProps) {
  const { type, name, sync_status, error_code, error_message, next_attempt_at, note } = entry;
  const at = { path: { type, name }, body: { mount, secret_name: path } };
  const associations = `POST sys/sync/destinations/${type}/${name}/associations` as const;
  const keys = Object.entries(entry.sub_keys ?? {});
  const pushed = entry.synced_version;
  const syncNow = (): void => {
    api("POST /v1/sys/sync/destinations/{type}/{name}/associations/set", at).then(
      () => {
        toast(`Pushed to ${name}.`);
        onChange();
      },
      (failure: Error) => toast(failure.message, "bad"),
    );
  };
  const stop = (): void => {
    void confirmed(
      {
        title: `Stop syncing to ${name}?`,
        text: "The object is removed at the provider, unless the destination retains what it made.",
        verb: "Stop syncing",
        isDangerous: true,
      },
      "POST /v1/sys/sync/destinations/{type}/{name}/associations/remove",
      at,
    ).then((isDone) => isDone && onChange());
  };
  return (
    <Card
      title={name}
      actions={
        <>
          <Status tone={syncTone(sync_status)} title={syncMeaning(sync_status)}>
            {syncWord(sync_status)}
          </Status>
          <Menu
            label={`Actions at ${name}`}
            items={[
              { label: "Sync now", icon: "sync", needs: `${associations}/set`, onSelect: syncNow },
              {
                label: "Stop syncing",
                icon: "trash",
                needs: `${associations}/remove`,
                onSelect: stop,
                isDangerous: true,
              },
            ]}
          />
        </>
      }
    >
      <Properties
        items={[
          ["Provider", providerName(type)],
          ["Object", entry.external_name && <code>{entry.external_name}</code>],
          [
            "Version there",
            pushed === undefined ? "" : newest !== null && pushed !== newest ? `${pushed} of ${newest}` : pushed,
          ],
          [
            "Set by",
            entry.origins ? (
              <a href={href("sync", [type, name], { tab: "rules" })}>{originWords(entry)}</a>
            ) : (
              originWords(entry)
            ),
          ],
          ["Last change", <Ago key="updated" at={entry.updated_at} />],
          ["Error", error_message && `${error_message}${error_code ? ` (${error_code})` : ""}`],
          ["Next attempt", next_attempt_at && <Countdown to={next_attempt_at} over="now" />],
          ["Note", note],
        ]}
      />
      {keys.length > 0 && (
        <ul class="secrets-keys">
          {keys.map(([key, one]) => (
            <li key={key}>
              <code title={one.external_name}>{key}</code>
              <Status tone={syncTone(one.sync_status)} title={one.error_message}>
                {syncWord(one.sync_status)}
              </Status>
            </li>
          ))}
        </ul>
      )}
      <LinkButton href={href("sync", [type, name])} kind="quiet">
        Open the destination
      </LinkButton>
    </Card>
  );
}
