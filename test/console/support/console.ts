/** The console in a browser, as a person uses it, with everything counted that must not happen. */
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { beforeAll, describe, expect, inject, onTestFailed } from "vitest";
import type { Bench } from "./setup.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Runs in every page before its own scripts: records violations of the policy, and whether a canary of the tests has run. */
const WATCH = `
  globalThis.violations = [];
  globalThis.canaries = 0;
  addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective + " " + event.blockedURI));
`;

/** Markup and script that do harm where a name is taken for HTML; harmless as text. */
export const CANARY = `<img src=x onerror="canaries++"><script>canaries++</script>"'\`{{7*7}}`;

/** The service answers 404 for an empty list, which the browser counts as a failed load. */
const EMPTY_LIST =
  /404 GET \/v1\/([\w-]+\/static-roles|sys\/(quotas\/(rate-limit|lease-count)|notifications\/(rules|channels))$)/;

export interface OpenOptions extends BrowserContextOptions {
  /** Null stays at the log-in. Default: the root token. */
  readonly token?: string | null;
  /** Below `/ui/`. */
  readonly path?: string;
  /** Refusals that the test provokes: they match `status VERB path`. */
  readonly refusals?: readonly RegExp[];
  readonly theme?: "light" | "dark";
  /** For tests that change what a page cannot take back: its clock, its network. */
  readonly isNewProfile?: boolean;
}

/** One page of the console. */
export class Console {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly bench: Bench;
  readonly problems: string[] = [];
  readonly #leave: () => Promise<void>;
  refusals: readonly RegExp[];

  /** @param leave closes the page, or returns it to its owner */
  constructor(bench: Bench, page: Page, refusals: readonly RegExp[], leave: () => Promise<void>) {
    this.bench = bench;
    this.context = page.context();
    this.page = page;
    this.refusals = refusals;
    this.#leave = leave;
    page.on("console", (message) => {
      const isRefusal = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isRefusal) this.problems.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.problems.push(`error: ${error.stack ?? error.message}`));
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText ?? "";
      // A read that is no longer needed is aborted by the page itself.
      if (why !== "net::ERR_ABORTED") this.#note(`${why} ${request.method()} ${pathOf(request.url())}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400)
        this.#note(`${response.status()} ${response.request().method()} ${pathOf(response.url())}`);
    });
  }

  #note(line: string): void {
    if (![EMPTY_LIST, ...this.refusals].some((refusal) => refusal.test(line))) this.problems.push(line);
  }

  async go(path: string): Promise<void> {
    await this.page.goto(`${this.bench.url}/ui/${path}`);
  }

  /** Logs in by token on the page that is open. */
  async logIn(token: string): Promise<void> {
    await this.page.getByRole("button", { name: "Token", exact: true }).click();
    await this.page.getByLabel("Token", { exact: false }).first().fill(token);
    await this.page.getByRole("button", { name: "Log in", exact: true }).click();
    await this.page.locator("#main").waitFor();
  }

  /** Goes to another screen by its address without a reload, which would forget the token. */
  async visit(path: string): Promise<void> {
    await this.page.evaluate((address) => {
      const link = document.createElement("a");
      link.href = address;
      document.body.append(link);
      link.click();
      link.remove();
    }, `/ui/${path}`);
  }

  /** Waits for the screen, which has a heading or a paragraph, and for everything that it reads. */
  async shown(): Promise<void> {
    await this.page.locator("main").locator("h1, p").first().waitFor();
    await expect.poll(() => this.page.locator("main .loading").count()).toBe(0);
  }

  /** Fails on everything that must not happen, accessibility violations included. */
  async expectClean(): Promise<void> {
    // Not in every page: many are left without this check.
    if (!(await this.page.evaluate("'axe' in globalThis"))) await this.page.evaluate(AXE);
    const found = await this.page.evaluate(async () => {
      const page = globalThis as unknown as {
        axe: {
          run: (
            options: object,
          ) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
        };
        violations: string[];
        canaries: number;
      };
      // A button that has just become usable is still fading in.
      const ends = document
        .getAnimations()
        .filter(({ effect }) => effect?.getTiming().iterations !== Number.POSITIVE_INFINITY);
      await Promise.allSettled(ends.map(({ finished }) => finished));
      const { violations } = await page.axe.run({ reporter: "no-passes" });
      const beyond = document.documentElement.scrollWidth - document.documentElement.clientWidth;
      const lines = violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => `axe ${id}: ${html}\n  ${failureSummary}`),
      );
      return [
        ...lines,
        ...page.violations.map((line) => `policy: ${line}`),
        ...(beyond > 0 ? [`the page is ${beyond} px wider than its window`] : []),
        ...(page.canaries > 0 ? [`${page.canaries} canaries ran`] : []),
      ];
    });
    expect([...this.problems, ...found]).toEqual([]);
  }

  /** A picture for the docs or for the eye, where `CONSOLE_SHOTS` names a folder. */
  async shot(name: string): Promise<void> {
    const dir = process.env["CONSOLE_SHOTS"];
    if (!dir) return;
    mkdirSync(dir, { recursive: true });
    // A stream is never idle.
    await this.page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => undefined);
    await this.page.screenshot({ path: join(dir, `${name}.png`), animations: "disabled" });
  }

  /** A picture of the docs, written where `CONSOLE_PICTURES` is set. */
  async picture(name: string): Promise<void> {
    await this.shot(name);
    if (!process.env["CONSOLE_PICTURES"]) return;
    await this.page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => undefined);
    // Messages of the steps before are none of the screen.
    await this.page.locator(".toast").first().waitFor({ state: "hidden" });
    const path = `docs/images/${name}.png`;
    mkdirSync("docs/images", { recursive: true });
    const { byteLength } = await this.page.screenshot({ path, animations: "disabled" });
    expect(byteLength, path).toBeLessThan(150 * 1024);
  }

  /** Prints the address, the text and the problems of a page that is still open. */
  async report(): Promise<void> {
    if (this.page.isClosed()) return;
    const text = await this.page.locator("body").ariaSnapshot({ timeout: 5_000 }).catch(String);
    console.error(`${this.page.url()}\n${text}\n${this.problems.join("\n")}`);
  }

  async close(): Promise<void> {
    await this.#leave();
  }
}

