import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import type { Operation, OperationResult } from "../../src/contracts/node-operation.ts";
import { ok, type Refusal } from "../../src/lib/result.ts";
import { NodeSession } from "../../src/objects/node-session.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { type Answer, get, put, type send } from "./client.ts";
import { addNode, run } from "./host-volumes.ts";

/** Helpers for tests of CSI volumes: nodes whose plugin is played by the test. */

export const PLUGIN = "disk";

const CONTROLLER = {
  SupportsCreateDelete: true,
  SupportsExpand: true,
  SupportsListVolumes: true,
  SupportsCreateDeleteSnapshot: true,
  SupportsListSnapshots: true,
  SupportsAttachDetach: true,
};

export const instance = (more: Record<string, unknown> = {}) => ({
  PluginID: PLUGIN,
  Provider: "disk.example",
  ProviderVersion: "1.0",
  Healthy: true,
  HealthDescription: "",
  RequiresControllerPlugin: true,
  RequiresTopologies: false,
  UpdateTime: "2026-01-02T03:04:05Z",
  ...more,
});

export const controllers = (info: Record<string, boolean> = {}, more: Record<string, unknown> = {}) => ({
  CSIControllerPlugins: { [PLUGIN]: instance({ ControllerInfo: { ...CONTROLLER, ...info }, ...more }) },
});

export const nodePlugins = (more: Record<string, unknown> = {}) => ({
  CSINodePlugins: { [PLUGIN]: instance({ NodeInfo: { ID: "far-node", MaxVolumes: 5 }, ...more }) },
});

/** The provider's id of a node. */
export const farNode = (number: number): string => (number === 1 ? "far-node" : `far-node-${number}`);

/** A node with the plugin's controller and node service. */
export const addCsiNode = (number: number, info: Record<string, boolean> = {}): Promise<string> =>
  addNode(number, { ...controllers(info), ...nodePlugins({ NodeInfo: { ID: farNode(number), MaxVolumes: 5 } }) });

/** A node with the controller, and one with the node service. */
export async function addCsiNodes(): Promise<void> {
  await addNode(1, controllers());
  await addNode(2, nodePlugins({ NodeInfo: { ID: farNode(2), MaxVolumes: 5 } }));
}

/** A node's reaction to an operation: `work` like a healthy plugin, a fixed result, or `hold` until `release`. */
export type Behaviour = OperationResult | Refusal | "work" | "hold";

interface Disk {
  readonly externalId: string;
  capacityBytes: number;
}

/** The provider, and the nodes that ask it. */
export class ScriptedCsi {
  /** Everything that was sent, in order. */
  readonly sent: { readonly node: string; readonly operation: Operation }[] = [];
  /** The provider's volumes, by name. */
  readonly disks = new Map<string, Disk>();
  readonly snapshots = new Map<string, string>();
  /** Which disks are attached to which of the provider's nodes. */
  readonly attached = new Set<string>();
  /** Which disks allocations have on nodes. */
  readonly published = new Set<string>();
  /** Requests that no plugin should receive. */
  readonly wrongs: string[] = [];
  readonly #known = new Set<string>();
  readonly #held = new Map<string, () => Promise<void>>();
  behave: (operation: Operation, node: string) => Behaviour = () => "work";
  /** Removes nodes with their publications. */
  lostNodes = false;

  constructor() {
    const csi = this;
    vi.spyOn(NodeSession.prototype, "start").mockImplementation(async function (
      this: NodeSession,
      operation: Operation,
    ) {
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      return csi.#start(ctx.id.name ?? "", operation);
    });
  }

  #start(node: string, operation: Operation) {
    const once = `${node} ${operation.id}`;
    if (this.#known.has(once)) return ok(null);
    const behaviour = this.behave(operation, node);
    if (typeof behaviour === "object" && "ok" in behaviour) return behaviour;
    this.#known.add(once);
    this.sent.push({ node, operation });
    const work = () =>
      this.tell(node, operation.id, typeof behaviour === "object" ? behaviour : this.work(operation, node));
    if (behaviour === "hold") this.#held.set(operation.id, work);
    else setTimeout(work, 2);
    return ok(null);
  }

  /** Delivers the result to the registry, with retries. */
  tell = async (node: string, id: string, result: OperationResult): Promise<void> => {
    for (let tries = 0; ; tries++) {
      try {
        return await clusterRegistry(env).operationDone(node, id, result);
      } catch (failure) {
        if (tries === 50) throw failure;
        await scheduler.wait(50);
      }
    }
  };

