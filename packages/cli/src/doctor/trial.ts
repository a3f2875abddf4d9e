import type { Api } from "../api.ts";

/** The service of the checks that write. */
export interface DeepApi {
  readonly api: Api;
  readonly address: URL;
  readonly token: string;
}

/** The service and the clean-up that the checks share. */
export interface Trial extends DeepApi {
  /** Begins the names of everything that is made. */
  readonly name: string;
  /** Runs after all checks, the last first. */
  undo(work: () => Promise<unknown>): void;
}
