import { useEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "./button.tsx";
import { CopyButton } from "./copy.tsx";

const SHOWN_MS = 60_000;

/** The state of secret values that are revealed; it returns to the first one a minute after its last change. */
export function useRevealed<State>(first: State) {
  const hidden = useRef(first).current;
  const [revealed, setRevealed] = useState(first);
  useEffect(() => {
    if (revealed === hidden) return;
    const timer = setTimeout(() => setRevealed(hidden), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [revealed]);
  return [revealed, setRevealed] as const;
}

interface MaskedProps {
  readonly value: string;
  /** The kind of value, such as `password`. */
  readonly label: string;
  /** Shown by a control of the parent instead of its own. */
  readonly isRevealed?: boolean;
}

/** A secret value: not in the page until it is revealed, and hidden again after a minute. */
export function Masked({ value, label, isRevealed = false }: MaskedProps) {
  const [isShown, setShown] = useRevealed(false);
  const isVisible = isShown || isRevealed;
  return (
    <span class="masked">
      {isVisible ? (
        <code class="masked-value">{value === "" ? <em>empty</em> : value}</code>
      ) : (
        <span class="masked-dots" role="img" aria-label="hidden">
          ••••••••
        </span>
      )}
      <span class="masked-actions">
        {!isRevealed && (
          <IconButton
            icon={isShown ? "hide" : "eye"}
            label={`${isShown ? "Hide" : "Reveal"} ${label}`}
            pressed={isShown}
            onClick={() => setShown(!isShown)}
          />
        )}
        <CopyButton text={value} label={label} />
      </span>
    </span>
  );
}
