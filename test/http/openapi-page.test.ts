import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";
import { expect, it } from "vitest";

/** The page's own script, on just enough of a document to see what it shows. */

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
  set className(_names: string) {}
  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }
  append(...children: (Element | string)[]): void {
    // As in a browser: what is no element is its text, so a stray undefined would show.
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

/** The page as it is after it has loaded. */
async function open() {
  const parts = new Map(["search", "main", "list"].map((id) => [id, new Element()]));
  const part = (id: string): Element => parts.get(id) ?? new Element();
  const windowListeners = new Map<string, () => void>();
  const location = { hash: "" };
  const answered = Promise.resolve({ ok: true, json: () => Promise.resolve(structuredClone(api)) });
  const page = {
    ...{ location, scrollTo: () => {}, fetch: () => answered },
    document: { title: "", getElementById: part, createElement: () => new Element(), querySelector: () => null },
    addEventListener: (name: string, listener: () => void) => windowListeners.set(name, listener),
  };
  const [, script = ""] = /<script>(.*?)<\/script>/s.exec(html) ?? [];
  runInContext(script, createContext(page));
  await new Promise((resolve) => setTimeout(resolve, 0));
  return {
    main: part("main"),
    list: part("list"),
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

it("lists every operation, and says first what the API is", async () => {
  const { main, list } = await open();
  expect(list.links.sort()).toEqual(operations.map(({ operationId }) => `#${operationId}`).sort());
  expect(main.text).toContain(`${operations.length} operations`);
});

it("finds operations by any words of their method, path, name, summary and area", async () => {
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

it("shows each operation whole: how it is called, what it takes and what it answers", async () => {
  const { main, title, go } = await open();
  for (const { operationId, summary } of operations) {
    go(operationId);
    expect(title()).toBe(`${summary} · Sallyport API`);
    expect(main.text, operationId).toContain("Answers");
    expect(main.text, operationId).not.toMatch(/\bundefined\b|\[object|\bnull\s+null\b/);
  }
  go("createHostVolume");
  expect(main.text).toContain("namespace:host-volume-create");
  expect(main.text).toContain("Constraints");
  expect(main.text).toContain('curl -X PUT -H "X-Orch-Token: $SALLYPORT_TOKEN"');
  go("listSecrets");
  expect(main.text).toContain("/v1/secret/metadata/{path}?list=true");
});
