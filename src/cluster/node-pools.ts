import type { NewEvent } from "../events/event.ts";
import { NOTHING, type Told } from "./node/told.ts";
import type { Reported } from "./reported.ts";

/** Pools that are always there. Every node is in `all`, and none is registered there. */
export const BUILT_IN_POOLS = ["all", "default"] as const;

export const isBuiltIn = (name: string): boolean => BUILT_IN_POOLS.some((each) => each === name);

const description = (name: string): string =>
  name === "all" ? "Every node of the cluster" : name === "default" ? "Nodes that name no other pool" : "";

/** A pool as reads show it, with the indexes that a built-in one has for ever. */
export const builtInPool = (name: string): object => ({ ...poolRecord(name), CreateIndex: 1, ModifyIndex: 1 });

const poolRecord = (name: string) => ({
  Name: name,
  Description: description(name),
  Hash: "",
  Meta: null,
  NodeIdentityTTL: 0,
  SchedulerConfiguration: null,
});

/** Pools of nodes: reported like other objects, or made by the first node that names them. */
export class NodePools {
  readonly #reported: Reported;

  constructor(reported: Reported) {
    this.#reported = reported;
  }

  /** Makes a pool unless it is there, inside the caller's transaction. */
  ensure(name: string): Told {
    if (isBuiltIn(name) || this.#reported.find("NodePool", name)) return NOTHING;
    const event: NewEvent = this.#reported.take({
      ...{ topic: "NodePool", type: "NodePoolUpserted", namespace: "", id: name, filterKeys: null },
      ...{ jobId: null, nodeId: null, deploymentId: null, evalId: null, terminal: false, deleted: false },
      ...{ wrapper: "NodePool", body: JSON.stringify(poolRecord(name)), extra: "" },
    });
    return { events: [event], stamps: [{ table: "NodePool", row: ["", name] }] };
  }
}
