import type { TestProject } from "vitest/node";
import { defaultKey, startCloudA } from "./cloud-a-sm.ts";

declare module "vitest" {
  export interface ProvidedContext {
    cloudA: { url: string; accessKeyId: string; secretAccessKey: string };
  }
}

/** Starts the provider doubles that tests inside the Workers runtime reach over loopback. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cloudA = await startCloudA({ regions: ["eu-west-1"] });
  project.provide("cloudA", { url: cloudA.url, ...defaultKey });
  return () => cloudA.close();
}
