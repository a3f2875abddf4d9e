import type { ServiceEmitter } from "../publishing/service-events.ts";
import { destinationKeyOf } from "../rpc/destination-name.ts";
import type { AssociationRow } from "./schema.ts";

type Details = Readonly<Record<string, unknown>>;

/** Events about one destination and its associations. Methods run inside the object's transaction. */
export class SyncEvents {
  /** `type/name`. */
  readonly #key: string;
  readonly #names: Details;

  /** @param self the destination object's name */
  constructor(
    private readonly events: ServiceEmitter,
    self: string,
  ) {
    const { type, name } = destinationKeyOf(self);
    this.#key = `${type}/${name}`;
    this.#names = { Type: type, Name: name };
  }

  destination(type: string): void {
    this.#emit(type, "", null, {});
  }

  association(type: string, { mount_path, secret_name }: AssociationRow, details: Details = {}): void {
    const names = { Mount: mount_path, Path: secret_name };
    this.#emit(type, "/associations", mount_path + secret_name, { ...names, ...details });
  }

  rule(type: string, rule: string, details: Details = {}): void {
    this.#emit(type, `/rules/${rule}`, null, { Rule: rule, ...details });
  }

  #emit(type: string, folder: string, also: string | null, details: Details): void {
    const path = `sys/sync/destinations/${this.#key}${folder}`;
    this.events.emit({ topic: "Sync", type, key: this.#key, path, also, payload: { ...this.#names, ...details } });
  }
}
