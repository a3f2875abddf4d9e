import { isDeepStrictEqual } from "node:util";
import type {
  Eligibility,
  Node,
  NodeEvent,
  NodeEventGiven,
  NodePage,
  NodeQuery,
  NodeStatus,
  NodeText,
  NodeVolumesChange,
} from "../../contracts/node.ts";
import type { NodeReport } from "../../contracts/reports.ts";
import type { Written } from "../../contracts/rows.ts";
import { equalJson, parseLossless } from "../../lib/json.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { settings } from "../../platform/settings.ts";
import { type ChangeSet, mergeChangeSets, publishChanges } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import { type GivenNode, givenNode } from "./fields.ts";
import { completeNode } from "./node-defaults.ts";
import { sameButFigures } from "./node-figures.ts";
import type { NodePools } from "./node-pools.ts";
import { dueNode, type NodePlace, type NodeStore, type StoredNode } from "./node-store.ts";
import { changedVolumes } from "./node-volumes.ts";

/** Nodes marked down per alarm; the next alarm follows at once. */
const NODES_PER_ALARM = 500;
/** Delay of a node or a drain whose change has failed. */
export const AFTER_DEFECT_MS = 60_000;

/** Fields of a node's lifecycle, which a new registration leaves unchanged. */
const LIFECYCLE_FIELDS = [
  "Status",
  "StatusDescription",
  "StatusUpdatedAt",
  "SchedulingEligibility",
  "Drain",
  "DrainStrategy",
  "LastDrain",
  "Events",
  "LastAllocUpdateIndex",
  "LastMissedHeartbeatIndex",
] as const;
/** Fields derived from others. */
const DERIVED_FIELDS = ["Resources", "Reserved", "ComputedClass"] as const;

const missing = (): Refusal => refuse("missing", "node not found");

/**
 * The lifecycle of nodes. Every change is one event line; heartbeats do not reach this class.
 *
 *   register/report --> initializing --connected--> ready <--connected-- down
 *                                                   |  ^                  ^
 *                                          lost     v  | connected        | NODE_GRACE_MS
 *                                                disconnected ------------+
 *   purge removes a node in any state.
 */
export class Nodes implements Timed {
  readonly due = dueNode("down_at");

  constructor(
    private readonly store: NodeStore,
    private readonly pools: NodePools,
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly env: Env,
  ) {}

  read(id: string): NodeText | null {
    return this.store.read(id);
  }

  page(query: NodeQuery): NodePage {
    return this.store.page(query);
  }

