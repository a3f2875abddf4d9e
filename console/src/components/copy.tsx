import { useState } from "preact/hooks";
import { IconButton } from "./button.tsx";
import { toast } from "./toasts.tsx";

const SHOWN_MS = 1_500;

/** Resolves with whether the browser has copied the text. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    toast("The browser does not allow this page to copy.", "bad");
    return false;
  }
}

/** Copies a text. @param label what is copied, such as `the token` */
export function CopyButton({ text, label }: { readonly text: string | (() => string); readonly label: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    if (!(await copyText(typeof text === "function" ? text() : text))) return;
    setDone(true);
    setTimeout(() => setDone(false), SHOWN_MS);
  };
  return (
    <IconButton
      icon={isDone ? "check" : "copy"}
      label={isDone ? "Copied" : `Copy ${label}`}
      onClick={() => void copy()}
    />
  );
}