/** With a service that runs already: the files of the last build instead of those that it began with. */
async function serveFromDisk(context: BrowserContext, url: string): Promise<void> {
  const headers = Object.fromEntries((await fetch(`${url}/ui/`)).headers);
  await context.route(`${url}/ui/**`, (route) => {
    const path = pathOf(route.request().url());
    const file = path.startsWith("/ui/assets/") ? path : "/ui/index.html";
    const contentType = file.endsWith(".js") ? "text/javascript" : file.endsWith(".css") ? "text/css" : "text/html";
    return route.fulfill({ path: join("build/assets", file), headers: { ...headers, "content-type": contentType } });
  });
}

const pathOf = (url: string): string => new URL(url).pathname;

/** Keeps a page for the next test, without what the last one set. */
async function release(bench: Bench, page: Page): Promise<void> {
  for (const name of ["console", "pageerror", "request", "requestfailed", "response"]) page.removeAllListeners(name);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().clearCookies();
  // A page of the same origin without scripts: the console has ended, and cannot write to the storage again.
  await page.goto(`${bench.url}/v1/regions`);
  await page.evaluate("localStorage.clear(); sessionStorage.clear()");
  if (shared.page) await page.context().close();
  else shared.page = page;
}

/** The browser of this process, and a page of it that no test uses. Files that run in one process share both. */
interface Shared {
  browser?: Promise<Browser>;
  page?: Page | undefined;
}

const { consoleBrowser: shared = {} } = globalThis as { consoleBrowser?: Shared };
Object.assign(globalThis, { consoleBrowser: shared });

/** A suite with the service and the browser; skipped where there is no browser. */
export function describeConsole(name: string, tests: (bench: () => Suite) => void): void {
  const bench = inject("bench");
  describe.skipIf(bench === null)(name, () => {
    let suite: Suite | undefined;
    beforeAll(async () => {
      if (!bench) return;
      shared.browser ??= chromium.launch({
        executablePath: resolve("test/console/support/chromium.sh"),
        env: { ...process.env, CHROMIUM_PROGRAM: bench.browser },
        args: ["--no-sandbox", "--disable-dev-shm-usage"],
      });
      suite = new Suite(bench, await shared.browser);
    });
    tests(() => {
      if (!suite) throw new Error("the suite has not begun");
      return suite;
    });
  });
}

export class Suite {
  readonly bench: Bench;
  readonly #browser: Browser;

  constructor(bench: Bench, browser: Browser) {
    this.bench = bench;
    this.#browser = browser;
  }

  /** Opens the console with empty storage and logs in. */
  async open({
    token = this.bench.token,
    path = "",
    refusals = [],
    theme = "light",
    viewport = { width: 1440, height: 900 },
    isNewProfile = false,
    ...options
  }: OpenOptions = {}): Promise<Console> {
    const isSpecial = isNewProfile || Object.keys(options).length > 0;
    const page = isSpecial ? await this.#newPage(options) : await this.#sharedPage();
    if (viewport) await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    const opened = new Console(this.bench, page, refusals, () =>
      isSpecial ? page.context().close() : release(this.bench, page),
    );
    onTestFailed(() => opened.report());
    await opened.go(path);
    if (token !== null) await opened.logIn(token);
    return opened;
  }

  /**
   * A profile with a window takes 0.6 s of processor time, more than most tests in it: a test takes over the page of the
   * one before it. A failed test keeps its page.
   */
  async #sharedPage(): Promise<Page> {
    const { page } = shared;
    shared.page = undefined;
    return page ?? this.#newPage({});
  }

  async #newPage(options: BrowserContextOptions): Promise<Page> {
    const context = await this.#browser.newContext({ locale: "en-GB", ...options });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    if (process.env["CONSOLE_URL"]) await serveFromDisk(context, this.bench.url);
    await context.addInitScript(WATCH);
    const page = await context.newPage();
    // Beside the other suites a step may wait half a minute for the processor.
    page.setDefaultTimeout(90_000);
    return page;
  }

  /** A request outside the browser, to prepare a test. Resolves with the body. */
  async call(
    method: string,
    path: string,
    body?: unknown,
    { namespace = "", token = this.bench.token } = {},
  ): Promise<unknown> {
    const response = await fetch(`${this.bench.url}/v1/${path}`, {
      method,
      headers: { "X-Orch-Token": token, ...(namespace ? { "X-Orch-Namespace": namespace } : {}) },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await response.text();
    // A service that runs already may know it from an earlier run.
    if (text.includes("path is already in use")) return null;
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  /** A token with these rules and nothing else. */
  async tokenWith(name: string, policy: string): Promise<string> {
    await this.call("PUT", `sys/policies/acl/${name}`, { policy });
    const { auth } = (await this.call("POST", "auth/token/create", { policies: [name], ttl: "1h" })) as {
      auth: { client_token: string };
    };
    return auth.client_token;
  }
}
