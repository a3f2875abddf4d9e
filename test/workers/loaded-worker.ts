/** The parts of the running module runner of Vitest that are used here. */
interface ModuleRunner {
  import(id: string): Promise<unknown>;
}

const WORKER = /\/src\/worker\.ts$/;

/**
 * Keeps the Worker's module once it is loaded. The Workers plugin of Vitest imports it for every request and every call
 * of an object, and each import asks Vite twice, in another process: that was half of the time of most tests.
 * Called before each file, so a watched file that changed is loaded again.
 * https://github.com/cloudflare/workers-sdk/tree/main/packages/vitest-pool-workers (2026-11: `importModule`)
 */
export function keepLoadedWorker(): void {
  const runner = (globalThis as { __vitest_mocker__?: { moduleRunner?: ModuleRunner } }).__vitest_mocker__
    ?.moduleRunner;
  if (!runner) return;
  const load = Object.getPrototypeOf(runner).import as ModuleRunner["import"];
  let loaded: unknown;
  runner.import = async (id) => {
    if (!WORKER.test(id)) return load.call(runner, id);
    loaded ??= await load.call(runner, id);
    return loaded;
  };
}
