import { useRef } from "preact/hooks";
import { edited, inField, replaced, textOfFile } from "../lib/raw-text.ts";
import { toast } from "./toasts.tsx";

interface ValueTextProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Shown as dots. A field of the type `password` has one line only. */
  readonly isHidden?: boolean;
  readonly rows?: number;
  readonly placeholder?: string | undefined;
  readonly required?: boolean | undefined;
  readonly disabled?: boolean | undefined;
  readonly id?: string;
  readonly "aria-label"?: string;
  readonly "aria-describedby"?: string | undefined;
  readonly "aria-invalid"?: boolean;
}

const MAX_ROWS = 8;

/**
 * Field for any text, such as a key in PEM form: lines, tabs and line ends stay as they were pasted. A file that is
 * dropped on it replaces the text.
 */
export function ValueText({ value, onChange, isHidden = false, rows = 1, ...rest }: ValueTextProps) {
  // Of a paste, until the field has changed by it.
  const pasted = useRef<{ readonly from: number; readonly to: number; readonly text: string } | null>(null);
  const field = inField(value);
  return (
    <textarea
      {...rest}
      class={isHidden ? "input mono veiled" : "input mono"}
      rows={Math.max(rows, Math.min(MAX_ROWS, field.split("\n").length))}
      value={field}
      spellcheck={false}
      autocomplete="off"
      autocapitalize="off"
      translate={false}
      onPaste={({ currentTarget, clipboardData }) => {
        const text = clipboardData?.getData("text/plain");
        const { selectionStart: from, selectionEnd: to } = currentTarget;
        pasted.current = text ? { from, to, text } : null;
      }}
      onDrop={(event) => {
        const file = event.dataTransfer?.files[0];
        if (!file) return;
        event.preventDefault();
        void readInto(file, onChange);
      }}
      onInput={(event) => {
        const now = event.currentTarget.value;
        const paste = pasted.current;
        pasted.current = null;
        const whole = paste && replaced(value, paste.from, paste.to, paste.text);
        onChange(whole !== null && inField(whole) === now ? whole : edited(value, now));
      }}
    />
  );
}

/** Lets the person choose a file, and hands its text and name over. */
export function chooseFile(onChange: (value: string, name: string) => void): void {
  const input = document.createElement("input");
  input.type = "file";
  input.onchange = () => {
    const file = input.files?.[0];
    if (file) void readInto(file, onChange);
  };
  input.click();
}

async function readInto(file: File, onChange: (value: string, name: string) => void): Promise<void> {
  try {
    onChange(await textOfFile(file), file.name);
  } catch (failure) {
    toast(failure instanceof Error ? failure.message : String(failure), "bad");
  }
}
