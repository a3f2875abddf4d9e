import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Answer, type Client, isSuccess } from "./client.ts";
import type { Nodes } from "./nodes.ts";
import { Tally } from "./tally.ts";
import { Doubt, pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

interface HostVolume {
  readonly id: string;
  readonly name: string;
  readonly nodeId: string;
  readonly path: string;
  readonly fate: Doubt<"there" | "gone">;
  busy: boolean;
}

interface CsiVolume {
  readonly id: string;
  readonly fate: Doubt<"there" | "gone">;
  busy: boolean;
}

const MODES = { AccessMode: "single-node-writer", AttachmentMode: "file-system" };
const KEPT = 12;

/** Volumes are made, used, claimed and deleted: the service knows those that are there, each is there once, and none in use is deleted. */
export class Volumes implements Workload {
  readonly name = "volumes";
  readonly wrong: string[] = [];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #nodes: Nodes;
  readonly #host: HostVolume[] = [];
  readonly #csi: CsiVolume[] = [];
  readonly #done = new Tally();
  #names = 0;
  #reports = 0;
  /** Until when requests are repeated; null while the work goes on. */
  #until: number | null = null;

  constructor(client: Client, randomFor: RandomFor, nodes: Nodes) {
    this.#client = client;
    this.#randomFor = randomFor;
    this.#nodes = nodes;
  }

  begin = () => this.#nodes.begin();

  async run(going: () => boolean): Promise<void> {
    const acting = (who: string, pauseMs: number, act: (random: Random) => Promise<void>) => {
      const random = this.#randomFor(`volumes ${who}`);
      return repeatedly(going, random, pauseMs, () => act(random));
    };
    const over = async () => {
      while (going()) await sleep(100);
      this.#until = Date.now() + 240_000;
    };
    await Promise.all([
      acting("one", 300, (random) => this.#hostVolume(random)),
      acting("two", 300, (random) => this.#hostVolume(random)),
      acting("used", 500, (random) => this.#used(random)),
      acting("csi", 400, (random) => this.#csiVolume(random)),
      over(),
    ]);
  }

  /** The same request again and again until its answer is one of these; null when that takes too long. */
  async #insist(
    method: string,
    path: string,
    body: unknown,
    statuses: readonly number[],
    tries = Number.POSITIVE_INFINITY,
  ): Promise<Answer | null> {
    for (let time = 0; time < tries && Date.now() < (this.#until ?? Number.POSITIVE_INFINITY); time++) {
      const answer = await this.#client.call(method, path, body);
      if (answer && statuses.includes(answer.status)) return answer;
      if (answer?.status === 400) this.wrong.push(`${method} ${path} was refused: ${answer.status} ${answer.text}`);
      await sleep(100);
    }
    return null;
  }

  async #hostVolume(random: Random): Promise<void> {
    const volume = pick(random, this.#host);
    if (random() < 0.5 && this.#host.filter(({ fate }) => fate.certain === "there").length < KEPT) await this.#make(8);
    else if (volume && !volume.busy && volume.fate.certain === "there") await this.#remove(volume, 8);
  }

  async #make(tries: number): Promise<HostVolume | null> {
    const name = `v-${++this.#names}`;
    const body = { Volume: { Name: name, PluginID: "mkdir" }, IdempotencyToken: name };
    const answer = await this.#insist("PUT", "/v1/volume/host/create", body, [200], tries);
    this.#done.add(answer ? "made" : "not made");
    if (!answer) return null;
    const { ID: id, NodeID: nodeId, HostPath: path } = answer.body.Volume;
    const volume = { id, name, nodeId, path, fate: new Doubt<"there" | "gone">("there"), busy: false };
    this.#host.push(volume);
    if (existsSync(path)) writeFileSync(join(path, "data"), name);
    else this.wrong.push(`${name} was made, and ${path} is not there`);
    return volume;
  }

  async #remove({ id, path, fate }: HostVolume, tries?: number): Promise<void> {
    // Nobody knows what becomes of it from now on.
    fate.unanswered("gone");
    const answer = await this.#insist("DELETE", `/v1/volume/host/${id}/delete`, undefined, [200, 404], tries);
    this.#done.add(answer ? "deleted" : "not deleted");
    if (!answer) return;
    fate.answered("gone");
    if (existsSync(path)) this.wrong.push(`${id} was deleted, and ${path} is still there`);
  }

  /** A job claims a volume, which nobody can delete as long as it runs; then all of it goes. */
  async #used(random: Random): Promise<void> {
    const volume = await this.#make(3);
    if (!volume) return;
    volume.busy = true;
    const id = `job-${volume.name}`;
    const Volumes = { disk: { Type: "host", Name: "disk", Source: volume.name, Sticky: true } };
    const job = { ID: id, Version: 1, TaskGroups: [{ Name: "main", Volumes }] };
    const event = (topic: string, type: string, object: object, more: object = {}) => ({
      ...{ Topic: topic, Type: type, Namespace: "default" },
      Payload: { [topic]: object, ...more },
    });
    const allocation = (ClientStatus: string) =>
      event("Allocation", "AllocationUpdated", {
        ...{ ID: `alloc-${volume.name}`, JobID: id, JobVersion: 1, TaskGroup: "main", Name: `${id}.main[0]` },
        ...{ NodeID: volume.nodeId, ClientStatus, DesiredStatus: "run" },
      });
    await this.#report(event("Job", "JobRegistered", job), allocation("running"));
    const claims = await this.#client.call("GET", `/v1/volumes/claims?namespace=*&per_page=0&job_id=${id}`);
    if (isSuccess(claims) && claims.body.Claims.length !== 1)
      this.wrong.push(`${id} runs with ${claims.body.Claims.length} claims`);
    for (let tries = Math.floor(random() * 4); tries > 0; tries--) {
      const refused = await this.#client.call("DELETE", `/v1/volume/host/${volume.id}/delete`);
      if (refused?.ok || !existsSync(volume.path)) this.wrong.push(`${volume.name} was deleted while it was in use`);
      await sleep(random() * 500);
    }
    await this.#report(allocation("complete"));
    await this.#remove(volume);
    await this.#report(event("Job", "JobDeregistered", job, { Deleted: true }));
    this.#done.add("claimed and freed");
  }

  /** Until it is answered. */
  async #report(...events: object[]): Promise<void> {
    const path = `/v1/cluster/objects?source=volumes&source_index=${++this.#reports}`;
    const answer = await this.#insist("PUT", path, events, [200]);
    if (!answer) this.wrong.push(`report ${this.#reports} of volumes got no answer`);
  }

  async #csiVolume(random: Random): Promise<void> {
    const known = pick(random, this.#csi);
    if (random() < 0.5 && this.#csi.filter(({ fate }) => fate.certain === "there").length < KEPT) {
      const id = `c-${++this.#names}`;
      const volume = { id, fate: new Doubt<"there" | "gone">("gone"), busy: false };
      this.#csi.push(volume);
      volume.fate.unanswered("there");
      const body = { ID: id, Name: id, PluginID: "dir", RequestedCapabilities: [MODES] };
      const answer = await this.#insist("PUT", `/v1/volume/csi/${id}/create`, body, [200], 8);
      if (answer) volume.fate.answered("there");
      this.#done.add(answer ? "CSI made" : "CSI not made");
    } else if (known && known.fate.certain === "there") {
      known.fate.unanswered("gone");
      const answer = await this.#insist("DELETE", `/v1/volume/csi/${known.id}/delete`, undefined, [200, 404], 8);
      if (answer) known.fate.answered("gone");
      this.#done.add(answer ? "CSI deleted" : "CSI not deleted");
    }
  }

  async unsettled(): Promise<string[]> {
    const faults = await this.#nodes.unready();
    const host = await this.#client.call("GET", "/v1/volumes?type=host&namespace=*");
    const csi = await this.#client.call("GET", "/v1/volumes?type=csi&namespace=*");
    if (!isSuccess(host) || !isSuccess(csi)) return [`volumes cannot be listed: ${host?.status}, ${csi?.status}`];
    const known: { ID: string; Name: string; State: string }[] = host.body;
    for (const { ID, Name, State } of known) if (State !== "ready") faults.push(`${Name} (${ID}) is ${State}`);
    const onDisks = this.#nodes.all.flatMap(({ volumes }) => volumes);
    faults.push(
      ...compared(
        "host volumes",
        known.map(({ ID }) => ID),
        onDisks,
      ),
    );
    for (const { id, name, path, fate } of this.#host) {
      const isThere = known.some(({ ID }) => ID === id);
      if (!fate.may(isThere ? "there" : "gone")) faults.push(`${name} is ${isThere ? "there" : "gone"}`);
      if (isThere && !(existsSync(join(path, "data")) && readFileSync(join(path, "data"), "utf8") === name))
        faults.push(`what was written into ${name} is lost`);
    }
    const volumes: { ID: string; ExternalID: string }[] = csi.body;
    faults.push(
      ...compared(
        "CSI volumes",
        volumes.map(({ ExternalID }) => ExternalID),
        this.#nodes.csiVolumes,
      ),
    );
    for (const { id, fate } of this.#csi) {
      const isThere = volumes.some(({ ID }) => ID === id);
      if (!fate.may(isThere ? "there" : "gone")) faults.push(`${id} is ${isThere ? "there" : "gone"}`);
    }
    const claims = await this.#client.call("GET", "/v1/volumes/claims?namespace=*&per_page=0");
    for (const { ID, JobID } of claims?.body?.Claims ?? []) faults.push(`claim ${ID} of ${JobID} was not freed`);
    return faults;
  }

  verify = async () => [];

  told(): string {
    return `${this.#done}`;
  }
}

function compared(what: string, known: readonly string[], there: readonly string[]): string[] {
  const twice = there.filter((id, at) => there.indexOf(id) !== at);
  return [
    ...known.filter((id) => !there.includes(id)).map((id) => `${what}: ${id} is known and not there`),
    ...there.filter((id) => !known.includes(id)).map((id) => `${what}: ${id} is there and not known`),
    ...twice.map((id) => `${what}: ${id} is there twice`),
  ];
}
