/** One service for the whole suite of the console; each worker of vitest starts one browser, see console.ts. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { TestProject } from "vitest/node";
import { freePort, LocalService } from "../../smoke/local-service.ts";

export interface Bench {
  /** Address of the service, without a slash at the end. */
  readonly url: string;
  /** Its root token. */
  readonly token: string;
  /** Folder of the playground's providers. */
  readonly providers: string;
  /** Path of its program. */
  readonly browser: string;
}

declare module "vitest" {
  interface ProvidedContext {
    /** Null where there is no browser. */
    bench: Bench | null;
  }
}

/** The first one has no windows, and takes a fifth less processor time. */
const NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/** The browser of `CHROMIUM`, else the first one in the path. */
export function findBrowser(): string | undefined {
  const named = process.env["CHROMIUM"];
  if (named) return named;
  const dirs = (process.env["PATH"] ?? "").split(delimiter);
  return NAMES.flatMap((name) => dirs.map((dir) => join(dir, name))).find((path) => existsSync(path));
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const browser = findBrowser();
  if (!browser) {
    console.warn(
      "The tests of the console are skipped: there is no chromium (apt-get install chromium-headless-shell, or set CHROMIUM).",
    );
    project.provide("bench", null);
    return async () => {};
  }
  // A service that runs already, for work on the screens.
  const { CONSOLE_URL, CONSOLE_TOKEN, CONSOLE_PROVIDERS = "" } = process.env;
  if (CONSOLE_URL && CONSOLE_TOKEN) {
    project.provide("bench", {
      url: CONSOLE_URL,
      token: CONSOLE_TOKEN,
      providers: CONSOLE_PROVIDERS,
      browser,
    });
    return async () => {};
  }
  const dir = mkdtempSync(join(tmpdir(), "sallyport-console-"));
  const settings = { STATE_DIR: join(dir, "state"), PLAYGROUND: "1" };
  const start = async () => {
    const started = new LocalService(process.cwd(), await freePort(), settings);
    await started.ready();
    return started;
  };
  // Suites beside this one may have taken the port meanwhile.
  const service = await start().catch(start);
  const bench: Bench = {
    url: service.baseUrl,
    token: service.token,
    providers: join(dir, "state", "providers"),
    browser,
  };
  project.provide("bench", bench);
  return async () => {
    service.signal("SIGTERM", "npm");
    await service.exit;
    rmSync(dir, { recursive: true, force: true });
  };
}
