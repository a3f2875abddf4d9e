import type { CorsSettings } from "../../contracts/access-control.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";

/** Settings of the whole service that operators change at run time: one stored value each. */
export class ServiceSettings {
  readonly #state: DeploymentState;
  readonly #commit: <T>(change: () => T) => T;

  constructor(state: DeploymentState, commit: <T>(change: () => T) => T) {
    this.#state = state;
    this.#commit = commit;
  }

  cors(): CorsSettings | null {
    return JSON.parse(this.#state.get("cors") ?? "null") as CorsSettings | null;
  }

  setCors(settings: CorsSettings | null): void {
    this.#commit(() => this.#state.set("cors", JSON.stringify(settings)));
  }
}
