import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icons.tsx";

type Kind = "primary" | "normal" | "quiet" | "danger";

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
}

export function IconButton({ icon, label, onClick, pressed, expanded, disabled = false }: IconButtonProps) {
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
}: {
  readonly href: string;
  readonly children: ComponentChildren;
  readonly kind?: Kind;
  readonly icon?: IconName;
  readonly newTab?: boolean;
}) {
  return (
    <a
      class={`button button-${kind}`}
      href={href}
      target={newTab ? "_blank" : undefined}
      rel={newTab ? "noreferrer" : undefined}
    >
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}
