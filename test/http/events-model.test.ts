/*
 * Random writers and random readers use the real service, which is killed repeatedly. Afterwards every confirmed write
 * and every line that was read are compared with a complete reading of the stream.
 *
 *   EVENTS_SEED=123       repeats the choices of a failed run (not the timing of its requests)
 *   EVENTS_SECONDS=600    continues with new seeds for that time; by default one round
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { randomFrom } from "../crash/random.ts";
import type { Rules, SeenLine, Wish } from "../events-reference.ts";
import { amount } from "../support/long.ts";
import { type Facts, faultsOf } from "./events-check.ts";
import { History } from "./events-history.ts";
import { Service } from "./events-service.ts";
import { type Asked, type Pace, read, type Visit } from "./events-visit.ts";
import { type LiveToken, NAMESPACES, type RightsWrite, World, Writer } from "./events-writers.ts";

const seconds = Number(process.env["EVENTS_SECONDS"] ?? 0);
const firstSeed = Number(process.env["EVENTS_SEED"] ?? Date.now() % 1_000_000);
const ENDS = amount(1, 3);
const WRITERS = 3;
const READERS = 9;
const SETTLE_MS = 60_000;

type Random = () => number;
const pick = <T>(random: Random, items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

const ANY: Wish["topics"] = [["*", "*"]];
const FOR_MANAGEMENT: readonly Wish["topics"][] = [
  ANY,
  [["*", "web"]],
  [
    ["ACLToken", "*"],
    ["ACLPolicy", "p0a"],
  ],
  [
    ["Job", "*"],
    ["*", "d1"],
  ],
];
const FOR_ALL: readonly Wish["topics"][] = [
  [["Job", "*"]],
  [
    ["Job", "web"],
    ["Node", "*"],
  ],
  [
    ["Job", "*"],
    ["Job", "api"],
  ],
  [
    ["Allocation", "web"],
    ["Allocation", "d1"],
    ["Evaluation", ""],
  ],
  [
    ["Deployment", "api"],
    ["Evaluation", "x1-a"],
    ["Job", "nobody"],
  ],
  [["Node", "*"]],
  [["NodeDrain", "*"]],
  [
    ["Node", "00000000-0000-4000-8000-000000000000"],
    ["NodeDrain", "*"],
  ],
];

function wishOf(random: Random, token: LiveToken): Wish {
  const management = token.management && random() < 0.7;
  return {
    topics: pick(random, management ? FOR_MANAGEMENT : FOR_ALL),
    namespace: pick(random, ["default", "default", "prod", "test", "ghost", "*", "*"]),
  };
}

/** A fast or slow reader, or one that sometimes pauses beyond the service's limit. It disconnects at random. */
function paceOf(random: Random, over: () => number | null): Pace {
  const kind = pick(random, ["fast", "fast", "slow", "stalling"] as const);
  const until = Date.now() + 500 + random() * 8_000;
  return {
    pause() {
      if (over() !== null || kind === "fast") return 0;
      return kind === "slow" ? random() * 60 : random() < 0.1 ? random() * 4_000 : 0;
    },
    leaves: ({ reached }) => {
      const end = over();
      return end === null ? Date.now() > until : reached >= end;
    },
  };
}

/** Connects, disconnects and reconnects: at its position, at the beginning, live, or beyond the end. */
async function reader(world: World, random: Random, over: () => number | null): Promise<Visit[]> {
  const visits: Visit[] = [];
  let next: Omit<Asked, "base"> | null = null;
  for (;;) {
    const { base } = world.service;
    if (base === "") {
      await sleep(50);
      continue;
    }
    const visit: Visit = await read({ ...(next ?? newVisit(world, random)), base }, paceOf(random, over), () =>
      world.now(),
    );
    visits.push(visit);
    const end = over();
    if (end !== null && (visit.reached >= end || visit.status === 403)) return visits;
    if (visit.status !== 200) await sleep(20 + random() * 100);
    next = random() < 0.75 && visit.status !== 403 ? resumed(visit, random) : null;
  }
}