  /**
   * Applies an agent's report: the whole node or its changed fields. Unchanged fields and changed figures emit no event
   * of the node.
   * @param heard the number of the session's message; an old number is ignored, none always applies
   * @param volumes the changed volumes, when `given` is partial
   * @returns `missing` when the node is unknown, and the session's message has not all of its volumes
   */
  async register(id: string, fields: GivenNode, heard?: number, volumes?: NodeVolumesChange): Promise<Result<Written>> {
    const known = this.store.find(id);
    if (!known && (volumes || (heard !== undefined && fields.HostVolumes === undefined))) return missing();
    if (known && isOld(known, heard)) return this.#unchanged(known);
    const given =
      known && volumes ? { ...fields, HostVolumes: changedVolumes(known.node.HostVolumes, volumes) } : fields;
    const refused = refuseRegistration(id, known, given);
    if (refused) return refused;
    const now = Date.now();
    const node = completeNode(id, { ...(known && without(known.node, DERIVED_FIELDS)), ...given }, now);
    if (known && isDeepStrictEqual(node, known.node)) return this.#unchanged(known, heard);
    if (known && sameButFigures(node, known.node)) return this.#figuresChanged(known, node, heard);
    const event = nodeEvent(now, "Cluster", known ? "Node re-registered" : "Node registered");
    return this.#change((line) =>
      mergeChangeSets([
        this.store.write(line, known, node, "NodeRegistration", [event], { origin: "agent", ...(heard && { heard }) }),
        this.pools.ensure(node.NodePool),
      ]),
    );
  }

  /** Applies a change of reported volumes only; costs the changed volumes. */
  async volumesChanged(id: string, change: NodeVolumesChange, heard?: number): Promise<Result<Written>> {
    const known = this.store.place(id);
    if (!known) return missing();
    if (isOld(known, heard)) return this.#unchanged(known);
    const difference = this.store.volumesDiffering(id, change);
    if (!difference) return this.#unchanged(known, heard);
    return this.#change((line) => {
      if (heard !== undefined) this.store.recordHeard(known.row, heard);
      return this.store.changeVolumes(line, known, difference);
    });
  }

  /** Marks the node ready. Costs one row when it is, since every change of its volumes says so again. */
  async connected(id: string, heard?: number): Promise<Result<Written>> {
    const place = this.store.place(id);
    if (!place) return missing();
    if (isOld(place, heard)) return this.#unchanged(place);
    // The previous number is of the same change, so that no older message can follow.
    if (place.status === "ready") return this.#unchanged(place, heard === place.heard + 1 ? undefined : heard);
    const known = this.store.find(id);
    if (!known) return missing();
    const message = known.node.Status === "initializing" ? "Node is ready" : "Node reregistered by heartbeat";
    return this.#change((line) => this.#setStatus(line, known, "ready", message, { ...(heard && { heard }) }));
  }

  /** Marks the node disconnected; it is marked down after the grace time. */
  async lost(id: string, heard?: number): Promise<Result<Written>> {
    const known = this.store.find(id);
    if (!known) return missing();
    if (isOld(known, heard)) return this.#unchanged(known);
    const { Status } = known.node;
    if (Status === "disconnected" || Status === "down") return this.#unchanged(known, heard);
    const downAt = Date.now() + settings(this.env).NODE_GRACE_MS;
    return this.#change((line) =>
      this.#setStatus(line, known, "disconnected", "Node disconnected", { downAt, ...(heard && { heard }) }),
    );
  }

  /** Appends node events. */
  async addEvents(id: string, events: readonly NodeEventGiven[]): Promise<Result<Written>> {
    const known = this.store.find(id);
    if (!known) return missing();
    if (events.length === 0) return this.#unchanged(known);
    const now = Date.now();
    const added = events.map(({ message, subsystem, details, at }) =>
      nodeEvent(at ?? now, subsystem, message, details),
    );
    return this.#change((line) => this.store.write(line, known, known.node, "NodeEvent", added));
  }

  /** Why a report is not accepted, or null. */
  refuseReport({ id }: NodeReport): Refusal | null {
    const managed = this.store.find(id)?.origin === "agent";
    return managed ? refuse("conflict", `node ${id} is managed by its own agent: it cannot be reported`) : null;
  }

  /** Whether a report differs from what is stored. */
  changes({ id, deleted, body }: NodeReport): boolean {
    const known = this.store.find(id);
    if (deleted || !known) return deleted !== (known === null);
    if (known.origin === "agent") return true;
    const given = parseLossless(body) as GivenNode;
    return !equalJson(
      comparable(completeNode(id, { ...without(known.node, []), ...given }, 0)),
      comparable(known.node),
    );
  }

  /**
   * Applies a scheduler's report; inside the caller's transaction and after `refuseReport`. The report replaces the
   * whole node. Lifecycle fields (status, eligibility, drain, events) are unchanged unless the report contains them.
   * @param line the number of the event line
   */
  report({ id, type, deleted, body }: NodeReport, line: number): ChangeSet {
    const known = this.store.find(id);
    const given = parseLossless(body) as GivenNode;
    const now = Date.now();
    const moves = given.Status != null && given.Status !== known?.node.Status;
    const retained = known
      ? only(
          known.node,
          "DrainStrategy" in given ? LIFECYCLE_FIELDS.filter((each) => each !== "Drain") : LIFECYCLE_FIELDS,
        )
      : {};
    const node = completeNode(
      id,
      { ...retained, ...(moves && { StatusUpdatedAt: Math.floor(now / 1000) }), ...given },
      now,
    );
    if (deleted) return this.store.remove(line, known, node, type);
    const events =
      type === "NodeRegistration" && !given.Events
        ? [nodeEvent(now, "Cluster", known ? "Node re-registered" : "Node registered")]
        : [];
    return mergeChangeSets([
      this.store.write(line, known, node, type, events, {
        origin: "report",
        ...("DrainStrategy" in given && { drivesDrain: false, drainDue: null }),
      }),
      this.pools.ensure(node.NodePool),
    ]);
  }

  async setEligibility(id: string, eligibility: Eligibility): Promise<Result<Written>> {
    const known = this.store.find(id);
    if (!known) return missing();
    if (known.node.SchedulingEligibility === eligibility) return this.#unchanged(known);
    if (eligibility === "eligible" && known.node.Drain) {
      return refuse("conflict", "can not set node's scheduling eligibility to eligible while it is draining");
    }
    const event = nodeEvent(Date.now(), "Cluster", `Node marked as ${eligibility} for scheduling`);
    const node = { ...known.node, SchedulingEligibility: eligibility };
    return this.#change((line) => this.store.write(line, known, node, "NodeEligibility", [event]));
  }

  /** Deletes a node. A connected agent would register it again, hence `force`. */
  async purge(id: string, force: boolean): Promise<Result<Written>> {
    const known = this.store.find(id);
    if (!known) return missing();
    const { Status } = known.node;
    if (!force && known.origin === "agent" && (Status === "ready" || Status === "initializing")) {
      return refuse("conflict", `node ${id} is ${Status}: stop its agent first, or purge it with force=true`);
    }
    return this.#change((line) => this.store.remove(line, known, known.node, "NodeDeregistration"));
  }

  async onAlarm(now: number): Promise<void> {
    for (let count = 0; count < NODES_PER_ALARM; count++) {
      const id = this.store.due("down_at", now);
      if (id === null) break;
      this.#setDown(id, now);
    }
    await this.publisher.published();
  }

  /** Marks a node down. A defect of one node is isolated from the others. */
  #setDown(id: string, now: number): void {
    try {
      const known = this.store.find(id);
      if (!known) return;
      this.publisher.commit(() =>
        publishChanges(this.publisher, (line) => this.#setStatus(line, known, "down", "Node heartbeat missed")),
      );
      recordAction("node-down", { node: id });
    } catch (failure) {
      warn("node-not-down", { node: id, because: textOf(failure) });
      const place = this.store.place(id);
      if (place) this.publisher.commit(() => this.store.setDownAt(place.row, now + AFTER_DEFECT_MS));
    }
  }

  #setStatus(
    line: number,
    known: StoredNode,
    status: NodeStatus,
    message: string,
    more: { downAt?: number; heard?: number } = {},
  ): ChangeSet {
    const now = Date.now();
    const node: Node = { ...known.node, Status: status, StatusUpdatedAt: Math.floor(now / 1000) };
    return this.store.write(line, known, node, "NodeEvent", [nodeEvent(now, "Cluster", message)], more);
  }

  /** Runs a change as one transaction and one event line. */
  async #change(change: (line: number) => ChangeSet): Promise<Result<Written>> {
    const line = this.publisher.commit(() => publishChanges(this.publisher, change));
    return ok({ index: await this.publisher.indexOf(line) });
  }

  /** Stores changed figures. Components that follow the node publish their own changes, if any. */
  #figuresChanged(known: StoredNode, node: Node, heard?: number): Promise<Result<Written>> {
    this.publisher.commit(() => {
      const { events, backfills } = this.store.writeFigures(known, node, heard);
      if (events.length > 0) this.publisher.emitLine(events, backfills);
    });
    return this.#unchanged(known);
  }

  /** Earlier changes may have been assigned their index meanwhile. */
  async #unchanged({ id, row }: Pick<NodePlace, "id" | "row">, heard?: number): Promise<Result<Written>> {
    if (heard !== undefined) this.publisher.commit(() => this.store.recordHeard(row, heard));
    await this.publisher.published();
    return ok({ index: this.store.indexOf(id) });
  }
}

