import { type Client, isSuccess } from "./client.ts";
import { Tally } from "./counts.ts";
import { Doubt, mapFew, pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

type Fate = "lives" | "deleted" | "destroyed";

interface Version {
  readonly mark: string;
  readonly fate: Doubt<Fate>;
}

interface Secret {
  readonly name: string;
  /** Marks of all writes that were sent. */
  readonly sent: Set<string>;
  /** Those that were answered, by the version of the answer. */
  readonly versions: Map<number, Version>;
  busy: boolean;
  /** Whether versions were only ever added. */
  onlyWritten: boolean;
}

/** Two fields of one mark, so that half a write would show. */
export const contentOf = (mark: string) => ({ a: mark, b: mark });

/** Writers of secrets: acknowledged writes stay, others are stored completely or not at all. */
export class Secrets implements Workload {
  readonly name = "secrets";
  readonly wrong: string[] = [];
  readonly all: readonly Secret[];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #done = new Tally();
  #marks = 0;

  constructor(client: Client, randomFor: RandomFor, count: number) {
    this.#client = client;
    this.#randomFor = randomFor;
    this.all = Array.from({ length: count }, (_, number) => ({
      name: `team/${number % 3}/s${number}`,
      sent: new Set<string>(),
      versions: new Map(),
      busy: false,
      onlyWritten: number % 3 !== 0,
    }));
  }

  async begin(): Promise<void> {
    await this.#client.must("POST", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
    await this.#client.must("POST", "/v1/kv/config", { max_versions: 10_000 });
    for (const secret of this.all) {
      while (secret.versions.size === 0) await this.#put(secret, false);
    }
  }

  async run(going: () => boolean): Promise<void> {
    await Promise.all(
      [0, 1, 2].map((number) => {
        const random = this.#randomFor(`secrets ${number}`);
        return repeatedly(going, random, 60, () => this.#one(random));
      }),
    );
  }

  async #one(random: Random): Promise<void> {
    const secret = pick(random, this.all);
    const [dice, version] = [random(), random()];
    if (secret.busy || !this.#client.isServed) return;
    secret.busy = true;
    try {
      if (dice < 0.2) await this.#read(secret);
      else if (dice < 0.8 || secret.onlyWritten) await this.#put(secret, dice < 0.3);
      else await this.#change(secret, version, dice < 0.88 ? "deleted" : dice < 0.98 ? "lives" : "destroyed");
    } finally {
      secret.busy = false;
    }
  }

  async #put(secret: Secret, checked: boolean): Promise<void> {
    const mark = `${secret.name}#${++this.#marks}`;
    const newest = Math.max(0, ...secret.versions.keys());
    secret.sent.add(mark);
    const options = checked ? { options: { cas: newest } } : {};
    const answer = await this.#client.call("POST", `/v1/kv/data/${secret.name}`, { data: contentOf(mark), ...options });
    this.#done.add(isSuccess(answer) ? "written" : "not answered");
    if (!isSuccess(answer)) {
      // A refusal promises that nothing was written: the number that was checked may be that of a write without an answer.
      if (answer !== null && answer.status < 500) secret.sent.delete(mark);
      if (answer !== null && !(checked && answer.status === 400) && answer.status < 500)
        this.wrong.push(`a write of ${secret.name} was refused: ${answer.status} ${answer.text}`);
      return;
    }
    const { version } = answer.body.data;
    if (secret.versions.has(version)) this.wrong.push(`${secret.name}: version ${version} was answered twice`);
    if (version <= newest) this.wrong.push(`${secret.name}: version ${version} was answered after ${newest}`);
    if (checked && version !== newest + 1)
      this.wrong.push(`${secret.name}: checked against version ${newest}, a write became version ${version}`);
    secret.versions.set(version, { mark, fate: new Doubt<Fate>("lives") });
  }

  async #read(secret: Secret): Promise<void> {
    const newest = Math.max(...secret.versions.keys());
    const answer = await this.#client.call("GET", `/v1/kv/metadata/${secret.name}`);
    if (answer === null || answer.status >= 500) return;
    const seen = answer.status === 200 ? answer.body.data.current_version : 0;
    if (seen < newest)
      this.wrong.push(`${secret.name}: version ${newest} was answered, and is lost: ${seen} is the newest`);
    this.#done.add("read");
  }

  async #change(secret: Secret, dice: number, to: Fate): Promise<void> {
    // Mostly the newest, which is what destinations show.
    const numbers = [...secret.versions.keys()].slice(-3);
    const number = numbers[Math.floor(dice * numbers.length)] as number;
    const version = secret.versions.get(number) as Version;
    if (version.fate.certain === undefined || version.fate.certain === "destroyed") return;
    const verb = { deleted: "delete", lives: "undelete", destroyed: "destroy" }[to];
    const answer = await this.#client.call("POST", `/v1/kv/${verb}/${secret.name}`, { versions: [number] });
    if (isSuccess(answer)) version.fate.answered(to);
    else if (answer === null || answer.status >= 500) version.fate.unanswered(to);
    else this.wrong.push(`${verb} of ${secret.name} was refused: ${answer.status} ${answer.text}`);
    this.#done.add(isSuccess(answer) ? to : "not answered");
  }

  /** The newest version that lives, as the service has it: what every destination must show. */
  async newest(name: string): Promise<{ version: number; data: Record<string, string> } | null> {
    const answer = await this.#client.must("GET", `/v1/kv/metadata/${name}`);
    const versions: [string, { deletion_time: string; destroyed: boolean }][] = Object.entries(
      answer.body.data.versions,
    );
    const living = versions.filter(([, { deletion_time, destroyed }]) => deletion_time === "" && !destroyed);
    if (living.length === 0) return null;
    const version = Math.max(...living.map(([number]) => Number(number)));
    const read = await this.#client.must("GET", `/v1/kv/data/${name}?version=${version}`);
    return { version, data: read.body.data.data };
  }

  unsettled = async () => [];

  /** Every acknowledged write exists once, at its version; others are stored completely or not at all. */
  async verify(): Promise<string[]> {
    const found = await mapFew(this.all, 4, (secret) => this.#verify(secret));
    return found.flat();
  }

  async #verify({ name, sent, versions: answered }: Secret): Promise<string[]> {
    const faults: string[] = [];
    const { data } = (await this.#client.must("GET", `/v1/kv/metadata/${name}`)).body;
    const numbers = Object.keys(data.versions).map(Number);
    if (numbers.some((number, position) => number !== position + 1) || data.current_version !== numbers.length)
      faults.push(`${name} has versions ${numbers.join()} and says that ${data.current_version} is the newest`);
    const seen = new Set<string>();
    for (const number of numbers) {
      const known = answered.get(number);
      const { deletion_time: deletion, destroyed } = data.versions[number];
      const fate: Fate = destroyed ? "destroyed" : deletion === "" ? "lives" : "deleted";
      if (!(known?.fate.may(fate) ?? fate === "lives")) faults.push(`${name}: version ${number} is ${fate}`);
      if (fate !== "lives") continue;
      const { a, b } = (await this.#client.must("GET", `/v1/kv/data/${name}?version=${number}`)).body.data.data;
      if (a !== b) faults.push(`${name}: version ${number} is half ${a} and half ${b}`);
      if (!sent.has(a)) faults.push(`${name}: version ${number} is ${a}, which nobody wrote, or which was refused`);
      if (seen.has(a)) faults.push(`${name} holds the write ${a} twice`);
      if (known && known.mark !== a)
        faults.push(`${name}: version ${number} was answered for ${known.mark}, and is ${a}`);
      seen.add(a);
    }
    for (const number of answered.keys())
      if (!numbers.includes(number)) faults.push(`${name}: version ${number} was answered and is lost`);
    return faults;
  }

  told(): string {
    return `${this.#done}`;
  }
}
