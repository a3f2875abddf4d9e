import { Drains } from "../cluster/nodes/drains.ts";
import { NodePools } from "../cluster/nodes/node-pools.ts";
import { NodeStore } from "../cluster/nodes/node-store.ts";
import { Nodes } from "../cluster/nodes/nodes.ts";
import type { Reported } from "../cluster/reports/reported.ts";
import type { NodeFollower } from "../contracts/change-set.ts";
import type { EventPublisher } from "../contracts/event-publisher.ts";
import { Agents } from "../node-agents/agents.ts";
import { Enrolment } from "../node-agents/enrolment.ts";
import type { IndexBackfill, IndexedRows } from "../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../platform/durable/blocking/timed.ts";

type AgentsHost = ConstructorParameters<typeof Agents>[0];

interface Host extends Pick<AgentsHost, "commit" | "enqueueRevocation" | "abandon" | "revoked"> {
  readonly sql: SqlStorage;
  readonly publisher: EventPublisher<IndexBackfill>;
  readonly reported: Reported;
  /** Components that follow changes of nodes. */
  readonly followers: () => readonly NodeFollower[];
  /** See `Nodes`. */
  readonly graceMs: () => number;
}

/** Components of nodes and their agents in the registry, and their wiring. */
export class NodeParts {
  readonly nodes: Nodes;
  readonly pools: NodePools;
  readonly drains: Drains;
  readonly enrolment: Enrolment;
  readonly agents: Agents;
  readonly #store: NodeStore;

  constructor({ sql, publisher, reported, followers, graceMs, ...host }: Host) {
    this.#store = new NodeStore(sql, followers);
    this.pools = new NodePools(sql, reported);
    this.nodes = new Nodes(this.#store, this.pools, publisher, graceMs);
    this.drains = new Drains(sql, this.#store, publisher);
    this.enrolment = new Enrolment(sql, host.commit);
    this.agents = new Agents({ ...host, enrolment: this.enrolment, nodes: this.nodes });
  }

  get stamped(): Readonly<Record<string, IndexedRows>> {
    return { Node: this.#store };
  }

  get timed(): readonly Timed[] {
    return [this.nodes, this.drains, this.enrolment];
  }
}
