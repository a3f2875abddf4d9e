import { describe, expect, it, vi } from "vitest";
import { answered, refusedWith } from "../../../test/memory-engine.ts";
import type { Report } from "../../contracts/credential-engine.ts";
import { azureCalls, step } from "../engines/azure/calls.ts";
import type { Perform } from "../engines/engine-type.ts";
import { performJob, performJobs, performSteps } from "./job-worker.ts";
import { groupsOf } from "./saga.ts";

// Exports of spans need the runtime; none is exported here.
vi.mock("cloudflare:workers", () => ({
  waitUntil: () => undefined,
  tracing: { enterSpan: (_name: string, run: (span: object) => unknown) => run({ setStatus: () => undefined }) },
}));

it("reports at each poll whether the caller has disconnected", async () => {
  const polls: unknown[] = [];
  const engine = {
    poll: async (_wanted: unknown, _report: unknown, hasLeft: boolean) => {
      polls.push(hasLeft);
      return { kind: "idle" };
    },
  };
  const env = { CREDENTIAL_ENGINE: { getByName: () => engine } } as unknown as Env;
  const started = { wanted: { job: "job", kind: "issue" }, polled: null } as const;
  const caller = new AbortController();
  await performJob(env, "mount", started, 1_000, caller.signal);
  caller.abort();
  await performJob(env, "mount", started, 1_000, caller.signal);
  await performJob(env, "mount", started, 1_000);
  expect(polls).toEqual([false, true, false]);
});

describe("a Worker without the time for a wait of its job", () => {
  const lease = { id: "job", generation: 1, lease: "one", leaseUntil: 60_000 };
  const wanted = { job: "job", kind: "removal" } as const;

  /** An engine whose only job waits. */
  function waitingEngine(wait: { readonly ms: number; readonly inLine?: true }, onLeave = () => {}) {
    const left: unknown[] = [];
    const poll = async (_wanted: unknown, report: Report | null) => {
      if (report && "leftForMs" in report) {
        left.push(report);
        onLeave();
        return { kind: "idle" };
      }
      return left.length > 0 ? { kind: "idle" } : { kind: "wait", lease, ...wait };
    };
    const engine = { poll, waitInLine: async () => scheduler.wait(5) };
    return { env: { CREDENTIAL_ENGINE: { getByName: () => engine } } as unknown as Env, left };
  }

  it.each([
    ["of a back-off", { ms: 7_000 }, 7_000],
    ["for a lock", { ms: 0, inLine: true }, 5_000],
  ] as const)("ends its lease with the wait %s", async (_name, wait, leftForMs) => {
    const { env, left } = waitingEngine(wait);
    vi.stubGlobal("scheduler", { wait: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)) });
    await performJobs(env, "mount", { budgetMs: 20 });
    expect(left[0], "after a wake-up").toEqual({ lease, done: null, leftForMs });
    left.length = 0;
    expect(await performJob(env, "mount", { wanted, polled: { kind: "wait", lease, ...wait } }, 20)).toBeNull();
    expect(left, "for a request").toEqual([{ lease, done: null, leftForMs }]);
    vi.unstubAllGlobals();
  });

  it("ends without a failure when the engine does not answer", async () => {
    const { env, left } = waitingEngine({ ms: 7_000 }, () => {
      throw new Error("restarted");
    });
    await performJobs(env, "mount", { budgetMs: 20 });
    expect(left).not.toEqual([]);
  });
});

describe("an exception of a provider's client", () => {
  const account = { url: "https://api.example", secrets: {}, vars: {}, signingSecret: "", definition: {} };

  it.each([
    ["in a call that has sent nothing", "https-producer", account, { call: "revoke", args: ["no JSON"] }, "client"],
    ["before a client is made", "cloud-b", { federation: {} }, { call: "getApplication", args: ["a"] }, "external"],
  ] as const)("%s is reported as the failure of the call", async (_name, type, of, call, outcome) => {
    const reports: (Report | null)[] = [];
    const end = { kind: "end", end: { ok: true, issued: null, warnings: [], goesOnAt: null } } as const;
    const engine = {
      poll: async (_wanted: unknown, report: Report | null) => {
        reports.push(report);
        return end;
      },
    };
    const env = { CREDENTIAL_ENGINE: { getByName: () => engine } } as unknown as Env;
    const lease = { id: "job", generation: 0, lease: "", leaseUntil: 0 };
    const steps = { kind: "steps", lease, type, steps: [call], seq: 1, account: of, deadlineMs: 1_000 } as const;
    await performJob(env, "mount", { wanted: { job: "job", kind: "removal" }, polled: steps }, 1_000);
    const failure = expect.objectContaining({ outcome, message: expect.not.stringContaining("JSON") });
    expect(reports).toMatchObject([{ done: { seq: 1, results: [{ result: { ok: false, failure } }] } }]);
  });
});

const FOUR = { atOnce: 4, concurrent: azureCalls.concurrent };

describe("the steps of a batch", () => {
  const grant = (id: string) =>
    step("createRoleAssignment", { scope: "s", assignmentId: id, roleDefinitionId: "r", principalId: "p" });
  const [join, leave] = [step("addGroupMember", "g", "p"), step("removeGroupMember", "h", "p")];
  const password = step("addPrincipalPassword", "p", { startsAt: 0, endsAt: 1 });

  it("are grouped by rights given and rights withdrawn; any other step is alone", () => {
    const [one, two] = [grant("1"), grant("2")];
    const unassign = step("deleteRoleAssignment", "a");
    expect(groupsOf([one, two, join, leave, unassign, password, password], azureCalls.concurrent)).toEqual([
      [one, two, join],
      [leave, unassign],
      [password],
      [password],
    ]);
  });

  /** A cloud whose calls wait until `release`. */
  function cloudOf(fails: readonly string[]) {
    const begun: string[] = [];
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const perform: Perform = async ({ call }) => {
      begun.push(call);
      await gate;
      return fails.includes(call) ? refusedWith("contended") : answered();
    };
    return { perform, begun, release };
  }

  it("leave together within a group, and the next group after all of them", async () => {
    const { perform, begun, release } = cloudOf([]);
    const done = performSteps(perform, [grant("1"), join, password], FOUR);
    expect(begun).toEqual(["createRoleAssignment", "addGroupMember"]);
    release();
    expect((await done).map((outcome) => outcome.step.call)).toEqual([
      "createRoleAssignment",
      "addGroupMember",
      "addPrincipalPassword",
    ]);
  });

  it("report the successes of a group before its failure, after which no step leaves", async () => {
    const { perform, begun, release } = cloudOf(["createRoleAssignment"]);
    release();
    const results = await performSteps(perform, [grant("1"), join, password], FOUR);
    expect(results.map((outcome) => [outcome.step.call, outcome.result.ok])).toEqual([
      ["addGroupMember", true],
      ["createRoleAssignment", false],
    ]);
    expect(begun).not.toContain("addPrincipalPassword");
  });
});
