/** A destination, with a way to create many associations without requests: only listing and backup are measured. */
import { SyncDestination as Destination } from "../../src/objects/sync-destination.ts";

export interface FillAssociations {
  /** The object's name. */
  readonly destination: string;
  /** Of secrets, from the first of them on; the first one is associated already. */
  readonly rows: number;
}

const SECRET = "printf('app/k%06d', i)";

export class SyncDestination extends Destination {
  /** As many associations like the first, in sync. */
  fill({ rows }: FillAssociations): void {
    const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows - 1})`;
    const id = `mount_accessor || '/' || ${SECRET}`;
    this.commit(() => {
      this.sql.exec(
        `${numbers} INSERT INTO copies (association, sub_key, external_name, fold, ours, known, version, tag_keys, status, updated)
         SELECT ${id}, sub_key, external_name || i, fold || i, ours, c.known, version, tag_keys, c.status, c.updated
         FROM n, copies c JOIN associations a ON a.id = c.association WHERE a.secret_name = 'app/k000000'`,
      );
      this.sql.exec(
        `${numbers} INSERT INTO associations (id, mount_uuid, mount_accessor, mount_path, secret_name, wish, intent, seed, status,
           synced_version, updated, asked, naming)
         SELECT ${id}, mount_uuid, mount_accessor, mount_path, ${SECRET}, wish, intent, seed || i, status, synced_version,
           updated, asked, naming
         FROM n, associations WHERE secret_name = 'app/k000000'`,
      );
    });
  }
}
