/**
 * `npm run test:abuse`: requests that are wrong in every way, at every route of the real service. See docs/internals/abuse.md.
 * ABUSE_SEED and ABUSE_REQUESTS say which and how many, ABUSE_ONLY at which routes; the figures go to ABUSE_REPORT as JSON, what the
 * service printed to ABUSE_LOG.
 */
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { faultOf, faultOfLog } from "./answer-rules.ts";
import { type Mutant, Mutants } from "./mutants.ts";
import { Random } from "./random.ts";
import { type Reply, Wires } from "./raw-http.ts";
import { places } from "./routes.ts";
import { Service } from "./service.ts";
import { World } from "./world.ts";

const seed = Number(process.env["ABUSE_SEED"] || 1);
const wanted = Number(process.env["ABUSE_REQUESTS"] || 24_000);
const only = process.env["ABUSE_ONLY"] ?? "";
/** Longer than anything here may take. */
const PATIENCE_MS = 30_000;
const COSTLY_MS = 100_000;
/** Requests between two looks at everything. */
const BATCH = 160;
const AT_ONCE = 4;
const MAX_FAULTS = 200;
const TOKEN_LISTS: ReadonlySet<string> = new Set([
  "GET /v1/acl/tokens",
  "LIST /v1/auth/token/accessors",
  "GET /v1/agent/tokens",
]);

/** Shortens the body timeout to seconds, and turns rate limits off because a 429 would hide other faults. */
const settings = { REQUEST_BODY_MS: "1500", RATE_LIMITS: "off" };

const random = new Random(seed);
const counts = new Map<string, Map<string, number>>();
const faults: string[] = [];
let sent = 0;
let unsettled = 0;
let slowestMs = 0;
/** The last snapshot of the visible state; null when it may be stale. */
let known: string | null = null;

const service = await Service.start(settings);
const wires = new Wires(service.port);
const world = new World(service, wires);
try {
  await world.create();
  await run();
} catch (failure) {
  // An earlier fault is reported first: it explains the failed request better than its own error.
  fault(String(failure));
} finally {
  wires.close();
  await service.stop();
}
const log = process.env["ABUSE_LOG"];
if (log) writeFileSync(log, service.output);
const told = faultOfLog(service.output, world);
if (told) fault(told);
report();

async function run(): Promise<void> {
  const chosen = places.filter(({ name }) => name.includes(only));
  const rounds = Math.max(1, Math.round(wanted / chosen.length));
  let certain: Mutant[] = [];
  let open: Mutant[] = [];
  // Slow requests and costly routes are few: each holds up its batch.
  for (let round = 0; sent + certain.length + open.length < wanted && round <= rounds * 2; round++) {
    for (const place of random.shuffled(chosen)) {
      const mutants = new Mutants(place, world, random);
      const kinds = mutants.kinds.filter((kind) => kind !== "slow" || random.below(20) === 0);
      const mutant = mutants.make(random.of(kinds));
      (mutant.refused ? certain : open).push(mutant);
      if (certain.length >= BATCH) {
        await refuseAll(certain);
        certain = [];
      }
      if (open.length >= BATCH) {
        await tryAll(open);
        open = [];
      }
      if (faults.length > MAX_FAULTS || !service.lives) return;
    }
    process.stdout.write(`\r${sent} requests, ${faults.length} faults `);
  }
  await refuseAll(certain);
  await tryAll(open);
}

/** Requests that can only be refused: all that can be seen stays as it was. */
async function refuseAll(mutants: readonly Mutant[]): Promise<void> {
  known ??= await settled();
  const replies = await sendAll(mutants);
  if (replies.some(({ reply }) => reply.status < 400)) known = null;
  else await expectUnchanged(known, replies);
}

/** Requests that may be taken. Those that were refused are sent again by themselves: then nothing changes. */
async function tryAll(mutants: readonly Mutant[]): Promise<void> {
  const replies = await sendAll(mutants);
  const refused = replies.filter(({ mutant, reply }) => reply.status >= 400 && mutant.kind !== "slow");
  await world.repair();
  known = await settled();
  const again = await sendAll(refused.map(({ mutant }) => mutant));
  if (again.every(({ reply }) => reply.status >= 400)) return expectUnchanged(known, again);
  await world.repair();
  known = null;
}

