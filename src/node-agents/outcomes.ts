import type { OperationResult } from "../contracts/node-operation.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import type { OutboxRow } from "../platform/durable/outbox-delivery.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import type { Outcome } from "./agent-operations.ts";
import type { OperationSecrets } from "./operation-secrets.ts";

/** The message of an outcome. A result with a publish context is `sealed`; the other one is for an earlier release. */
interface Message {
  readonly id: string;
  readonly result: OperationResult;
  readonly sealed?: string;
}

const SEALED: OperationResult = { state: "unknown", error: { kind: "internal", message: "the result is sealed" } };

/**
 * Delivers the outcomes of a node's operations to their owner, the registry, through the outbox. Owned by
 * `NodeSession`. An outcome costs one outbox row and one RPC.
 */
export class Outcomes {
  constructor(
    private readonly object: ObjectContext,
    private readonly secrets: OperationSecrets,
  ) {}

  /** Enqueues an outcome; inside a transaction. @param sealed see `OperationSecrets.sealResult` */
  enqueue({ id, key, result }: Outcome, sealed: string | null = null): void {
    recordAction("operation-ended", { node: this.object.name, operation: id, about: key, state: result.state });
    if (sealed !== null) this.secrets.register();
    const message: Message = sealed === null ? { id, result } : { id, result: SEALED, sealed };
    this.object.outbox.enlist("result", key, message);
  }

  /** Delivers the outbox topic `result`, first what needs no key. @throws Sealed */
  async deliver(rows: readonly OutboxRow[]): Promise<void> {
    const { env, name } = this.object;
    const messages = rows.map(({ body }) => JSON.parse(body) as Message);
    const plainFirst = messages.toSorted((a, b) => Number(a.sealed !== undefined) - Number(b.sealed !== undefined));
    for (const { id, result, sealed } of plainFirst) {
      const opened = sealed === undefined ? result : this.secrets.openResult(id, sealed);
      await clusterRegistry(env).operationDone(name, id, opened);
    }
  }
}
