/** A dialog with one form: state, submit, refusals at their fields, busy and close. */
import type { ComponentChildren } from "preact";
import { useEffect, useId } from "preact/hooks";
import { ApiError, messagesOf, type WireRequest } from "../api/client.ts";
import { useAction } from "../lib/resource.ts";
import { fieldProblems } from "../lib/schema.ts";
import { AsCommand } from "./as-command.tsx";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { ErrorPanel } from "./error-panel.tsx";

interface FormState {
  /** Refusals of the service by field; those that name no field have the key "". */
  readonly problems: Readonly<Record<string, string>>;
  readonly isBusy: boolean;
}

interface FormDialogProps {
  readonly title: string;
  /** The submit button, such as `Save rule`. */
  readonly verb: string;
  readonly shape?: "box" | "side" | "wide";
  readonly isDangerous?: boolean;
  /** False disables the submit button. */
  readonly isReady?: boolean;
  readonly onClose: () => void;
  /** Runs on submit, and closes the dialog by its owner's state; a failure is shown in the form. */
  readonly perform: () => Promise<unknown>;
  /** Adds a button that shows the effect without it. */
  readonly preview?: () => Promise<unknown>;
  /** Buttons before Cancel. */
  readonly buttons?: ComponentChildren;
  /** Fields; a function gets the refusals. */
  readonly children: ComponentChildren | ((state: FormState) => ComponentChildren);
  /** Follows a failure, such as the result of the preview. */
  readonly after?: ComponentChildren;
  /** Shown as a command. */
  readonly request?: WireRequest;
  /** Whether the fields show the whole refusal. */
  readonly isShownAtField?: (problems: FormState["problems"]) => boolean;
  /** A change of it clears the refusal. */
  readonly subject?: string;
}

/** A form in a dialog. `Cancel` and Escape close it, Enter in a field submits it. */
export function FormDialog({
  title,
  verb,
  shape = "side",
  isDangerous = false,
  isReady = true,
  onClose,
  perform,
  preview,
  buttons,
  children,
  after,
  request,
  isShownAtField = () => false,
  subject,
}: FormDialogProps) {
  const id = useId();
  const send = useAction(perform);
  const look = useAction(async () => preview?.());
  useEffect(() => {
    send.clear();
    look.clear();
  }, [subject]);
  const error = send.error ?? look.error;
  const problems = fieldProblems(messagesOf(error));
  return (
    <Dialog
      title={title}
      shape={shape}
      onClose={onClose}
      footer={
        <>
          {buttons}
          <Button onClick={onClose}>Cancel</Button>
          {preview && (
            <Button
              onClick={() => {
                send.clear();
                void look.run();
              }}
              isBusy={look.isBusy}
              disabled={!isReady}
            >
              Preview
            </Button>
          )}
          <Button
            kind={isDangerous ? "danger" : "primary"}
            type="submit"
            form={id}
            isBusy={send.isBusy}
            disabled={!isReady}
            needs={request}
          >
            {verb}
          </Button>
        </>
      }
    >
      <form
        id={id}
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void send.run();
        }}
      >
        {typeof children === "function" ? children({ problems, isBusy: send.isBusy }) : children}
        {error !== null && !isShownAtField(problems) && (
          <ErrorPanel error={error} title={error instanceof ApiError ? undefined : "Refused"} />
        )}
        {after}
        {request && <AsCommand request={request} />}
      </form>
    </Dialog>
  );
}
