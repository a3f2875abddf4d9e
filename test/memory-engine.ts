import type { PollResult, Report, StepResult } from "../src/contracts/credential-engine.ts";
import { EngineEvents } from "../src/credentials/engine-events.ts";
import { EngineStores } from "../src/credentials/engine-stores.ts";
import type { ConfigBody } from "../src/credentials/engines/azure/config.ts";
import type { Role } from "../src/credentials/engines/azure/role.ts";
import { JobOutcomes } from "../src/credentials/jobs/job-outcome.ts";
import { CredentialIssuer } from "../src/credentials/leases/credential-issuer.ts";
import { LeaseLifecycle } from "../src/credentials/leases/lease-lifecycle.ts";
import { engineMeasures } from "../src/credentials/measures.ts";
import { EngineAccounts } from "../src/credentials/mount/engine-accounts.ts";
import { MountTeardown } from "../src/credentials/mount/mount-teardown.ts";
import { RootAccount } from "../src/credentials/mount/root-account.ts";
import { WarmPool } from "../src/credentials/pool/warm-pool.ts";
import { SagaRunner } from "../src/credentials/runner/saga-runner.ts";
import { engineMigrations } from "../src/credentials/schema.ts";
import { DataKeys, dataKeyMigrations } from "../src/platform/crypto/data-keys.ts";
import { outboxMigrations } from "../src/platform/durable/outbox.ts";
import { workMigrations } from "../src/platform/durable/work-queue.ts";
import { memorySql } from "./memory-sql.ts";

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");

export const configBody: ConfigBody = {
  subscription_id: "8f0e2a52-26c3-4f2f-a9b5-1f0b9e1f9b11",
  tenant_id: "1c8a7f0e-5d37-4f4e-8d57-5a2c0d9a4c22",
  client_id: "engine",
  client_secret: "abcsecret",
};

export const plainRole: Role = {
  cloud_roles: null,
  cloud_groups: null,
  application_object_id: "",
  application_id: "",
  persist_app: false,
  ttl: 600,
  max_ttl: 3_600,
  explicit_max_ttl: 0,
  permanently_delete: false,
  sign_in_audience: "",
  tags: null,
  managed: null,
};

/**
 * A configured credentials engine over a database in memory, outside the Workers runtime. The role `dynamic` issues service
 * principals, the role `static` passwords of the application `app`.
 */
export function memoryEngine() {
  const sql = memorySql([
    ...outboxMigrations,
    ...dataKeyMigrations,
    ...workMigrations,
    ...engineMigrations,
    ...engineMeasures,
  ]);
  const published: { type: string; key: string }[] = [];
  const scope = "credential-engine test";
  const keys = new DataKeys(sql, scope, () => MASTER_KEY);
  const stores = new EngineStores(
    sql,
    keys,
    scope,
    new EngineEvents({ emit: (event) => void published.push(event) }),
    () => "",
  );
  const accounts = new EngineAccounts(stores, {} as Env);
  const outcomes = new JobOutcomes(stores, sql);
  const runner = new SagaRunner(stores, outcomes, accounts);
  const commit = <T>(change: () => T): T => change();
  const jobs = { stores, runner, outcomes, accounts, commit };
  const root = new RootAccount(jobs);
  const issuer = new CredentialIssuer(jobs);
  const lifecycle = new LeaseLifecycle(jobs);
  const pool = new WarmPool(stores, outcomes, accounts);
  const teardown = new MountTeardown(jobs, root, issuer, lifecycle, pool);

  const configured = root.configure(configBody, "neutral", null);
  if (!configured.ok) throw new Error(configured.message);
  stores.roles.put("dynamic", plainRole, 0);
  stores.roles.put("static", { ...plainRole, application_object_id: "app", application_id: "client" }, 0);

  const issue = (role: string, now: number, { key = null as string | null, token = "token" } = {}) => {
    const mount = { default_lease_ttl: 0, max_lease_ttl: 0 };
    const begun = issuer.begin({ role, token, key, mount, verified: false }, now);
    if (!begun.ok) throw new Error(begun.message);
    return begun.value;
  };
  return { ...stores, published, runner, outcomes, commit, root, issuer, lifecycle, teardown, issue };
}

export type MemoryEngine = ReturnType<typeof memoryEngine>;

/** The steps of a polled that has some. */
export function stepsOf(polled: PollResult | null): Extract<PollResult, { kind: "steps" }> {
  if (polled?.kind !== "steps") throw new Error(`no steps but ${JSON.stringify(polled)}`);
  return polled;
}

/** The report of a polled's first steps, each with its result. */
export function reportOf(polled: PollResult | null, ...results: readonly StepResult[]): Report {
  const { lease, seq, steps } = stepsOf(polled);
  const done = results.map((result, index) => {
    const step = steps[index];
    if (!step) throw new Error("more results than steps");
    return { step, result };
  });
  return { lease, done: { seq, results: done } };
}

export const answered = (value: unknown = null): StepResult => ({ ok: true, value });

export const refusedWith = (
  code: "not_found" | "permission_denied" | "contended" | "throttled",
  retryAfterMs?: number,
): StepResult => ({
  ok: false,
  failure: {
    outcome: code === "throttled" ? "external" : "client",
    code,
    message: code,
    status: null,
    providerCode: "",
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  },
});
