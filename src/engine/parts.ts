import type { Result } from "../result.ts";
import type { WorkList } from "../work/work-list.ts";
import type { CloudAccount } from "./cloud.ts";
import type { CloudSettings } from "./config.ts";
import type { ConfigStore } from "./config-store.ts";
import type { Desk } from "./desk.ts";
import type { Endings } from "./endings.ts";
import type { Jobs } from "./jobs.ts";
import type { Leases } from "./leases.ts";
import type { Roles } from "./roles.ts";

/** What the parts of one engine share. */
export interface EngineParts {
  /** The engine's name in notes, warnings and seals. */
  readonly scope: string;
  readonly config: ConfigStore;
  readonly roles: Roles;
  readonly leases: Leases;
  readonly jobs: Jobs;
  readonly work: WorkList;
  readonly desk: Desk;
  readonly endings: Endings;
  readonly settings: () => CloudSettings;
  /** Whom the engine acts as. @throws Sealed */
  readonly account: () => Result<CloudAccount>;
  readonly commit: <T>(change: () => T) => T;
}
