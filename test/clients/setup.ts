import type { TestProject } from "vitest/node";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";

declare module "vitest" {
  interface ProvidedContext {
    readonly service: { readonly address: string; readonly token: string };
  }
}

/** Starts one service with `npm start` for all suites of clients. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = cloneOfWorkingTree();
  // Destinations of the suites are on this machine, or never called.
  const settings = { SYNC_ALLOWED_HOSTS: "127.0.0.1 *.example.com" };
  const service = await new LocalService(dir, await freePort(), settings).ready();
  project.provide("service", { address: service.baseUrl, token: service.token });
  return async () => {
    service.signal("SIGINT");
    await service.exit;
    remove(dir);
  };
}
