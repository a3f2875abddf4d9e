import type { WriteRights } from "../contracts/kv-store.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { KvRecords } from "./kv-records.ts";
import { emptySecret } from "./version.ts";

/**
 * Writes of the KV API of version 1: one value a path, without history
 * (https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v1). The value is stored as version 1 of the path, and a
 * write replaces it in place. An upgrade to the API of version 2 therefore moves no data, and cannot be interrupted.
 *
 * A write that was authorized before an upgrade may arrive after it. It is refused, because it would replace version 1
 * of a path that has others.
 */
export class UnversionedSecrets {
  constructor(private readonly records: KvRecords) {}

  /**
   * Sets the value of a path. @param data JSON text of an object
   * @returns `conflict` after an upgrade, `denied` without the right to create or update. @throws Sealed
   */
  put(path: string, data: string, rights: WriteRights): Result<null> {
    const { object, secrets, state, sealing, events, names } = this.records;
    if (state.get().gone) return refuse("missing");
    if (this.#isVersioned()) return refuse("conflict");
    const before = secrets.find(path);
    if (!(before ? rights.update : rights.create)) return refuse("denied", "permission denied");
    const now = Date.now();
    const sealed = sealing.seal(data, path, 1);
    object.commit(() => {
      secrets.replace({ path, version: 1, created: now, deletion: null, sealed, created_by: null });
      secrets.store({ ...(before ?? emptySecret(path, now)), updated: now, current_version: 1 });
      if (state.get().engine === undefined) state.set("engine", "unversioned");
      if (!before) names.changed(path);
      events.recordUnversioned("SecretWritten", path);
    }, [path]);
    return ok(null);
  }

  /** Deletes a path. Idempotent. @returns `conflict` after an upgrade */
  delete(path: string): Result<null> {
    const { object, secrets, events, names } = this.records;
    if (this.#isVersioned()) return refuse("conflict");
    if (secrets.find(path)) {
      object.commit(() => {
        secrets.remove(path);
        names.changed(path);
        events.recordUnversioned("SecretDeleted", path);
      }, [path]);
    }
    return ok(null);
  }

  /** A store with secrets and without a mark was written through the API of version 2 only. */
  #isVersioned(): boolean {
    const { engine } = this.records.state.get();
    return engine === "versioned" || (engine === undefined && !this.records.secrets.isEmpty());
  }
}