const isOld = (known: Pick<NodePlace, "heard">, heard: number | undefined): boolean =>
  heard !== undefined && heard <= known.heard;

export const nodeEvent = (
  at: number,
  subsystem: string,
  message: string,
  details: NodeEvent["Details"] = null,
): Omit<NodeEvent, "CreateIndex"> => ({
  Message: message,
  Subsystem: subsystem,
  Details: details,
  Timestamp: new Date(at).toISOString(),
});

function refuseRegistration(id: string, known: StoredNode | null, given: GivenNode): Refusal | null {
  if (known?.origin === "report")
    return refuse("conflict", `node ${id} is reported by a scheduler: no agent can take it over`);
  const checked = givenNode.safeParse(given);
  if (!checked.success) {
    const [issue] = checked.error.issues;
    return refuse("invalid", `${issue?.path.join(".")}: ${issue?.message}`);
  }
  for (const [field, what] of [
    ["Name", "node name"],
    ["Datacenter", "datacenter"],
    ["Attributes", "attributes"],
  ] as const) {
    const value = given[field] ?? known?.node[field] ?? "";
    if (Object.keys(value).length === 0) return refuse("invalid", `missing ${what} for client registration`);
  }
  return null;
}

/** The indexes of events are this service's, and objects of numbers compare by their text. */
const comparable = (node: Node): unknown =>
  parseLossless(JSON.stringify({ ...node, Events: node.Events.map(({ CreateIndex: _index, ...event }) => event) }));

const only = (node: Node, fields: readonly string[]): GivenNode =>
  Object.fromEntries(Object.entries(node).filter(([field]) => fields.includes(field))) as GivenNode;

const without = (node: Node, fields: readonly string[]): GivenNode =>
  Object.fromEntries(Object.entries(node).filter(([field]) => !fields.includes(field))) as GivenNode;
