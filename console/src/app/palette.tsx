import { useState } from "preact/hooks";
import { endSession } from "../api/session.ts";
import { Dialog } from "../components/dialog.tsx";
import { Icon, type IconName } from "../components/icons.tsx";
import { isDockOpen } from "./command-dock.tsx";
import { go, href } from "./router.ts";
import { SCREENS } from "./screens.ts";
import { theme } from "./theme.ts";

interface Entry {
  readonly label: string;
  readonly icon: IconName;
  readonly run: () => void;
}

const entriesOf = (): Entry[] => [
  ...SCREENS.map(({ name, label, icon }) => ({ label, icon, run: () => go(href(name)) })),
  { label: "Show the commands of this screen", icon: "terminal", run: () => void (isDockOpen.value = true) },
  { label: "Light appearance", icon: "light", run: () => void (theme.value = "light") },
  { label: "Dark appearance", icon: "dark", run: () => void (theme.value = "dark") },
  { label: "Lock this tab", icon: "lock", run: () => endSession("Locked. Log in again to continue where you were.") },
];

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

/** Finds a screen or an action by words. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entriesOf().filter(({ label }) => wanted.every((word) => label.toLowerCase().includes(word)));
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
        aria-label="Screen or action"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length > 0 ? `palette-${selected}` : undefined}
        placeholder="Screen or action"
        value={words}
        autofocus
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div class="palette-list" id="palette-list" role="listbox" aria-label="Screens and actions">
        {found.map((entry, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: keys are handled by the input
          <div
            key={entry.label}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === selected}
            class="palette-option"
            onClick={() => run(entry)}
          >
            <Icon name={entry.icon} />
            {entry.label}
          </div>
        ))}
        {found.length === 0 && <p class="muted">Nothing found.</p>}
      </div>
    </Dialog>
  );
}
