import type { ComponentChildren } from "preact";
import { askAgain, lackingOf, type Needs } from "../api/rights.ts";
import { Icon, type IconName } from "./icons.tsx";
import { toast } from "./toasts.tsx";

type Kind = "primary" | "normal" | "quiet" | "danger";

/**
 * Attributes of a button whose requests the token may not send: it keeps its place and its focus, names the missing
 * right, and does nothing else. A click has the right asked for again.
 */
export function barred(needs: Needs) {
  const lacking = lackingOf(needs);
  return (
    lacking !== null && {
      "aria-disabled": true,
      title: lacking,
      onClick: (event: MouseEvent) => {
        event.preventDefault();
        toast(lacking, "warn");
        askAgain();
      },
    }
  );
}

interface ButtonProps {
  readonly children: ComponentChildren;
  readonly onClick?: ((event: MouseEvent) => void) | undefined;
  readonly kind?: Kind;
  readonly icon?: IconName;
  readonly type?: "button" | "submit";
  readonly form?: string;
  /** Work is under way: shows it and takes no further click. */
  readonly isBusy?: boolean;
  readonly disabled?: boolean;
  readonly title?: string;
  readonly autofocus?: boolean;
  /** The requests that it leads to. */
  readonly needs?: Needs;
}

export function Button({
  children,
  onClick,
  kind = "normal",
  icon,
  type = "button",
  form,
  isBusy = false,
  disabled = false,
  title,
  autofocus,
  needs,
}: ButtonProps) {
  return (
    <button
      type={type}
      form={form}
      class={`button button-${kind}`}
      onClick={(event) => {
        if (isBusy) event.preventDefault();
        else onClick?.(event);
      }}
      disabled={disabled}
      aria-busy={isBusy}
      title={title}
      autofocus={autofocus}
      {...barred(needs)}
    >
      {isBusy ? <span class="spinner" aria-hidden="true" /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

interface IconButtonProps {
  readonly icon: IconName;
  /** The action in words: tooltip and accessible name of the icon. */
  readonly label: string;
  readonly onClick: (event: MouseEvent) => void;
  readonly pressed?: boolean;
  readonly expanded?: boolean;
  readonly disabled?: boolean;
  readonly needs?: Needs;
}

export function IconButton({ icon, label, onClick, pressed, expanded, disabled = false, needs }: IconButtonProps) {
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      aria-expanded={expanded}
      disabled={disabled}
      onClick={onClick}
      {...barred(needs)}
    >
      <Icon name={icon} />
    </button>
  );
}

/** A link that looks like a button. */
export function LinkButton({
  href,
  children,
  kind = "normal",
  icon,
  newTab = false,
  needs,
}: {
  readonly href: string;
  readonly children: ComponentChildren;
  readonly kind?: Kind;
  readonly icon?: IconName;
  readonly newTab?: boolean;
  readonly needs?: Needs;
}) {
  return (
    <a
      class={`button button-${kind}`}
      href={href}
      target={newTab ? "_blank" : undefined}
      rel={newTab ? "noreferrer" : undefined}
      {...barred(needs)}
    >
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}
