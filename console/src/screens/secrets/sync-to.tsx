import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { href } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { SelectField } from "../../components/field.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { providerName } from "../../lib/text.ts";

interface SyncToProps {
  readonly mount: string;
  readonly path: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

interface Planned {
  readonly external_name: string;
  readonly action: string;
  readonly reason?: string;
}

const TONES: Readonly<Record<string, Tone>> = {
  create: "ok",
  update: "ok",
  delete: "warn",
  retain: "off",
  refuse: "bad",
};

/** Associates a secret with a destination; says before what that would do. */
export function SyncTo({ mount, path, onClose, onDone }: SyncToProps) {
  const destinations = useResource(["all-destinations"], async (signal) => {
    const { data } = await api("LIST /v1/sys/sync/destinations", { signal });
    return Object.entries(data.key_info).flatMap(([type, names]) =>
      names.map((name) => ({ type: type.replace(/\/$/, ""), name })),
    );
  });
  const [chosen, setChosen] = useState("");
  const selected =
    destinations.value?.find(({ type, name }) => `${type}/${name}` === chosen) ?? destinations.value?.[0];
  const [planned, setPlanned] = useState<readonly Planned[] | null>(null);
  const at = selected && { path: selected, body: { mount, secret_name: path } };
  const plan = useAction(async () => {
    if (!at) return;
    const { data } = await api("POST /v1/sys/sync/destinations/{type}/{name}/associations/set", {
      ...at,
      query: { dry_run: true },
    });
    setPlanned("planned" in data ? data.planned : []);
  });
  const sync = useAction(async () => {
    if (!at) return;
    await api("POST /v1/sys/sync/destinations/{type}/{name}/associations/set", at);
    toast(`${path} is synced to ${at.path.name}.`, "info");
    onDone();
    onClose();
  });
  const footer = (
    <>
      <Button disabled={!at} isBusy={plan.isBusy} onClick={() => void plan.run()}>
        Show what it would do
      </Button>
      <Button kind="primary" disabled={!at} isBusy={sync.isBusy} onClick={() => void sync.run()}>
        Sync the secret
      </Button>
    </>
  );
  return (
    <Dialog title="Sync to a destination" onClose={onClose} footer={footer} shape="side">
      <Loaded resource={destinations} label="Reading the destinations">
        {(all) =>
          all.length === 0 ? (
            <Empty title="No destination yet" actions={<LinkButton href={href("sync")}>Go to Sync</LinkButton>}>
              Create one first: it holds the credentials of the place where secrets go.
            </Empty>
          ) : (
            <SelectField
              label="Destination"
              value={selected ? `${selected.type}/${selected.name}` : ""}
              onChange={(value) => {
                setChosen(value);
                setPlanned(null);
              }}
              options={all.map(({ type, name }) => ({
                value: `${type}/${name}`,
                label: `${name} (${providerName(type)})`,
              }))}
            />
          )
        }
      </Loaded>
      {planned && (
        <ul class="secrets-keys" aria-label="What it would do">
          {planned.map(({ external_name, action, reason }) => (
            <li key={external_name}>
              <code>{external_name}</code>
              <Status tone={TONES[action] ?? "info"} title={reason}>
                {reason ? `${action}: ${reason}` : action}
              </Status>
            </li>
          ))}
          {planned.length === 0 && <li>Nothing.</li>}
        </ul>
      )}
      {(plan.error ?? sync.error) !== null && <ErrorPanel error={plan.error ?? sync.error} />}
      {at && <AsCommand request={wireRequest("POST /v1/sys/sync/destinations/{type}/{name}/associations/set", at)} />}
    </Dialog>
  );
}
