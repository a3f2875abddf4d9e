import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Outbox } from "../../src/platform/durable/outbox.ts";
import type { Deliver } from "../../src/platform/durable/outbox-delivery.ts";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";

/** The internals of an object that tests use: `commit`, and the outbox, which they may replace. */
export interface Inside extends Pick<StoredObject, "nextDue" | "alarm"> {
  commit<T>(change: () => T): T;
  outbox: Outbox;
}

/** Runs inside an object with only the common tables, and an outbox of these topics. */
export function withOutbox<R>(
  name: string,
  topics: Record<string, Deliver>,
  run: (object: Inside, state: DurableObjectState) => R | Promise<R>,
): Promise<R> {
  return runInDurableObject(env.EVENT_LOG.getByName(name), (instance, state) => {
    const object = instance as unknown as Inside;
    object.outbox = new Outbox(state.storage.sql, topics, (change) => object.commit(change));
    return run(object, state);
  });
}

/** The rows that wait in an object's outbox. */
export const waiting = (state: DurableObjectState) =>
  state.storage.sql
    .exec<{ seq: number; topic: string; lane: string; body: string; enlisted: number }>(
      "SELECT * FROM outbox ORDER BY seq",
    )
    .toArray();
