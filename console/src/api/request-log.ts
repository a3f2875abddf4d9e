/** The last requests of this tab, for the panel "as a command". Holds no token, and no value of a sensitive request. */
import { signal } from "../lib/signal.ts";
import type { WireRequest } from "./client.ts";

interface Recorded extends WireRequest {
  readonly id: number;
  readonly status: number;
  readonly ms: number;
  readonly time: number;
}

const KEPT = 100;
let last = 0;

export const recorded = signal<readonly Recorded[]>([]);

export function record({
  sensitive,
  started,
  body,
  ...request
}: WireRequest & { readonly sensitive: boolean; readonly status: number; readonly started: number }): void {
  const entry = {
    ...request,
    body: sensitive ? withoutValues(body) : body,
    id: ++last,
    ms: Math.round(performance.now() - started),
    time: Date.now(),
  };
  recorded.value = [entry, ...recorded.peek()].slice(0, KEPT);
}

/** The same structure with every leaf left out. */
export function withoutValues(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutValues);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutValues(member)]));
  return value === undefined || value === null ? value : "…";
}
