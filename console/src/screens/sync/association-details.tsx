import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Properties } from "../../components/page.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction } from "../../lib/resource.ts";
import { syncMeaning, syncTone, syncWord } from "../../lib/sync-status.ts";
import { providerName } from "../../lib/text.ts";
import { destinationHref, destinationPath } from "./addresses.ts";
import { type Association, type DestinationRef, isFailing, setSecret, worstOf } from "./reads.ts";

interface Props {
  readonly destination: DestinationRef;
  /** Path of the secret's mount; null when it is not known. */
  readonly mount: string | null;
  /** One, or one for each key. */
  readonly entries: readonly Association[];
  readonly onChanged: () => void;
  readonly hasLink?: boolean;
}

/** A secret at one destination: its objects there with error, tries and versions, and what can be done. */
export function AssociationDetails({ destination, mount, entries, onChanged, hasLink = false }: Props) {
  const secret = entries[0]?.secret_name ?? "";
  const set = useAction(async () => {
    const { data } = await setSecret(destination, mount ?? "", secret);
    const worst = "associated_secrets" in data ? worstOf(Object.values(data.associated_secrets)) : undefined;
    const status = worst?.sync_status ?? "PENDING";
    toast(
      isFailing(status)
        ? `${destination.name}: ${worst?.error_message ?? syncWord(status)}`
        : `${secret}: ${syncWord(status).toLowerCase()} at ${destination.name}.`,
      isFailing(status) ? "bad" : "ok",
    );
    onChanged();
  });
  const target = [
    "POST /v1/sys/sync/destinations/{type}/{name}/associations/remove",
    { path: { ...destination }, body: { mount: mount ?? "", secret_name: secret } },
  ] as const;
  const remove = async (): Promise<void> => {
    const done = await confirmed(
      {
        title: `Stop syncing ${secret}`,
        text: (
          <p>
            Later changes no longer go to {destination.name}. Its object there is deleted, unless the destination's
            deletion policy is to retain it. The secret itself stays as it is.
          </p>
        ),
        verb: "Stop syncing",
        isDangerous: true,
      },
      ...target,
    );
    if (done) onChanged();
  };
  return (
    <section class="sync-details" aria-label={`${secret} at ${destination.name}`}>
      {hasLink && (
        <h3>
          <a href={destinationHref(destination)}>{destination.name}</a>{" "}
          <span class="muted">{providerName(destination.type)}</span>
        </h3>
      )}
      {entries.map((entry) => (
        <Entry key={entry.sub_key ?? ""} entry={entry} />
      ))}
      <div class="row">
        <Button
          icon="sync"
          needs={`POST ${destinationPath(destination)}/associations/set`}
          onClick={() => void set.run()}
          isBusy={set.isBusy}
          disabled={mount === null}
        >
          Sync now
        </Button>
        <Button
          kind="danger"
          needs={`POST ${destinationPath(destination)}/associations/remove`}
          onClick={() => void remove()}
          disabled={mount === null}
        >
          Stop syncing
        </Button>
      </div>
      {set.error !== null && <ErrorPanel error={set.error} />}
    </section>
  );
}

function Entry({ entry }: { readonly entry: Association }) {
  const { sync_status: status, error_code, error_message } = entry;
  return (
    <div class="sync-entry">
      {entry.sub_key !== undefined && <h4 class="mono">{entry.sub_key}</h4>}
      {error_message && (
        <p class="notice notice-warn">
          {error_message}
          {error_code && (
            <>
              {" "}
              <code>{error_code}</code>
            </>
          )}
        </p>
      )}
      <Properties
        items={[
          [
            "Status",
            <>
              <Status tone={syncTone(status)}>{syncWord(status)}</Status>
              <div class="muted small">{syncMeaning(status)}.</div>
            </>,
          ],
          ["Note", entry.note],
          ["Name at the provider", <code>{entry.external_name}</code>],
          ["Version there", entry.synced_version],
          ["Failed tries", entry.attempts],
          ["Next try", entry.next_attempt_at && <Countdown to={entry.next_attempt_at} over="now" />],
          ["Changed", <Ago at={entry.updated_at} />],
        ]}
      />
    </div>
  );
}
