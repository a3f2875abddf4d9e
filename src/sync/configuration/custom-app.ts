import type { DestinationKey } from "../../contracts/destination.ts";
import type { Result } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { warn } from "../../platform/observability/log.ts";
import { destinationKeyOf } from "../../rpc/destination-name.ts";
import { syncControl } from "../../rpc/stubs.ts";
import type { Defined } from "./definition.ts";
import type { DestinationRecord, Found } from "./destination-record.ts";

/**
 * The custom application of the repository host that one destination uses. Owned by `SyncDestination`. A claim and a
 * delivery cost one RPC to `SyncControl` each.
 */
export class CustomApp {
  /** Applications named by writes in flight. */
  readonly #claimed: string[] = [];

  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
  ) {}

  /** Claims an application for a write, so that it cannot be deleted meanwhile. */
  async claim({ namespace }: DestinationKey, app: string): Promise<Result<unknown>> {
    this.#claimed.push(app);
    return await syncControl(this.object.env)
      .claimApp(namespace, this.object.name, app)
      .finally(() => this.#claimed.splice(this.#claimed.indexOf(app), 1));
  }

  /** Whether the destination uses an application, or a write in flight names it. @throws Sealed */
  needs(name: string): boolean {
    return this.#claimed.includes(name) || this.#used() === name;
  }

  /** Delivers the outbox topic `app`: the application in use, or none. */
  async deliver(): Promise<void> {
    const { env, name } = this.object;
    const used = await syncControl(env).useApp(destinationKeyOf(name).namespace, name, this.#used());
    if (!used.ok) warn("app-missing", { destination: name });
  }

  /** The application in use, or null. @throws Sealed */
  #used(): string | null {
    const found = this.record.find();
    return found && appIn({ type: found.type, definition: this.record.definition(found.row) });
  }
}

/** The application that a definition names, or null. */
export const appIn = ({ type, definition }: Pick<Found, "type"> & Pick<Defined, "definition">): string | null =>
  type.appOf?.(definition.connection) ?? null;
