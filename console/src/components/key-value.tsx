import { useRef } from "preact/hooks";
import { Button, IconButton } from "./button.tsx";
import { useRevealed } from "./masked.tsx";
import { chooseFile, ValueText } from "./value-text.tsx";

export interface Pair {
  readonly id: number;
  readonly name: string;
  readonly value: string;
}

let last = 0;

export const pair = (name = "", value = ""): Pair => ({ id: ++last, name, value });

export const pairsOf = (record: Readonly<Record<string, string>>): Pair[] =>
  Object.entries(record).map(([name, value]) => pair(name, value));

/** Pairs as an object; without those that have no name. */
export const recordOf = (pairs: readonly Pair[]): Record<string, string> =>
  Object.fromEntries(pairs.filter(({ name }) => name !== "").map(({ name, value }) => [name, value]));

/** Why the pairs are no object; null when they are one. */
export function pairsProblem(pairs: readonly Pair[]): string | null {
  const names = pairs.map(({ name }) => name).filter(Boolean);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) return `The name ${twice} is there twice.`;
  if (pairs.some(({ name, value }) => name === "" && value !== "")) return "A value has no name.";
  return null;
}

const NONE: ReadonlySet<number> = new Set();

interface KeyValueProps {
  readonly pairs: readonly Pair[];
  readonly onChange: (pairs: readonly Pair[]) => void;
  /** The kind of a pair, such as `key` or `tag`. */
  readonly noun: string;
  /** Values are typed unseen until they are revealed. */
  readonly isSecret?: boolean;
}

/** Editor of names and values, which holds its form back while they are no object. Values may have more than one line. */
export function KeyValue({ pairs, onChange, noun, isSecret = false }: KeyValueProps) {
  const [shown, setShown] = useRevealed<ReadonlySet<number>>(NONE);
  const problem = pairsProblem(pairs) ?? "";
  const change = (id: number, changes: Partial<Pair>): void =>
    onChange(pairs.map((entry) => (entry.id === id ? { ...entry, ...changes } : entry)));
  // A file is read for a moment: other fields may have changed by then.
  const changed = useRef((_id: number, _value: string): void => {});
  changed.current = (id, value) => change(id, { value });
  const toggle = (id: number): void => setShown((before) => before.symmetricDifference(new Set([id])));
  return (
    <div class="key-value">
      {pairs.map(({ id, name, value }, at) => {
        const isVisible = !isSecret || shown.has(id);
        const what = name || `${noun} ${at + 1}`;
        return (
          <div key={id} class="key-value-row">
            <input
              class="input mono"
              aria-label={`Name of ${noun} ${at + 1}`}
              placeholder={noun}
              value={name}
              spellcheck={false}
              autocomplete="off"
              ref={(field) => field?.setCustomValidity(at === 0 ? problem : "")}
              onInput={(event) => change(id, { name: event.currentTarget.value })}
            />
            <ValueText
              aria-label={`Value of ${what}`}
              placeholder="value"
              isHidden={!isVisible}
              value={value}
              onChange={(entered) => change(id, { value: entered })}
            />
            <span class="key-value-actions">
              {isSecret && (
                <>
                  <IconButton
                    icon={isVisible ? "hide" : "eye"}
                    label={`${isVisible ? "Hide" : "Reveal"} the value of ${what}`}
                    pressed={isVisible}
                    onClick={() => toggle(id)}
                  />
                  <IconButton
                    icon="file"
                    label={`Read the value of ${what} from a file`}
                    onClick={() => chooseFile((text) => changed.current(id, text))}
                  />
                </>
              )}
              <IconButton
                icon="trash"
                label={`Remove ${what}`}
                onClick={() => onChange(pairs.filter((entry) => entry.id !== id))}
              />
            </span>
          </div>
        );
      })}
      <Button kind="quiet" icon="plus" onClick={() => onChange([...pairs, pair()])}>
        Add {noun}
      </Button>
    </div>
  );
}
