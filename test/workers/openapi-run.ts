import { expect, inject } from "vitest";
import type { Exchange } from "../openapi/checker.ts";
import { amount } from "../support/long.ts";
import { type Answer, send } from "./client.ts";
import { evictAll } from "./evict-all.ts";

/** Helpers for tests of the OpenAPI document: requests whose answers are checked against it. */

type Options = Parameters<typeof send>[3];

/** Callers that read query parameters for no operation: the audit log, LIST detection, forms, a node session, a relay. */
const NOT_FOR_OPERATIONS = /namespaceNamed|verbOf|formFields|NodeSession|EventRelay/;

interface Use {
  readonly caller: RegExp;
  readonly asked: readonly string[];
  /** Lists have these where their records have fields to filter by, and an order that can be turned. */
  readonly glanced?: readonly string[];
}

/** `readQuery` reads all parameters of lists and blocking queries; these attribute its calls. */
const USES: readonly Use[] = [
  { caller: /\bblocking\b/, asked: ["index", "wait", "stale"] },
  { caller: /\breadList\b/, asked: ["per_page", "next_token"], glanced: ["filter", "reverse"] },
  { caller: /\btokenPage\b/, asked: ["per_page", "next_token"] },
  { caller: /\bcollected\b/, asked: ["per_page", "next_token"] },
];

/** How an operation goes by a parameter that is looked at just now. */
function useOf(name: string): "asked" | "glanced" | null {
  const stack = new Error().stack ?? "";
  if (NOT_FOR_OPERATIONS.test(stack)) return null;
  const [, callers] = stack.split(/\breadQuery\b/);
  if (callers === undefined) return "asked";
  const [here = ""] = callers.split("\n").slice(1);
  const use = USES.find(({ caller }) => caller.test(here));
  if (use?.asked.includes(name)) return "asked";
  return use?.glanced?.includes(name) ? "glanced" : null;
}

interface Looked {
  readonly asked: Set<string>;
  readonly glanced: Set<string>;
}

/** Of the run that goes on. */
let looked: Looked | null = null;

for (const method of ["get", "getAll", "has"] as const) {
  const real = URLSearchParams.prototype[method] as (name: string) => unknown;
  Object.defineProperty(URLSearchParams.prototype, method, {
    value: function (this: URLSearchParams, name: string) {
      const use = looked && useOf(name);
      if (use) looked?.[use].add(name);
      return real.call(this, name);
    },
  });
}

/** How often all objects lose their memory before a request: in each long run before every one. */
const EVICTED_EACH = amount(12, 1);

/** Requests so far, over all tests of a file. */
let sent = 0;
/** Objects that were evicted from memory. */
let evicted = 0;

/** The longest timers by the file that set them: pending ones keep an object in memory (docs/internals/platform-limits.md). */
const timers = new Map<string, number>();

const setTimer = globalThis.setTimeout;
globalThis.setTimeout = ((run: (...given: unknown[]) => void, ms = 0, ...given: unknown[]) => {
  const [, from] = looked === null ? [] : (/\/(src\/[\w/-]+\.ts)/.exec(new Error().stack ?? "") ?? []);
  if (from !== undefined) timers.set(from, Math.max(ms, timers.get(from) ?? 0));
  return setTimer(() => run(...given), ms);
}) as typeof setTimeout;

/** Where the platform evicted an object in spite of a timer, before compatibility date 2026-10-01. */
const EVICTED_AFTER_MS = 70_000;

/** @throws AssertionError for a timer of the service that keeps an object in memory for longer than before */
export const expectShortTimers = (): void => {
  expect(timers.size).toBeGreaterThan(3);
  expect([...timers].filter(([, ms]) => ms >= EVICTED_AFTER_MS)).toEqual([]);
};

/** @throws AssertionError unless evictions took place in the tests of the file */
export const expectEvictions = (): void => {
  expect(evicted).toBeGreaterThan(sent / EVICTED_EACH);
};

/** Sends a request, and records request and response. An eviction between any two changes no answer. */
export class Run {
  /** False while a test depends on what an object keeps in memory only. */
  evicts = true;
  readonly #seen: Exchange[] = [];
  readonly #looked: Looked = { asked: new Set(), glanced: new Set() };

  constructor() {
    looked = this.#looked;
  }

  /** @throws Error when the answer is no success */
  async ok(method: string, path: string, body?: unknown, options?: Options): Promise<Answer> {
    const answer = await this.any(method, path, body, options);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer;
  }

  async any(method: string, path: string, body?: unknown, options?: Options): Promise<Answer> {
    if (this.evicts && sent++ % EVICTED_EACH === 0) evicted += await evictAll();
    this.#forget();
    const answer = await send(method, path, body, options);
    this.keep(method, path, body, answer);
    return answer;
  }

  keep(
    method: string,
    path: string,
    body: unknown,
    answer: Pick<Answer, "status" | "headers" | "text"> & Pick<Exchange, "frames">,
  ): void {
    const isList = method === "LIST";
    this.#seen.push({
      method: isList ? "GET" : method,
      path: isList ? `${path}${path.includes("?") ? "&" : "?"}list=true` : path,
      sent: body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body),
      status: answer.status,
      type: answer.headers.get("Content-Type"),
      text: answer.text,
      headers: Object.fromEntries(answer.headers),
      asked: [...this.#looked.asked, ...(isList ? ["list"] : []), ...(path.includes("scan=true") ? ["scan"] : [])],
      glanced: [...this.#looked.glanced],
      ...(answer.frames && { frames: answer.frames }),
    });
    this.#forget();
  }

  #forget(): void {
    this.#looked.asked.clear();
    this.#looked.glanced.clear();
  }

  /** The parts of the exchanges that the document does not describe. */
  async problems(): Promise<string[]> {
    looked = null;
    return (await ask("/check", this.#seen)) as string[];
  }
}

/** Operations that no test of this run has seen succeed. @param tags which ones are asked about */
export const unproven = async (tags: readonly string[]): Promise<string[]> =>
  (await ask("/unproven", tags)) as string[];

/** Query parameters that are described, and that were not read in this run. */
export const unasked = async (tags: readonly string[]): Promise<string[]> => (await ask("/unasked", tags)) as string[];

/** The checker is a process of its own, as it makes code from schemas, which the Workers runtime does not allow. */
async function ask(path: string, body: unknown): Promise<unknown> {
  const answer = await fetch(`${inject("openApiChecker")}${path}`, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
