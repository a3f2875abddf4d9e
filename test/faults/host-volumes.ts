import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, isSuccess } from "./client.ts";
import { Tally } from "./counts.ts";
import type { Nodes } from "./nodes.ts";
import { Reporter, usage } from "./reporter.ts";
import { compared, Doubt, pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

interface HostVolume {
  readonly id: string;
  readonly name: string;
  readonly nodeId: string;
  readonly path: string;
  readonly fate: Doubt<"there" | "gone">;
  busy: boolean;
}

const KEPT = 12;

/** Host volumes are made, claimed and deleted: the service knows those that are there, each is there once, and none in use is deleted. */
export class HostVolumes implements Workload {
  readonly name = "volumes";
  readonly wrong: string[] = [];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #nodes: Nodes;
  readonly #reporter: Reporter;
  readonly #volumes: HostVolume[] = [];
  readonly #done = new Tally();
  #names = 0;

  constructor(client: Client, randomFor: RandomFor, nodes: Nodes) {
    this.#client = client;
    this.#randomFor = randomFor;
    this.#nodes = nodes;
    this.#reporter = new Reporter(client, "host-volumes");
  }

  begin = async () => {};

  async run(going: () => boolean): Promise<void> {
    const acting = (who: string, pauseMs: number, act: (random: Random) => Promise<void>) => {
      const random = this.#randomFor(`volumes ${who}`);
      return repeatedly(going, random, pauseMs, () => act(random));
    };
    await Promise.all([
      acting("one", 300, (random) => this.#one(random)),
      acting("two", 300, (random) => this.#one(random)),
      acting("used", 500, (random) => this.#used(random)),
    ]);
  }

  async #one(random: Random): Promise<void> {
    const volume = pick(random, this.#volumes);
    if (random() < 0.5 && this.#volumes.filter(({ fate }) => fate.certain === "there").length < KEPT)
      await this.#make(8);
    else if (volume && !volume.busy && volume.fate.certain === "there") await this.#remove(volume, 8);
  }

  async #make(tries: number): Promise<HostVolume | null> {
    const name = `v-${++this.#names}`;
    const body = { Volume: { Name: name, PluginID: "mkdir" }, IdempotencyToken: name };
    const create = () => this.#client.insist("PUT", "/v1/volume/host/create", body, [200], tries);
    // Every third caller repeats its request while the first is under way.
    const [answer, other] = await Promise.all([create(), this.#names % 3 === 0 ? create() : null]);
    if (answer && other && answer.body.Volume.ID !== other.body.Volume.ID) this.wrong.push(`${name} was made twice`);
    this.#done.add(answer ? "made" : "not made");
    if (!answer) return null;
    const { ID: id, NodeID: nodeId, HostPath: path } = answer.body.Volume;
    const volume = { id, name, nodeId, path, fate: new Doubt<"there" | "gone">("there"), busy: false };
    this.#volumes.push(volume);
    if (existsSync(path)) writeFileSync(join(path, "data"), name);
    else this.wrong.push(`${name} was made, and ${path} is not there`);
    return volume;
  }

  async #remove({ id, path, fate }: HostVolume, tries?: number): Promise<void> {
    // From here on, the outcome is unknown.
    fate.unanswered("gone");
    const answer = await this.#client.insist("DELETE", `/v1/volume/host/${id}/delete`, undefined, [200, 404], tries);
    this.#done.add(answer ? "deleted" : "not deleted");
    if (!answer) return;
    fate.answered("gone");
    if (existsSync(path)) this.wrong.push(`${id} was deleted, and ${path} is still there`);
  }

  /** A job claims a volume, which cannot be deleted while the job runs; then both are removed. */
  async #used(random: Random): Promise<void> {
    const volume = await this.#make(3);
    if (!volume) return;
    volume.busy = true;
    const use = usage(volume.name, volume.nodeId, { Type: "host", Source: volume.name, Sticky: true });
    await this.#reporter.report(use.begins);
    const claims = await this.#client.call("GET", `/v1/volumes/claims?namespace=*&per_page=0&job_id=${use.jobId}`);
    if (isSuccess(claims) && claims.body.Claims.length !== 1)
      this.wrong.push(`${use.jobId} runs with ${claims.body.Claims.length} claims`);
    for (let tries = Math.floor(random() * 4); tries > 0; tries--) {
      const refused = await this.#client.call("DELETE", `/v1/volume/host/${volume.id}/delete`);
      if (refused?.ok || !existsSync(volume.path)) this.wrong.push(`${volume.name} was deleted while it was in use`);
      await sleep(random() * 500);
    }
    await this.#reporter.report(use.ends);
    await this.#remove(volume);
    await this.#reporter.report(use.isForgotten);
    this.#done.add("claimed and freed");
  }

  async unsettled(): Promise<string[]> {
    const faults = await this.#nodes.unready();
    const answer = await this.#client.call("GET", "/v1/volumes?type=host&namespace=*");
    const claims = await this.#client.call("GET", "/v1/volumes/claims?namespace=*&per_page=0");
    if (!isSuccess(answer) || !isSuccess(claims))
      return [`volumes cannot be listed: ${answer?.status}, ${claims?.status}`];
    const known: { ID: string; Name: string; State: string }[] = answer.body;
    for (const { ID, Name, State } of known) if (State !== "ready") faults.push(`${Name} (${ID}) is ${State}`);
    const onDisks = this.#nodes.all.flatMap(({ volumes }) => volumes);
    faults.push(
      ...compared(
        "host volumes",
        known.map(({ ID }) => ID),
        onDisks,
      ),
    );
    for (const { id, name, path, fate } of this.#volumes) {
      const isThere = known.some(({ ID }) => ID === id);
      if (!fate.may(isThere ? "there" : "gone")) faults.push(`${name} is ${isThere ? "there" : "gone"}`);
      if (isThere && !(existsSync(join(path, "data")) && readFileSync(join(path, "data"), "utf8") === name))
        faults.push(`what was written into ${name} is lost`);
    }
    for (const { ID, JobID } of claims.body.Claims) faults.push(`claim ${ID} of ${JobID} was not freed`);
    return faults;
  }

  verify = async () => [...this.#reporter.wrong];

  told(): string {
    return `${this.#done}`;
  }
}
