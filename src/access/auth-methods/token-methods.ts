import type { AuthMountConfig, AuthTuneBody, ListedAuthMount } from "../../contracts/auth.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { Memo } from "../../platform/durable/memo.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { tuned } from "../mounts/mount-fields.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { authConfigWith, newAuthConfig, tokenMountAccessor } from "./auth-mounts.ts";

/** Settings of a method, as a row holds them. */
interface Settings {
  readonly description: string;
  readonly options: Readonly<Record<string, string>>;
  readonly config: AuthMountConfig;
}

const UNTUNED: Settings = { description: "token based credentials", options: {}, config: newAuthConfig({}) };

/** Whether a path below `auth/` is that of the method. */
export const isTokenMethod = (path: string): boolean => /^token\/?$/.test(path);

/** The method of a namespace without settings of its own. */
export const untunedTokenMethod = (namespace: string, id: string): ListedAuthMount => ({
  ...UNTUNED,
  namespace,
  path: "token/",
  type: "token",
  accessor: tokenMountAccessor(id),
  uuid: `token-${id}`,
  local: false,
  seal_wrap: false,
});

/**
 * The built-in auth method of tokens, which every namespace has. Its settings are a row once they were changed. They
 * bound tokens that are created or renewed, so all rows are held in memory; a write drops the copy.
 */
export class TokenMethods {
  readonly #tuned: Memo<ReadonlyMap<string, Settings>>;

  constructor(
    private readonly sql: SqlStorage,
    private readonly namespaces: NamespaceTree,
    private readonly commit: ObjectContext["commit"],
  ) {
    this.#tuned = new Memo(() => {
      const rows = sql.exec<{ namespace: string; value: string }>("SELECT namespace, value FROM token_methods");
      return new Map(rows.toArray().map(({ namespace, value }) => [namespace, JSON.parse(value) as Settings]));
    });
  }

  /** Drops the copy of the rows, after a rollback. */
  forget(): void {
    this.#tuned.forget();
  }

  get(namespace: string): ListedAuthMount {
    const method = untunedTokenMethod(namespace, this.namespaces.idOf(namespace) ?? "");
    return { ...method, ...this.#tuned.get().get(namespace) };
  }

  /** The lease times of the tokens of a namespace, in seconds; 0 = the system's. */
  limits(namespace: string): Pick<AuthMountConfig, "default_lease_ttl" | "max_lease_ttl"> {
    return this.#settings(namespace).config;
  }

  #settings(namespace: string): Settings {
    return this.#tuned.get().get(namespace) ?? UNTUNED;
  }

  /** Changes the settings that a request names. Texts of refusals are upstream's. */
  tune(namespace: string, body: AuthTuneBody): Result<ListedAuthMount> {
    const { description: _description, options: _options, force_no_cache: _, ...config } = body;
    const before = this.#settings(namespace);
    if (config.token_type && config.token_type !== before.config.token_type) {
      return refuse("invalid", "'token_type' cannot be set for 'token' or 'ns_token' auth mounts");
    }
    if (config.user_lockout_config !== undefined) {
      return refuse("invalid", 'tuning of user lockout configuration for auth type "token" not allowed');
    }
    const changed = tuned(before, body, authConfigWith(before.config, config));
    if (!changed.ok) return changed;
    const admitted = this.namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    this.commit(() =>
      this.sql.exec(
        `INSERT INTO token_methods (namespace, value) VALUES (?, ?)
         ON CONFLICT (namespace) DO UPDATE SET value = excluded.value`,
        namespace,
        JSON.stringify(changed.value),
      ),
    );
    this.forget();
    return ok(this.get(namespace));
  }

  /** Deletes the settings of a namespace, inside the caller's transaction. */
  deleteNamespace(namespace: string): void {
    this.sql.exec("DELETE FROM token_methods WHERE namespace = ?", namespace);
    this.forget();
  }
}
