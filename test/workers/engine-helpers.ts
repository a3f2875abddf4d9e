import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { CredentialEngine } from "../../src/objects/credential-engine.ts";
import type {
  AzureAccount,
  AzureOptions,
  Change,
  Everything,
  Fault,
  LoggedRequest,
} from "../doubles/cloud-b/azure-types.ts";
import { type Answer, del, get, put } from "./client.ts";
import { ShiftedClock, SKIPPED_WAIT_MS, skipWaits } from "./clock.ts";
import { checkInRounds } from "./running-workers.ts";

const json = async (url: string, init?: RequestInit) => {
  const answer = await fetch(url, init);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json() as Promise<unknown>;
};

/** A tenant at the provider double, for one test, with access to its state. */
export interface Tenant extends AzureAccount {
  everything(): Promise<Everything>;
  requests(): Promise<LoggedRequest[]>;
  fault(fault: Fault): Promise<unknown>;
  call(change: Change): Promise<unknown>;
  /** The body of a complete configuration. */
  readonly config: Record<string, string>;
}

export async function openTenant(options: AzureOptions = {}): Promise<Tenant> {
  const base = env.TEST_DOUBLES.cloudBGraph;
  const post = (path: string, body: unknown) =>
    json(`${base}/_double/${path}`, { method: "POST", body: JSON.stringify(body) });
  const account = (await post("accounts", options)) as AzureAccount;
  const of = `?account=${encodeURIComponent(account.account)}`;
  const { subscription_id, tenant_id, client_id, client_secret } = account;
  return {
    ...account,
    config: { subscription_id, tenant_id, client_id, client_secret },
    everything: () => json(`${base}/_double/everything${of}`) as Promise<Everything>,
    requests: () => json(`${base}/_double/requests${of}`) as Promise<LoggedRequest[]>,
    fault: (fault) => post(`faults${of}`, fault),
    call: (change) => post(`call${of}`, change),
  };
}

export const succeeded = (answer: Answer): Answer => {
  expect(answer.status, answer.text).toBeLessThan(300);
  return answer;
};

/** Mounts an engine and configures it for a tenant. @returns the mount's uuid */
export async function mountEngine(
  tenant: Tenant | null,
  path = "cloud-b",
  config: Record<string, unknown> = {},
): Promise<string> {
  succeeded(await put(`/v1/sys/mounts/${path}`, { type: "cloud-b" }));
  if (tenant) succeeded(await put(`/v1/${path}/config`, { ...tenant.config, ...config }));
  return (await get(`/v1/sys/mounts/${path}`)).body.data.uuid;
}

export const groupOf = ({ groups }: Tenant, name = "developers") =>
  groups.find(({ displayName }) => displayName === name)?.id ?? "";

/** A role with its own principals, one role definition and one group. */
export const dynamicRole = (tenant: Tenant, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  cloud_roles: [{ role_name: "Reader", scope: tenant.resource_group }],
  cloud_groups: [{ group_name: "developers" }],
  permanently_delete: true,
  ...more,
});

export const writeRole = async (name: string, body: Record<string, unknown>, path = "cloud-b") =>
  succeeded(await put(`/v1/${path}/roles/${name}`, body));

export const creds = (role: string, options?: Parameters<typeof get>[1], query = "") =>
  get(`/v1/cloud-b/creds/${role}${query}`, options);

export const revoke = (lease: string) => put("/v1/sys/leases/revoke", { lease_id: lease });
export const lookup = (lease: string) => put("/v1/sys/leases/lookup", { lease_id: lease });
export const unmount = (path = "cloud-b") => del(`/v1/sys/mounts/${path}`);

export const engineObject = (uuid: string) =>
  env.CREDENTIAL_ENGINE.getByName(uuid) as DurableObjectStub<CredentialEngine>;

/** Rows of one of an engine's tables. */
export const rows = (uuid: string, table: "jobs" | "leases" | "roles" | "config" | "work" | "pooled" | "pools") =>
  runInDurableObject(engineObject(uuid), (_object, { storage: { sql } }) =>
    sql.exec(`SELECT * FROM ${table}`).toArray(),
  );

/**
 * Runs while waits only advance the clock.
 * @param from shortest wait that is skipped, in ms
 */
export async function skippingWaits<T>(run: () => Promise<T>, from = SKIPPED_WAIT_MS): Promise<T> {
  const clock = new ShiftedClock();
  const goOn = skipWaits({ clock, from });
  try {
    return await run();
  } finally {
    goOn();
    clock.end();
  }
}

/**
 * Advances time for an engine until `check` holds: alarms and Workers run, without other requests, and what they wait for
 * only advances time.
 * @param step interval in ms
 * @param ahead first interval in ms
 * @param skipped shortest wait of a Worker that only advances time, in ms
 */
export async function byItself(
  uuid: string,
  check: () => Promise<void> | void,
  step = 15_000,
  ahead = 0,
  skipped = SKIPPED_WAIT_MS,
): Promise<void> {
  const clock = new ShiftedClock(ahead);
  const goOn = skipWaits({ clock, from: skipped });
  try {
    await checkInRounds(60, check, async (round) => {
      if (round > 2) clock.advance(step);
      await runDurableObjectAlarm(env.ACCESS_CONTROL.getByName("main"));
      await runDurableObjectAlarm(engineObject(uuid));
      // A Worker whose caller has hung up is none that a queue message started.
      await scheduler.wait(40);
    });
  } finally {
    goOn();
    clock.end();
  }
}
