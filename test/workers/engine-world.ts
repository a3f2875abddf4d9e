import { expect } from "vitest";
import type { AzureOptions, Everything } from "../doubles/cloud-b/azure-types.ts";
import { dynamicRole, mountEngine, openTenant, rows, type Tenant, unmount, writeRole } from "./engine-helpers.ts";

/** The engine of one test: an Azure mount at `cloud-b`, configured for a tenant of its own. */

export let tenant: Tenant;
/** The tenant before the engine's first call. */
export let fresh: Everything;
export let uuid: string;

/** Opens the engine of a test, in place of one that the test has opened before. */
export async function openEngine(options: AzureOptions = {}, config: Record<string, unknown> = {}): Promise<void> {
  if (tenant) await unmount();
  tenant = await openTenant(options);
  fresh = await tenant.everything();
  uuid = await mountEngine(tenant, "cloud-b", config);
}

/** Opens an engine with the role `web`, which has principals of its own. */
export async function openEngineWithRole(more: Record<string, unknown> = {}): Promise<void> {
  await openEngine();
  await writeRole("web", dynamicRole(tenant, more));
}

/** Writes the role `app`, whose leases are passwords of the tenant's existing application. */
export const writeExisting = () => writeRole("app", { application_object_id: tenant.existing_application.object_id });

/** The engine has no leases, jobs and work, and the provider none of its resources. */
export async function expectNothingLeft(): Promise<void> {
  expect([await rows(uuid, "leases"), await rows(uuid, "jobs"), await rows(uuid, "work")]).toEqual([[], [], []]);
  expect(await tenant.everything()).toEqual(fresh);
}
