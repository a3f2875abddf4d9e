import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Needs } from "../api/rights.ts";
import { barred } from "./button.tsx";
import { Icon, type IconName } from "./icons.tsx";

export interface MenuItem {
  readonly label: string;
  readonly icon?: IconName;
  readonly onSelect: () => void;
  readonly isDangerous?: boolean;
  readonly disabled?: boolean;
  /** The requests that it leads to. */
  readonly needs?: Needs;
}

/** A button that opens a list of actions. */
export function Menu({
  label,
  items,
  children,
}: {
  readonly label: string;
  readonly items: readonly MenuItem[];
  readonly children?: ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) return;
    const follow = (): void => placeBelow(list.current, box.current);
    follow();
    box.current?.querySelector<HTMLElement>("[role=menuitem]:not(:disabled)")?.focus();
    const closeOutside = (event: Event): void => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", closeOutside);
    // The page below the list moves, also when another part of it has been read.
    addEventListener("scroll", follow, true);
    addEventListener("resize", follow);
    return () => {
      document.removeEventListener("pointerdown", closeOutside);
      removeEventListener("scroll", follow, true);
      removeEventListener("resize", follow);
    };
  }, [isOpen]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!isOpen) return;
    const entries = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]:not(:disabled)") ?? [])];
    const at = entries.indexOf(document.activeElement as HTMLElement);
    const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 }[event.key];
    if (target !== undefined) {
      event.preventDefault();
      entries.at(target % entries.length)?.focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      if (event.key === "Escape") event.preventDefault();
      setOpen(false);
      box.current?.querySelector<HTMLElement>("[aria-haspopup]")?.focus();
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys of the menu inside
    <div class="menu" ref={box} onKeyDown={onKeyDown}>
      <button
        type="button"
        class={children ? "button button-normal" : "icon-button"}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={id}
        aria-label={children ? undefined : label}
        title={children ? undefined : label}
        onClick={() => setOpen(!isOpen)}
      >
        {children ?? <Icon name="more" />}
        {children && <Icon name="down" />}
      </button>
      {isOpen && (
        <div class="menu-list" popover="manual" ref={list} role="menu" id={id} aria-label={label}>
          {items.map(({ label: text, icon, onSelect, isDangerous, disabled, needs }) => (
            <button
              key={text}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={isDangerous ? "menu-item danger" : "menu-item"}
              disabled={disabled}
              onClick={() => {
                setOpen(false);
                box.current?.querySelector<HTMLElement>("[aria-haspopup]")?.focus();
                onSelect();
              }}
              {...barred(needs)}
            >
              {icon && <Icon name={icon} />}
              {text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

const GAP_PX = 4;

/** Shows a list above everything else, below its button, or above the button where there is no room. */
function placeBelow(list: HTMLElement | null, button: HTMLElement | null): void {
  if (!list || !button) return;
  list.togglePopover(true);
  const at = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = list;
  const below = at.bottom + GAP_PX;
  list.style.left = `${at.left + width + GAP_PX > innerWidth ? Math.max(GAP_PX, at.right - width) : at.left}px`;
  list.style.top = `${below + height > innerHeight ? Math.max(GAP_PX, at.top - height - GAP_PX) : below}px`;
}
