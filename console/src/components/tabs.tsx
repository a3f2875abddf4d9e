import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { place, setQuery } from "../app/router.ts";

interface Tab {
  readonly name: string;
  readonly label: string;
  readonly badge?: string | number | undefined;
  readonly content: () => ComponentChildren;
}

/** Tabs; the selected one is part of the address. @param parameter of the query */
export function Tabs({
  tabs,
  label,
  parameter = "tab",
}: {
  readonly tabs: readonly Tab[];
  readonly label: string;
  readonly parameter?: string;
}) {
  const id = useId();
  const wanted = place.value.query.get(parameter);
  const current = Math.max(
    0,
    tabs.findIndex(({ name }) => name === wanted),
  );
  const selected = tabs[current];
  const select = (at: number): void => {
    const tab = tabs[(at + tabs.length) % tabs.length];
    if (!tab) return;
    setQuery({ [parameter]: tab === tabs[0] ? null : tab.name });
    document.getElementById(`${id}-${tab.name}`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const target = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    select(target);
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {tabs.map((tab, at) => (
          <button
            key={tab.name}
            id={`${id}-${tab.name}`}
            type="button"
            role="tab"
            class="tab"
            aria-selected={tab === selected}
            aria-controls={`${id}-panel`}
            tabIndex={tab === selected ? 0 : -1}
            onClick={() => select(at)}
          >
            {tab.label}
            {tab.badge !== undefined && tab.badge !== "" && <span class="tab-badge">{tab.badge}</span>}
          </button>
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${selected?.name}`}>
        {selected?.content()}
      </div>
    </>
  );
}
