/**
 * Addresses below `/ui/`: the first segment names the screen, the rest is the screen's own. The query holds the two
 * namespaces and what a screen wants to be part of a link. Never a secret.
 */

import { useEffect } from "preact/hooks";
import { signal } from "../lib/signal.ts";

interface Place {
  /** The screen's name; empty for the overview. */
  readonly screen: string;
  /** Decoded segments behind the screen's name. */
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
  readonly hash: string;
}

const BASE = "/ui/";
/** Parameters that links keep. */
const KEPT = ["ns", "cluster"];

/** Address of the place; the browser's own has changed already when it goes back. */
let shown = new URL(location.href);

export const place = signal<Place>(currentPlace());
/** Grows with every step to another path: focus moves to the heading then. */
export const steps = signal(0);

function currentPlace(): Place {
  const [screen = "", ...segments] = location.pathname.slice(BASE.length).split("/").map(decoded);
  return {
    screen,
    segments: segments.filter(Boolean),
    query: new URLSearchParams(location.search),
    hash: location.hash,
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Address of a screen. Segments may hold any character; the namespaces stay as selected unless `query` says otherwise.
 * @param query null removes a parameter
 */
export function href(
  screen: string,
  segments: readonly string[] = [],
  query: Readonly<Record<string, string | null>> = {},
): string {
  const search = new URLSearchParams();
  for (const name of KEPT) {
    const value = place.value.query.get(name);
    if (value) search.set(name, value);
  }
  for (const [name, value] of Object.entries(query))
    if (value === null || value === "") search.delete(name);
    else search.set(name, value);
  const path = [screen, ...segments]
    .filter((part) => part !== "")
    .map(encodeURIComponent)
    .join("/");
  return `${BASE}${path}${search.size > 0 ? `?${search}` : ""}`;
}

/** Called when the address would change while something on the page must not be lost. */
const holds = new Set<() => void>();

/** Keeps the page until the function that it returns is called; `ask` is called at each attempt to leave it. */
export function holdPlace(ask: () => void): () => void {
  holds.add(ask);
  return () => holds.delete(ask);
}

function isHeld(): boolean {
  for (const ask of holds) ask();
  return holds.size > 0;
}

export function go(address: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  const before = location.pathname;
  if (address === location.pathname + location.search || isHeld()) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  shown = new URL(location.href);
  place.value = currentPlace();
  if (location.pathname !== before) steps.value++;
}

/** Changes parameters of the current address; null removes one. */
export function setQuery(changes: Readonly<Record<string, string | null>>, { replace = true } = {}): void {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes))
    if (value === null || value === "") search.delete(name);
    else search.set(name, value);
  go(location.pathname + (search.size > 0 ? `?${search}` : ""), { replace });
}

/** Opens what a parameter of the address asks a screen for, once: "Go to" leads to forms and dialogs, too. */
export function useAsked(parameter: string, open: (what: string) => void, isReady = true): void {
  const what = isReady ? place.value.query.get(parameter) : null;
  useEffect(() => {
    if (what === null) return;
    setQuery({ [parameter]: null });
    open(what);
  }, [what]);
}

/** Follows links of the console without loading the page again. */
export function startRouter(): void {
  addEventListener("beforeunload", (event) => {
    if (holds.size > 0) event.preventDefault();
  });
  addEventListener("popstate", () => {
    const { pathname, search, hash } = shown;
    const isOther = pathname + search !== location.pathname + location.search;
    if (isOther && isHeld()) return history.pushState(null, "", pathname + search + hash);
    shown = new URL(location.href);
    place.value = currentPlace();
    if (isOther) steps.value++;
  });
  document.addEventListener("click", (event) => {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    const address = link.pathname + link.search;
    // A part of the same page, as of "Skip to the content", is the browser's to find.
    if (!link.pathname.startsWith(BASE) || (link.hash && address === location.pathname + location.search)) return;
    event.preventDefault();
    go(address);
  });
}
