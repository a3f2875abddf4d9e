import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useId, useRef, useState } from "preact/hooks";
import { holdPlace } from "../app/router.ts";
import { Button, IconButton } from "./button.tsx";
import { DialogHold, type Hold } from "./shown-once.tsx";

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
 * at the side that holds something, and a secret that is shown once, are not thrown away before the person says so.
 */
export function Dialog({ title, onClose, children, footer, shape = "box" }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [isAsking, setAsking] = useState(false);
  const touched = useRef(new Set<HTMLInputElement>());
  const [once, setOnce] = useState<readonly string[]>([]);
  const hold = useCallback<Hold>((what) => {
    const release = holdPlace(() => setAsking(true));
    setOnce((held) => [...held, what]);
    return () => {
      release();
      setOnce((held) => held.toSpliced(held.indexOf(what), 1));
    };
  }, []);
  const close = (): void => {
    const isFilled = [...touched.current].some((field) => field.isConnected && field.value !== "");
    if (once.length > 0 || (shape !== "box" && isFilled)) setAsking(true);
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
      onClose={() => {
        // The browser closes without asking at a second request in a row.
        ref.current?.showModal();
        close();
      }}
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
        <DialogHold.Provider value={hold}>{children}</DialogHold.Provider>
      </div>
      {isAsking ? (
        <div class="dialog-foot dialog-ask" role="alert">
          <span>
            {once.length > 0 ? `Close? Nothing shows ${once.join(" and ")} again.` : "Discard what you have entered?"}
          </span>
          <Button onClick={() => setAsking(false)}>{once.length > 0 ? "Keep it open" : "Keep editing"}</Button>
          <Button kind="danger" onClick={onClose}>
            {once.length > 0 ? "Close" : "Discard"}
          </Button>
        </div>
      ) : (
        footer && <div class="dialog-foot">{footer}</div>
      )}
    </dialog>
  );
}
