import type { CubbyholeOwner } from "../../contracts/cubbyhole.ts";
import type { WriteRights } from "../../contracts/kv-store.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { NOTHING, type ObjectContext } from "../../platform/durable/object-context.ts";
import { column, firstRow } from "../rows.ts";
import type { TokenStore } from "./token-store.ts";

/** Bounds per token, over all namespaces (docs/reference/limits.md). */
const MAX_PATHS = 256;
const MAX_VALUE_BYTES = 512 * 1024;
const MAX_TOTAL_BYTES = 1024 * 1024;
const MAX_PATH = 512;

/**
 * The private storage of each token (https://developer.hashicorp.com/vault/docs/secrets/cubbyhole): JSON objects by path,
 * sealed, one row each. The rows of a token are deleted in the transaction that deletes the token.
 */
export class Cubbyholes {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly tokens: TokenStore,
    private readonly commit: ObjectContext["commit"],
  ) {}

  /** The JSON text at a path. @throws Sealed */
  read(owner: CubbyholeOwner, path: string): Result<string> {
    const row = this.#row(owner, path);
    return row ? ok(this.keys.openText(row.value, context(owner, path))) : refuse("missing");
  }

  /** Stores the JSON text of an object. Refused when the owner has ended. @throws Sealed */
  write(owner: CubbyholeOwner, path: string, text: string, rights: WriteRights, now: number): Result<null> {
    if (this.tokens.byAccessor(owner.accessor, now, true) === null) return refuse("denied", "permission denied");
    const before = this.#row(owner, path);
    if (!(before ? rights.update : rights.create)) return refuse("denied", "permission denied");
    const bytes = Buffer.byteLength(text) + Buffer.byteLength(path);
    const refused = this.#tooMuch(owner, path, bytes, before?.bytes ?? null);
    if (refused) return refused;
    const { accessor, namespaceId } = owner;
    this.commit(
      () =>
        this.sql.exec(
          `INSERT INTO cubbyholes (token, namespace, path, value, bytes) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET value = excluded.value, bytes = excluded.bytes`,
          accessor,
          namespaceId,
          path,
          this.keys.seal(text, context(owner, path)),
          bytes,
        ),
      NOTHING,
    );
    return ok(null);
  }

  /** Idempotent. */
  delete({ accessor, namespaceId }: CubbyholeOwner, path: string): void {
    this.commit(
      () =>
        this.sql.exec(
          "DELETE FROM cubbyholes WHERE token = ? AND namespace = ? AND path = ?",
          accessor,
          namespaceId,
          path,
        ),
      NOTHING,
    );
  }

  /** The names in a folder, sorted; those of folders end with a slash. @param folder empty, or with a trailing slash */
  list({ accessor, namespaceId }: CubbyholeOwner, folder: string): string[] {
    const query = "SELECT path FROM cubbyholes WHERE token = ? AND namespace = ?";
    const paths = column(this.sql, query, accessor, namespaceId)
      .filter((path) => path.startsWith(folder))
      .map((path) => path.slice(folder.length).replace(/\/.*$/s, "/"));
    return [...new Set(paths)].sort();
  }

  /** Deletes everything of an ended token, inside the transaction that ends it. */
  ended(accessor: string): void {
    this.sql.exec("DELETE FROM cubbyholes WHERE token = ?", accessor);
  }

  #row({ accessor, namespaceId }: CubbyholeOwner, path: string): { value: ArrayBuffer; bytes: number } | null {
    const query = "SELECT value, bytes FROM cubbyholes WHERE token = ? AND namespace = ? AND path = ?";
    return firstRow(this.sql, query, accessor, namespaceId, path);
  }

  /** @param before bytes of the value that is replaced; null for a new path */
  #tooMuch({ accessor }: CubbyholeOwner, path: string, bytes: number, before: number | null): Refusal | null {
    if (path.length > MAX_PATH) return refuse("invalid", `path: at most ${MAX_PATH} characters in a cubbyhole`);
    if (bytes > MAX_VALUE_BYTES) {
      return refuse("too-large", `a value in a cubbyhole may have at most ${MAX_VALUE_BYTES} bytes`);
    }
    const { n, total } = this.sql
      .exec<{ n: number; total: number }>(
        "SELECT count(*) AS n, ifnull(sum(bytes), 0) AS total FROM cubbyholes WHERE token = ?",
        accessor,
      )
      .one();
    if (before === null && n >= MAX_PATHS) {
      return refuse("invalid", `the cubbyhole of a token holds at most ${MAX_PATHS} paths; delete some first`);
    }
    return total - (before ?? 0) + bytes > MAX_TOTAL_BYTES
      ? refuse("too-large", `the cubbyhole of a token holds at most ${MAX_TOTAL_BYTES} bytes; delete something first`)
      : null;
  }
}

const context = ({ accessor, namespaceId }: CubbyholeOwner, path: string): string =>
  JSON.stringify(["cubbyhole", accessor, namespaceId, path]);
