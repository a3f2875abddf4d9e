import { expect, it } from "vitest";
import { Line } from "./line.ts";

const NEVER_MS = 2 ** 31 - 1;

it("wakes the first waiting job of a lock, and no other", async () => {
  const line = new Line();
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

it("keeps the place of a job that asks again before its first call is over", async () => {
  const line = new Line();
  const first = line.wait("app", "a", 1);
  const second = line.wait("app", "a", NEVER_MS);
  await first;
  line.wake("app", ["a"]);
  await second;
});

it("lets a job go when its time is over", async () => {
  await new Line().wait("app", "a", 1);
});
