import { isDeepStrictEqual } from "node:util";
import type { Config } from "./config.ts";
import { error, info, textOf } from "./log.ts";
import { type Transport, transportOf } from "./session/transport.ts";

/** A configuration and the files that it names. */
export interface Settings {
  readonly config: Config;
  readonly transport: Transport;
}

/** Keys of the node's identity and of its directories, with their values. */
const fixedKeys = ({ service, pool, stateDir, hostVolumes, csi }: Config): Record<string, string> => ({
  service,
  pool,
  stateDir,
  "hostVolumes.volumesDir": hostVolumes.volumesDir,
  "csi.mountsDir": csi.mountsDir,
});

/**
 * Owns the settings in force. A file that is invalid, or that changes a key which needs a restart, is refused whole: the
 * old settings stay.
 */
export class LiveConfig {
  #settings: Settings;
  readonly #read: () => Config;
  /** Called after a change. */
  onChange: (now: Settings, before: Settings) => void = () => {};
  readonly reloads = { applied: 0, refused: 0 };

  /** @throws Ending when a file that the configuration names is unusable */
  constructor(config: Config, read: () => Config = () => config) {
    this.#settings = { config, transport: transportOf(config) };
    this.#read = read;
  }

  get current(): Settings {
    return this.#settings;
  }

  /** Reads the configuration again. */
  reload(): void {
    const before = this.#settings;
    try {
      const config = this.#read();
      const [was, is] = [fixedKeys(before.config), fixedKeys(config)];
      const changed = Object.keys(is).filter((key) => is[key] !== was[key]);
      if (changed.length > 0) throw new Error(`a change of ${changed.join(", ")} needs a restart`);
      this.#settings = { config, transport: transportOf(config) };
    } catch (failure) {
      this.reloads.refused++;
      error("config_refused", { message: textOf(failure) });
      return;
    }
    this.reloads.applied++;
    info("config_read", { changed: !isDeepStrictEqual(before, this.#settings) });
    this.onChange(this.#settings, before);
  }
}
