import type { OutboxRow } from "../platform/durable/outbox.ts";
import type { ServiceEvents } from "../publishing/service-events.ts";

export type SecretChange =
  | "SecretWritten"
  | "SecretPatched"
  | "SecretDeleted"
  | "SecretUndeleted"
  | "SecretDestroyed"
  | "SecretMetadataWritten"
  | "SecretMetadataDeleted";

/** Events about the secrets of one mount. Methods run inside the object's transaction. */
export class SecretEvents {
  readonly #events: ServiceEvents;

  constructor(events: ServiceEvents) {
    this.#events = events;
  }

  deliver(rows: readonly OutboxRow[]): Promise<void> {
    return this.#events.deliver(rows);
  }

  /** @param details `Version`, the new one, or `Versions`, those that the request names */
  record(type: SecretChange, path: string, details: Readonly<Record<string, unknown>> = {}): void {
    this.#emit(type, path, `${type.startsWith("SecretMetadata") ? "metadata" : "data"}/${path}`, details);
  }

  /** A change by the API of version 1. */
  recordUnversioned(type: SecretChange, path: string): void {
    this.#emit(type, path, path, {});
  }

  #emit(type: SecretChange, key: string, path: string, details: Readonly<Record<string, unknown>>): void {
    this.#events.emit({ topic: "Secret", type, key, path, payload: { Path: key, ...details } });
  }
}