function newVisit(world: World, random: Random): Omit<Asked, "base"> {
  const token = pick(random, world.tokens);
  const known = world.now().known;
  return {
    accessor: token.accessor,
    secret: token.secret,
    wish: wishOf(random, token),
    from: pick(random, [0, 0, -1, -1, Math.floor(random() * known), known, known + 1]),
    format: pick(random, ["lines", "lines", "server-sent-events"] as const),
    errors: random() < 0.5,
  };
}

function resumed(
  { accessor, secret, wish, format, errors, reached, first, from }: Visit,
  random: Random,
): Omit<Asked, "base"> {
  // A reader without any line yet repeats its request.
  const seen = first === null && from < 0 ? from : reached + (random() < 0.8 || format !== "lines" ? 1 : 0);
  return { accessor, secret, wish, format, errors, from: seen };
}

/** All lines from an index on, as read with the first token. */
const whole = (world: World, from: number, over: () => number | null): Promise<Visit> =>
  read(
    {
      base: world.service.base,
      accessor: null,
      secret: "root",
      wish: { topics: ANY, namespace: "*" },
      from,
      format: "lines",
      errors: false,
    },
    { pause: () => 0, leaves: ({ reached }) => reached >= (over() ?? Number.POSITIVE_INFINITY) },
    () => world.now(),
  );

const withoutTime = ({ Index, Events }: SeenLine): SeenLine => ({ Index, Events });

/** A complete reading of the stream from the beginning, across all restarts. */
async function recorder(world: World, over: () => number | null): Promise<SeenLine[]> {
  const lines: SeenLine[] = [];
  for (let reached = 0; reached < (over() ?? Number.POSITIVE_INFINITY); ) {
    if (world.service.base === "") await sleep(5);
    else {
      const visit = await whole(world, reached + 1, over);
      expect(visit.broken).toEqual([]);
      if (visit.oldest > reached + 1) throw new Behind(`lines ${reached + 1} to ${visit.oldest - 1}`);
      reached = visit.reached;
      lines.push(...visit.lines.map(withoutTime));
    }
  }
  return lines;
}

/** On a slow machine the reference lines have left the buffer; such a round proves nothing. */
class Behind extends Error {}

const NO_RULES: Rules = { namespaces: {}, node: "deny" };

/** Writes an event of every source and waits for it, after all earlier ones. @returns the newest index */
async function lastWords(world: World): Promise<number> {
  const deadline = Date.now() + SETTLE_MS;
  const until = async (method: string, path: string, body: unknown, indexOf: (answer: { index: number }) => number) => {
    for (;;) {
      const answer = await world.call(method, path, body);
      const index = answer?.status === 200 ? indexOf(answer) : 0;
      if (index > 1) return index;
      if (Date.now() > deadline) throw new Error(`${path} got no index`);
      await sleep(500);
    }
  };
  await until("PUT", "/v1/acl/policy/last", { Rules: 'node { policy = "deny" }' }, ({ index }) => index);
  const job = { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "last" } } };
  return until("PUT", "/v1/cluster/objects", [job], ({ index }) => index);
}

