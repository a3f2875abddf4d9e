import { describe, isMethod, METHODS, type Req, type Res } from "@sallyport/agent-protocol";
import { type HiddenParams, hiding, revealed } from "../contracts/hidden-params.ts";
import type { Operation, OperationResult } from "../contracts/node-operation.ts";
import { ok, type Result } from "../lib/result.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { warn } from "../platform/observability/log.ts";
import type { AgentOperations, OperationRow, Outcome } from "./agent-operations.ts";
import { send } from "./link.ts";

interface Dependencies {
  readonly node: string;
  readonly operations: AgentOperations;
  commit<T>(change: () => T): T;
  /** The live socket and its connection id, or null. */
  live(): { readonly socket: WebSocket; readonly id: string } | null;
  /** Adds an outcome for the operation's owner to the outbox; inside a transaction. */
  promise(outcome: Outcome): void;
  /** Records that this object holds data keys; inside a transaction. */
  holdKeys(): void;
  keys(): DataKeys;
}

/** Sends operations to the agent and processes their results. */
export class Dispatch {
  readonly #dependencies: Dependencies;

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** Whether an operation was accepted before. One of unknown outcome is then sent again. */
  isKnown({ id }: Operation): boolean {
    const { operations, commit } = this.#dependencies;
    if (!operations.find(id)) return false;
    commit(() => operations.retry(id));
    this.pump();
    return true;
  }

  /** Accepts an operation and sends it if a slot is free. */
  take(operation: Operation): Result<null> {
    const { operations, commit, keys, holdKeys } = this.#dependencies;
    const { id, secrets } = operation;
    const taken = refuseIfSealed(() => {
      const [params, hidden] = hiding(operation.params);
      const sealed = secrets || hidden ? keys().seal(JSON.stringify({ secrets, hidden }), contextOf(id)) : null;
      const next = commit(() => {
        if (sealed) holdKeys();
        operations.add({ ...operation, params }, sealed, Date.now());
        return this.#takeUnsent();
      });
      return ok(next);
    });
    if (!taken.ok) return taken;
    this.#send(taken.value);
    return ok(null);
  }

  /** Sends operations to free slots. */
  pump(): void {
    this.#send(this.#dependencies.commit(() => this.#takeUnsent()));
  }

  /** The next operations for free slots, marked as sent before they are; inside a transaction. */
  #takeUnsent(): readonly OperationRow[] {
    const to = this.#dependencies.live();
    return to ? this.#dependencies.operations.takeUnsent(to.id, Date.now()) : [];
  }

  #send(rows: readonly OperationRow[]): void {
    const { node, live } = this.#dependencies;
    const to = rows.length > 0 && live();
    if (!to) return;
    for (const row of rows) {
      const frame = refuseIfSealed(() => ok(this.#frameOf(row)));
      // An operation whose secrets are sealed cannot be sent; its deadline reports the failure.
      if (frame.ok) send(to.socket, frame.value);
      else warn("operation-not-sent", { node, operation: row.id, because: frame.message });
    }
  }

  /** Processes the agent's result of an operation. @returns the key of the owner to notify, or null */
  ended(socket: WebSocket, row: OperationRow | null, frame: Res): string | null {
    const { operations, commit, promise } = this.#dependencies;
    const { outcome, next } = commit(() => {
      const outcome = row && operations.end(row, resultOf(row, frame), Date.now());
      if (outcome) promise(outcome);
      return { outcome, next: this.#takeUnsent() };
    });
    // Acknowledged once the result is stored. Unknown operations are acknowledged too, so that the agent drops them. An
    // unknown outcome is not acknowledged: the operation may still run and has a result later.
    if (frame.ok || frame.error.outcome === "failed") send(socket, { t: "done", op: frame.op });
    this.#send(next);
    return outcome?.key ?? null;
  }

  /** @throws Sealed */
  #frameOf({ id, method, key, gen, deadline_ms, params, sealed }: OperationRow): Req {
    const opened = sealed && (JSON.parse(this.#dependencies.keys().openText(sealed, contextOf(id))) as SealedPart);
    const { secrets, hidden } = opened ?? {};
    return {
      ...{ t: "req", op: id, method, key, gen, deadlineMs: deadline_ms },
      params: revealed(JSON.parse(params), hidden ?? {}) as Req["params"],
      ...(secrets && { secrets }),
    };
  }
}

interface SealedPart {
  readonly secrets?: NonNullable<Req["secrets"]>;
  readonly hidden?: HiddenParams | null;
}

const contextOf = (operation: string): string => `node-session operation ${operation}`;

/** Validates an agent's result against the schema of its method. */
function resultOf({ method }: OperationRow, frame: Res): OperationResult {
  if (!frame.ok) {
    const { kind, message, outcome } = frame.error;
    return { state: outcome, error: { kind, message } };
  }
  const fault = isMethod(method) ? METHODS[method].result.safeParse(frame.result).error : undefined;
  if (!fault) return { state: "done", result: frame.result };
  const message = `the agent's answer to ${method} is not one: ${describe(fault)}`;
  return { state: "unknown", error: { kind: "internal", message } };
}
