import { useEffect, useState } from "preact/hooks";
import { IconButton } from "./button.tsx";
import { CopyButton } from "./copy.tsx";

const SHOWN_MS = 60_000;

interface MaskedProps {
  readonly value: string;
  /** The kind of value, such as `password`. */
  readonly label: string;
  /** Shown by a control of the parent instead of its own. */
  readonly isRevealed?: boolean;
}

/** A secret value: not in the page until it is revealed, and hidden again after a minute. */
export function Masked({ value, label, isRevealed = false }: MaskedProps) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isShown) return;
    const timer = setTimeout(() => setShown(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isShown]);
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
