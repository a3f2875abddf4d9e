import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { WireRequest } from "../api/client.ts";
import { AsCommand } from "./as-command.tsx";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { ErrorPanel } from "./error-panel.tsx";
import { TextField } from "./field.tsx";

interface Question {
  readonly title: string;
  /** The effect, and whether it can be undone. */
  readonly text: ComponentChildren;
  /** The button's verb, such as `Delete version 3`. */
  readonly verb: string;
  readonly isDangerous?: boolean;
  /** The person types this first: for what cannot be undone. */
  readonly typed?: string;
  /** Shown as a command. */
  readonly request?: WireRequest;
  /** Runs while the dialog is open; a failure is shown in it. */
  readonly perform: () => Promise<unknown>;
}

interface Asked extends Question {
  readonly answer: (done: boolean) => void;
}

const asked = signal<Asked | null>(null);

/** Asks before it acts. Resolves with whether the action was done; its failures stay in the dialog until it is closed. */
export function confirm(question: Question): Promise<boolean> {
  return new Promise((resolve) => {
    asked.value = { ...question, answer: resolve };
  });
}

export function ConfirmHost() {
  const question = asked.value;
  return question && <ConfirmDialog key={question.title} {...question} />;
}

/** `Type NAME to confirm`, with the name set apart. */
export const Typed = ({ text }: { readonly text: string }) => (
  <>
    Type <code>{text}</code> to confirm
  </>
);

function ConfirmDialog({ title, text, verb, isDangerous = false, typed, request, perform, answer }: Asked) {
  const [entered, setEntered] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const close = (done: boolean): void => {
    asked.value = null;
    answer(done);
  };
  const run = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await perform();
      close(true);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const footer = (
    <>
      <Button onClick={() => close(false)}>Cancel</Button>
      <Button
        kind={isDangerous ? "danger" : "primary"}
        type="submit"
        form="confirm"
        isBusy={isBusy}
        disabled={typed !== undefined && entered !== typed}
      >
        {verb}
      </Button>
    </>
  );
  return (
    <Dialog title={title} onClose={() => close(false)} footer={footer}>
      <form
        id="confirm"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <div class="prose">{text}</div>
        {typed !== undefined && (
          <TextField label={<Typed text={typed} />} value={entered} onChange={setEntered} mono autofocus />
        )}
      </form>
      {error !== null && <ErrorPanel error={error} />}
      {request && <AsCommand request={request} />}
    </Dialog>
  );
}
