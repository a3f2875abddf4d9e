import { type ComponentChildren, createContext } from "preact";
import { useContext, useLayoutEffect } from "preact/hooks";

/** Holds the dialog around it open, until the function that it returns is called. */
export type Hold = (what: string) => () => void;

export const DialogHold = createContext<Hold>(() => () => undefined);

interface ShownOnceProps {
  /** Such as `the token`. */
  readonly what: string;
  readonly children: ComponentChildren;
}

/**
 * A secret that no later request answers: Escape, the back button and links ask before they close it, and the browser
 * before it leaves the page. A button of the dialog's own closes at once.
 */
export function ShownOnce({ what, children }: ShownOnceProps) {
  const hold = useContext(DialogHold);
  // Other effects end after the next painting: a click meanwhile would be refused.
  useLayoutEffect(() => hold(what), [hold, what]);
  return <>{children}</>;
}
