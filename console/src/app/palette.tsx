import { useState } from "preact/hooks";
import { Dialog } from "../components/dialog.tsx";
import { Icon } from "../components/icons.tsx";
import { type Entry, useEntries } from "./palette-entries.ts";
import { toggleFavourite } from "./recent.ts";

/** Opens by Ctrl K or Cmd K; `/` goes to the search field of the screen. Returns what ends it. */
export function paletteShortcut(open: () => void): () => void {
  const onKeyDown = (event: KeyboardEvent): void => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) open();
      return;
    }
    const isTyping =
      event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.querySelector<HTMLElement>("main input[type=search]");
    if (!field) return;
    event.preventDefault();
    field.focus();
  };
  document.addEventListener("keydown", onKeyDown);
  return () => document.removeEventListener("keydown", onKeyDown);
}

/** Finds a screen, an action or an object by words. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const [, setKept] = useState(0);
  const { entries: found, unseen, isSearching, failure } = useEntries(words);
  const selected = Math.min(at, Math.max(0, found.length - 1));
  const run = (entry: Entry | undefined): void => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const target = { ArrowDown: selected + 1, ArrowUp: selected - 1 }[event.key];
    if (target !== undefined) {
      event.preventDefault();
      setAt((target + found.length) % Math.max(1, found.length));
    } else if (event.key.toLowerCase() === "b" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      const one = found[selected]?.visited;
      if (one) toggleFavourite(one);
      setKept((before) => before + 1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[selected]);
    }
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        class="input"
        type="text"
        role="combobox"
        aria-label="Screen, action or object"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length > 0 ? `palette-${selected}` : undefined}
        placeholder="Screen, action or name"
        value={words}
        autofocus
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div class="palette-list" id="palette-list" role="listbox" aria-label="Screens, actions and objects">
        {found.map((entry, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: keys are handled by the input
          <div
            key={`${entry.label} ${index}`}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === selected}
            class="palette-option"
            onClick={() => run(entry)}
          >
            <Icon name={entry.icon} />
            <span class="palette-label">{entry.label}</span>
            {entry.isObject && <span class="muted">{entry.words}</span>}
          </div>
        ))}
      </div>
      <p class="muted small" role="status">
        {isSearching ? "Searching …" : found.length === 0 && "Nothing found."}
        {!isSearching &&
          failure !== null &&
          ` The search failed: ${failure instanceof Error ? failure.message : String(failure)}.`}
        {!isSearching &&
          words !== "" &&
          unseen.length > 0 &&
          ` Not searched: ${unseen.join(", ")}, which your token may not see.`}
      </p>
      {found[selected]?.isObject && (
        <p class="muted small">Ctrl B makes the selected object a favourite, or ends that.</p>
      )}
    </Dialog>
  );
}
