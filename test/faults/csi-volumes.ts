import { setTimeout as sleep } from "node:timers/promises";
import { type Client, isSuccess } from "./client.ts";
import { Tally } from "./counts.ts";
import type { Nodes } from "./nodes.ts";
import { Reporter, usage } from "./reporter.ts";
import { compared, Doubt, pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

interface CsiVolume {
  readonly id: string;
  readonly fate: Doubt<"there" | "gone">;
  busy: boolean;
}

const MODES = { AccessMode: "single-node-writer", AttachmentMode: "file-system" };
const KEPT = 8;

/** CSI volumes are created, claimed, released and deleted: the states of driver and service stay equal. */
export class CsiVolumes implements Workload {
  readonly name = "csi";
  readonly wrong: string[] = [];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #nodes: Nodes;
  readonly #reporter: Reporter;
  readonly #volumes: CsiVolume[] = [];
  readonly #done = new Tally();
  #names = 0;

  constructor(client: Client, randomFor: RandomFor, nodes: Nodes) {
    this.#client = client;
    this.#randomFor = randomFor;
    this.#nodes = nodes;
    this.#reporter = new Reporter(client, "csi-volumes");
  }

  begin = async () => {};

  async run(going: () => boolean): Promise<void> {
    const acting = (who: string, pauseMs: number, act: (random: Random) => Promise<void>) => {
      const random = this.#randomFor(`csi ${who}`);
      return repeatedly(going, random, pauseMs, () => act(random));
    };
    await Promise.all([
      acting("one", 500, (random) => this.#one(random)),
      acting("used", 500, (random) => this.#used(random)),
    ]);
  }

  async #one(random: Random): Promise<void> {
    const volume = pick(random, this.#volumes);
    if (random() < 0.5 && this.#volumes.filter(({ fate }) => fate.certain === "there").length < KEPT)
      await this.#make(8);
    else if (volume && !volume.busy && volume.fate.certain === "there") await this.#remove(volume, 8);
  }

  async #make(tries: number): Promise<CsiVolume | null> {
    const id = `c-${++this.#names}`;
    const volume = { id, fate: new Doubt<"there" | "gone">("gone"), busy: false };
    this.#volumes.push(volume);
    volume.fate.unanswered("there");
    const body = { ID: id, Name: id, PluginID: "dir", RequestedCapabilities: [MODES] };
    const answer = await this.#client.insist("PUT", `/v1/volume/csi/${id}/create`, body, [200], tries);
    this.#done.add(answer ? "made" : "not made");
    if (!answer) return null;
    // Asked for again and again until it was answered: nothing may come later.
    const made = { ...volume, fate: new Doubt<"there" | "gone">("there") };
    this.#volumes[this.#volumes.indexOf(volume)] = made;
    return made;
  }

  async #remove({ id, fate }: CsiVolume, tries?: number): Promise<void> {
    fate.unanswered("gone");
    const answer = await this.#client.insist("DELETE", `/v1/volume/csi/${id}/delete`, undefined, [200, 404], tries);
    this.#done.add(answer ? "deleted" : "not deleted");
    if (answer) fate.answered("gone");
  }

  /** An allocation attaches and publishes the volume on its node, where it cannot be deleted; then it ends. */
  async #used(random: Random): Promise<void> {
    const nodes = await this.#client.call("GET", "/v1/nodes");
    const [which, lasts] = [random(), random() * 4_000];
    if (!isSuccess(nodes) || nodes.body.length === 0) return;
    const volume = await this.#make(3);
    if (!volume) return;
    volume.busy = true;
    const node = nodes.body[Math.floor(which * nodes.body.length)];
    const use = usage(volume.id, node.ID, { Type: "csi", Source: volume.id, ...MODES });
    await this.#reporter.report(use.begins);
    await sleep(lasts);
    const refused = await this.#client.call("DELETE", `/v1/volume/csi/${volume.id}/delete`);
    if (refused?.ok || !this.#nodes.csiVolumes.some(({ name }) => name === volume.id))
      this.wrong.push(`${volume.id} was deleted while it was in use`);
    const claims = await this.#client.call("GET", `/v1/volume/csi/${volume.id}/claims`);
    if (isSuccess(claims)) for (const { State } of claims.body) this.#done.add(`seen ${State}`);
    await this.#reporter.report(use.ends);
    await this.#remove(volume);
    await this.#reporter.report(use.isForgotten);
    this.#done.add("taken and given back");
  }

  async unsettled(): Promise<string[]> {
    const answer = await this.#client.call("GET", "/v1/volumes?type=csi&namespace=*");
    if (!isSuccess(answer)) return [`CSI volumes cannot be listed: ${answer?.status}`];
    const known: { ID: string; ExternalID: string }[] = answer.body;
    const there = this.#nodes.csiVolumes;
    const faults = compared(
      "CSI volumes",
      known.map(({ ExternalID }) => ExternalID),
      there.map(({ id }) => id),
    );
    for (const { name, published } of there)
      if (published.length > 0) faults.push(`${name} is still published on ${published}`);
    for (const { id, fate } of this.#volumes) {
      const isThere = known.some(({ ID }) => ID === id);
      if (!fate.may(isThere ? "there" : "gone")) faults.push(`${id} is ${isThere ? "there" : "gone"}`);
    }
    return faults;
  }

  verify = async () => [...this.#reporter.wrong];

  told(): string {
    return `${this.#done}`;
  }
}
