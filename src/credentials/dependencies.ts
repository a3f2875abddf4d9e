import type { CloudAccount } from "../contracts/cloud-directory.ts";
import type { Result } from "../lib/result.ts";
import type { WorkQueue } from "../platform/durable/work-queue.ts";
import type { JobCompletion } from "./completion.ts";
import type { CloudSettings } from "./config.ts";
import type { ConfigStore } from "./config-store.ts";
import type { JobStore } from "./job-store.ts";
import type { LeaseStore } from "./lease-store.ts";
import type { RoleStore } from "./role-store.ts";
import type { SagaRunner } from "./saga-runner.ts";

/** Dependencies of the classes of one engine. The object builds them once in its constructor. */
export interface EngineDependencies {
  /** Prefix of the engine's warnings, audit records and sealing contexts. */
  readonly scope: string;
  readonly config: ConfigStore;
  readonly roles: RoleStore;
  readonly leases: LeaseStore;
  readonly jobs: JobStore;
  readonly work: WorkQueue;
  readonly runner: SagaRunner;
  readonly completion: JobCompletion;
  readonly settings: () => CloudSettings;
  /** The identity that the engine uses at the provider. @throws Sealed */
  readonly account: () => Result<CloudAccount>;
  readonly commit: <T>(change: () => T) => T;
}
