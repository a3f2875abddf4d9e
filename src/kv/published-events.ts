import { eventLog } from "../rpc/stubs.ts";
import type { MountState } from "./mount-state.ts";

/** Least interval between two questions whether the events are wanted. */
const ASK_MS = 60_000;

/**
 * Whether the secrets of a mount publish their events on demand: from before the first subscription to event notifications
 * opens, until the log has had no subscriber for a while. Kept in the store's settings, so that a write reads no other
 * object. `epoch` counts the times that the log began to want them: a late answer of an earlier time changes nothing.
 */
export class PublishedEvents {
  #askedAt = 0;

  constructor(
    private readonly env: Env,
    private readonly state: MountState,
    private readonly commit: (change: () => void) => void,
  ) {}

  get isOn(): boolean {
    return this.state.get().published?.on === true;
  }

  /** Publishes from the next change on. Idempotent. */
  begin(epoch: number): void {
    this.#set(true, epoch);
  }

  /** Asks the log from time to time whether the events are still wanted. */
  async review(now: number): Promise<void> {
    if (!this.isOn || now - this.#askedAt < ASK_MS) return;
    this.#askedAt = now;
    const epoch = await eventLog(this.env).unwantedSecrets();
    if (epoch !== null) this.#set(false, epoch);
  }

  #set(on: boolean, epoch: number): void {
    const { published, gone } = this.state.get();
    if (gone || epoch < (published?.epoch ?? 0) || (published?.epoch === epoch && published.on === on)) return;
    this.commit(() => this.state.set("published", JSON.stringify({ on, epoch })));
  }
}
