import { Button } from "../../components/button.tsx";
import { Masked, useRevealed } from "../../components/masked.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { shown } from "../../lib/exact-json.ts";
import { useResource } from "../../lib/resource.ts";
import { plural } from "../../lib/text.ts";
import { readVersion, type SecretData } from "./reads.ts";
import type { At } from "./secret.tsx";

interface Change {
  readonly name: string;
  readonly kind: "added" | "removed" | "changed" | "same";
  readonly before: unknown;
  readonly after: unknown;
}

/** Differences by key, in the order of the names. */
function changesBetween(before: SecretData, after: SecretData): Change[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.map((name) => {
    const [was, is] = [before[name], after[name]];
    const kind = !Object.hasOwn(before, name)
      ? "added"
      : !Object.hasOwn(after, name)
        ? "removed"
        : JSON.stringify(was) === JSON.stringify(is)
          ? "same"
          : "changed";
    return { name, kind, before: was, after: is };
  });
}

const TONES: Readonly<Record<Change["kind"], Tone>> = { added: "ok", removed: "bad", changed: "warn", same: "off" };
const WORDS: Readonly<Record<Change["kind"], string>> = {
  added: "Added",
  removed: "Removed",
  changed: "Changed",
  same: "Same",
};

/** Two versions key by key; values stay hidden until they are revealed. */
export function Comparison({ at, from, to }: { readonly at: At; readonly from: number; readonly to: number }) {
  const [isRevealed, setRevealed] = useRevealed(false);
  const both = useResource(["compare", at.mount, at.path.path, from, to], (signal) =>
    Promise.all([from, to].map((version) => readVersion(at.mount, at.path.path, version, signal))),
  );
  return (
    <Loaded resource={both} label="Both versions">
      {([before, after]) => {
        const changes = changesBetween(before?.data ?? {}, after?.data ?? {});
        const differing = changes.filter(({ kind }) => kind !== "same");
        if (differing.length === 0) return <Empty title={`Versions ${from} and ${to} hold the same`} />;
        return (
          <>
            <Toolbar>
              <Button icon={isRevealed ? "hide" : "eye"} onClick={() => setRevealed(!isRevealed)}>
                {isRevealed ? "Hide the values" : "Reveal the values"}
              </Button>
              <span class="muted">{plural(changes.length - differing.length, "key is", "keys are")} the same</span>
            </Toolbar>
            <div class="card secrets-compare">
              <div class="secrets-compare-head">Key</div>
              <div class="secrets-compare-head">Change</div>
              <div class="secrets-compare-head">Version {from}</div>
              <div class="secrets-compare-head">Version {to}</div>
              {differing.map(({ name, kind, before: was, after: is }) => [
                <div key={`${name} name`} class="mono">
                  {name}
                </div>,
                <div key={`${name} kind`}>
                  <Status tone={TONES[kind]}>{WORDS[kind]}</Status>
                </div>,
                <div key={`${name} before`}>
                  {kind !== "added" && (
                    <Masked value={shown(was)} label={`${name} of version ${from}`} isRevealed={isRevealed} />
                  )}
                </div>,
                <div key={`${name} after`}>
                  {kind !== "removed" && (
                    <Masked value={shown(is)} label={`${name} of version ${to}`} isRevealed={isRevealed} />
                  )}
                </div>,
              ])}
            </div>
          </>
        );
      }}
    </Loaded>
  );
}
