import { env } from "cloudflare:workers";
import type { WakeUpMessage } from "../../src/platform/durable/wake-up.ts";
import worker from "../../src/worker.ts";

/** Between two looks at the messages under way and the Workers that perform work. */
const LOOK_MS = 4;
/** Looks in a row that find nothing: a Worker that has ended may have left an object that is about to send. */
const CALM_LOOKS = 3;
/** A Worker that waits for a provider that is slow on purpose is not waited for any longer. */
const PATIENCE_LOOKS = 250;
/** Providers that answer late on purpose, and a busy machine, need real time. */
const STILL_MS = 20_000;

type Send = (body: WakeUpMessage) => Promise<unknown>;
interface QueueClass {
  send: Send & { readonly counted?: Send };
}

const running = new Set<Promise<unknown>>();
/** Messages that were sent and have not arrived. */
let underWay = 0;
const wait = scheduler.wait.bind(scheduler);
const { fetch, queue } = worker;

function noteWork(promise: Promise<unknown>): void {
  running.add(promise);
  void promise.finally(() => running.delete(promise)).catch(() => undefined);
}

/**
 * Notes the messages of the queue `sync-work`, and the work that they start, as well as work behind an answer. Called
 * once per file.
 */
export function noteRunningWorkers(): void {
  worker.queue = (batch, env, exec) => {
    const arrived = batch.messages.filter(({ attempts }) => attempts === 1).length;
    // One of the test before may arrive late.
    if (batch.queue === "sync-work") underWay = Math.max(0, underWay - arrived);
    return queue(batch, env, {
      ...exec,
      waitUntil: (promise) => {
        noteWork(promise);
        exec.waitUntil(promise);
      },
    });
  };
  worker.fetch = (request, env, exec) => {
    // The answer itself is noted first, and tests may leave a blocking read or a stream open.
    let isBehind = false;
    const waitUntil = (promise: Promise<unknown>) => {
      if (isBehind) noteWork(promise);
      exec.waitUntil(promise);
    };
    const answer = fetch(request, env, { ...exec, waitUntil });
    isBehind = true;
    return answer;
  };
  // The class of the runtime, which all bindings of queues share; the file before this one may have changed it.
  const bindings = Object.getPrototypeOf(env.SYNC_WORK) as QueueClass;
  const send = bindings.send.counted ?? bindings.send;
  const counting: Send = async function (this: unknown, body) {
    const isWakeUp = "destination" in body || "engine" in body || "subscription" in body;
    if (isWakeUp) underWay += 1;
    try {
      return await send.call(this, body);
    } catch (failure) {
      if (isWakeUp) underWay -= 1;
      throw failure;
    }
  };
  bindings.send = Object.assign(counting, { counted: send });
}

/** Waits until no message is under way and no Worker performs work: a result on its way must not see the clock move. */
export async function workersRest(): Promise<void> {
  for (let looks = 0, calm = 0; looks < PATIENCE_LOOKS && calm < CALM_LOOKS; looks++) {
    await wait(LOOK_MS);
    calm = underWay > 0 || running.size > 0 ? 0 : calm + 1;
  }
}

/**
 * Waits until the messages of the test before have arrived and their work is done, and forgets those that are lost. A
 * Worker whose object is deleted in the middle of a call would hold the queue.
 */
export async function messagesArrive(): Promise<void> {
  const isBusy = () => underWay > 0 || running.size > 0;
  for (let looks = 0; looks < PATIENCE_LOOKS && isBusy(); looks++) await wait(LOOK_MS);
  underWay = 0;
  // A call of an object that is deleted meanwhile never ends.
  running.clear();
}

/**
 * Checks, and lets time pass with `pass` until the check holds. After `rounds` checks the clock stands still.
 * @throws the check's failure, when real time has passed as well
 */
export async function checkInRounds(
  rounds: number,
  check: () => Promise<void> | void,
  pass: (round: number) => Promise<unknown>,
): Promise<void> {
  for (let round = 1; round < rounds; round++) {
    try {
      return await check();
    } catch {
      await pass(round);
      await workersRest();
    }
  }
  for (let waited = 0; ; waited += STILL_MS / 100) {
    try {
      return await check();
    } catch (failure) {
      if (waited >= STILL_MS) throw failure;
      await wait(STILL_MS / 100);
    }
  }
}
