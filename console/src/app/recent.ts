/**
 * Objects that were opened last, and favourites. The browser keeps their kinds, names and addresses, for each caller
 * apart; for a token that may not look itself up nothing is kept.
 */
import { caller } from "../api/session.ts";
import type { IconName } from "../components/icons.tsx";
import { effect } from "../lib/signal.ts";
import { href, place } from "./router.ts";

export interface Visited {
  readonly label: string;
  readonly kind: string;
  readonly icon: IconName;
  readonly address: string;
  readonly isFavourite?: boolean;
}

const PREFIX = "sallyport.visited";
const MAX_RECENT = 8;
const MAX_FAVOURITES = 30;

function storageKey(): string | null {
  const of = caller.value;
  return of?.accessor ? `${PREFIX} ${of.namespace}/${of.name}` : null;
}

const isVisited = (value: unknown): value is Visited =>
  typeof value === "object" &&
  value !== null &&
  ["label", "kind", "icon", "address"].every((name) => typeof (value as Record<string, unknown>)[name] === "string") &&
  (value as Visited).address.startsWith("/");

/** Favourites first, then the others, the last opened first. */
export function visited(): readonly Visited[] {
  const key = storageKey();
  if (key === null) return [];
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    const all = Array.isArray(kept) ? kept.filter(isVisited) : [];
    return [...all.filter((one) => one.isFavourite), ...all.filter((one) => !one.isFavourite)];
  } catch {
    return [];
  }
}

function keep(all: readonly Visited[]): void {
  const key = storageKey();
  if (key === null) return;
  const favourites = all.filter((one) => one.isFavourite).slice(0, MAX_FAVOURITES);
  const others = all.filter((one) => !one.isFavourite).slice(0, MAX_RECENT);
  localStorage.setItem(key, JSON.stringify([...favourites, ...others]));
}

/** Puts an object before the other recent ones; a favourite stays one. */
export function visit(opened: Visited): void {
  const all = visited();
  const known = all.find(({ address }) => address === opened.address);
  keep([{ ...opened, isFavourite: known?.isFavourite === true }, ...all.filter((one) => one !== known)]);
}

/** Keeps each secret, role and destination whose page is opened. */
export function startVisits(): void {
  effect(() => {
    const { screen, segments, query } = place.value;
    const namespace = query.get("ns");
    const [first = "", second = "", ...rest] = segments;
    const keep = (label: string, kind: string, icon: IconName): void =>
      visit({ label, kind: namespace ? `${kind} of ${namespace}` : kind, icon, address: href(screen, segments) });
    if (screen === "secrets" && second === "at") keep(rest.join("/"), `secret in ${first}`, "key");
    if (screen === "credentials" && second) keep(second, `role in ${first}`, "key");
    if (screen === "sync" && second && first !== "new") keep(second, "destination", "sync");
  });
}

/** Makes an object a favourite, or ends that. @returns whether it is one now */
export function toggleFavourite(object: Visited): boolean {
  const all = visited();
  const known = all.find(({ address }) => address === object.address);
  const isFavourite = known?.isFavourite !== true;
  keep([{ ...object, isFavourite }, ...all.filter((one) => one !== known)]);
  return isFavourite;
}

/** Forgets all of them, of every caller. */
export function forgetVisited(): void {
  for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key);
}
