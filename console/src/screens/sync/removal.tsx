import { useEffect, useRef, useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { Typed } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox, TextField } from "../../components/field.tsx";
import { Progress } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { count, providerName } from "../../lib/text.ts";
import { type Destination, type DestinationRef, readAssociations } from "./reads.ts";

const EVERY_MS = 3_000;
const DELETE = "DELETE /v1/sys/sync/destinations/{type}/{name}";

const refOf = ({ type, name }: Destination): DestinationRef => ({ type, name });

/** The number of objects, and whether there are more than that. */
async function readCount(ref: DestinationRef, signal: AbortSignal) {
  const { entries, next } = await readAssociations(ref, null, signal, { quiet: true });
  return { objects: entries.length, isMore: next !== null };
}

interface Props {
  readonly destination: Destination;
  readonly onClose: () => void;
  /** @param isGone false: a purge goes on behind the answer */
  readonly onDone: (isGone: boolean) => void;
}

/** Deletes a destination. The effect on objects at the provider is chosen and shown first. */
export function DeleteDestination({ destination, onClose, onDone }: Props) {
  const { type, name } = destination;
  const [isPurge, setPurge] = useState(true);
  const [isForced, setForced] = useState(false);
  const [typed, setTyped] = useState("");
  const found = useResource(["count", type, name], (signal) => readCount({ type, name }, signal));
  const objects = found.value?.objects ?? 0;
  const shown = `${count(objects)}${found.value?.isMore ? " or more" : ""} ${objects === 1 ? "object" : "objects"}`;
  const isEmpty = found.value !== undefined && objects === 0;
  const query = isEmpty ? {} : { ...(isPurge && { purge: true }), ...(isForced && { force_delete: true }) };
  const options = { path: { type, name }, query };
  const remove = useAction(async () => {
    await api(DELETE, options);
    const goesOn = isPurge && !isEmpty;
    toast(goesOn ? `The purge of ${name} has begun.` : `${name} is deleted.`, goesOn ? "wait" : "ok");
    onDone(!goesOn);
  });
  const verb = isEmpty || !isPurge ? "Delete destination" : "Purge destination";
  return (
    <Dialog
      title={`Delete ${name}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="danger"
            type="submit"
            form="delete-destination"
            isBusy={remove.isBusy}
            disabled={found.value === undefined || typed !== name || !(isEmpty || isPurge || isForced)}
          >
            {verb}
          </Button>
        </>
      }
    >
      <form
        id="delete-destination"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void remove.run();
        }}
      >
        {found.error !== null && <ErrorPanel error={found.error} onRetry={found.reload} />}
        {isEmpty ? (
          <p>No secret is synced to this destination. Nothing at {providerName(type)} changes.</p>
        ) : (
          <>
            <p class="notice notice-warn" role="alert">
              {isPurge
                ? `${shown} at ${providerName(type)} will be deleted. Software that reads them there will fail. This cannot be undone.`
                : `${shown} stay at ${providerName(type)}, and are not kept up to date any more.`}
            </p>
            <Checkbox
              label="Delete the objects at the provider first (purge)"
              hint="Continues after the response; the destination is deleted after the last object."
              checked={isPurge}
              onChange={setPurge}
            />
            <Checkbox
              label={
                isPurge ? "Delete the destination even if that fails" : "Delete the destination and leave the objects"
              }
              hint="Objects that could not be deleted stay at the provider."
              checked={isForced}
              onChange={setForced}
            />
          </>
        )}
        <TextField label={<Typed text={name} />} value={typed} onChange={setTyped} mono autofocus />
        {remove.error !== null && <ErrorPanel error={remove.error} />}
        <AsCommand request={wireRequest(DELETE, options)} />
      </form>
    </Dialog>
  );
}

/** A purge that goes on, or that has failed. */
export function PurgeState({
  destination,
  onChanged,
}: {
  readonly destination: Destination;
  readonly onChanged: () => void;
}) {
  const isOn = destination.purge_initiated_at !== undefined;
  const ref = refOf(destination);
  const left = useResource(["left", ref.type, ref.name], (signal) => readCount(ref, signal), {
    everyMs: EVERY_MS,
    skip: !isOn,
  });
  const most = useRef(0);
  most.current = Math.max(most.current, left.value?.objects ?? 0);
  const again = useAction(async () => {
    await api(DELETE, { path: { ...ref }, query: { purge: true } });
    onChanged();
  });
  const { reload } = left;
  useEffect(() => {
    if (isOn) reload();
  }, [isOn, reload]);
  if (!isOn) return null;
  if (destination.purge_error)
    return (
      <div class="notice notice-warn sync-purge">
        <p>
          <strong>The purge has stopped.</strong> {destination.purge_error}
        </p>
        <p class="muted">Repair what stops it, then purge again: everything that is left is tried at once.</p>
        <div class="row">
          <Button
            needs={wireRequest(DELETE, { path: { ...ref } })}
            onClick={() => void again.run()}
            isBusy={again.isBusy}
          >
            Purge again
          </Button>
        </div>
        {again.error !== null && <ErrorPanel error={again.error} />}
      </div>
    );
  const now = left.value?.objects ?? 0;
  return (
    <div class="notice sync-purge">
      <Progress done={most.current - now} total={most.current} label="Objects deleted at the provider" />
      <p class="muted">
        Secrets can be neither added nor removed here meanwhile. The destination is deleted at the end.
      </p>
    </div>
  );
}
