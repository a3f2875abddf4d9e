import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { isWanted, type SeenEvent, type SeenLine, type Wish } from "../events-reference.ts";
import { type Asked, type Moment, read } from "../http/events-visit.ts";
import { type Client, isSuccess } from "./client.ts";
import { Tally } from "./counts.ts";
import { pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

/** A write that makes one line. */
interface Write {
  readonly marks: readonly string[];
  answered: boolean;
  /** Its index, if the answer had it. */
  index: number | null;
}

interface Reader {
  readonly wish: Wish;
  readonly format: Asked["format"];
  /** Whether it keeps lines whole, or only their digests. */
  readonly whole: boolean;
  /** By index, in the order in which they came. */
  readonly lines: Map<number, SeenLine | string>;
  /** The newest index that it has passed. */
  reached: number;
  visits: number;
}

const WISHES: readonly Wish[] = [
  { topics: [["*", "*"]], namespace: "*" },
  { topics: [["Job", "*"]], namespace: "default" },
  {
    topics: [
      ["Job", "web"],
      ["Node", "*"],
    ],
    namespace: "*",
  },
  {
    topics: [
      ["Evaluation", "*"],
      ["Allocation", "web"],
    ],
    namespace: "prod",
  },
  {
    topics: [
      ["ACLPolicy", "*"],
      ["ACLToken", "*"],
    ],
    namespace: "default",
  },
  {
    topics: [
      ["HostVolume", "*"],
      ["*", "api"],
    ],
    namespace: "*",
  },
];

const digest = (events: readonly SeenEvent[]) => createHash("sha256").update(JSON.stringify(events)).digest("hex");

/** Writers of all event sources, and readers that reconnect after each cut: all see one history. */
export class Streams implements Workload {
  readonly name = "events";
  readonly wrong: string[] = [];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #writes: Write[] = [];
  readonly #readers: Reader[];
  readonly #done = new Tally();
  #marks = 0;
  /** The index that readers may leave at; null while there is more to come. */
  #last: number | null = null;
  #reading: Promise<unknown> = Promise.resolve();

  constructor(client: Client, randomFor: RandomFor) {
    this.#client = client;
    this.#randomFor = randomFor;
    this.#readers = WISHES.map((wish, number) => ({
      wish,
      whole: number === 0,
      lines: new Map(),
      reached: 0,
      visits: 0,
      format: number % 3 === 2 ? "server-sent-events" : "lines",
    }));
  }

  async begin(): Promise<void> {
    for (const name of ["prod", "test"]) await this.#client.must("PUT", `/v1/namespace/${name}`, {});
    this.#reading = Promise.all(this.#readers.map((reader) => this.#read(reader)));
  }

  async run(going: () => boolean): Promise<void> {
    const acting = (who: string, pauseMs: number, act: (random: Random) => Promise<void>) => {
      const random = this.#randomFor(`events ${who}`);
      return repeatedly(going, random, pauseMs, () => act(random));
    };
    const sources = ["source-1", "source-2"].map((source) => {
      let told = 0;
      return acting(source, 120, (random) => this.#report(random, source, ++told));
    });
    await Promise.all([
      ...sources,
      acting("once", 250, (random) => this.#reportOnce(random)),
      acting("policies", 400, (random) => this.#policy(random)),
      acting("tokens", 1_500, () => this.#token()),
    ]);
  }

  /** With a number of its source, repeated until it is answered: published exactly once. */
  async #report(random: Random, source: string, number: number): Promise<void> {
    const { events, write } = this.#events(random);
    for (const until = Date.now() + 180_000; !write.answered; ) {
      const path = `/v1/cluster/objects?source=${source}&source_index=${number}`;
      const answer = await this.#client.call("PUT", path, events);
      if (answer !== null && answer.status >= 400 && answer.status < 500)
        return void this.wrong.push(`a report was refused: ${answer.status} ${answer.text}`);
      if (isSuccess(answer)) [write.answered, write.index] = [true, answer.body.Index];
      else if (Date.now() > until) return void this.wrong.push(`report ${number} of ${source} got no answer`);
      else await sleep(100);
      this.#done.add(isSuccess(answer) ? "reported" : "not answered");
    }
  }

  async #reportOnce(random: Random): Promise<void> {
    const { events, write } = this.#events(random);
    if (!this.#client.isServed) return;
    const answer = await this.#client.call("PUT", "/v1/cluster/objects", events);
    if (isSuccess(answer)) [write.answered, write.index] = [true, answer.body.Index];
    this.#done.add(isSuccess(answer) ? "reported" : "not answered");
  }

  #events(random: Random): { events: object[]; write: Write } {
    const events = Array.from({ length: pick(random, [1, 1, 2, 4]) }, () => {
      const Mark = `e${++this.#marks}`;
      const Namespace = pick(random, ["default", "default", "prod", "test"]);
      const ID = pick(random, ["web", "api", "db"]);
      const topic = pick(random, ["Job", "Job", "Evaluation", "Deployment"]);
      const [Type, object] =
        topic === "Job"
          ? ["JobRegistered", { ID, Mark }]
          : [
              topic === "Evaluation" ? "EvaluationUpdated" : "DeploymentStatusUpdate",
              { ID: `${topic}-${ID}`, JobID: ID, Mark },
            ];
      return { Topic: topic, Type, Namespace, Payload: { [topic]: object } };
    });
    const marks = events.map(({ Payload }) => String((Object.values(Payload)[0] as { Mark: string }).Mark));
    const write = { marks, answered: false, index: null };
    this.#writes.push(write);
    return { events, write };
  }

  async #policy(random: Random): Promise<void> {
    const name = `p${Math.floor(random() * 4)}`;
    if (!this.#client.isServed) return;
    const mark = `e${++this.#marks}`;
    const write: Write = { marks: [mark], answered: false, index: null };
    this.#writes.push(write);
    const answer = await this.#client.call("PUT", `/v1/acl/policy/${name}`, {
      Description: mark,
      Rules: 'node { policy = "read" }',
    });
    write.answered = isSuccess(answer);
    this.#done.add(isSuccess(answer) ? "policy" : "not answered");
  }

  async #token(): Promise<void> {
    if (!this.#client.isServed) return;
    const mark = `e${++this.#marks}`;
    const write: Write = { marks: [mark], answered: false, index: null };
    this.#writes.push(write);
    const made = await this.#client.call("PUT", "/v1/acl/token", { Name: mark, Type: "client", Policies: ["p0"] });
    write.answered = isSuccess(made);
    // 1 is the index of an unknown state.
    if (isSuccess(made) && made.body.ModifyIndex > 1) write.index = made.body.ModifyIndex;
    if (isSuccess(made)) await this.#client.call("DELETE", `/v1/acl/token/${made.body.AccessorID}`);
    this.#done.add(isSuccess(made) ? "token" : "not answered");
  }

  /** Resumes at its position after any disconnect. */
  async #read(reader: Reader): Promise<void> {
    const now = (): Moment => ({ time: Date.now(), sent: 0, known: 0, base: this.#client.base });
    const isThrough = () => this.#last !== null && reader.reached >= this.#last;
    while (!isThrough()) {
      if (!this.#client.isServed) {
        await sleep(20);
        continue;
      }
      const begun = reader.reached;
      const visit = await read(
        {
          base: this.#client.base,
          accessor: null,
          secret: "root",
          wish: reader.wish,
          from: begun + 1,
          format: reader.format,
          errors: false,
        },
        {
          pause: () => 0,
          leaves: ({ reached }) => this.#last !== null && reached >= this.#last,
        },
        now,
      );
      reader.visits++;
      for (const broken of visit.broken) this.wrong.push(`a reader got what is no line: ${broken}`);
      if (visit.status === 200 && visit.oldest > begun + 1)
        this.wrong.push(`lines ${begun + 1} to ${visit.oldest - 1} have left the buffer`);
      if (visit.status >= 400 && visit.status < 500) this.wrong.push(`a reader was answered ${visit.status}`);
      for (const { Index, Events } of visit.lines) {
        const before = [...reader.lines.keys()].at(-1) ?? 0;
        if (Index <= before) this.wrong.push(`a reader of ${told(reader.wish)} got line ${Index} after ${before}`);
        reader.lines.set(Index, reader.whole ? { Index, Events } : digest(Events));
      }
      reader.reached = Math.max(reader.reached, visit.reached);
      if (visit.status !== 200) await sleep(50);
    }
  }

  /** Only readers need time to settle; the rest is immediate. */
  unsettled = async () => [];

  async verify(): Promise<string[]> {
    const job = { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "the-last-word" } } };
    const { Index } = (await this.#client.must("PUT", "/v1/cluster/objects", [job])).body;
    if (typeof Index !== "number") return ["the last report got no index"];
    this.#last = Index;
    const late = await Promise.race([this.#reading.then(() => null), sleep(60_000).then(() => "late")]);
    if (late) return [`readers have not come to line ${Index}: ${this.#readers.map(({ reached }) => reached)}`];
    const [whole] = this.#readers as [Reader];
    const history = new Map(whole.lines as Map<number, SeenLine>);
    const faults = await this.#compareWithStore(history);
    for (const reader of this.#readers.slice(1)) faults.push(...this.#compare(reader, history));
    faults.push(...this.#compareWrites(history));
    return faults;
  }

  /** Compares the lines in the log with the lines that streams delivered. */
  async #compareWithStore(history: Map<number, SeenLine>): Promise<string[]> {
    const [whole] = this.#readers as [Reader];
    const again: Reader = { ...whole, lines: new Map(), reached: 0, visits: 0 };
    await this.#read(again);
    const faults: string[] = [];
    for (const index of new Set([...history.keys(), ...again.lines.keys()])) {
      const [before, now] = [history.get(index), again.lines.get(index)];
      if (JSON.stringify(before) !== JSON.stringify(now))
        faults.push(
          `line ${index} was ${before ? "told differently" : "not told"} while it was new${now ? "" : ", and is gone now"}`,
        );
    }
    return faults;
  }

  /** A reader got all of the history that it had asked for, and nothing else. */
  #compare(reader: Reader, history: Map<number, SeenLine>): string[] {
    const faults: string[] = [];
    for (const { Index, Events } of history.values()) {
      const wanted = Events.filter((event) => isWanted(event, reader.wish));
      const got = reader.lines.get(Index);
      if (wanted.length === 0 ? got !== undefined : got !== digest(wanted))
        faults.push(
          `a reader of ${told(reader.wish)} ${got === undefined ? "did not get" : "got something else as"} line ${Index}`,
        );
    }
    for (const index of reader.lines.keys())
      if (!history.has(index))
        faults.push(`a reader of ${told(reader.wish)} got line ${index}, which is in no history`);
    return faults;
  }

  /** An acknowledged write is present once, whole, at its index; another write at most once. */
  #compareWrites(history: Map<number, SeenLine>): string[] {
    const faults: string[] = [];
    const at = new Map<string, number>();
    for (const { Index, Events } of history.values()) {
      for (const { Type, Payload } of Events) {
        const [object] = Object.values<{ Mark?: string; Description?: string; Name?: string }>(Payload);
        const mark = object?.Mark ?? (Type.endsWith("Deleted") ? undefined : (object?.Description ?? object?.Name));
        if (mark === undefined || !/^e\d+$/.test(mark)) continue;
        if (at.has(mark)) faults.push(`${mark} is told in line ${at.get(mark)} and in line ${Index}`);
        at.set(mark, Index);
      }
    }
    for (const { marks, answered, index } of this.#writes) {
      const lines = [...new Set(marks.map((mark) => at.get(mark)))];
      if (lines.length > 1) faults.push(`one transaction is in lines ${lines}`);
      if (answered && lines[0] === undefined) faults.push(`${marks} was answered and is nowhere`);
      if (index !== null && lines[0] !== index) faults.push(`${marks} was answered ${index} and is in line ${lines}`);
    }
    return faults;
  }

  told(): string {
    const visits = this.#readers.reduce((sum, reader) => sum + reader.visits, 0);
    return `${this.#done}; ${this.#readers[0]?.lines.size} lines, ${visits} visits of ${this.#readers.length} readers`;
  }
}

const told = ({ topics, namespace }: Wish) => `${topics.map(([topic, key]) => `${topic}:${key}`)} in ${namespace}`;