/** Each confirmed write is one complete line at its index; each unconfirmed one is a complete line or absent. */
function writeFaults(world: World, history: History): string[] {
  const faults: string[] = [];
  const at = new Map<string, number>();
  for (const { Index, Events } of history.lines) {
    for (const { Type, Payload } of Events) {
      const object = Object.values<Record<string, unknown> & { Meta?: { mark?: string } }>(Payload)[0];
      const mark = (object?.["Mark"] ?? (Type === "NodeRegistration" ? object?.Meta?.mark : undefined)) as
        | string
        | undefined;
      if (mark === undefined) continue;
      if (at.has(mark)) faults.push(`${mark} is told in line ${at.get(mark)} and in line ${Index}`);
      at.set(mark, Index);
    }
  }
  for (const { marks, answered, index } of world.writes) {
    const indexes = [...new Set(marks.map((mark) => at.get(mark)))];
    if (indexes.length > 1) faults.push(`one transaction in lines ${indexes}`);
    if (answered && indexes[0] === undefined) faults.push(`${marks} was answered and is nowhere`);
    if (index !== null && indexes[0] !== index) faults.push(`${marks} was answered ${index} and is in ${indexes}`);
  }
  const sent = new Set(world.writes.flatMap(({ marks }) => marks));
  for (const mark of at.keys()) if (!sent.has(mark)) faults.push(`nobody has written ${mark}`);
  for (const { node, index } of world.nodeWrites) {
    const told = history.line(index)?.Events.some(({ Topic, Key }) => Topic.startsWith("Node") && Key === node);
    if (!told) faults.push(`line ${index} was answered for node ${node} and does not tell of it`);
  }
  return faults;
}

/** The same for writes of rights. The events of each policy and token match its writes, in order. */
function rightsFaults(world: World, history: History): string[] {
  const faults: string[] = [];
  const told = new Map<string, { index: number; mark: string | null }[]>();
  for (const { Index, Events } of history.lines) {
    for (const { Type, Key, Payload } of Events) {
      const mark = Payload.ACLPolicy?.Description ?? Payload.ACLToken?.Name ?? null;
      if (!Type.startsWith("ACL")) continue;
      const of = told.get(Key) ?? [];
      told.set(Key, of);
      of.push({ index: Index, mark: Type.endsWith("Deleted") ? null : mark });
    }
  }
  const subjects = Map.groupBy(world.rights, ({ subject }) => subject);
  for (const [subject, writes] of subjects) {
    if (subject === "") continue;
    const events = told.get(subject) ?? [];
    for (const [position, write] of writes.entries()) {
      const next = writes[position + 1];
      if (events[0] !== undefined && events[0].mark === write.mark) {
        const { index } = events[0];
        if (write.index !== null && write.index !== index)
          faults.push(`${subject}: ${write.mark ?? "its end"} in ${index}, not ${write.index}`);
        write.index = index;
        // The write was repeated until an answer; any attempt may have taken effect.
        if (write.mark !== null || next?.mark !== null) events.shift();
      } else if (write.answered) faults.push(`${subject}: ${write.mark ?? "its end"} was answered and is nowhere`);
    }
    // Tokens with a TTL expire by themselves.
    const rest = events.filter(
      ({ mark }) => mark !== null || !Number.isFinite(world.expiries.get(subject) ?? Number.POSITIVE_INFINITY),
    );
    if (rest.length > 0) faults.push(`${subject}: nobody has written ${JSON.stringify(rest)}`);
  }
  return faults;
}

function factsOf(world: World, history: History, bufferLines: number): Facts {
  const newest: number[] = [0];
  for (const { index } of world.rights) newest.push(Math.max(newest.at(-1) ?? 0, index ?? 0));
  const sentAt = new Map<number, number>();
  for (const { index, sentAt: at } of [...world.writes, ...world.rights] as (RightsWrite & {
    index: number | null;
  })[]) {
    if (index !== null) sentAt.set(index, at);
  }
  return {
    history,
    bufferLines,
    newestOf: (sent) => newest[sent] ?? 0,
    sentAt: (index) => sentAt.get(index) ?? Number.NEGATIVE_INFINITY,
    expires: (accessor) => world.expiries.get(accessor ?? "") ?? Number.POSITIVE_INFINITY,
  };
}

