import { CSI_METHODS, describe, isOpen, isStarted } from "@sallyport/agent-protocol";
import type { CsiOperation, CsiOutcome, Texts, Topology } from "../../contracts/csi-volumes.ts";
import type { Node } from "../../contracts/node.ts";
import type { OperationResult } from "../../contracts/node-operation.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import type { OutboxRow } from "../../platform/durable/outbox-delivery.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { type ChangeSet, NO_CHANGES, type NodeFollower } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import { nodeSession } from "../../rpc/stubs.ts";
import { hiding } from "../../volume-requests/hidden-params.ts";
import { refusalOf } from "../host/volume-operations.ts";
import { controllersFor, targetOf } from "./controllers.ts";
import type { CsiOperations, NewCsiOperation } from "./csi-operations.ts";
import { failedAt, isForClaim, needOf } from "./methods.ts";
import { csiInfo } from "./plugin-views.ts";
import type { CsiPlugins } from "./plugins.ts";
import { type CsiSecrets, MAX_SECRETS } from "./secrets.ts";

/** The effects of an operation on volumes or claims. */
export interface Effects {
  /** The topologies of the operation's volume; empty without a volume. */
  topologiesOf(operation: CsiOperation): readonly Topology[];
  /** The last check before an operation is sent. @returns a refusal to cancel it */
  mayStart(operation: CsiOperation): Refusal | null;
  /** Commits a success; inside a transaction. @returns a refusal when the operation counts as failed nevertheless */
  succeeded(operation: CsiOperation, result: Readonly<Record<string, unknown>>): Refusal | null;
  /** Commits a failure; inside a transaction. */
  failed?(operation: CsiOperation, refusal: Refusal): void;
  /** Whether a result reported after completion still counts. */
  countsLate(operation: CsiOperation, nodeId: string): boolean;
  /** Cleans up after a node that also carried out a completed operation; inside a transaction. */
  doneAgain?(operation: CsiOperation, nodeId: string, result: Readonly<Record<string, unknown>>): void;
}

/**
 * Error kinds that depend on the controller, not on the request; another controller is tried. `forbidden`: the plugin
 * was removed from that node's configuration.
 */
const ELSEWHERE: ReadonlySet<string> = new Set(["unavailable", "busy", "forbidden"]);

/**
 * Dispatches operations to plugin controllers and commits their results. An operation that a controller cannot take
 * moves to the next one. So does one with an unknown outcome, since plugin calls are idempotent.
 */
export class CsiDispatcher implements Timed, NodeFollower {
  readonly due = "SELECT min(due) FROM csi_operations WHERE due IS NOT NULL";
  #effects: { readonly volumes: Effects; readonly claims: Effects } | null = null;

  constructor(
    private readonly env: Env,
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly plugins: CsiPlugins,
    private readonly operations: CsiOperations,
    private readonly secrets: CsiSecrets,
  ) {}

  /** Registers the handlers of results. */
  serve(volumes: Effects, claims: Effects): void {
    this.#effects = { volumes, claims };
  }

  /** Stores an operation and sends it. @param secrets those of the volume and of the request @throws Sealed */
  begin(given: Omit<NewCsiOperation, "sealed">, secrets: Texts): Result<string> {
    if (Object.keys(secrets).length > MAX_SECRETS)
      return refuse("invalid", `secrets: at most ${MAX_SECRETS}, with those of the volume`);
    const [params, hidden] = hiding(given.params);
    const sealed = this.secrets.seal({ secrets, params: hidden ?? {} });
    return this.publisher.commit(() => {
      if (sealed) this.secrets.hold();
      return this.operations.begin({ ...given, params, sealed });
    });
  }

  /** Begins an operation at the first controller that is able to run it. @param topologies those of its volume */
  beginAtController(
    given: Omit<NewCsiOperation, "sealed" | "nodeId">,
    topologies: readonly Topology[] | undefined,
    secrets: Texts,
  ): Result<string> {
    const able = this.#controllersFor(given, topologies);
    return able.ok ? this.begin({ ...given, nodeId: able.value[0] }, secrets) : able;
  }

  /** The outcome of an operation; null while it runs after `waitMs`. @param last the caller does not poll again */
  async outcome(id: string, waitMs: number, last: boolean): Promise<CsiOutcome | null> {
    await this.operations.ended(id, waitMs, last);
    const operation = this.operations.find(id);
    if (operation && isOpen(operation.state)) return null;
    if (!operation) {
      return { refusal: refuse("missing", `operation ${id} is not known any more`), result: null, index: null };
    }
    const { refusal, result, index } = operation;
    return { refusal, result, index };
  }

