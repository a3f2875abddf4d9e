import type { KvConfig } from "../contracts/kv-store.ts";
import { DEFAULT_CONFIG } from "./version.ts";

/** How a store keeps its secrets: `unversioned` = the API of version 1, one value a path. */
type Engine = "unversioned" | "versioned";

interface State {
  readonly config: KvConfig;
  /** The mount was deleted. */
  readonly gone: boolean;
  /** Undefined before the first write of the API of version 1, and in stores that never had one. */
  readonly engine: Engine | undefined;
  /** Whether events are published on demand; null before the first time. */
  readonly published: { readonly on: boolean; readonly epoch: number } | null;
  /** Where the mount is since its last move; null for one that never moved. `seq` grows with each move. */
  readonly moved: { readonly path: string; readonly seq: number } | null;
}

/** Settings of a KV mount, in `settings` of `KvStore`. Held in memory, because every write needs them. */
export class MountState {
  #state: State | undefined;

  constructor(private readonly sql: SqlStorage) {}

  get(): State {
    if (!this.#state) {
      const rows = this.sql.exec<{ name: string; value: string }>("SELECT name, value FROM settings").toArray();
      const values = new Map(rows.map((row) => [row.name, row.value]));
      const config = values.get("config");
      this.#state = {
        config: { ...DEFAULT_CONFIG, ...(JSON.parse(config ?? "{}") as Partial<KvConfig>) },
        gone: values.has("gone"),
        engine: values.get("engine") as Engine | undefined,
        published: JSON.parse(values.get("published") ?? "null") as State["published"],
        moved: JSON.parse(values.get("moved") ?? "null") as State["moved"],
      };
    }
    return this.#state;
  }

  /** Drops the settings held in memory, after a rollback. */
  forget(): void {
    this.#state = undefined;
  }

  /** Marks a store whose secrets the API of version 2 changes. Runs inside a transaction. */
  markVersioned(): void {
    if (this.get().engine === "unversioned") this.set("engine", "versioned");
  }

  /** Changes a setting. Runs inside a transaction. */
  set(name: "config" | "gone" | "engine" | "moved" | "published", value: string): void {
    this.sql.exec(
      "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
      name,
      value,
    );
    this.forget();
  }
}
