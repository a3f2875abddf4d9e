import type { CorsSettings } from "../contracts/access-control.ts";
import type { DeploymentState } from "../platform/durable/deployment-state.ts";

/** Settings of the whole service that operators change at run time: one stored value each. */
export class ServiceSettings {
  readonly #state: DeploymentState;

  constructor(state: DeploymentState) {
    this.#state = state;
  }

  cors(): CorsSettings | null {
    return JSON.parse(this.#state.get("cors") ?? "null") as CorsSettings | null;
  }

  setCors(settings: CorsSettings | null): void {
    this.#state.set("cors", JSON.stringify(settings));
  }
}