  /** Sends operations to their nodes, or to the next controllers that accept them. */
  async deliver(rows: readonly OutboxRow[]): Promise<() => void> {
    const refusals: [id: string, Refusal][] = [];
    for (const { body } of rows) {
      const id = JSON.parse(body) as string;
      const refusal = await this.#send(id);
      if (refusal) refusals.push([id, refusal]);
    }
    return () => {
      for (const [id, refusal] of refusals) {
        const operation = this.operations.find(id);
        if (operation && isStarted(operation.state)) this.#fail(operation, refusal);
      }
    };
  }

  /** Commits the result of an operation; results of completed operations change nothing, except late effects. */
  async operationDone(nodeId: string, id: string, result: OperationResult): Promise<void> {
    const hasEnded = this.publisher.commit(() => {
      const operation = this.operations.find(id);
      if (!operation?.tried.includes(nodeId)) return false;
      if (!isStarted(operation.state)) {
        const effects = this.#effectsOf(operation);
        if (result.state !== "done" || !effects) return false;
        if (!effects.countsLate(operation, nodeId)) {
          effects.doneAgain?.(operation, nodeId, result.result);
          return false;
        }
        this.#succeed(operation, result.result);
        return true;
      }
      if (result.state === "done") this.#succeed(operation, result.result);
      // The operation was reassigned; the other node's result counts.
      else if (nodeId !== operation.nodeId) return false;
      else if (result.state === "unknown") return this.#outcomeUnknown(operation);
      else if (result.state === "given-up") return this.#abandon(operation, refusalOf(result.error));
      else if (!(ELSEWHERE.has(result.error.kind) && this.#tryNextController(operation))) {
        this.#fail(operation, described(operation, refusalOf(result.error)));
      } else return false;
      return true;
    });
    if (!hasEnded) return;
    await this.publisher.published();
    this.operations.wake(id);
  }

  /**
   * Reacts to node changes. Operations on a removed node fail, and so do claim operations on a node that is down,
   * because claims retry. An absent node or unhealthy plugin moves the operation to the next controller. Operations
   * of unknown outcome are sent again when the plugin is healthy again.
   */
  nodeChanged(id: string, before: Node | null, after: Node | null): ChangeSet {
    if (!before) return NO_CHANGES;
    for (const operation of this.operations.runningOn(id)) {
      if (!after || (isForClaim(operation.method) && after.Status === "down")) this.#nodeLost(operation, after);
      else if (after.Status !== "ready" && before.Status === "ready") this.#reassign(operation);
      else if (isHealthy(before, operation) && !isHealthy(after, operation)) this.#reassign(operation);
      else if (operation.uncertain && isHealthy(after, operation) && !isHealthy(before, operation))
        this.operations.again(operation);
    }
    return NO_CHANGES;
  }

  async onAlarm(now: number): Promise<void> {
    const dropped = this.publisher.commit(() => {
      const late = refuse("timeout", "the plugin had too much to do for others: nothing was changed");
      const waited = this.operations.tick(now);
      for (const operation of waited) this.#fail(operation, late);
      return waited;
    });
    for (const { id, method, pluginId, namespace, volumeId } of dropped)
      recordAction("operation-dropped", { operation: id, method, plugin: pluginId, namespace, volume: volumeId });
  }

  #effectsOf({ method }: CsiOperation): Effects | undefined {
    return this.#effects?.[isForClaim(method) ? "claims" : "volumes"];
  }

