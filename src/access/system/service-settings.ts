import type { CorsSettings } from "../../contracts/access-control.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";

/** Values of the whole service that change at run time: settings of operators, and the time of the last snapshot. */
export class ServiceSettings {
  constructor(
    private readonly state: DeploymentState,
    private readonly commit: <T>(change: () => T) => T,
  ) {}

  cors(): CorsSettings | null {
    return JSON.parse(this.state.get("cors") ?? "null") as CorsSettings | null;
  }

  setCors(settings: CorsSettings | null): void {
    this.commit(() => this.state.set("cors", JSON.stringify(settings)));
  }

  /** When the last snapshot that was read to its end was begun, in ms since 1970; null = never. */
  lastSnapshot(): number | null {
    const at = this.state.get("last_snapshot");
    return at === null ? null : Number(at);
  }

  setLastSnapshot(at: number): void {
    this.commit(() => this.state.set("last_snapshot", String(at)));
  }
}
