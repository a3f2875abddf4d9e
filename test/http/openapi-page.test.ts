import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";
import { expect, it } from "vitest";

/** Runs the page's own script on a minimal DOM. */

const html = readFileSync("docs/openapi.html", "utf8");
const api = JSON.parse(readFileSync("docs/openapi.json", "utf8")) as {
  paths: Record<string, Record<string, { operationId: string; summary: string }>>;
};
const operations = Object.values(api.paths).flatMap((item) => Object.values(item));

class Element {
  value = "";
  readonly attributes = new Map<string, string>();
  readonly listeners = new Map<string, (event: object) => void>();
  #children: (Element | string)[] = [];
  readonly #classes = new Set<string>();
  readonly classList = {
    contains: (name: string) => this.#classes.has(name),
    toggle: (name: string, on: boolean) => (on ? this.#classes.add(name) : this.#classes.delete(name)),
  };
  set className(_names: string) {}
  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }
  append(...children: (Element | string)[]): void {
    // As in a browser, other values are inserted as text, so a stray undefined is visible.
    this.#children.push(...children.map((child) => (child instanceof Element ? child : String(child))));
  }
  replaceChildren(...children: (Element | string)[]): void {
    this.#children = [];
    this.append(...children);
  }
  addEventListener(name: string, listener: (event: object) => void): void {
    this.listeners.set(name, listener);
  }
  get text(): string {
    return this.#children.map((child) => (typeof child === "string" ? child : child.text)).join("");
  }
  get links(): string[] {
    const own = this.attributes.get("href");
    return [
      ...(own === undefined ? [] : [own]),
      ...this.#children.flatMap((child) => (typeof child === "string" ? [] : child.links)),
    ];
  }
}

/** The page after loading. */
async function open() {
  const parts = new Map(["search", "main", "list", "operations", "toggle"].map((id) => [id, new Element()]));
  const part = (id: string): Element => parts.get(id) ?? new Element();
  const windowListeners = new Map<string, () => void>();
  const location = { hash: "" };
  const answered = Promise.resolve({ ok: true, json: () => Promise.resolve(structuredClone(api)) });
  const page = {
    location,
    scrollTo: () => {},
    fetch: () => answered,
    document: { title: "", getElementById: part, createElement: () => new Element(), querySelector: () => null },
    addEventListener: (name: string, listener: () => void) => windowListeners.set(name, listener),
  };
  const [, script = ""] = /<script>(.*?)<\/script>/s.exec(html) ?? [];
  runInContext(script, createContext(page));
  await new Promise((resolve) => setTimeout(resolve, 0));
  return {
    main: part("main"),
    list: part("list"),
    operations: part("operations"),
    toggle: part("toggle"),
    title: () => page.document.title,
    search: (words: string) => {
      part("search").value = words;
      part("search").listeners.get("input")?.({});
    },
    go: (id: string) => {
      location.hash = `#${id}`;
      windowListeners.get("hashchange")?.();
    },
  };
}

it("lists every operation and starts with the introduction", async () => {
  const { main, list } = await open();
  expect(list.links.sort()).toEqual(operations.map(({ operationId }) => `#${operationId}`).sort());
  expect(main.text).toContain(`${operations.length} operations`);
});

it("finds operations by words of their method, path, id, summary and tag", async () => {
  const { list, search } = await open();
  search("post HOST create");
  expect(list.links).toEqual([]);
  search("put host CREATE");
  expect(list.links).toEqual(["#createHostVolume"]);
  search("list secret/metadata");
  expect(list.links.sort()).toEqual(["#listSecrets", "#listSecretsAtRoot"]);
  search("no such thing");
  expect(list.text).toBe("Nothing found.");
});

it("shows each operation with its requirements, responses and errors", async () => {
  const { main, title, go } = await open();
  for (const { operationId, summary } of operations) {
    go(operationId);
    expect(title()).toBe(`${summary} · Sallyport API`);
    for (const section of ["Requires", "Responses", "Errors"]) expect(main.text, operationId).toContain(section);
    expect(main.text, operationId).not.toMatch(/\bundefined\b|\[object|\bnull\s+null\b/);
  }
  go("createHostVolume");
  expect(main.text).toContain("namespace:host-volume-create");
  expect(main.text).toContain("Constraints");
  expect(main.text).toContain('curl -X PUT -H "X-Orch-Token: $SALLYPORT_TOKEN"');
  go("listSecrets");
  expect(main.text).toContain("/v1/secret/metadata/{path}?list=true");
});

it("shows method and path of each operation in the sidebar, and folds aliases", async () => {
  const { list } = await open();
  expect(list.text).toContain("POST/auth/token/create");
  expect(list.text).toMatch(/\d aliases/);
});

it("opens the list of operations on a phone by its button, and closes it after a choice", async () => {
  const { operations: nav, toggle, go } = await open();
  toggle.listeners.get("click")?.({});
  expect(nav.classList.contains("open")).toBe(true);
  go("createHostVolume");
  expect(nav.classList.contains("open")).toBe(false);
});
