import type { Mutation } from "./mutation.ts";

const OUTBOX = { file: "src/platform/durable/outbox.ts", suites: ["test/workers/outbox.test.ts"] };
const WORK = {
  file: "src/platform/durable/work-queue.ts",
  suites: ["test/workers/work.test.ts", "test/workers/work-bounds.test.ts"],
};
const OBJECT = { file: "src/platform/durable/stored-object.ts", suites: ["test/workers/outbox.test.ts"] };
const MIGRATIONS = { file: "src/platform/durable/migrations.ts", suites: ["test/workers/migrations.test.ts"] };

export const durable: Mutation[] = [
  {
    ...OUTBOX,
    find: 'this.#sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ? AND seq <= ?", topic, lane, last.seq);',
    replace: 'this.#sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ?", topic, lane);',
    promise: "A row enlisted while its lane is delivered is delivered next",
  },
  {
    ...OUTBOX,
    find: "if (!state || (state.attempts > 0 && state.due > Date.now())) return [];",
    replace: "if (!state) return [];",
    promise: "A failed lane is tried again after its back-off only",
  },
  {
    ...OUTBOX,
    find: "else this.#retryAt(topic, lane, 0, Date.now() + GRACE_MS);",
    replace: "else this.#lanes.delete(topic, lane);",
    promise: "Rows left in a lane after a delivery keep a due time, so that the alarm finds them",
  },
  {
    ...OUTBOX,
    find: "const due = Date.now() + backoff(attempts, { cap: BACKOFF_CAP_MS });",
    replace: "const due = Date.now() + backoff(0, { cap: BACKOFF_CAP_MS });",
    promise: "Attempts of one lane are spaced further and further",
  },
  {
    ...OUTBOX,
    find: "this.#commit(() => this.#retryAt(topic, lane, attempts + 1, due));",
    replace: "this.#commit(() => this.#retryAt(topic, lane, 1, due));",
    promise: "Attempts of one lane are counted",
  },
  {
    ...OUTBOX,
    find: "WHERE upto = bytes OR upto <= ? ORDER BY seq`;",
    replace: "WHERE upto <= ? ORDER BY seq`;",
    promise: "A row larger than one delivery is delivered alone",
    equivalent: "a row holds at most 2 MB, so the first row of a delivery is always below its bound",
  },
  {
    ...OUTBOX,
    find: "const bytes = text.length * MAX_BYTES_PER_CHARACTER;",
    replace: "const bytes = 0;",
    promise: "A delivery holds some megabytes, also of rows that were enlisted since the last restart",
  },
  {
    ...OUTBOX,
    find: "while (!flight.over && flight.delivered < newest) await flight.step.promise;",
    replace: "while (!flight.over) await flight.step.promise;",
    promise: "A drain resolves when the rows that waited at its beginning were tried",
  },
  {
    ...OUTBOX,
    find: 'await within(DELIVERY_DEADLINE_MS, deliver(lane, rows), "delivery took too long")',
    replace: "await deliver(lane, rows)",
    promise: "A delivery that never ends counts as failed after its deadline",
  },
  {
    ...OUTBOX,
    find: "confirm?.();",
    replace: "",
    promise: "A delivery's write-back is in the transaction that deletes its rows",
  },
  {
    ...OUTBOX,
    find: "this.#deliveries.delete(key);",
    replace: "",
    promise: "A lane can be delivered again after a delivery ended",
  },
  {
    ...OUTBOX,
    find: 'this.#sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ?", topic, lane);\n    this',
    replace: "this",
    promise: "Only the newest of a lane's effects is delivered where only the newest matters",
  },
  {
    ...OUTBOX,
    find: "this.#numbers = null;",
    replace: "",
    promise: "A number whose reservation was rolled back is given once",
  },
  {
    file: "src/platform/durable/outbox-lanes.ts",
    suites: ["test/workers/outbox.test.ts"],
    find: "else if (this.#next === null || this.#next <= Date.now())",
    replace: "else if (this.#next === null)",
    promise: "The next attempt of the outbox is at the time of a lane that waits",
  },
  {
    ...WORK,
    find: "ready_at = CASE WHEN lease IS NULL THEN excluded.ready_at ELSE ready_at END\n",
    replace: "ready_at = excluded.ready_at\n",
    promise: "A row that is leased is not leased again when its desired state changes",
  },
  {
    ...WORK,
    find: "SET generation = generation + 1, attempts = 0,",
    replace: "SET generation = generation, attempts = 0,",
    promise: "A result for an older desired state is superseded",
  },
  {
    ...WORK,
    find: "SET generation = generation + 1, attempts = 0,",
    replace: "SET generation = generation + 1,",
    promise: "A new desired state starts its attempts at zero",
  },
  {
    ...WORK,
    find: "if (limit <= 0 || (!evenPaused && this.pausedUntil() > now)) return [];",
    replace: "if (limit <= 0) return [];",
    promise: "Nothing is leased during a pause",
  },
  {
    ...WORK,
    find: "held?.lease === lease.lease && held.at > now && held.generation === lease.generation",
    replace: "held?.lease === lease.lease && held.at > now",
    promise: "A lease holds only while its desired state is the newest",
  },
  {
    ...WORK,
    find: "held?.lease === lease.lease && held.at > now && held.generation === lease.generation",
    replace: "held?.lease === lease.lease && held.generation === lease.generation",
    promise: "A lease that has expired does not hold",
  },
  {
    ...WORK,
    find: "if (held?.lease !== lease.lease || held.at - now",
    replace: "if (held === undefined || held.at - now",
    promise: "A stale lease cannot be prolonged",
  },
  {
    ...WORK,
    find: 'if (!row || row.lease !== lease.lease || row.ready_at <= now) return "stale";',
    replace: 'if (!row || row.lease !== lease.lease) return "stale";',
    promise: "A result that comes after its lease expired is stale",
  },
  {
    ...WORK,
    find: 'if (!row || row.lease !== lease.lease || row.ready_at <= now) return "stale";',
    replace: 'if (!row || row.ready_at <= now) return "stale";',
    promise: "A result of an older lease is stale",
  },
  {
    ...WORK,
    find: "this.#release(lease.id, row.attempts, now);",
    replace: "this.#release(lease.id, 0, now);",
    promise: "A row that is handed back keeps its count of attempts",
  },
  {
    ...WORK,
    find: "row.attempts + 1 < (ending.attempts ?? Number.POSITIVE_INFINITY)",
    replace: "row.attempts < (ending.attempts ?? Number.POSITIVE_INFINITY)",
    promise: "A row is parked after its last attempt, not one later",
  },
  {
    ...WORK,
    find: "const again = now + Math.max(ending.afterMs ?? 0, backoff(row.attempts));",
    replace: "const again = now + backoff(row.attempts);",
    promise: "A retry waits at least as long as the provider asked for",
  },
  {
    ...WORK,
    find: 'if (ending.kind === "retry" && ending.all) this.pause(now + (ending.afterMs ?? 0));',
    replace: "",
    promise: "A provider that asks for a pause is not called for other rows meanwhile",
  },
  {
    ...WORK,
    find: "DO UPDATE SET until = max(until, excluded.until)",
    replace: "DO UPDATE SET until = excluded.until",
    promise: "A shorter pause does not end a longer one",
  },
  {
    ...WORK,
    find: "WHERE queued = 0 ORDER BY ready_at LIMIT ?",
    replace: "WHERE queued = 0 ORDER BY ready_at DESC LIMIT ?",
    promise: "The row that has waited longest for room in the queue gets it first",
  },
  {
    ...WORK,
    find: "return first === null ? null : Math.max(first, this.pausedUntil());",
    replace: "return first;",
    promise: "The alarm does not ring for rows before a pause ends",
  },
  {
    ...WORK,
    find: "      ...[attempts, readyAt, id],\n    );\n    leases.delete(id);",
    replace: "      ...[attempts, readyAt, id],\n    );",
    promise: "The count of leases is true after each change of one",
  },
  {
    ...OBJECT,
    find: "return this.ctx.storage.transactionSync(named);",
    replace: "",
    promise: "An outer transaction that fails undoes no alarm of rows that stay",
  },
  {
    ...OBJECT,
    find: "      this.#arm(now + ALARM_GUARD_MS);\n      const own",
    replace: "      const own",
    promise: "Rows never wait without an alarm while the alarm works",
  },
  {
    ...OBJECT,
    find: "if (next !== null) this.#arm(Math.max(next, Date.now() + ALARM_GAP_MS));",
    replace: "if (next !== null) this.#arm(next);",
    promise: "Rows that stay due keep the alarm no busier than four times a second",
  },
  {
    ...OBJECT,
    find: 'warn("alarm-failed", { object: this.ctx.id.name, because: textOf(failure) });\n      this.#arm(now + ALARM_GUARD_MS);',
    replace: "throw failure;",
    promise: "An alarm never throws",
  },
  {
    ...OBJECT,
    find: 'typeof this.#armed === "number" && this.#armed <= due',
    replace: 'typeof this.#armed === "number"',
    suites: ["test/workers/kv-expiry.test.ts"],
    promise: "An earlier deadline moves the alarm",
  },
  {
    ...MIGRATIONS,
    find: "if (applied > steps.length) throw new NewerSchema(module, applied, steps.length);",
    replace: "",
    promise: "Tables of a newer version are not touched",
  },
  {
    ...MIGRATIONS,
    find: "if (applied > 0 && !schema[module]) throw new NewerSchema(module, applied, 0);",
    replace: ";",
    promise: "Tables of a module that this version does not know are not touched",
  },
  {
    ...MIGRATIONS,
    find: "steps.slice(applied)",
    replace: "steps.slice(0)",
    promise: "A step of a schema runs once",
  },
];
