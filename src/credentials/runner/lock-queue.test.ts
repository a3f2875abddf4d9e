import { expect, it } from "vitest";
import { LockQueue } from "./lock-queue.ts";

const NEVER_MS = 2 ** 31 - 1;

it("wakes only the first waiting job of a lock", async () => {
  const line = new LockQueue();
  const woken: string[] = [];
  const wait = (lock: string, job: string) => line.wait(lock, job, NEVER_MS).then(() => void woken.push(job));
  const [a, b] = [wait("app", "a"), wait("app", "b")];
  const other = wait("other", "c");
  line.wake("app", ["gone", "b", "a"]);
  await b;
  expect(woken).toEqual(["b"]);
  line.wake("app", ["b", "a"]);
  await a;
  expect(woken).toEqual(["b", "a"]);
  line.wake("other", ["c"]);
  await other;
});

it("keeps a job's place when it waits again before its first call ends", async () => {
  const line = new LockQueue();
  const first = line.wait("app", "a", 1);
  const second = line.wait("app", "a", NEVER_MS);
  await first;
  line.wake("app", ["a"]);
  await second;
});

it("resolves after the timeout", async () => {
  await new LockQueue().wait("app", "a", 1);
});
