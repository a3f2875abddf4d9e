import type { EngineStores } from "./engine-stores.ts";
import type { JobOutcomes } from "./jobs/job-outcome.ts";
import type { EngineAccounts } from "./mount/engine-accounts.ts";
import type { SagaRunner } from "./runner/saga-runner.ts";

/** The parts of an engine that its jobs are started with. */
export interface EngineJobs {
  readonly stores: EngineStores;
  readonly runner: SagaRunner;
  readonly outcomes: JobOutcomes;
  readonly accounts: EngineAccounts;
  /** Runs a change in one transaction. */
  readonly commit: <T>(change: () => T) => T;
}
