import type { WriteRights } from "../../contracts/kv-store.ts";
import type { AppCredentials, AppView } from "../../contracts/sync-control.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import type { NamespaceContent } from "../../platform/durable/ended-namespaces.ts";
import { parseAppKey } from "../../providers/repo-host-github/app-key.ts";
import { texts, upsert } from "../rows.ts";

interface AppRow extends Record<string, SqlStorageValue> {
  name: string;
  app_id: string;
  fingerprint: string;
  private_key: ArrayBuffer;
}

/**
 * Custom applications of the repository host, with sealed private keys, and the destinations that use them. Owned by
 * `SyncControl`, read by its RPC methods. Methods that write are called inside the object's transaction.
 */
export class Apps {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
  ) {}

  any(): boolean {
    return this.sql.exec("SELECT 1 FROM apps LIMIT 1").toArray().length > 0;
  }

  /** Creates or replaces. @throws Sealed */
  put(
    namespaceId: string,
    namespace: string,
    name: string,
    appId: number,
    privateKey: string,
    rights?: WriteRights,
  ): Result<AppView> {
    if (rights && !(this.#find(namespace, name) ? rights.update : rights.create))
      return refuse("denied", "permission denied");
    const key = parseAppKey(privateKey);
    if (!key.ok) return refuse("invalid", key.message);
    const private_key = this.keys.seal(key.pem, context(namespace, name));
    const { fingerprint } = key;
    const row = { namespace, name, app_id: String(appId), fingerprint, private_key, namespace_id: namespaceId };
    upsert(this.sql, "apps", row, "namespace", "name");
    return this.view(namespace, name);
  }

  view(namespace: string, name: string): Result<AppView> {
    const row = this.#find(namespace, name);
    if (!row) return refuse("missing");
    return ok({ name: row.name, app_id: Number(row.app_id), fingerprint: row.fingerprint });
  }

  names(namespace: string): string[] {
    return texts(this.sql, "SELECT name FROM apps WHERE namespace = ? ORDER BY name", namespace);
  }

  /** @throws Sealed */
  credentials(namespace: string, name: string): Result<AppCredentials> {
    const row = this.#find(namespace, name);
    if (!row) return refuse("missing", `there is no application ${JSON.stringify(name)}`);
    return ok({ appId: row.app_id, privateKey: this.keys.openText(row.private_key, context(namespace, name)) });
  }

  /** Deletes an application; refuses while a destination uses it. */
  delete(namespace: string, name: string): Result<AppView | null> {
    const users = this.users(namespace, name);
    if (users.length > 0) {
      const more = users.length > 10 ? ` and ${users.length - 10} more` : "";
      return refuse("in-use", `application is in use by destinations: ${users.slice(0, 10).join(", ")}${more}`);
    }
    const before = this.view(namespace, name);
    this.sql.exec("DELETE FROM apps WHERE namespace = ? AND name = ?", namespace, name);
    return before.ok ? before : ok(null);
  }

  /** Deletes applications without a namespace id, left by a namespace that an earlier release deleted at this path. */
  clear(namespace: string): void {
    this.sql.exec("DELETE FROM apps WHERE namespace = ? AND namespace_id = ''", namespace);
  }

  /** The destinations that use an application, as `type/name`. */
  users(namespace: string, name: string): string[] {
    const query = "SELECT destination FROM app_users WHERE namespace = ? AND app = ? ORDER BY destination";
    return texts(this.sql, query, namespace, name).map((destination) => destination.slice(namespace.length));
  }

  /** Registers a destination as user of an application, in addition to the application it uses already. */
  claim(namespace: string, destination: string, app: string): Result<null> {
    if (!this.#find(namespace, app)) return refuse("invalid", noSuchApp(app));
    this.sql.exec("INSERT OR IGNORE INTO app_users VALUES (?, ?, ?)", namespace, app, destination);
    return ok(null);
  }

  /** Replaces the application that a destination uses; null for none. */
  use(namespace: string, destination: string, app: string | null): Result<null> {
    this.sql.exec("DELETE FROM app_users WHERE destination = ?", destination);
    return app === null ? ok(null) : this.claim(namespace, destination, app);
  }

  /** Removes a destination from the users of an application. */
  release(namespace: string, destination: string, app: string): void {
    this.sql.exec(
      "DELETE FROM app_users WHERE namespace = ? AND app = ? AND destination = ?",
      namespace,
      app,
      destination,
    );
  }

  #find(namespace: string, name: string): AppRow | null {
    return (
      this.sql.exec<AppRow>("SELECT * FROM apps WHERE namespace = ? AND name = ?", namespace, name).toArray()[0] ?? null
    );
  }
}

/** Applications as namespace content: a namespace with applications cannot be deleted. */
export const APP_CONTENT: NamespaceContent = {
  one: "SELECT name FROM apps WHERE namespace = ? LIMIT 1",
  because: (namespace, name) =>
    `repo-host applications exist in namespace ${JSON.stringify(namespace)}, cannot remove: ${name}`,
};

/** The refusal of an `app_name` that does not exist. */
export const noSuchApp = (name: string): string =>
  `app_name: there is no application ${JSON.stringify(name.slice(0, 128))}; create it first`;

const context = (namespace: string, name: string): string => `repo-host-app ${namespace} ${name}`;
