import { expect, it } from "vitest";
import { Staging } from "./staging.ts";

const gate = () => Promise.withResolvers<void>();

it("runs the calls of one object in their order, beside those of others", async () => {
  const staging = new Staging();
  const seen: string[] = [];
  const [first, other] = [gate(), gate()];
  const call =
    (name: string, until = Promise.resolve()) =>
    async () => {
      seen.push(`${name} begins`);
      await until;
      seen.push(`${name} ends`);
    };
  staging.begin(call("a1", first.promise));
  staging.goOn(call("a2"));
  staging.begin(call("b1", other.promise));
  await staging.room();
  other.resolve();
  await new Promise((resolve) => setTimeout(resolve, 1));
  first.resolve();
  await staging.settled();
  expect(seen).toEqual(["a1 begins", "b1 begins", "b1 ends", "a1 ends", "a2 begins", "a2 ends"]);
});

it("waits for room beyond 16 calls", async () => {
  const staging = new Staging();
  const gates = Array.from({ length: 16 }, gate);
  for (const { promise } of gates) staging.begin(() => promise);
  let hasRoom = false;
  const room = staging.room().then(() => {
    hasRoom = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 1));
  expect(hasRoom).toBe(false);
  gates[7]?.resolve();
  await room;
  for (const { resolve } of gates) resolve();
  await staging.settled();
});

it("throws the first failure, begins no call after it, and waits for those under way", async () => {
  const staging = new Staging();
  const [slow, begun] = [gate(), [] as string[]];
  staging.begin(() => slow.promise);
  staging.begin(() => Promise.reject(new Error("does not fit")));
  staging.goOn(async () => void begun.push("after it"));
  await new Promise((resolve) => setTimeout(resolve, 1));
  staging.begin(async () => void begun.push("later"));
  await expect(staging.room()).rejects.toThrow("does not fit");
  slow.resolve();
  await staging.settled();
  expect(begun).toEqual([]);
  expect(() => staging.check()).toThrow("does not fit");
});
