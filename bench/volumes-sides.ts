/** Sides of the volumes bench: the load process, services with and without rows, and the bare Worker. */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Ask, startDeployment } from "./deployment.ts";
import { Server } from "./server.ts";
import type { Job, Timed } from "./volumes-load.ts";

type Reply = { readonly result: unknown } | { readonly failure: string };
type Of<Kind extends Job["kind"]> = Omit<Extract<Job, { kind: Kind }>, "kind" | "side" | "port" | "token">;

export interface VolumesSide {
  readonly name: "ours" | "bare";
  readonly server: Server;
  readonly token: string;
}

export interface ClusterService extends VolumesSide {
  /** A management token. */
  readonly root: string;
  /** With that token. */
  readonly ask: Ask;
}

/** The bench's handle of the load generator: one job at a time in another process. */
export class Load {
  readonly #child: ChildProcess = fork(fileURLToPath(import.meta.resolve("./volumes-load.ts")), []);
  #reply = Promise.withResolvers<unknown>();

  constructor() {
    this.#child.on("message", (reply: Reply) => {
      if ("failure" in reply) this.#reply.reject(new Error(reply.failure));
      else this.#reply.resolve(reply.result);
    });
    this.#child.on("exit", () => this.#reply.reject(new Error("the load generator ended")));
  }

  async enrol({ server, root }: ClusterService, agents: number): Promise<void> {
    await this.#run({ kind: "enrol", side: "ours", port: server.port, token: root, agents });
  }

  connect(side: VolumesSide, agents: number): Promise<Timed> {
    return this.#timed("connect", side, { agents });
  }

  /** How many pings have been answered on a side so far. */
  pongs({ name: side, server: { port }, token }: VolumesSide): Promise<number> {
    return this.#run({ kind: "pongs", side, port, token }) as Promise<number>;
  }

  work(side: VolumesSide, job: Of<"work">): Promise<Timed> {
    return this.#timed("work", side, job);
  }

  read(side: VolumesSide, job: Of<"read">): Promise<Timed> {
    return this.#timed("read", side, job);
  }

  async hold(side: VolumesSide, job: Of<"hold">): Promise<void> {
    await this.#timed("hold", side, job);
  }

  release(side: VolumesSide, job: Of<"release">): Promise<Timed> {
    return this.#timed("release", side, job);
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }

  #timed<Kind extends Job["kind"]>(kind: Kind, { name, server, token }: VolumesSide, job: Of<Kind>): Promise<Timed> {
    return this.#run({ ...job, kind, side: name, port: server.port, token } as unknown as Job) as Promise<Timed>;
  }

  #run(job: Job): Promise<unknown> {
    this.#reply = Promise.withResolvers();
    this.#child.send(job);
    return this.#reply.promise;
  }
}

export async function startBareSockets(dir: string): Promise<VolumesSide> {
  const plan = { name: "bare", config: "bench/bare/wrangler.toml", main: "bench/bare/worker.mts", vars: {} };
  return { name: "bare", server: await Server.start(plan, join(dir, "volumes-bare")), token: "none" };
}

const POLICY = `namespace "default" {
  capabilities = ["host-volume-create", "host-volume-read", "list-jobs", "read-job"]
}
node { policy = "read" }`;

/** @param name distinguishes services of one run */
export async function startCluster(dir: string, name: string, inspector?: string): Promise<ClusterService> {
  const { server, token: root, ask } = await startDeployment(join(dir, `volumes-${name}`), { inspector });
  await ask("PUT", "/v1/sys/policies/acl/volumes", { policy: POLICY });
  const created = JSON.parse(await ask("PUT", "/v1/auth/token/create", { policies: ["volumes"] })) as {
    auth: { client_token: string };
  };
  return { name: "ours", server, token: created.auth.client_token, root, ask };
}

/** One in this many rows matches the filters. */
export const ONE_IN = 5;
/** Volumes, and allocations. */
export const PER_NODE = 100;

/** Fills a service with volumes, nodes and allocations. */
export async function fillCluster({ ask }: ClusterService, rows: number): Promise<void> {
  await ask("POST", "/bench/cluster", { rows, perNode: PER_NODE, oneIn: ONE_IN });
}

/** The id of the row with this number, as bench/ours/cluster.mts gives it. */
export const idOf = (number: number): string => `${number.toString(16).padStart(8, "0")}-b1b1-4b1b-8b1b-b1b1b1b1b1b1`;

/** The id of the CSI volume with this number, as bench/ours/cluster.mts gives it. */
export const volumeOf = (number: number): string => `vol[${String(Math.floor(number)).padStart(8, "0")}]`;

/**
 * Creates nodes, allocations and CSI volumes of a plugin without a controller in a service; some volumes are claimed.
 * @param node where another process mounts volumes: only claiming and releasing is measured
 */
export async function fillCsi(service: ClusterService, rows: number, node: string): Promise<void> {
  const { ask } = service;
  await fillCluster(service, rows);
  const plugin = { PluginID: "disk", Provider: "disk.example", Healthy: true, RequiresControllerPlugin: false };
  const Node = {
    ID: node,
    Name: "csi",
    Status: "ready",
    CSINodePlugins: { disk: { ...plugin, NodeInfo: { ID: "far" } } },
  };
  const Volumes = { data: { Type: "csi", Source: "vol", PerAlloc: true } };
  const Job = { ID: "db", TaskGroups: [{ Name: "main", Volumes }] };
  const Allocation = {
    ID: idOf(0),
    Name: `db.main${volumeOf(0).slice(3)}`,
    JobID: "db",
    TaskGroup: "main",
    NodeID: node,
    ClientStatus: "running",
  };
  await ask("PUT", "/v1/cluster/objects", [{ Topic: "Node", Type: "NodeRegistration", Payload: { Node } }]);
  const capability = { AccessMode: "single-node-writer", AttachmentMode: "file-system" };
  const volume = {
    ID: volumeOf(0),
    Name: "vol-0",
    PluginID: "disk",
    RequestedCapabilities: [capability],
    NodeID: node,
  };
  await ask("PUT", "/v1/volumes", volume);
  await ask("PUT", "/v1/cluster/objects", [
    { Topic: "Job", Type: "JobRegistered", Payload: { Job } },
    { Topic: "Allocation", Type: "AllocationUpdated", Payload: { Allocation } },
  ]);
  await ask("POST", "/bench/csi", { rows, oneIn: ONE_IN });
}
