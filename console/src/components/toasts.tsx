/** Short messages about what has just happened; read out by screen readers. */

import { useEffect, useRef } from "preact/hooks";
import { signal } from "../lib/signal.ts";
import { IconButton } from "./button.tsx";
import { Status, type Tone } from "./status.tsx";

interface Toast {
  readonly id: number;
  readonly tone: Tone;
  readonly text: string;
}

const SHOWN_MS = 6_000;
let last = 0;
const toasts = signal<readonly Toast[]>([]);

/** Shows a message for a few seconds. */
export function toast(text: string, tone: Tone = "ok"): void {
  const id = ++last;
  toasts.value = [...toasts.peek(), { id, tone, text }].slice(-4);
  setTimeout(() => dismiss(id), SHOWN_MS);
}

const dismiss = (id: number): void => {
  toasts.value = toasts.peek().filter((entry) => entry.id !== id);
};

const WORDS: Readonly<Record<Tone, string>> = {
  ok: "Done",
  wait: "Started",
  warn: "Note",
  bad: "Failed",
  off: "Off",
  info: "Note",
};

export function Toasts() {
  const box = useRef<HTMLDivElement>(null);
  const shown = toasts.value;
  useEffect(() => {
    // Hidden and shown again, so that it lies above a dialog opened meanwhile.
    box.current?.hidePopover();
    if (shown.length > 0) box.current?.showPopover();
  }, [shown]);
  return (
    <>
      <div class="unseen" role="status" aria-live="polite">
        {shown.at(-1)?.text}
      </div>
      <section class="toasts" popover="manual" ref={box} aria-label="Messages">
        {shown.map(({ id, tone, text }) => (
          <div key={id} class="toast">
            <Status tone={tone}>{WORDS[tone]}</Status>
            <span class="toast-text">{text}</span>
            <IconButton icon="close" label="Close this message" onClick={() => dismiss(id)} />
          </div>
        ))}
      </section>
    </>
  );
}
