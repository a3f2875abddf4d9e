import type { CloudAccount } from "../contracts/cloud-directory.ts";
import type { Result } from "../lib/result.ts";
import type { WorkQueue } from "../platform/durable/work-queue.ts";
import type { Endings } from "./completion.ts";
import type { CloudSettings } from "./config.ts";
import type { ConfigStore } from "./config-store.ts";
import type { Jobs } from "./jobs.ts";
import type { Leases } from "./leases.ts";
import type { Roles } from "./roles.ts";
import type { Desk } from "./saga-runner.ts";

/** What the parts of one engine share. */
export interface EngineParts {
  /** The engine's name in notes, warnings and seals. */
  readonly scope: string;
  readonly config: ConfigStore;
  readonly roles: Roles;
  readonly leases: Leases;
  readonly jobs: Jobs;
  readonly work: WorkQueue;
  readonly desk: Desk;
  readonly endings: Endings;
  readonly settings: () => CloudSettings;
  /** Whom the engine acts as. @throws Sealed */
  readonly account: () => Result<CloudAccount>;
  readonly commit: <T>(change: () => T) => T;
}