async function expectUnchanged(before: string, replies: readonly Sent[]): Promise<void> {
  known = await world.digest();
  if (known === before) return;
  known = await settled();
  if (withoutTokensThatEnd(before, known) !== known) {
    const among = replies.map(({ mutant }) => worded(mutant)).join("\n    ");
    fault(`refused requests changed something: ${difference(before, known)}\n    among ${among}`);
  }
}

/** A digest as it is once tokens have run out that a later one does not list any more. */
function withoutTokensThatEnd(before: string, after: string): string {
  const left = new Map(after.split("\n").map((line) => [line.split(" ", 2).join(" "), line]));
  const lines = before.split("\n").map((line) => {
    const look = line.split(" ", 2).join(" ");
    const now = TOKEN_LISTS.has(look) ? left.get(look) : undefined;
    return now !== undefined && accessorsIn(now).every((each) => line.includes(each)) ? now : line;
  });
  return lines.join("\n");
}

function accessorsIn(line: string): string[] {
  return line.match(/"([0-9A-Za-z]{24}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"/g) ?? [];
}

interface Sent {
  readonly mutant: Mutant;
  readonly reply: Reply;
}

async function sendAll(mutants: readonly Mutant[]): Promise<Sent[]> {
  const waiting = [...mutants];
  const done: Sent[] = [];
  const worker = async () => {
    for (let mutant = waiting.shift(); mutant; mutant = waiting.shift()) {
      const patience = /cloud-b|leases|revoke/.test(mutant.place.name) ? COSTLY_MS : PATIENCE_MS;
      const reply = await wires.send(mutant.wire, patience);
      done.push({ mutant, reply });
      note(mutant, reply);
      slowestMs = Math.max(slowestMs, reply.ms);
      const wrong = faultOf(mutant, reply, world);
      if (wrong) fault(`${wrong}: ${worded(mutant)}: ${reply.status} ${reply.text.slice(0, 300)}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return done;
}

/** The digest once work behind earlier answers is done. */
async function settled(): Promise<string> {
  await world.rest();
  let before = await world.digest();
  for (let tries = 40; tries > 0; tries--) {
    await sleep(20);
    const after = await world.digest();
    if (after === before) return after;
    before = after;
    await sleep(100);
  }
  unsettled++;
  return before;
}

function note({ place }: Mutant, { status }: Reply): void {
  sent++;
  const group = counts.get(place.group) ?? new Map<string, number>();
  counts.set(place.group, group);
  group.set(String(status), (group.get(String(status)) ?? 0) + 1);
}

function fault(text: string): void {
  faults.push(text);
  console.log(`\n- ${text}`);
}

function worded({ place, kind, what, wire }: Mutant): string {
  const body = wire.body?.subarray(0, 300).toString("utf8") ?? "";
  return `${place.name} [${kind}] ${JSON.stringify(what)} = ${wire.method} ${wire.target.slice(0, 160)} ${body}`;
}

function difference(before: string, after: string): string {
  const known = new Set(before.split("\n"));
  const changed = after.split("\n").filter((line) => !known.has(line));
  return changed.map((line) => line.slice(0, 200)).join(" | ") || "something is gone";
}

function report(): void {
  const statuses = [...new Set([...counts.values()].flatMap((group) => [...group.keys()]))].sort();
  const table = [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([group, byStatus]) => ({
      group,
      ...Object.fromEntries(statuses.map((status) => [status, byStatus.get(status) ?? 0])),
    }));
  console.log();
  console.table(table);
  console.log(
    `seed ${seed}: ${sent} requests at ${places.length} routes, ${faults.length} faults, ${unsettled} looks that did not settle, the slowest answer after ${Math.round(slowestMs)} ms`,
  );
  const file = process.env["ABUSE_REPORT"];
  if (file)
    writeFileSync(file, JSON.stringify({ seed, sent, routes: places.length, slowestMs, table, faults }, null, 2));
  process.exitCode = faults.length === 0 ? 0 : 1;
}
