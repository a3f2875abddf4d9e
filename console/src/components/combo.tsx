/**
 * Text with a list of things that exist: arrow keys move through it, Enter takes one, and other text may still be
 * typed.
 */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons.tsx";

const MAX_OPTIONS = 200;

interface ComboProps {
  readonly id: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** One that ends with a slash is a folder: the list stays open for what is in it. */
  readonly options: readonly string[];
  readonly class: string;
  readonly placeholder?: string | undefined;
  readonly required?: boolean | undefined;
  readonly disabled?: boolean | undefined;
  readonly autofocus?: boolean | undefined;
  readonly "aria-describedby"?: string | undefined;
  readonly "aria-invalid": boolean;
}

export function Combo({ options, value, onChange, id, ...input }: ComboProps) {
  /** `all`: opened by the person, so that what is typed already hides nothing. */
  const [open, setOpen] = useState<"no" | "found" | "all">("no");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const words = value.toLowerCase();
  const found = options
    .filter((option) => (open === "all" && !value.endsWith("/")) || option.toLowerCase().includes(words))
    .slice(0, MAX_OPTIONS);
  const isOpen = open !== "no" && found.length > 0 && (found.length > 1 || found[0] !== value);
  const current = Math.min(at, found.length - 1);
  useLayoutEffect(() => {
    const place = field.current?.getBoundingClientRect();
    if (!isOpen || !list.current || !place) return;
    list.current.showPopover();
    list.current.style.left = `${place.left}px`;
    list.current.style.top = `${place.bottom + 2}px`;
    list.current.style.width = `${place.width}px`;
  }, [isOpen]);
  useLayoutEffect(() => {
    list.current?.children[current]?.scrollIntoView({ block: "nearest" });
  }, [current, isOpen]);
  useEffect(() => {
    if (!isOpen) return;
    const closeOnScroll = ({ target }: Event): void => {
      if (target !== list.current && target !== field.current) setOpen("no");
    };
    addEventListener("scroll", closeOnScroll, true);
    return () => removeEventListener("scroll", closeOnScroll, true);
  }, [isOpen]);
  useEffect(() => {
    if (input.autofocus) field.current?.focus();
  }, []);
  const show = (how: typeof open): void => {
    setOpen(how);
    setAt(0);
  };
  const take = (option: string | undefined): void => {
    if (option === undefined) return;
    onChange(option);
    show(option.endsWith("/") ? "found" : "no");
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" && !isOpen) show("all");
    else if (!isOpen) return;
    else if (event.key === "ArrowDown") setAt((current + 1) % found.length);
    else if (event.key === "ArrowUp") setAt((current - 1 + found.length) % found.length);
    else if (event.key === "Enter") take(found[current]);
    else if (event.key === "Escape") show("no");
    else return;
    event.preventDefault();
  };
  return (
    <div class="combo">
      <input
        {...input}
        type="text"
        autocomplete="off"
        spellcheck={false}
        id={id}
        ref={field}
        value={value}
        role="combobox"
        aria-autocomplete="list"
        aria-expanded={isOpen}
        aria-controls={isOpen ? `${id}-list` : undefined}
        aria-activedescendant={isOpen ? `${id}-${current}` : undefined}
        onInput={(event) => {
          onChange(event.currentTarget.value);
          show("found");
        }}
        onClick={() => show("all")}
        onBlur={() => show("no")}
        onKeyDown={onKeyDown}
      />
      <Icon name="down" />
      {isOpen && (
        <div class="combo-list" popover="manual" ref={list} id={`${id}-list`} role="listbox" aria-label="Choices">
          {found.map((option, index) => (
            <div
              key={option}
              id={`${id}-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === current}
              class="combo-option"
              // Before the field loses the focus, which closes the list.
              onMouseDown={(event) => {
                event.preventDefault();
                take(option);
              }}
            >
              {option}
            </div>
          ))}
        </div>
      )}
    </div>
  );
}
