import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../crash/random.ts";
import { listClaims, placed, stickyJob } from "./claims-helpers.ts";
import { type Answer, del } from "./client.ts";
import { addNode, make, nodeId, ScriptedNodes } from "./host-volumes.ts";
import { gone, report } from "./reports.ts";

const NODES = [1, 2];
const VOLUMES = ["db", "log"];
const JOBS = ["web", "api", "app"];

interface Allocation {
  readonly job: string;
  readonly version: number;
  readonly node: number;
  live: boolean;
  /** Whether its job was deleted, so that it may use any volume while the job is unknown. */
  outlives?: boolean;
  /** The volumes it may still claim; null while its job is unknown. */
  wants: Set<string> | null;
  /** Start of its wait: the longest waiting one is served first. */
  since: number;
}

interface Claim {
  readonly volume: string;
  readonly job: string;
  alloc: string;
  /** Null until it was seen. */
  id: string | null;
}

/** Model of the expected claims: after every change, each wanted volume that exists is claimed. */
class Model {
  readonly volumes = new Map<string, { readonly node: number; readonly name: string }>();
  readonly jobs = new Map<string, { readonly version: number; readonly sources: readonly string[] }>();
  /** Sources by job and version; also of versions that only allocations contain. */
  readonly versions = new Map<string, readonly string[]>();
  readonly allocations = new Map<string, Allocation>();
  claims: Claim[] = [];
  changes = 0;
  #clock = 0;

  now(): number {
    this.#clock += 1;
    return this.#clock;
  }

  settle(): void {
    for (const [job, { version, sources }] of this.jobs) this.versions.set(`${job} ${version}`, sources);
    for (const allocation of this.allocations.values()) {
      const job = this.jobs.get(allocation.job);
      if (allocation.live && !allocation.wants && job?.version === allocation.version) {
        allocation.wants = new Set(job.sources);
        allocation.since = this.now();
      }
    }
    const inTurn = [...this.allocations].sort(([, a], [, b]) => a.since - b.since);
    for (const [id, { job, node, live, wants }] of inTurn) {
      for (const name of live ? [...(wants ?? [])] : []) {
        const [volume] = [...this.volumes].find(([, at]) => at.node === node && at.name === name) ?? [];
        if (volume === undefined) continue;
        wants?.delete(name);
        this.#claim(volume, job, id);
      }
    }
  }

  #claim(volume: string, job: string, alloc: string): void {
    this.changes += 1;
    const known = this.claims.find((claim) => claim.volume === volume && claim.job === job);
    const holder = known && this.allocations.get(known.alloc);
    if (known && holder?.live === false) known.alloc = alloc;
    else {
      this.claims = this.claims.filter((claim) => claim !== known);
      this.claims.push({ volume, job, alloc, id: null });
    }
  }

  drop(of: (claim: Claim) => boolean): void {
    const left = this.claims.filter((claim) => !of(claim));
    this.changes += this.claims.length - left.length;
    this.claims = left;
  }

  isUsed(volume: string): boolean {
    const { node, name } = this.volumes.get(volume) ?? { node: 0, name: "" };
    return [...this.allocations].some(([id, { job, version, node: on, live, outlives = false }]) => {
      if (!live) return false;
      if (this.claims.some((claim) => claim.volume === volume && claim.alloc === id)) return true;
      const known = this.jobs.get(job);
      if (on !== node) return false;
      // An unknown version of a known job may ask for anything.
      const sources = this.versions.get(`${job} ${version}`);
      return (!known && outlives) || (sources?.includes(name) ?? known !== undefined);
    });
  }
}

