import type { DestinationKey } from "../../contracts/destination.ts";
import type { Failure } from "../../contracts/failure.ts";
import type { Setup } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { failure } from "../../providers/outcome.ts";
import { destinationName } from "../../rpc/destination-name.ts";
import { syncDestination } from "../../rpc/stubs.ts";
import { typeOf } from "../configuration/definition.ts";
import type { ReadObject } from "../destinations/destination-type.ts";
import type { Granularity } from "../destinations/index.ts";
import { CURSOR_REFUSED } from "../destinations/listing-cursor.ts";
import { inspectorFor } from "./inspect.ts";

/** A page of names. A position is how many names of the provider's page precede it, and the cursor of that page. */
export interface ListedPage {
  readonly names: readonly string[];
  /** The position after so many names. */
  at(done: number): string;
  /** The position after all names; null when there are no more. */
  readonly next: string | null;
}

/** Reads the objects at a destination's target, foreign ones included. `read` is absent where values are not shown. */
export interface TargetReader {
  readonly granularity: Granularity;
  list(position: string): Promise<ListedPage | Failure>;
  read?(name: string): Promise<ReadObject>;
}

export async function targetReader(env: Env, key: DestinationKey, setup: Setup): Promise<Result<TargetReader>> {
  const inspector = await inspectorFor(env, setup);
  if ("trouble" in inspector) return refuse("invalid", inspector.trouble.message);
  if (!inspector.value) return ok(storedReader(env, key));
  const { type, connection, context } = inspector.value;
  const { reading } = type;
  if (!reading) return refuse("invalid", `objects of a destination of type ${type.type} cannot be listed`);
  const { read } = reading;
  return ok({
    granularity: type.defaults.granularity,
    list: async (position) => {
      const begin = positionOf(position);
      if (begin === null) return CURSOR_REFUSED;
      const { skipped, cursor } = begin;
      const listed = await reading.list(cursor, connection, context());
      if (listed.outcome !== "ok") return listed;
      return pageOf(listed.names.slice(skipped), skipped, cursor, listed.next);
    },
    ...(read && reading.shows?.(connection) !== false && { read: (name: string) => read(name, connection, context()) }),
  });
}

/** The objects of a destination that stores them itself. */
function storedReader(env: Env, key: DestinationKey): TargetReader {
  const object = syncDestination(env, destinationName(key));
  const values = new Map<string, string>();
  return {
    granularity: typeOf(key.type)?.defaults.granularity ?? "secret-path",
    list: async (position) => {
      const begin = positionOf(position);
      if (begin === null) return CURSOR_REFUSED;
      const { skipped, cursor } = begin;
      const stored = await object.storedObjects(cursor);
      if (!stored.ok) return failure("client", stored.reason, stored.message || stored.reason);
      for (const { name, value } of stored.value) values.set(name, value);
      const names = stored.value.map(({ name }) => name);
      return pageOf(names.slice(skipped), skipped, cursor, names.at(-1) ?? null);
    },
    read: async (name) => {
      const value = values.get(name);
      return { outcome: "ok", content: value === undefined ? null : { value } };
    },
  };
}

const pageOf = (names: readonly string[], skipped: number, cursor: string, next: string | null): ListedPage => ({
  names,
  at: (done) => `${skipped + done} ${cursor}`,
  next: next === null ? null : `0 ${next}`,
});

/** Null for a text that is no position: a caller sends it. */
function positionOf(position: string): { readonly skipped: number; readonly cursor: string } | null {
  const [, skipped, cursor = ""] = /^(\d{1,6}) (.*)$/s.exec(position || "0 ") ?? [];
  return skipped === undefined || !cursor.isWellFormed() ? null : { skipped: Number(skipped), cursor };
}
