import { useState } from "preact/hooks";
import { wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirm } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Properties } from "../../components/page.tsx";
import { Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { durationText, now } from "../../lib/time.ts";
import { confirmRevoke, forgetLeases, renewLease } from "./lease-actions.ts";
import { LeaseOwner } from "./lease-owner.tsx";
import { type Lease, leaseState, readLease } from "./reads.ts";

interface Props {
  readonly id: string;
  readonly onClose: () => void;
  readonly onChanged: (isGone: boolean) => void;
}

/** One lease: renew, revoke, and the reason when that fails. */
export function LeaseDialog({ id, onClose, onChanged }: Props) {
  const lease = useResource(["lease", id], () => readLease(id, false));
  return (
    <Dialog title="Lease" shape="side" onClose={onClose}>
      <p class="with-copy">
        <code class="credentials-id">{id}</code>
        <CopyButton text={id} label="the lease ID" />
      </p>
      <Loaded resource={lease} label="Looking the lease up">
        {(found) => <Details lease={found} onChanged={onChanged} onRenewed={lease.reload} />}
      </Loaded>
    </Dialog>
  );
}

interface DetailsProps {
  readonly lease: Lease;
  readonly onChanged: (isGone: boolean) => void;
  readonly onRenewed: () => void;
}

function Details({ lease, onChanged, onRenewed }: DetailsProps) {
  const [increment, setIncrement] = useState("");
  const renew = useAction(async () => {
    const { seconds, warnings } = await renewLease(lease.id, increment);
    toast(
      [`The lease ends in ${durationText(seconds * 1000)}.`, ...warnings].join(" "),
      warnings.length > 0 ? "warn" : "ok",
    );
    setIncrement("");
    onRenewed();
    onChanged(false);
  });
  const body = { lease_id: lease.id };
  const revoke = async (): Promise<void> => {
    if (await confirmRevoke(lease.id)) onChanged(true);
  };
  const forget = async (): Promise<void> => {
    const done = await confirm({
      title: "Forget the lease",
      text: (
        <p>
          The service stops trying to remove its credentials. What is left at the provider stays there, may still work,
          and has to be removed by hand.
        </p>
      ),
      verb: "Forget lease",
      isDangerous: true,
      request: wireRequest("POST /v1/sys/leases/revoke-force/{prefix}", { path: { prefix: lease.id } }),
      perform: () => forgetLeases(lease.id),
    });
    if (done) onChanged(true);
  };
  const { tone, word } = leaseState(lease, now.value);
  return (
    <div class="stack">
      {lease.revoke_error && (
        <div class="notice notice-warn">
          <p>
            <strong>It could not be revoked.</strong> {lease.revoke_error}
          </p>
          <p class="muted">Repair the cause, then revoke it again. It can also be forgotten.</p>
        </div>
      )}
      <Properties
        items={[
          [
            "State",
            <Status key="state" tone={tone}>
              {word}
            </Status>,
          ],
          ["Time left", <Countdown key="left" to={lease.expire_time} over="over" />],
          ["Issued", <Ago key="issued" at={lease.issue_time} />],
          ["Last renewal", <Ago key="renewed" at={lease.last_renewal} />],
          ["Renewable", lease.renewable ? "yes" : "no"],
          ["Issued to", <LeaseOwner key="owner" id={lease.id} />],
        ]}
      />
      {lease.renewable && !lease.revoke_error && (
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void renew.run();
          }}
        >
          <TextField
            label="Renew for"
            value={increment}
            onChange={setIncrement}
            placeholder="1h"
            hint="From now, such as 30m. Empty: the role's time. The role and the engine limit it."
          />
          <div class="row">
            <Button type="submit" icon="clock" isBusy={renew.isBusy} needs="POST sys/leases/renew">
              Renew lease
            </Button>
          </div>
          {renew.error !== null && <ErrorPanel title="The lease was not renewed" error={renew.error} />}
          <AsCommand
            request={wireRequest("POST /v1/sys/leases/renew", { body: { ...body, ...(increment && { increment }) } })}
          />
        </form>
      )}
      <div class="row">
        <Button kind="danger" needs="POST sys/leases/revoke" onClick={() => void revoke()}>
          Revoke lease
        </Button>
        {lease.revoke_error && (
          <Button needs={`POST sys/leases/revoke-force/${lease.id}`} onClick={() => void forget()}>
            Forget lease
          </Button>
        )}
      </div>
    </div>
  );
}
