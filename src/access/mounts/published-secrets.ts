import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { NOTHING, type ObjectContext } from "../../platform/durable/object-context.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { MountTable } from "./mounts.ts";

/** Whether KV mounts publish their events on demand, for those that are made while subscribers want them. */
export class PublishedSecrets {
  constructor(
    private readonly state: DeploymentState,
    private readonly mounts: MountTable,
    private readonly outbox: Outbox,
    private readonly commit: ObjectContext["commit"],
  ) {}

  /** @returns the uuids of the KV mounts */
  set(epoch: number, on: boolean): string[] {
    if (epoch >= this.#last().epoch)
      this.commit(() => this.state.set("published_secrets", JSON.stringify({ epoch, on })), NOTHING);
    return this.mounts
      .every()
      .filter(({ type }) => type === "kv")
      .map(({ uuid }) => uuid);
  }

  /** Lets a new mount publish its events. Runs inside the transaction that makes it. */
  added(uuid: string): void {
    const { epoch, on } = this.#last();
    if (on) this.outbox.enlistLatest("published", uuid, epoch);
  }

  #last(): { readonly epoch: number; readonly on: boolean } {
    return JSON.parse(this.state.get("published_secrets") ?? '{"epoch":0,"on":false}');
  }
}
