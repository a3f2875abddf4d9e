import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import type { Operation, OperationResult } from "../../src/contracts/node-operation.ts";
import { ok, type Refusal } from "../../src/lib/result.ts";
import { NodeSession } from "../../src/objects/node-session.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { type Answer, put, send } from "./client.ts";

/** Helpers for tests of host volumes: nodes that are played by the test. */

/** The id of a node by its number, in the order of numbers. */
export const nodeId = (number: number): string => `0000000${number}-0000-4000-8000-000000000000`;

interface Held {
  readonly name: string;
  readonly path: string;
}

/** A node's reaction to an operation: `work` as it should, a fixed result, or `hold` until `release`. */
export type Behaviour = OperationResult | Refusal | "work" | "hold" | "lose-answer";

export class ScriptedNodes {
  /** Everything that was sent, in order. */
  readonly sent: { readonly node: string; readonly operation: Operation }[] = [];
  /** The volumes on the nodes' disks. */
  readonly disks = new Map<string, Map<string, Held>>();
  readonly #known = new Set<string>();
  readonly #held = new Map<string, () => Promise<void>>();
  readonly #fences = new Map<string, number>();
  /** Background work that survives the crash of an object. */
  readonly #queue: (() => Promise<void>)[] = [];
  static #now: ScriptedNodes | null = null;
  behave: (operation: Operation, node: string) => Behaviour = () => "work";

  constructor() {
    const nodes = this;
    ScriptedNodes.#now = this;
    void this.#run();
    vi.spyOn(NodeSession.prototype, "start").mockImplementation(async function (
      this: NodeSession,
      operation: Operation,
    ) {
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      return nodes.#start(ctx.id.name ?? "", operation);
    });
  }

  /** Until the next test creates its own nodes. */
  async #run(): Promise<void> {
    while (ScriptedNodes.#now === this) {
      await scheduler.wait(2);
      for (const work of this.#queue.splice(0)) await work();
    }
  }

  async #start(node: string, operation: Operation) {
    if (this.#known.has(operation.id)) return ok(null);
    const behaviour = this.behave(operation, node);
    if (typeof behaviour === "object" && "ok" in behaviour) return behaviour;
    this.#known.add(operation.id);
    this.sent.push({ node, operation });
    const work = async () => {
      const result = typeof behaviour === "object" ? behaviour : this.work(node, operation);
      if (behaviour !== "lose-answer") await this.tell(node, operation.id, result);
    };
    if (behaviour === "hold") this.#held.set(operation.id, work);
    else this.#queue.push(work);
    return ok(null);
  }

