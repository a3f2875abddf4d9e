/**
 * `npm run test:faults`: everything works while everything dies; then all of it must be as it was promised (docs/internals/faults.md).
 *
 *   FAULTS_SEED=123      the same choices again
 *   FAULTS_SECONDS=60    how long things are killed; 420 otherwise
 *   FAULTS_KILLS=60      ends as soon as the service, or one of its processes, was killed so often
 *   FAULTS_SETTLE=60     how long all may take to come to rest; 300 otherwise
 *   FAULTS_AREA=engines  only credentials of engines, so that the service is killed more often and they are issued more often
 *   FAULTS_AREA=pools    only credentials of pools
 *   FAULTS_AREA=sync     only secrets, and destinations of every type
 *   FAULTS_AIM=service   kills the service as often as it serves, and providers, agents and drivers a fifth as often
 *   FAULTS_FROM=v0.1     a commit whose code serves beside the present, as in a gradual deployment
 *   FAULTS_KEEP=1        the service's state stays on disk when something is wrong
 */
import { setTimeout as sleep } from "node:timers/promises";
import { AREAS, isArea, World } from "./world.ts";

const seed = Number(process.env["FAULTS_SEED"] ?? Date.now() % 1_000_000);
const seconds = Number(process.env["FAULTS_SECONDS"] ?? 420);
const mostKills = Number(process.env["FAULTS_KILLS"] ?? Number.POSITIVE_INFINITY);
/** The longest pause between two attempts, with a margin for a slow machine. */
const settleMs = Number(process.env["FAULTS_SETTLE"] ?? 300) * 1_000;

/** Time limit of the run; its processes end with it. */
const LIMIT_MS = Math.max(15 * 60_000, seconds * 1_000 + settleMs + 5 * 60_000);

const began = performance.now();
const say = (what: string) => console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${what}`);

const area = process.env["FAULTS_AREA"] ?? "all";
if (!isArea(area)) throw new Error(`FAULTS_AREA: one of ${AREAS.join(", ")}`);
const aim = process.env["FAULTS_AIM"] ?? "";
if (!["", "service"].includes(aim)) throw new Error("FAULTS_AIM: service, or none");
const world = new World(seed, process.env["FAULTS_FROM"] ?? null, { area, isAtService: aim === "service" });
setTimeout(() => {
  say(`BROKEN: not at its end after ${LIMIT_MS / 60_000} minutes\n${world.told()}`);
  process.exit(1);
}, LIMIT_MS).unref();
let faults: string[] = [];
try {
  say(`seed ${seed}, ${seconds} s of faults`);
  await world.begin();
  say("begun");
  const end = Date.now() + seconds * 1_000;
  const going = () => Date.now() < end && world.serviceKills < mostKills && world.wrong().length === 0;
  const told = setInterval(() => say(world.progress()), 30_000);
  await world.run(going);
  clearInterval(told);
  faults = world.wrong();
  if (faults.length === 0) {
    say("the last fault is over; waiting for rest");
    faults = await settled();
  }
  if (faults.length === 0) {
    say("at rest; checking what was promised");
    faults = await world.verify();
  }
} catch (failure) {
  faults = [failure instanceof Error ? (failure.stack ?? failure.message) : String(failure)];
} finally {
  console.log(`\n${world.told()}`);
  await world.end(faults.length > 0 && process.env["FAULTS_KEEP"] === "1");
}
if (faults.length === 0) say(`all promises kept, seed ${seed}`);
else {
  say(`BROKEN: ${faults[0]}`);
  for (const fault of faults.slice(1, 20)) console.log(`        ${fault}`);
  if (faults.length > 20) console.log(`        and ${faults.length - 20} more`);
  const from = process.env["FAULTS_FROM"] ? `FAULTS_FROM=${process.env["FAULTS_FROM"]} ` : "";
  const of = `${area === "all" ? "" : `FAULTS_AREA=${area} `}${aim === "" ? "" : `FAULTS_AIM=${aim} `}`;
  console.log(`\nAgain: ${from}${of}FAULTS_SEED=${seed} FAULTS_SECONDS=${seconds} npm run test:faults`);
}
process.exit(faults.length === 0 ? 0 : 1);

/** Waits until all invariants hold without further requests. @returns the violations after a time-out */
async function settled(): Promise<string[]> {
  const until = Date.now() + settleMs;
  for (let shown = Date.now(); ; await sleep(1_000)) {
    const unsettled = await world.unsettled();
    if (unsettled.length === 0 || Date.now() > until) return unsettled;
    if (Date.now() - shown > 15_000) {
      shown = Date.now();
      say(`${unsettled.length} things to settle, for instance: ${unsettled[0]}`);
    }
  }
}
