import type { DestinationKey } from "../../contracts/destination.ts";
import type { Failure } from "../../contracts/failure.ts";
import type { Setup } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { failure } from "../../providers/outcome.ts";
import { destinationName } from "../../rpc/destination-name.ts";
import { syncDestination } from "../../rpc/stubs.ts";
import { typeOf } from "../configuration/definition.ts";
import type { Listing, ReadObject } from "../destinations/destination-type.ts";
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
    list: listing((cursor) => reading.list(cursor, connection, context())),
    ...(read && reading.shows?.(connection) !== false && { read: (name: string) => read(name, connection, context()) }),
  });
}

/** The objects of a destination that stores them itself. */
function storedReader(env: Env, key: DestinationKey): TargetReader {
  const object = syncDestination(env, destinationName(key));
  const values = new Map<string, string>();
  return {
    granularity: typeOf(key.type)?.defaults.granularity ?? "secret-path",
    list: listing(async (cursor) => {
      const stored = await object.storedObjects(cursor);
      if (!stored.ok) return failure("client", stored.reason, stored.message || stored.reason);
      for (const { name, value } of stored.value) values.set(name, value);
      const names = stored.value.map(({ name }) => name);
      return { outcome: "ok", names, next: names.at(-1) ?? null };
    }),
    read: async (name) => {
      const value = values.get(name);
      return { outcome: "ok", content: value === undefined ? null : { value } };
    },
  };
}

/** Lists from a position. It comes from a caller, who may have sent another text. */
const listing =
  (pageAfter: (cursor: string) => Promise<Listing>): TargetReader["list"] =>
  async (position) => {
    const [, digits, cursor = ""] = /^(\d{1,6}) (.*)$/s.exec(position || "0 ") ?? [];
    if (digits === undefined || !cursor.isWellFormed()) return CURSOR_REFUSED;
    const skipped = Number(digits);
    const page = await pageAfter(cursor);
    if (page.outcome !== "ok") return page;
    return {
      names: page.names.slice(skipped),
      at: (done) => `${skipped + done} ${cursor}`,
      next: page.next === null ? null : `0 ${page.next}`,
    };
  };