  /** Behaves like a correct node. */
  work(node: string, { method, params, key, gen }: Operation): OperationResult {
    const failed = (kind: "conflict" | "stale", message: string): OperationResult => ({
      state: "failed",
      error: { kind, message },
    });
    if ((this.#fences.get(key) ?? 0) > gen) return failed("stale", `${key}: a newer operation was accepted before`);
    this.#fences.set(key, gen);
    const disk = this.disks.get(node) ?? new Map<string, Held>();
    this.disks.set(node, disk);
    const { id, name, hostPath } = params as { id: string; name: string; hostPath?: string };
    if (method === "dhv.delete") disk.delete(id);
    else {
      if ([...disk].some(([other, held]) => other !== id && held.name === name))
        return failed("conflict", "volume name already exists on this node");
      disk.set(id, { name, path: hostPath ?? `/volumes/${id}` });
    }
    return { state: "done", result: method === "dhv.create" ? { path: `/volumes/${id}`, bytes: 0 } : {} };
  }

  /** Delivers the result to the registry, with retries. */
  async tell(node: string, id: string, result: OperationResult): Promise<void> {
    for (let tries = 0; tries < 50; tries++) {
      try {
        return await clusterRegistry(env).operationDone(node, id, result);
      } catch {
        await scheduler.wait(50);
      }
    }
  }

  /** Resumes held operations, or completes them with the given result. */
  async release(): Promise<void> {
    const held = [...this.#held.values()];
    this.#held.clear();
    for (const work of held) await work();
  }

  get holding(): number {
    return this.#held.size;
  }

  /** A node's fingerprint of the volumes on its disk. */
  fingerprint(node: string) {
    return Object.fromEntries(
      [...(this.disks.get(node) ?? [])].map(([ID, { name, path }]) => [
        name,
        { ID, Name: name, Path: path, ReadOnly: false },
      ]),
    );
  }

  /** Sends the node's report. */
  report = (node: string) => clusterRegistry(env).registerNode(node, { HostVolumes: this.fingerprint(node) });
}

/** A node with an agent, ready by default. */
export async function addNode(number: number, more: Record<string, unknown> = {}, ready = true): Promise<string> {
  const id = nodeId(number);
  const registered = await clusterRegistry(env).registerNode(id, {
    Name: `n${number}`,
    Datacenter: "dc1",
    Attributes: { "kernel.name": "linux", "plugins.host_volume.mkdir.version": "0.0.1" },
    ...more,
  });
  if (!registered.ok) throw new Error(registered.message);
  if (ready) await clusterRegistry(env).nodeConnected(id);
  return id;
}

export const lose = (node: string) => clusterRegistry(env).nodeLost(node);

type Options = Parameters<typeof send>[3];

export const volume = (more: Record<string, unknown> = {}) => ({ Name: "db", PluginID: "mkdir", ...more });

/** Requests a volume, by default with `create`. */
export const ask = (more: Record<string, unknown> = {}, options?: Options, intent = "create"): Promise<Answer> =>
  put(`/v1/volume/host/${intent}`, { Volume: volume(more) }, options);

export const register = (more: Record<string, unknown> = {}, options?: Options): Promise<Answer> =>
  ask({ PluginID: "", NodeID: nodeId(1), HostPath: "/srv/db", ...more }, options, "register");

/** Makes a volume and answers it; fails the test when it is refused. */
export async function make(more: Record<string, unknown> = {}): Promise<Answer["body"]> {
  const made = await ask(more);
  if (made.status !== 200) throw new Error(`not made: ${made.status} ${made.text}`);
  return made.body.Volume;
}

/** A job whose group `g` asks for host volumes by these names, and allocations of it. */
export async function run(
  node: string,
  sources: readonly (string | { readonly Source: string; readonly PerAlloc: boolean })[],
  { alloc = "a1", status = "running", version = 1, namespace = "default", name = "web.g[0]", job = "web" } = {},
): Promise<void> {
  const Volumes = Object.fromEntries(
    sources.map((source, at) => [
      `v${at}`,
      { Type: "host", Name: `v${at}`, ...(typeof source === "string" ? { Source: source } : source) },
    ]),
  );
  const reported = await put(`/v1/cluster/objects?namespace=${namespace}`, [
    {
      Topic: "Job",
      Type: "JobRegistered",
      Namespace: namespace,
      Payload: { Job: { ID: job, Namespace: namespace, Version: 1, TaskGroups: [{ Name: "g", Volumes }] } },
    },
    {
      Topic: "Allocation",
      Type: "AllocationUpdated",
      Namespace: namespace,
      Payload: {
        Allocation: {
          ID: alloc,
          Namespace: namespace,
          JobID: job,
          JobVersion: version,
          TaskGroup: "g",
          Name: name,
          NodeID: node,
          ClientStatus: status,
          DesiredStatus: "run",
        },
      },
    },
  ]);
  if (reported.status !== 200) throw new Error(`not reported: ${reported.text}`);
}

export const finish = (node: string, alloc = "a1") => run(node, [], { alloc, status: "complete" });

/** Every row that is about host volumes. */
export const storedRows = () =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) =>
    ["host_volumes", "host_volume_names", "volume_operations", "outbox"].flatMap((table) =>
      sql.exec(`SELECT * FROM ${table}`).toArray(),
    ),
  );

/** Every volume that lists show. */
export const listed = async (query = ""): Promise<Answer["body"]> =>
  (await send("GET", `/v1/volumes?type=host&namespace=*${query}`)).body;

/** The nodes of the running test. */
export let nodes: ScriptedNodes;

/** Opens the nodes of a test: those with the given numbers. */
export async function openNodes(...numbers: number[]): Promise<void> {
  nodes = new ScriptedNodes();
  for (const number of numbers) await addNode(number);
}
