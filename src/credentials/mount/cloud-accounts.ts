import type { CloudAccount } from "../../contracts/cloud-directory.ts";
import type { Result } from "../../lib/result.ts";
import { settings } from "../../platform/settings.ts";
import { accountOf, type CloudSettings } from "../engines/azure/config.ts";
import type { ConfigStore } from "./config-store.ts";

/** The identity that an engine uses at the provider: of its configuration, or of the deployment's settings. */
export class CloudAccounts {
  readonly #config: ConfigStore;
  readonly #env: Env;

  constructor(config: ConfigStore, env: Env) {
    this.#config = config;
    this.#env = env;
  }

  /** The deployment's settings of providers. */
  settings(): CloudSettings {
    return settings(this.#env);
  }

  /** @throws Sealed */
  account(): Result<CloudAccount> {
    return accountOf(this.#config.find(), this.settings());
  }
}
