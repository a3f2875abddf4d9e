/** One secret on both sides, key by key, with copies across. */
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Masked, useRevealed } from "../../components/masked.tsx";
import { Loaded } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { shown } from "../../lib/exact-json.ts";
import { useAction, useResource } from "../../lib/resource.ts";
import { copyAcross, differingKeys, placeOf, type Side, sideText } from "./compare-reads.ts";
import { readNewest, type Version } from "./reads.ts";

interface CompareDialogProps {
  readonly left: Side;
  readonly right: Side;
  readonly name: string;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export function CompareDialog({ left, right, name, onClose, onChanged }: CompareDialogProps) {
  const sides = [placeOf(left, name), placeOf(right, name)] as const;
  const both = useResource(["both", sides], (signal) =>
    Promise.all([readNewest(sides[0], signal), readNewest(sides[1], signal)]),
  );
  const [isRevealed, setRevealed] = useRevealed(false);
  const copy = useAction(async (to: 0 | 1, keys: readonly string[] | null) => {
    const versions = both.value;
    const source = versions?.[to === 0 ? 1 : 0];
    if (!versions || !source) return;
    try {
      await copyAcross(source, versions[to], sides[to], keys);
      toast(`Copied to ${sideText(sides[to])}.`);
      onChanged();
    } finally {
      both.reload();
    }
  });
  const value = both.value;
  const [one, other] = value ?? [];
  const isSame = !!one?.data && !!other?.data && differingKeys(one.data, other.data).length === 0;
  return (
    <Dialog
      title={name || sides[0].path}
      shape="wide"
      onClose={onClose}
      footer={
        <>
          <Button disabled={!other?.data || isSame} isBusy={copy.isBusy} onClick={() => void copy.run(0, null)}>
            Copy all to the left
          </Button>
          <Button disabled={!one?.data || isSame} isBusy={copy.isBusy} onClick={() => void copy.run(1, null)}>
            Copy all to the right
          </Button>
          <Button kind="primary" onClick={onClose}>
            Close
          </Button>
        </>
      }
    >
      <p class="muted">
        A copy makes a new version, and is refused if that side has changed since it was read. Left:{" "}
        <code>{sideText(sides[0])}</code>, right: <code>{sideText(sides[1])}</code>.
      </p>
      {copy.error !== null && <ErrorPanel error={copy.error}>Both sides are read again.</ErrorPanel>}
      <Loaded resource={both} label="Both sides">
        {([one, other]) => (
          <Keys
            left={one}
            right={other}
            isRevealed={isRevealed}
            onReveal={() => setRevealed(!isRevealed)}
            onCopy={(to, key) => void copy.run(to, [key])}
          />
        )}
      </Loaded>
    </Dialog>
  );
}

interface KeysProps {
  readonly left: Version | null;
  readonly right: Version | null;
  readonly isRevealed: boolean;
  readonly onReveal: () => void;
  readonly onCopy: (to: 0 | 1, key: string) => void;
}

function Keys({ left, right, isRevealed, onReveal, onCopy }: KeysProps) {
  const [one, other] = [left?.data ?? {}, right?.data ?? {}];
  const keys = differingKeys(one, other);
  if (keys.length === 0) return <p>Both sides have the same values.</p>;
  return (
    <>
      <Button icon={isRevealed ? "hide" : "eye"} onClick={onReveal}>
        {isRevealed ? "Hide the values" : "Reveal the values"}
      </Button>
      <div class="card secrets-compare">
        <div class="secrets-compare-head">Key</div>
        <div class="secrets-compare-head">Copy</div>
        <div class="secrets-compare-head">Left</div>
        <div class="secrets-compare-head">Right</div>
        {keys.map((key) => [
          <div key={`${key} name`} class="mono">
            {key}
          </div>,
          <div key={`${key} copy`}>
            {Object.hasOwn(other, key) && (
              <Button kind="quiet" title={`Copy ${key} to the left`} onClick={() => onCopy(0, key)}>
                <span class="unseen">Copy {key} to the left</span>←
              </Button>
            )}
            {Object.hasOwn(one, key) && (
              <Button kind="quiet" title={`Copy ${key} to the right`} onClick={() => onCopy(1, key)}>
                <span class="unseen">Copy {key} to the right</span>→
              </Button>
            )}
          </div>,
          <div key={`${key} left`}>
            {Object.hasOwn(one, key) ? (
              <Masked value={shown(one[key])} label={`${key} on the left`} isRevealed={isRevealed} />
            ) : (
              <span class="muted">missing</span>
            )}
          </div>,
          <div key={`${key} right`}>
            {Object.hasOwn(other, key) ? (
              <Masked value={shown(other[key])} label={`${key} on the right`} isRevealed={isRevealed} />
            ) : (
              <span class="muted">missing</span>
            )}
          </div>,
        ])}
      </div>
    </>
  );
}