/** Performs one random step, also on the model. */
async function step(model: Model, random: () => number, nr: number): Promise<string> {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const some = VOLUMES.filter(() => random() < 0.7);
  const asJob = (job: string, version: number, sources: readonly string[]) =>
    stickyJob(sources, { ID: job, Version: version });
  const asAllocation = (id: string, { job, version, node }: Allocation, more: object = {}) =>
    placed(id, { JobID: job, JobVersion: version, NodeID: nodeId(node), ...more });
  const dice = random();
  if (dice < 0.2) {
    const job = pick(JOBS);
    const version = (model.jobs.get(job)?.version ?? 0) + 1;
    await report(asJob(job, version, some));
    model.jobs.set(job, { version, sources: some });
    return `job ${job} v${version} asks for ${some}`;
  }
  if (dice < 0.5) {
    const job = pick(JOBS);
    const version = (model.jobs.get(job)?.version ?? 0) + (random() < 0.3 ? 1 : 0);
    const own = random() < 0.2;
    const earlier = model.versions.get(`${job} ${version}`);
    if (own && !earlier) model.versions.set(`${job} ${version}`, some);
    const allocation: Allocation = {
      job,
      version,
      node: pick(NODES),
      live: true,
      wants: own || earlier ? new Set(own ? some : earlier) : null,
      since: model.now(),
    };
    const { TaskGroups } = asJob(job, version, some).Payload["Job"] as { TaskGroups: unknown };
    await report(asAllocation(`a${nr}`, allocation, own ? { Job: { TaskGroups } } : {}));
    model.allocations.set(`a${nr}`, allocation);
    return `a${nr} of ${job} v${version} on ${allocation.node}${own ? ` asks for ${some}` : ""}`;
  }
  const [id, allocation] = pick([...model.allocations]) ?? [];
  if (dice < 0.7 && id !== undefined && allocation) {
    const how = pick(["ends", "ends", "goes", "is heard of"]);
    if (how === "is heard of" && !allocation.live) return "nothing";
    await report(
      how === "goes"
        ? gone(asAllocation(id, allocation))
        : asAllocation(id, allocation, { ClientStatus: how === "ends" ? "failed" : "unknown" }),
    );
    if (how === "goes") model.allocations.delete(id);
    else if (how === "ends") allocation.live = false;
    return `${id} ${how}`;
  }
  if (dice < 0.82) {
    const [node, name] = [pick(NODES), pick(VOLUMES)];
    if ([...model.volumes.values()].some((at) => at.node === node && at.name === name)) return "nothing";
    model.volumes.set((await make({ Name: name, NodeID: nodeId(node) })).ID, { node, name });
    return `volume ${name} on ${node}`;
  }
  if (dice < 0.9) {
    const [volume] = pick([...model.volumes]) ?? [];
    if (volume === undefined) return "nothing";
    const used = model.isUsed(volume);
    expect((await del(`/v1/volume/host/${volume}`)).status).toBe(used ? 409 : 200);
    if (!used) {
      model.volumes.delete(volume);
      model.drop((claim) => claim.volume === volume);
    }
    return `volume ${volume} is ${used ? "used" : "deleted"}`;
  }
  if (dice < 0.95) {
    const claim = pick(model.claims);
    if (!claim) return "nothing";
    expect((await del(`/v1/volumes/claim/${claim.id}`)).status).toBe(200);
    model.drop((each) => each === claim);
    return `the claim of ${claim.alloc} is deleted`;
  }
  const job = pick(JOBS);
  await report(gone(asJob(job, 1, [])));
  // Versions that only allocations contain stay with a job that was never reported.
  for (const version of model.jobs.delete(job) ? [...model.versions.keys()] : [])
    if (version.startsWith(`${job} `)) model.versions.delete(version);
  model.drop((claim) => claim.job === job);
  for (const each of model.allocations.values()) {
    if (each.job === job) Object.assign(each, { wants: new Set(), outlives: each.live });
  }
  return `job ${job} is purged`;
}

const asks = () =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) =>
    sql.exec("SELECT * FROM claim_asks").toArray(),
  );

describe("claims after random jobs, allocations and volumes", () => {
  // Proves: D.claims.sticky
  it.each([1, 2, 3, 4, 5, 6])(
    "match the rules after every step (seed %i)",
    async (seed) => {
      const random = randomFrom(seed);
      new ScriptedNodes();
      for (const node of NODES) await addNode(node);
      const model = new Model();
      const story: string[] = [];
      const ids = new Set<string>();
      let index = 1;
      for (let nr = 1; nr <= 80; nr++) {
        const before = model.changes;
        story.push(await step(model, random, nr));
        model.settle();
        const answer = await listClaims();
        const seen: Answer["body"][] = answer.body.Claims;
        const by = (volume: string, job: string, alloc: string) => `${volume} ${job} ${alloc}`;
        expect(seen.map((claim) => by(claim.VolumeID, claim.JobID, claim.AllocID)).sort(), story.join("\n")).toEqual(
          model.claims.map(({ volume, job, alloc }) => by(volume, job, alloc)).sort(),
        );
        for (const claim of model.claims) {
          const { ID } = seen.find(({ VolumeID, JobID }) => VolumeID === claim.volume && JobID === claim.job);
          // One that is replaced has an id that none had before.
          if (claim.id === null) expect(ids.has(ID), story.join("\n")).toBe(false);
          else expect(ID, story.join("\n")).toBe(claim.id);
          claim.id = ID;
          ids.add(ID);
        }
        const now = Number(answer.headers.get("X-Orch-Index"));
        if (model.changes === before) expect(now, story.join("\n")).toBe(index);
        else expect(now, story.join("\n")).toBeGreaterThan(index);
        for (const { CreateIndex, ModifyIndex } of seen) {
          expect(CreateIndex).toBeGreaterThan(0);
          expect(ModifyIndex).toBeLessThanOrEqual(now);
        }
        index = now;
      }
      expect(ids.size).toBeGreaterThan(0);
      for (const [id, { job }] of model.allocations) await report(placed(id, { JobID: job, ClientStatus: "complete" }));
      expect(await asks()).toEqual([]);
    },
    120_000,
  );
});
