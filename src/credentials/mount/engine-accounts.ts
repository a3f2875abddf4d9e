import type { Result } from "../../lib/result.ts";
import { settings } from "../../platform/settings.ts";
import type { EngineSettings, EngineStates, EngineType } from "../engines/engine-type.ts";
import type { ConfigStore } from "./config-store.ts";

/** The identity that an engine uses at the provider: of its configuration, or of the deployment's settings. */
export class EngineAccounts {
  readonly #type: () => EngineType;
  readonly #config: ConfigStore;
  readonly #env: Env;

  constructor(type: () => EngineType, config: ConfigStore, env: Env) {
    this.#type = type;
    this.#config = config;
    this.#env = env;
  }

  /** The deployment's settings of providers. */
  settings(): EngineSettings {
    return settings(this.#env);
  }

  /** @throws Sealed */
  account(): Result<EngineStates["account"]> {
    return this.#type().config.account(this.#config.find(), this.settings());
  }
}