  /** Behaves like a correct plugin. */
  work({ method, params }: Operation, node = ""): OperationResult {
    // biome-ignore lint/suspicious/noExplicitAny: parameters of every method
    const given = params as any;
    const done = (result: Record<string, unknown> = {}): OperationResult => ({ state: "done", result });
    const disk = [...this.disks.values()].find(({ externalId }) => externalId === given.externalId);
    if (method === "csi.controller.create") {
      const made = this.disks.get(given.name) ?? { externalId: `ext-${given.name}`, capacityBytes: given.capacityMin };
      this.disks.set(given.name, made);
      const topologies = given.topology?.required ?? [];
      return done({ ...made, context: { made: "here" }, topologies });
    }
    if (method === "csi.controller.delete") {
      for (const [name, { externalId }] of this.disks) if (externalId === given.externalId) this.disks.delete(name);
      return done();
    }
    if (method === "csi.controller.expand") {
      if (disk) disk.capacityBytes = given.capacityMin;
      return done({ capacityBytes: given.capacityMin, nodeExpansionRequired: false });
    }
    if (method === "csi.controller.list") return done(this.#list(given));
    if (method === "csi.controller.snapshotCreate") {
      this.snapshots.set(`snap-${given.name}`, given.externalId);
      return done(shown(`snap-${given.name}`, given.externalId));
    }
    const there = `${given.externalId} ${given.externalNodeId}`;
    const use = `${given.externalId} ${node} ${given.allocId}`;
    if (method === "csi.controller.publish") {
      this.attached.add(there);
      return done({ publishContext: { device: `/dev/${given.externalId}` } });
    }
    if (method === "csi.controller.unpublish") {
      const users = [...this.published].filter((each) => each.startsWith(`${given.externalId} `));
      if (users.length > 0 && !this.lostNodes) this.wrongs.push(`detached while published: ${users}`);
      this.attached.delete(there);
    }
    if (method === "csi.node.publish") {
      if (![...this.attached].some((each) => each.startsWith(`${given.externalId} `)))
        this.wrongs.push(`not attached: ${use}`);
      this.published.add(use);
      return done({ path: `/mounts/${given.allocId}` });
    }
    if (method === "csi.node.detach") this.published.delete(use);
    if (method === "csi.node.expand") return done({ capacityBytes: given.capacityMin });
    if (method === "csi.controller.snapshotDelete") this.snapshots.delete(given.snapshotId);
    if (method === "csi.controller.snapshotList") {
      return done({ snapshots: [...this.snapshots].map(([id, source]) => shown(id, source)), nextToken: "" });
    }
    return done();
  }

  #list({ maxEntries, startingToken }: { maxEntries: number; startingToken: string }) {
    const all = [...this.disks.values()].map(({ externalId, capacityBytes }) => ({
      externalId,
      capacityBytes,
      context: {},
      snapshotId: "",
      cloneId: "",
      publishedNodeIds: [],
      isAbnormal: false,
      status: "",
    }));
    const from = Number(startingToken || "0");
    const to = maxEntries === 0 ? all.length : from + maxEntries;
    return { volumes: all.slice(from, to), nextToken: to < all.length ? String(to) : "" };
  }

  /** Resumes held operations. */
  async release(): Promise<void> {
    const held = [...this.#held.values()];
    this.#held.clear();
    for (const work of held) await work();
  }

  get holding(): number {
    return this.#held.size;
  }

  /** The methods that were sent, without the prefix `csi.controller.` or `csi.`. */
  get asked(): string[] {
    return this.sent.map(({ operation }) => operation.method.replace("csi.controller.", "").replace("csi.", ""));
  }
}

/** Allocation of a job that asks for the volume, on a node; ended by another status. */
export const runs = (
  node: string,
  { alloc = "a1", status = "running", source = "v1", job = `web-${alloc}`, ...request }: Record<string, unknown> = {},
): Promise<void> =>
  run(node, [{ Type: "csi", Source: source, ...request } as never], {
    alloc: alloc as string,
    status: status as string,
    job: job as string,
  });

export const ends = (node: string, alloc = "a1", more: Record<string, unknown> = {}): Promise<void> =>
  runs(node, { alloc, status: "complete", ...more });

/** The claims on a volume, as reads show them. */
export const claimsOf = async (id = "v1"): Promise<Answer["body"]> => (await get(`/v1/volume/csi/${id}/claims`)).body;
/** Disables automatic retries for a while, so that every transition has another cause. */
export const putOff = (): Promise<void> =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) => {
    sql.exec("UPDATE csi_claims SET due = ? WHERE due IS NOT NULL", Date.now() + 300_000);
  });
export const statesOf = async (id = "v1"): Promise<string[]> =>
  (await claimsOf(id)).map(({ State }: { State: string }) => State);

export const shown = (snapshotId: string, sourceExternalId: string) => ({
  snapshotId,
  sourceExternalId,
  sizeBytes: 7,
  createTime: 1_700_000_000,
  isReady: true,
});

export const definition = (more: Record<string, unknown> = {}) => ({
  ID: "v1",
  Name: "vol-one",
  PluginID: PLUGIN,
  RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
  ...more,
});

type Options = Parameters<typeof send>[3];
/** The dialect in which a registration names no node. */
export const UPSTREAM: Options = { headers: { "X-Nomad-Token": "root" } };

export const create = (more: Record<string, unknown> = {}, options?: Options): Promise<Answer> =>
  put(`/v1/volume/csi/${more["ID"] || "v1"}/create`, { Volumes: [definition(more)] }, options);

export const register = (more: Record<string, unknown> = {}, options: Options = UPSTREAM): Promise<Answer> =>
  put(`/v1/volume/csi/${more["ID"] ?? "v1"}`, { Volumes: [definition(more)] }, options);

/** The provider and the nodes of the running test. */
export let csi: ScriptedCsi;

/** Opens the provider of a test, with one node that has both services of the plugin. */
export async function openCsi(): Promise<void> {
  csi = new ScriptedCsi();
  await addCsiNode(1);
}

/** Opens the provider of a test, with a node for each service of the plugin. */
export async function openCsiNodes(): Promise<void> {
  csi = new ScriptedCsi();
  await addCsiNodes();
}
