import { NameFeed } from "../listings/name-feed.ts";
import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import { WakeUp } from "../platform/durable/wake-up.ts";
import { ServiceEvents } from "../publishing/service-events.ts";
import { EngineEvents } from "./engine-events.ts";
import { EngineStores } from "./engine-stores.ts";
import { JobOutcomes } from "./jobs/job-outcome.ts";
import { CredentialIssuer } from "./leases/credential-issuer.ts";
import { LeaseLifecycle } from "./leases/lease-lifecycle.ts";
import { EngineAccounts } from "./mount/engine-accounts.ts";
import { MountTeardown } from "./mount/mount-teardown.ts";
import { RoleChanges } from "./mount/role-changes.ts";
import { RootAccount } from "./mount/root-account.ts";
import { PoolAdmission } from "./pool/pool-admission.ts";
import { WarmPool } from "./pool/warm-pool.ts";
import { SagaRunner } from "./runner/saga-runner.ts";

/** The components of one mount of an engine, over its object. @param restored see `PoolStore` */
export function engineParts(object: ObjectContext, restored: () => string) {
  const { sql, env, name, commit } = object;
  const serviceEvents = ServiceEvents.ofMount(env, name, () => object.outbox);
  const scope = `credential-engine ${name}`;
  const keys = new DataKeys(sql, scope, () => masterKey(object.env));
  const stores = new EngineStores(sql, keys, scope, new EngineEvents(serviceEvents), restored);
  const names = new NameFeed(object, stores.roles);
  stores.roles.watch((role) => names.changed(role));
  const accounts = new EngineAccounts(stores, env);
  const outcomes = new JobOutcomes(stores, sql);
  const runner = new SagaRunner(stores, outcomes, accounts);
  stores.unstored.watch((slow) => commit(() => runner.store(slow, Date.now())));
  const jobs = { stores, runner, outcomes, accounts, commit };
  const root = new RootAccount(jobs);
  const issuer = new CredentialIssuer(jobs);
  const leaseLifecycle = new LeaseLifecycle(jobs);
  const pool = new WarmPool(stores, outcomes, accounts);
  return {
    object,
    serviceEvents,
    keys,
    stores,
    names,
    accounts,
    runner,
    root,
    roleChanges: new RoleChanges(jobs),
    issuer,
    leaseLifecycle,
    pool,
    mountTeardown: new MountTeardown(jobs, root, issuer, leaseLifecycle, pool),
    wakeUp: new WakeUp(env.SYNC_WORK, name, "engine"),
    /** Leases that wait for the answer of quotas. */
    pending: new Set<string>(),
    admission: new PoolAdmission(),
  };
}

export type EngineParts = ReturnType<typeof engineParts>;
