import { useEffect, useRef, useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox, TextField } from "../../components/field.tsx";
import { Progress } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { plural } from "../../lib/text.ts";
import { readLeaseIds } from "./reads.ts";

const EVERY_MS = 2_000;
const REVOKE = "POST /v1/sys/leases/revoke-prefix/{prefix}";
const FORGET = "POST /v1/sys/leases/revoke-force/{prefix}";

interface Props {
  readonly prefix: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Revokes all leases below a prefix, and shows how far that is. */
export function RevokePrefix({ prefix: initial, onClose, onDone }: Props) {
  const [prefix, setPrefix] = useState(initial);
  const [isForced, setForced] = useState(false);
  const [total, setTotal] = useState<number | null>(null);
  const clean = prefix.replace(/\/+$/, "");
  const below = useResource(["below", clean], (signal) => readLeaseIds(clean, signal, true), {
    everyMs: total === null ? 0 : EVERY_MS,
    skip: clean === "",
  });
  const left = below.value?.length;
  const started = useRef(0);
  const body = { sync: false };
  const revoke = useAction(async () => {
    started.current = left ?? 0;
    if (isForced) await api(FORGET, { path: { prefix: clean } });
    else await api(REVOKE, { path: { prefix: clean }, body });
    setTotal(started.current);
    below.reload();
  });
  const isOver = total !== null && left === 0;
  useEffect(() => {
    if (isOver) onDone();
  }, [isOver]);
  const request = isForced
    ? wireRequest(FORGET, { path: { prefix: clean } })
    : wireRequest(REVOKE, { path: { prefix: clean }, body });
  return (
    <Dialog
      title="Revoke by prefix"
      onClose={() => {
        if (total !== null) onDone();
        onClose();
      }}
      footer={
        total === null ? (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button
              kind="danger"
              type="submit"
              form="revoke-prefix"
              isBusy={revoke.isBusy}
              disabled={clean === "" || left === 0}
            >
              {left === undefined
                ? "Revoke leases"
                : isForced
                  ? `Forget ${plural(left, "lease")}`
                  : `Revoke ${plural(left, "lease")}`}
            </Button>
          </>
        ) : (
          <Button kind="primary" onClick={onClose}>
            Close
          </Button>
        )
      }
    >
      {total === null ? (
        <form
          id="revoke-prefix"
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void revoke.run();
          }}
        >
          <TextField
            label="Prefix"
            value={prefix}
            onChange={setPrefix}
            required
            mono
            autofocus
            hint="What the leases' IDs begin with, by whole segments."
          />
          {left !== undefined && (
            <p class={left > 0 ? "notice notice-warn" : "notice"}>
              {left === 0
                ? "There is no lease below this prefix."
                : `${plural(left, "lease")} ${left === 1 ? "ends" : "end"}: software that uses ${left === 1 ? "its" : "their"} credentials stops working. This cannot be undone.`}
            </p>
          )}
          {below.error !== null && <ErrorPanel error={below.error} />}
          <Checkbox
            label="Forget those that cannot be removed at the provider (force)"
            hint="Remaining credentials may still work at the provider. Remove them by hand."
            checked={isForced}
            onChange={setForced}
          />
          {revoke.error !== null && <ErrorPanel error={revoke.error} />}
          <AsCommand request={request} />
        </form>
      ) : (
        <div class="stack">
          <Progress done={total - (left ?? total)} total={total} label="Leases revoked" />
          {isOver ? (
            <Status tone="ok">All leases below the prefix are revoked</Status>
          ) : (
            <p class="muted">It goes on when you close this. A lease that cannot be revoked is shown as irrevocable.</p>
          )}
        </div>
      )}
    </Dialog>
  );
}
