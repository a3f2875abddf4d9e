import type { OperationResult } from "../contracts/node-operation.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import type { OutboxRow } from "../platform/durable/outbox-delivery.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import type { Outcome } from "./agent-operations.ts";

/**
 * Delivers the outcomes of a node's operations to their owner, the registry, through the outbox. Owned by
 * `NodeSession`. An outcome costs one outbox row and one RPC.
 */
export class Outcomes {
  readonly #object: ObjectContext;

  constructor(object: ObjectContext) {
    this.#object = object;
  }

  /** Enqueues an outcome; inside a transaction. */
  enqueue({ id, key, result }: Outcome): void {
    recordAction("operation-ended", { node: this.#object.name, operation: id, about: key, state: result.state });
    this.#object.outbox.enlist("result", key, { id, result });
  }

  /** Delivers the outbox topic `result`. */
  async deliver(rows: readonly OutboxRow[]): Promise<void> {
    const { env, name } = this.#object;
    for (const { body } of rows) {
      const { id, result } = JSON.parse(body) as { id: string; result: OperationResult };
      await clusterRegistry(env).operationDone(name, id, result);
    }
  }
}
