import { ok, type Result } from "../lib/result.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import type { AccessPublisher } from "./event-publisher.ts";

/** Changes of tokens that are answered after one attempt to deliver their events. */
export class PublishedChanges {
  constructor(
    private readonly publisher: AccessPublisher,
    private readonly outbox: Outbox,
    private readonly ctx: DurableObjectState,
  ) {}

  /** @returns the result of `change`, or the refusal of a sealed service */
  async deliver<T>(change: () => Result<T>): Promise<Result<T>> {
    const result = refuseIfSealed(change);
    if (!result.ok) return result;
    // In the background: leases of ended tokens.
    this.ctx.waitUntil(this.outbox.drain("leases"));
    await this.publisher.delivered();
    return result;
  }

  /** Like `deliver`. The changed rows have their indexes then. */
  async publish<T>(change: () => Result<T>): Promise<Result<T>> {
    const result = await this.deliver(change);
    if (result.ok) await this.publisher.published();
    return result;
  }
}

interface Publishing {
  readonly changes: PublishedChanges;
}

/** A method whose answer waits for one attempt to deliver its events; refused while the keys cannot be used. */
export const delivered =
  <Parts extends Publishing, Given extends unknown[], T>(method: (parts: Parts, ...given: Given) => Result<T>) =>
  (parts: Parts, ...given: Given): Promise<Result<T>> =>
    parts.changes.deliver(() => method(parts, ...given));

/** Like `delivered`, for a method that cannot refuse and has no answer. */
export const done = <Parts extends Publishing, Given extends unknown[]>(
  method: (parts: Parts, ...given: Given) => void,
) =>
  delivered((parts: Parts, ...given: Given): Result<null> => {
    method(parts, ...given);
    return ok(null);
  });
