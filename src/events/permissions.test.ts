import { afterEach, expect, it, vi } from "vitest";
import type { StreamAnswer } from "../access/stream-rights.ts";
import { Permissions, RightsUnknown } from "./permissions.ts";

afterEach(() => {
  vi.useRealTimers();
});

it("a question that is never answered counts as failed, and the next one is asked all the same", async () => {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const yes: StreamAnswer = { allowed: true, scope: { namespaces: null, rules: null }, expires: null };
  const answers = [new Promise<never>(() => undefined), Promise.resolve([yes])];
  const permissions = new Permissions(
    () => answers.shift() ?? Promise.reject(new Error("asked too often")),
    () => undefined,
  );
  const question = { accessor: "a", topics: ["Job"], namespace: "default" };
  const first = permissions.admit(question).catch((failure: unknown) => failure);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await Promise.race([first, "nothing"])).toBeInstanceOf(RightsUnknown);
  expect(await permissions.admit(question)).toMatchObject({ denied: false });
});