  /** @returns the refusal when no node accepts it */
  async #send(id: string): Promise<Refusal | null> {
    for (;;) {
      const operation = this.operations.find(id);
      if (!operation || !isStarted(operation.state)) return null;
      const opened = refuseIfSealed(() => ok(this.secrets.open(operation.sealed)));
      const why = this.#effectsOf(operation)?.mayStart(operation);
      if (why) return why;
      if (!opened.ok) return opened;
      const request = this.operations.requestOf(operation, opened.value);
      const started = await nodeSession(this.env, operation.nodeId).start(request);
      if (started.ok) return null;
      if (started.reason === "unavailable" && this.publisher.commit(() => this.#tryNextController(operation))) continue;
      if (!operation.uncertain) return described(operation, started);
      // A node that was tried earlier may have completed it and reports the result later.
      this.publisher.commit(() => this.operations.waitForFirst(operation));
      return null;
    }
  }

  #nodeLost(operation: CsiOperation, node: Node | null): void {
    if (this.#tryNextController(operation)) return;
    const why = refuse("unavailable", `node ${operation.nodeId} ${node ? "is down" : "was removed"}`);
    this.#fail({ ...operation, uncertain: true }, described(operation, why));
  }

  /** Tries the next controller; the first node may still complete the operation. */
  #reassign(operation: CsiOperation): void {
    const { method } = operation;
    if (this.#tryNextController(operation) && !CSI_METHODS[method].reads && !isForClaim(method))
      this.operations.setUncertain(operation);
  }

  /** Reassigns to the next untried controller. @returns whether there is one */
  #tryNextController(operation: CsiOperation): boolean {
    if (isBound(operation)) return false;
    const able = this.#controllersFor(operation, this.#effectsOf(operation)?.topologiesOf(operation));
    const next = able.ok ? able.value.find((nodeId) => !operation.tried.includes(nodeId)) : undefined;
    if (next === undefined) return false;
    this.operations.move(operation, next);
    return true;
  }

  #controllersFor(
    { pluginId, method, params }: Pick<CsiOperation, "pluginId" | "method" | "params">,
    topologies: readonly Topology[] | undefined,
  ) {
    return controllersFor(this.plugins, pluginId, needOf(method, params), targetOf(params, topologies));
  }

  /**
   * Handles an unknown outcome.
   * @returns whether the operation is completed: reads and claim operations fail, since they are retried
   */
  #outcomeUnknown(operation: CsiOperation): boolean {
    if (isForClaim(operation.method)) {
      this.#fail(
        { ...operation, uncertain: true },
        described(operation, refuse("timeout", "the plugin has not answered in time")),
      );
      return true;
    }
    if (CSI_METHODS[operation.method].reads) {
      if (this.#tryNextController(operation)) return false;
      this.#fail(operation, refuse("timeout", "the plugin has not answered in time"));
      return true;
    }
    this.operations.setUncertain(operation);
    this.#tryNextController(operation);
    return false;
  }

  /**
   * Handles an outcome that the node will never report.
   * @returns whether the operation is completed; otherwise another controller runs it
   */
  #abandon(operation: CsiOperation, why: Refusal): boolean {
    if (isForClaim(operation.method) || CSI_METHODS[operation.method].reads) return this.#outcomeUnknown(operation);
    this.operations.setUncertain(operation);
    if (this.#tryNextController(operation)) return false;
    this.#fail({ ...operation, uncertain: true }, described(operation, why));
    return true;
  }

  #succeed(operation: CsiOperation, result: Readonly<Record<string, unknown>>): void {
    const checked = CSI_METHODS[operation.method].result.safeParse(result);
    if (!checked.success) {
      const message = `node ${operation.nodeId} sent an invalid answer: ${describe(checked.error)}`;
      this.#fail(operation, refuse("faulty", message));
      return;
    }
    const refusal = this.#effectsOf(operation)?.succeeded(operation, result) ?? null;
    if (refusal) this.#fail(operation, refusal);
    else this.operations.end(operation, null, result);
  }

  #fail(operation: CsiOperation, refusal: Refusal): void {
    this.operations.end(operation, refusal);
    this.#effectsOf(operation)?.failed?.(operation, refusal);
    queueMicrotask(() => this.operations.wake(operation.id));
  }
}

/** Whether the operation is bound to one node: named by the caller, or the node of the volume's use. */
const isBound = ({ method, change }: CsiOperation): boolean =>
  (method === "csi.controller.validate" && change !== null) || method.startsWith("csi.node.");

/** Whether a node's controller is healthy. */
const isHealthy = ({ Status, CSIControllerPlugins }: Node, { pluginId }: CsiOperation): boolean => {
  const given = CSIControllerPlugins?.[pluginId];
  return given !== undefined && csiInfo(pluginId, "controller", given, Status === "ready").Healthy;
};

function described({ method, params }: CsiOperation, refusal: Refusal): Refusal {
  const what = method === "csi.controller.snapshotDelete" ? `${JSON.stringify(params["snapshotId"])}: ` : "";
  return failedAt(method, { ...refusal, message: `${what}${refusal.message}` });
}
