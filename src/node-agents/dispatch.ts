import {
  describe,
  frameBytes,
  isMethod,
  MAX_FRAME_BYTES,
  METHODS,
  type Req,
  type Res,
  req,
} from "@sallyport/agent-protocol";
import type { Operation, OperationResult } from "../contracts/node-operation.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import { warn } from "../platform/observability/log.ts";
import { hiding, revealed } from "../volume-requests/hidden-params.ts";
import type { AgentOperations, OperationRow } from "./agent-operations.ts";
import type { Connections } from "./connections.ts";
import { send } from "./link.ts";
import type { OperationSecrets, SealedPart } from "./operation-secrets.ts";
import type { Outcomes } from "./outcomes.ts";

/** Sends operations to the agent and processes their results. */
export class Dispatch {
  constructor(
    private readonly object: ObjectContext,
    private readonly operations: AgentOperations,
    private readonly connections: Connections,
    private readonly outcomes: Outcomes,
    private readonly secrets: OperationSecrets,
  ) {}

  /** Whether an operation was accepted before. One of unknown outcome is then sent again. */
  isKnown({ id }: Operation): boolean {
    if (!this.operations.find(id)) return false;
    this.object.commit(() => this.operations.retry(id));
    this.pump();
    return true;
  }

  /** Accepts an operation and sends it if a slot is free. */
  take(operation: Operation): Result<null> {
    const { id, secrets } = operation;
    const taken = refuseIfSealed(() => {
      const [params, hidden] = hiding(operation.params);
      const sealed = secrets || hidden ? this.secrets.seal(id, { secrets, hidden }) : null;
      const next = this.object.commit(() => {
        if (sealed) this.secrets.register();
        this.operations.add({ ...operation, params }, sealed, Date.now());
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
    this.#send(this.object.commit(() => this.#takeUnsent()));
  }

  /** The next operations for free slots, marked as sent before they are; inside a transaction. */
  #takeUnsent(): readonly OperationRow[] {
    const to = this.connections.live();
    return to ? this.operations.takeUnsent(to.id, Date.now()) : [];
  }

  #send(rows: readonly OperationRow[]): void {
    const to = rows.length > 0 && this.connections.live();
    if (!to) return;
    for (const row of rows) {
      const frame = refuseIfSealed(() => ok(this.#frameOf(row)));
      // An operation whose secrets are sealed cannot be sent; its deadline reports the failure.
      if (frame.ok) send(to.socket, frame.value);
      else warn("operation-not-sent", { node: this.object.name, operation: row.id, because: frame.message });
    }
  }

  /** Processes the agent's result of an operation. @returns the key of the owner to notify, or null */
  ended(socket: WebSocket, row: OperationRow | null, frame: Res): string | null {
    const result = row && resultOf(row, frame);
    const sealed = refuseIfSealed(() => ok(row && result ? this.secrets.sealResult(row.id, result) : null));
    if (!sealed.ok) {
      // Not acknowledged, so the agent keeps it and sends it again when the operation is due.
      warn("result-not-stored", { node: this.object.name, operation: frame.op, because: sealed.message });
      return null;
    }
    const { outcome, next } = this.object.commit(() => {
      const outcome = row && result && this.operations.end(row, result, Date.now());
      if (outcome) this.outcomes.enqueue(outcome, sealed.value);
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
    const { secrets, hidden }: SealedPart = sealed ? this.secrets.open(id, sealed) : {};
    return {
      t: "req",
      op: id,
      method,
      key,
      gen,
      deadlineMs: deadline_ms,
      params: revealed(JSON.parse(params), hidden ?? {}) as Req["params"],
      ...(secrets && { secrets }),
    };
  }
}

/**
 * Why agents would not accept the frame of an operation, or null. Such a frame must not be sent: agents of earlier
 * releases close the connection, and it would be sent again after each welcome.
 */
export function frameRefusal({ id, ...rest }: Operation): Refusal | null {
  const frame = { t: "req", op: id, ...rest };
  if (frameBytes(JSON.stringify(frame)) > MAX_FRAME_BYTES)
    return refuse("too-large", `the operation is larger than ${MAX_FRAME_BYTES} bytes`);
  const fault = req.safeParse(frame).error;
  return fault ? refuse("invalid", `the operation is not a valid request: ${describe(fault)}`) : null;
}

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
