import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Button, IconButton } from "./button.tsx";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Buttons below, the main one last. */
  readonly footer?: ComponentChildren;
  /** `side` for forms and details: the list stays visible beside it. */
  readonly shape?: "box" | "side" | "wide";
}

/**
 * A modal dialog: the browser keeps the focus inside, Escape closes it, and the focus returns to where it was. A form
 * at the side that holds something is not thrown away by Escape before the person says so.
 */
export function Dialog({ title, onClose, children, footer, shape = "box" }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [isAsking, setAsking] = useState(false);
  const touched = useRef(new Set<HTMLInputElement>());
  const close = (): void => {
    const isFilled = [...touched.current].some((field) => field.isConnected && field.value !== "");
    if (shape !== "box" && isFilled) setAsking(true);
    else onClose();
  };
  useEffect(() => {
    if (isAsking) ref.current?.querySelector<HTMLElement>(".dialog-ask button")?.focus();
  }, [isAsking]);
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={`dialog dialog-${shape}`}
      aria-labelledby={id}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        close();
      }}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClose={onClose}
    >
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </div>
      <div
        class="dialog-body"
        onInput={({ target }) => {
          if (target instanceof Element && target.closest("form")) touched.current.add(target as HTMLInputElement);
        }}
      >
        {children}
      </div>
      {isAsking ? (
        <div class="dialog-foot dialog-ask" role="alert">
          <span>Discard what you have entered?</span>
          <Button onClick={() => setAsking(false)}>Keep editing</Button>
          <Button kind="danger" onClick={onClose}>
            Discard
          </Button>
        </div>
      ) : (
        footer && <div class="dialog-foot">{footer}</div>
      )}
    </dialog>
  );
}
