import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, type Operation, type Options, type WireRequest, wireRequest } from "../api/client.ts";
import { signal } from "../lib/signal.ts";
import { TextField } from "./field.tsx";
import { FormDialog } from "./form-dialog.tsx";

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

/** Asks before it sends one request. */
export const confirmed = <Op extends Operation>(
  question: Omit<Question, "request" | "perform">,
  ...request: readonly [op: Op, options: Options<Op>]
): Promise<boolean> => confirm({ ...question, request: wireRequest(...request), perform: () => api(...request) });

/** Asks before one request deletes an object. Resolves with whether it was deleted. */
export const confirmDelete = <Op extends Operation>(
  what: string,
  name: string,
  text: ComponentChildren,
  ...request: readonly [op: Op, options: Options<Op>]
): Promise<boolean> =>
  confirmed({ title: `Delete the ${what} ${name}`, text, verb: `Delete ${what}`, isDangerous: true }, ...request);

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
  const close = (done: boolean): void => {
    asked.value = null;
    answer(done);
  };
  return (
    <FormDialog
      title={title}
      verb={verb}
      shape="box"
      isDangerous={isDangerous}
      onClose={() => close(false)}
      isReady={typed === undefined || entered === typed}
      perform={async () => {
        await perform();
        close(true);
      }}
      {...(request && { request })}
    >
      <div class="prose">{text}</div>
      {typed !== undefined && (
        <TextField label={<Typed text={typed} />} value={entered} onChange={setEntered} mono autofocus />
      )}
    </FormDialog>
  );
}
