import { env } from "cloudflare:workers";
import type { WakeUpMessage } from "../../src/platform/durable/wake-up.ts";
import worker from "../../src/worker.ts";
import { currentDeployment, deploymentOfMessage, environmentOf } from "./own-deployment.ts";

/** Between two looks at the messages under way and the Workers that perform work. */
const LOOK_MS = 4;
/** Looks in a row that find nothing: a Worker that has ended may have left an object that is about to send. */
const CALM_LOOKS = 3;
/** A Worker that waits for a provider that is slow on purpose is not waited for any longer. */
const PATIENCE_LOOKS = 250;
/** Providers that answer late on purpose, and a busy machine, need real time. */
const STILL_MS = 20_000;

type Send = (body: object, ...options: unknown[]) => Promise<unknown>;
type SendBatch = (messages: Iterable<{ readonly body: unknown }>, ...options: unknown[]) => Promise<unknown>;
interface QueueClass {
  send: Send;
  sendBatch: SendBatch;
  direct?: { readonly send: Send; readonly sendBatch: SendBatch };
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

/** A message on its way. */
interface Carried {
  readonly deployment: string;
  readonly body: WakeUpMessage;
}

/**
 * Notes the messages of the queue `sync-work`, and the work that they start, as well as work behind an answer. Called
 * once per file.
 */
export function noteRunningWorkers(): void {
  worker.queue = async (batch, bindings, exec) => {
    const messages = batch.messages.flatMap((message) => arrived(batch.queue, message));
    return queue(
      { queue: batch.queue, messages } as unknown as typeof batch,
      environmentOf(currentDeployment(), bindings),
      {
        ...exec,
        waitUntil: (promise) => {
          noteWork(promise);
          exec.waitUntil(promise);
        },
      },
    );
  };
  worker.fetch = (request, bindings, exec) => {
    // The answer itself is noted first, and tests may leave a blocking read or a stream open.
    let isBehind = false;
    const waitUntil = (promise: Promise<unknown>) => {
      if (isBehind) noteWork(promise);
      exec.waitUntil(promise);
    };
    const answer = fetch(request, environmentOf(currentDeployment(), bindings), { ...exec, waitUntil });
    isBehind = true;
    return answer;
  };
  // The class of the runtime, which all bindings of queues share; the file before this one may have changed it.
  const bindings = Object.getPrototypeOf(env.SYNC_WORK) as QueueClass;
  const { send, sendBatch } = bindings.direct ?? bindings;
  bindings.direct = { send, sendBatch };
  bindings.send = async function (this: unknown, body, ...options) {
    const deployment = deploymentOfMessage();
    const isWakeUp = "destination" in body || "engine" in body || "subscription" in body;
    if (isWakeUp) underWay += 1;
    try {
      return await send.call(this, { deployment, body }, ...options);
    } catch (failure) {
      if (isWakeUp && deployment === currentDeployment()) underWay -= 1;
      throw failure;
    }
  };
  bindings.sendBatch = async function (this: unknown, messages, ...options) {
    const deployment = deploymentOfMessage();
    return sendBatch.call(
      this,
      Array.from(messages, (message) => ({ ...message, body: { deployment, body: message.body } })),
      ...options,
    );
  };
}

/** The message without its deployment; none when that has ended. */
function arrived(queueName: string, message: Message<WakeUpMessage>): Message<WakeUpMessage>[] {
  const carried = message.body as unknown as Partial<Carried> | null;
  if (typeof carried !== "object" || carried?.deployment === undefined) return [message];
  const { deployment, body } = carried as Carried;
  if (deployment !== currentDeployment()) {
    message.ack();
    return [];
  }
  if (queueName === "sync-work" && message.attempts === 1) underWay = Math.max(0, underWay - 1);
  const { id, timestamp, attempts } = message;
  return [
    { id, timestamp, attempts, body, ack: () => message.ack(), retry: (options) => message.retry(options) },
  ] as Message<WakeUpMessage>[];
}

/** Waits until no message is under way and no Worker performs work: a result on its way must not see the clock move. */
export async function workersRest(): Promise<void> {
  for (let looks = 0, calm = 0; looks < PATIENCE_LOOKS && calm < CALM_LOOKS; looks++) {
    await wait(LOOK_MS);
    calm = underWay > 0 || running.size > 0 ? 0 : calm + 1;
  }
}

/** Forgets messages and Workers of the test before: their deployment has ended. */
export function forgetRunningWorkers(): void {
  underWay = 0;
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
