import { describe, isMethod, METHODS, type Req, type Res } from "@sallyport/agent-protocol";
import { type HiddenParams, hiding, revealed } from "../contracts/hidden-params.ts";
import type { Operation, OperationResult } from "../contracts/node-operation.ts";
import { ok, type Result } from "../lib/result.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { warn } from "../platform/observability/log.ts";
import { send } from "./link.ts";
import type { OperationRow, Operations, Outcome } from "./operations.ts";

interface Host {
  readonly node: string;
  readonly operations: Operations;
  commit<T>(change: () => T): T;
  /** The socket in use and its connection's id, or null. */
  live(): { readonly socket: WebSocket; readonly id: string } | null;
  /** Promises an outcome to the operation's owner; inside a transaction. */
  promise(outcome: Outcome): void;
  /** Notes that this object holds data keys; inside a transaction. */
  holdKeys(): void;
  keys(): DataKeys;
}

/** How operations get to the agent, and their results back. */
export class Dispatch {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Whether an operation was taken on before. One whose outcome is unknown is then tried again. */
  isKnown({ id }: Operation): boolean {
    const { operations, commit } = this.#host;
    if (!operations.find(id)) return false;
    commit(() => operations.retry(id));
    this.pump();
    return true;
  }

  /** Takes an operation on, and sends it if there is room. */
  take(operation: Operation): Result<null> {
    const { operations, commit, keys, holdKeys } = this.#host;
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

  /** Sends what there is room for. */
  pump(): void {
    this.#send(this.#host.commit(() => this.#takeUnsent()));
  }

  /** What there is room for. It counts as sent before it is; inside a transaction. */
  #takeUnsent(): readonly OperationRow[] {
    const to = this.#host.live();
    return to ? this.#host.operations.takeUnsent(to.id, Date.now()) : [];
  }

  #send(rows: readonly OperationRow[]): void {
    const { node, live } = this.#host;
    const to = rows.length > 0 && live();
    if (!to) return;
    for (const row of rows) {
      const frame = refuseIfSealed(() => ok(this.#frameOf(row)));
      // Without its secrets it cannot be sent; its deadline tells.
      if (frame.ok) send(to.socket, frame.value);
      else warn("operation-not-sent", { node, operation: row.id, because: frame.message });
    }
  }

  /** The agent tells how an operation has ended. @returns the key whose owner is to be told, or null */
  ended(socket: WebSocket, row: OperationRow | null, frame: Res): string | null {
    const { operations, commit, promise } = this.#host;
    const { outcome, next } = commit(() => {
      const outcome = row && operations.end(row, resultOf(row, frame), Date.now());
      if (outcome) promise(outcome);
      return { outcome, next: this.#takeUnsent() };
    });
    // Leaves once the result is on disk. What is not known here concerns nobody, and the agent need not keep it either; but
    // where the agent does not know itself, it may be at it still, and has more to tell.
    if (frame.ok || frame.error.outcome === "failed") send(socket, { t: "done", op: frame.op });
    this.#send(next);
    return outcome?.key ?? null;
  }

  /** @throws Sealed */
  #frameOf({ id, method, key, gen, deadline_ms, params, sealed }: OperationRow): Req {
    const opened = sealed && (JSON.parse(this.#host.keys().openText(sealed, contextOf(id))) as SealedPart);
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

/** What an agent says of an operation's end, held against what the results of its method are. */
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
