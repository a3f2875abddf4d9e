import { expect, it } from "vitest";
import { performJob } from "./job-worker.ts";

it("reports at each poll whether the caller has disconnected", async () => {
  const polls: unknown[] = [];
  const engine = {
    turn: async (_wanted: unknown, _report: unknown, hasLeft: boolean) => {
      polls.push(hasLeft);
      return { kind: "idle" };
    },
  };
  const env = { CREDENTIAL_ENGINE: { getByName: () => engine } } as unknown as Env;
  const started = { wanted: { job: "job", kind: "issue" }, turn: null } as const;
  const caller = new AbortController();
  await performJob(env, "mount", started, 1_000, caller.signal);
  caller.abort();
  await performJob(env, "mount", started, 1_000, caller.signal);
  await performJob(env, "mount", started, 1_000);
  expect(polls).toEqual([false, true, false]);
});
