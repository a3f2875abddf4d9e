import {
  type AuthMethod,
  type AuthMethodSettings,
  type AuthMethodStub,
  REDACTED,
} from "../../contracts/cluster-auth-method.ts";
import type { NewEvent } from "../../contracts/event.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import { authMethodView } from "./auth-method-view.ts";
import { clusterEvent, digest } from "./cluster-acl.ts";

interface MethodRow extends Record<string, SqlStorageValue> {
  name: string;
  type: string;
  is_default: number;
  hash: string;
  /** The settings as JSON, sealed: they may hold a client secret. */
  value: ArrayBuffer;
  create_index: number | null;
  modify_index: number | null;
}

type Stored = Omit<AuthMethod, "Hash" | "CreateIndex" | "ModifyIndex">;

const MAX_METHODS = 100;
const MAX_CHARACTERS = 128 * 1024;
const context = (name: string): string => `cluster-auth-method ${name}`;

/**
 * The auth methods of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl/auth-methods), one row each.
 * Settings are checked by their writer, `src/auth/cluster-method.ts`, which also verifies the callers.
 */
export class ClusterAuthMethods {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly publisher: AccessPublisher,
  ) {}

  list(): AuthMethodStub[] {
    return this.sql
      .exec<MethodRow>("SELECT * FROM cluster_auth_methods ORDER BY name")
      .toArray()
      .map((row) => ({
        Name: row.name,
        Type: row.type,
        Default: row.is_default === 1,
        Hash: row.hash,
        CreateIndex: row.create_index,
        ModifyIndex: row.modify_index,
      }));
  }

  /** @throws Sealed */
  read(name: string): AuthMethod | null {
    const row = this.#row(name);
    return row && this.#opened(row);
  }

  has(name: string): boolean {
    return this.#row(name) !== null;
  }

  /**
   * Writes a checked auth method.
   * @param replaces the version that it was merged with; null for a new one. Refused when there is another by now
   * @throws Sealed
   */
  put(settings: AuthMethodSettings, replaces: string | null): Result<null> {
    const { Name: name } = settings;
    const before = this.read(name);
    if ((before?.version ?? null) !== replaces) {
      return refuse("conflict", "the auth method was changed by another request; try again");
    }
    const other = settings.Default ? this.list().find((one) => one.Default && one.Name !== name) : undefined;
    if (other) return refuse("invalid", `default method already exists: ${other.Name}`);
    if (!before && this.list().length >= MAX_METHODS) {
      return refuse("invalid", `there may be at most ${MAX_METHODS} auth methods`);
    }
    const stored = storedOf(settings, before);
    const text = JSON.stringify(stored);
    if (text.length > MAX_CHARACTERS) return refuse("invalid", `Config: at most ${MAX_CHARACTERS} characters`);
    this.publisher.commit(() => {
      const row = this.sql
        .exec<MethodRow>(
          `INSERT INTO cluster_auth_methods (name, type, is_default, hash, value) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (name) DO UPDATE SET type = excluded.type, is_default = excluded.is_default,
             hash = excluded.hash, value = excluded.value, modify_index = NULL RETURNING *`,
          name,
          stored.Type,
          stored.Default ? 1 : 0,
          hashOf(stored),
          this.keys.seal(text, context(name)),
        )
        .one();
      const method = { ...withRow(stored, row), ModifyIndex: null };
      this.publisher.emit([methodEvent("ACLAuthMethodUpserted", method)], [{ clusterAuthMethod: name }]);
    });
    return ok(null);
  }

  /** Deletes an auth method. Its binding rules and the tokens of its logins stay, as upstream. @throws Sealed */
  async delete(name: string): Promise<Result<{ index: number | null }>> {
    const method = this.read(name);
    if (!method) return refuse("missing", "ACL auth-method not found");
    const line = this.publisher.commit(() => {
      this.sql.exec("DELETE FROM cluster_auth_methods WHERE name = ?", name);
      return this.publisher.emitLine([methodEvent("ACLAuthMethodDeleted", method)], []);
    });
    return ok({ index: await this.publisher.indexOf(line) });
  }

  #row(name: string): MethodRow | null {
    return this.sql.exec<MethodRow>("SELECT * FROM cluster_auth_methods WHERE name = ?", name).toArray()[0] ?? null;
  }

  #opened(row: MethodRow): AuthMethod {
    return withRow(JSON.parse(this.keys.openText(row.value, context(row.name))) as Stored, row);
  }
}

const withRow = (stored: Stored, { hash, create_index, modify_index }: MethodRow): AuthMethod => ({
  ...stored,
  Hash: hash,
  CreateIndex: create_index,
  ModifyIndex: modify_index,
});

function storedOf(settings: AuthMethodSettings, before: AuthMethod | null): Stored {
  const now = new Date().toISOString();
  const { OIDCClientSecret: secret } = settings.Config;
  const kept = before?.Config.OIDCClientSecret ?? "";
  return {
    ...settings,
    Config: { ...settings.Config, OIDCClientSecret: secret === REDACTED ? kept : secret },
    version: crypto.randomUUID(),
    CreateTime: before?.CreateTime ?? now,
    ModifyTime: now,
  };
}

/** The client secret is left out, because a digest of a short secret would reveal it. */
const hashOf = ({ version: _version, CreateTime: _created, ModifyTime: _modified, ...stored }: Stored): string =>
  digest(JSON.stringify({ ...stored, Config: { ...stored.Config, OIDCClientSecret: "" } }));

const methodEvent = (type: "ACLAuthMethodUpserted" | "ACLAuthMethodDeleted", method: AuthMethod): NewEvent => ({
  ...clusterEvent("ACLAuthMethod", type, method.Name, "", {}),
  Payload: { AuthMethod: authMethodView(method) },
});
