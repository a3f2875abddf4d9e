import { useState } from "preact/hooks";
import { IconButton } from "./button.tsx";
import { toast } from "./toasts.tsx";

const SHOWN_MS = 1_500;

/** Copies a text. @param label what is copied, such as `the token` */
export function CopyButton({ text, label }: { readonly text: string | (() => string); readonly label: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setDone(true);
      setTimeout(() => setDone(false), SHOWN_MS);
    } catch {
      toast("The browser does not allow this page to copy.", "bad");
    }
  };
  return (
    <IconButton
      icon={isDone ? "check" : "copy"}
      label={isDone ? "Copied" : `Copy ${label}`}
      onClick={() => void copy()}
    />
  );
}
