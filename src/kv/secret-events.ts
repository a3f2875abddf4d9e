import type { OutboxRow } from "../platform/durable/outbox-delivery.ts";
import type { ServiceEvents } from "../publishing/service-events.ts";
import type { PublishedEvents } from "./published-events.ts";

/** Changes, with the requests that make each by upstream's names: the first one unless the request says otherwise. */
const OPERATIONS = {
  SecretWritten: ["data-write"],
  SecretPatched: ["data-patch"],
  SecretDeleted: ["delete", "data-delete"],
  SecretUndeleted: ["undelete"],
  SecretDestroyed: ["destroy"],
  SecretMetadataWritten: ["metadata-write", "metadata-patch"],
  SecretMetadataDeleted: ["metadata-delete"],
  SecretConfigWritten: ["config-write"],
} as const;

export type SecretChange = keyof typeof OPERATIONS;
export interface ChangeDetails {
  /** The new version. */
  readonly Version?: number;
  /** Those that the request names. */
  readonly Versions?: readonly number[] | undefined;
  readonly Operation?: (typeof OPERATIONS)[SecretChange][number];
  readonly CurrentVersion?: number | undefined;
  readonly OldestVersion?: number | undefined;
}

/** Events about the secrets of one mount. Methods run inside the object's transaction. */
export class SecretEvents {
  constructor(
    private readonly events: ServiceEvents,
    private readonly published: PublishedEvents,
  ) {}

  async deliver(rows: readonly OutboxRow[]): Promise<void> {
    await this.events.deliver(rows);
    await this.published.review(Date.now()).catch(() => undefined);
  }

  record(type: SecretChange, path: string, details: ChangeDetails = {}): void {
    const folder = type.startsWith("SecretMetadata") ? "metadata" : "data";
    this.#emit(type, path, `${folder}/${path}`, { Api: 2, Operation: OPERATIONS[type][0], ...details });
  }

  /** A change of the mount's configuration. */
  recordConfig(): void {
    this.#emit("SecretConfigWritten", "", "config", { Api: 2, Operation: OPERATIONS.SecretConfigWritten[0] });
  }

  /** A change by the API of version 1. */
  recordUnversioned(type: "SecretWritten" | "SecretDeleted", path: string): void {
    this.#emit(type, path, path, { Api: 1, Operation: type === "SecretWritten" ? "write" : "delete" });
  }

  #emit(type: SecretChange, key: string, path: string, details: Readonly<Record<string, unknown>>): void {
    this.events.emit({ topic: "Secret", type, key, path, payload: { Path: key, ...details } }, this.published.isOn);
  }
}