async function round(seed: number): Promise<string> {
  const random = randomFrom(seed);
  // In every third round the buffer is small, so that late readers miss the oldest lines.
  const bufferLines = seed % 3 === 0 ? 60 : 100_000;
  const service = new Service({
    EVENT_HEARTBEAT_MS: "300",
    EVENT_STALL_MS: "2000",
    EVENT_BUFFER_LINES: String(bufferLines),
  });
  const world = new World(service);
  try {
    await service.create();
    for (const name of NAMESPACES.slice(1)) await service.must("PUT", `/v1/namespace/${name}`, {});
    const writers = Array.from(
      { length: WRITERS },
      (_, number) => new Writer(world, randomFrom(seed + 100 + number), number),
    );
    for (const writer of writers) await writer.begin();
    let last: number | null = null;
    const recorded = recorder(world, () => last);
    recorded.catch(() => undefined);
    const readers = Array.from({ length: READERS }, (_, number) =>
      reader(world, randomFrom(seed + 200 + number), () => last),
    );
    let writing = true;
    const written = writers.map((writer) => writer.run(() => writing));
    for (let end = 0; end < ENDS; end++) {
      await sleep(2_500 + random() * 4_000);
      await (random() < 0.75 ? service.kill() : service.stop());
      await service.start();
    }
    await sleep(2_000);
    writing = false;
    await Promise.all(written);
    last = await lastWords(world);
    const visits = await Promise.race([
      Promise.all(readers),
      sleep(SETTLE_MS).then(() => Promise.reject(new Error("a reader neither reached the end nor was refused"))),
    ]);
    const lines = await recorded;
    const { oldest, lines: kept } = await whole(world, 0, () => last);
    const later = lines.filter(({ Index }) => Index >= oldest);
    expect(kept.map(withoutTime), "what is there now is not what was told").toEqual(later);
    const history = new History(lines, NAMESPACES, (text) => world.rulesOf.get(text) ?? NO_RULES);
    const indexes = history.lines.map(({ Index }) => Index);
    expect(indexes).toEqual([...new Set(indexes)].sort((a, b) => a - b));
    const faults = [...world.wrong, ...service.hung.map((what) => `not answered: ${what}`)];
    faults.push(...rightsFaults(world, history), ...writeFaults(world, history));
    const facts = factsOf(world, history, bufferLines);
    const all = visits.flat();
    for (const visit of all) faults.push(...faultsOf(visit, facts));
    const count = (test: (visit: Visit) => boolean) => all.filter(test).length;
    const told =
      `seed ${seed}: ${history.newest} lines, ${world.writes.length} reports, ${world.rights.length} writes of rights, ` +
      `${all.length} visits (${count(({ status }) => status === 403)} refused, ${count(({ end }) => end === "over")} ended, ` +
      `${count(({ end, status }) => end === "cut" && status === 200)} cut, ${count(({ error }) => error?.Code === "slow_consumer")} told slow, ` +
      `${count(({ error }) => error?.Code === "permission_denied")} told denied), ` +
      `${all.reduce((sum, { lines }) => sum + lines.length, 0)} lines read, statuses ${JSON.stringify([...world.statuses])}`;
    expect(faults.slice(0, 20), `${faults.length} faults, ${told}`).toEqual([]);
    expect(
      all.reduce((sum, { lines }) => sum + lines.length, 0),
      told,
    ).toBeGreaterThan(READERS);
    return told;
  } finally {
    await service.destroy();
  }
}

// Proves: C.stream.cluster-events, E.events.1.order
it(
  "every reader gets each of its lines once and in order, and no other line, under crashes and changes of rights",
  async () => {
    const end = Date.now() + seconds * 1_000;
    for (let seed = firstSeed; seed === firstSeed || Date.now() < end; seed++) {
      try {
        console.info(await round(seed));
      } catch (failure) {
        console.error(`EVENTS_SEED=${seed}`);
        if (!(failure instanceof Behind)) throw failure;
        console.error(`proves nothing, the machine is too slow: ${failure.message}`);
      }
    }
  },
  seconds * 1_000 + 240_000,
);
