import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { type ChangedKeys, NOTHING } from "../../platform/durable/object-context.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { MountTable } from "./mounts.ts";

interface PublishedSecretsDependencies {
  readonly state: DeploymentState;
  readonly mounts: MountTable;
  readonly outbox: Outbox;
  commit<T>(change: () => T, keys?: ChangedKeys): T;
}

/** Whether KV mounts publish their events on demand, for those that are made while subscribers want them. */
export class PublishedSecrets {
  constructor(private readonly deps: PublishedSecretsDependencies) {}

  /** @returns the uuids of the KV mounts */
  set(epoch: number, on: boolean): string[] {
    const { state, mounts, commit } = this.deps;
    if (epoch >= this.#last().epoch)
      commit(() => state.set("published_secrets", JSON.stringify({ epoch, on })), NOTHING);
    return mounts
      .every()
      .filter(({ type }) => type === "kv")
      .map(({ uuid }) => uuid);
  }

  /** Lets a new mount publish its events. Runs inside the transaction that makes it. */
  added(uuid: string): void {
    const { epoch, on } = this.#last();
    if (on) this.deps.outbox.enlistLatest("published", uuid, epoch);
  }

  #last(): { readonly epoch: number; readonly on: boolean } {
    return JSON.parse(this.deps.state.get("published_secrets") ?? '{"epoch":0,"on":false}');
  }
}
