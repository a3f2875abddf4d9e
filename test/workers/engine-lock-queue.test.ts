import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { PollResult, Started } from "../../src/contracts/credential-engine.ts";
import type { CredentialEngine } from "../../src/objects/credential-engine.ts";
import type { WorkLease } from "../../src/platform/durable/lease.ts";
import { get } from "./client.ts";
import { clock } from "./clock.ts";
import { creds, engineObject, rows, succeeded } from "./engine-helpers.ts";
import { openEngine, tenant, uuid, writeExisting } from "./engine-world.ts";

clock.moves = true;

beforeEach(async () => {
  await openEngine();
  await writeExisting();
});

const inEngine = <T>(act: (engine: CredentialEngine) => T | Promise<T>): Promise<T> =>
  runInDurableObject(engineObject(uuid), act);

describe("concurrent callers of one application", () => {
  it("are served in order of arrival", async () => {
    const served: number[] = [];
    await tenant.fault({ operation: "AddApplicationPassword", fault: "delay", ms: 150, count: 100 });
    const asked: Promise<unknown>[] = [];
    for (let caller = 0; caller < 8; caller++) {
      asked.push(creds("app").then((answer) => served.push(succeeded(answer).status && caller)));
      await vi.waitFor(async () => {
        const begun = (await rows(uuid, "jobs")).length + served.length;
        expect(begun).toBe(caller + 1);
      });
    }
    await Promise.all(asked);
    expect(served).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  /** Starts an issue; the test acts as its Worker. */
  const begin = async () => {
    const token = (await get("/v1/auth/token/lookup-self")).body.data.accessor;
    const mount = { default_lease_ttl: 0, max_lease_ttl: 0 };
    const started = await inEngine((engine) => engine.issue({ role: "app", token, key: null, mount, verified: false }));
    if (!started.ok) throw new Error(started.message);
    return started.value;
  };
  const ask = ({ wanted, polled }: Started): Promise<PollResult> =>
    inEngine((engine) => {
      const { lease } = polled as { lease: WorkLease };
      return engine.poll(wanted, { lease, done: null }) as PollResult;
    });
  const leaves = ({ wanted, polled }: Started) =>
    inEngine((engine) => engine.poll(wanted, { lease: (polled as { lease: WorkLease }).lease, done: null }, true));
  const kinds = async (...started: Started[]) => {
    const polls = [];
    for (const each of started) polls.push((await ask(each)).kind);
    return polls;
  };

  it("get the lock in order, each right after the one before", async () => {
    const [first, second, third] = [await begin(), await begin(), await begin()];
    expect([first, second, third].map(({ polled }) => polled?.kind)).toEqual(["steps", "wait", "wait"]);
    const woken = inEngine((engine) => engine.waitInLine(second.wanted.job));
    await leaves(first);
    await woken;
    // The lock is free, and the third caller polls first.
    expect(await kinds(third, second, third)).toEqual(["wait", "steps", "wait"]);
    await leaves(second);
    expect(await kinds(third)).toEqual(["steps"]);
    await leaves(third);
  });

  it("skip a caller whose Worker has died", async () => {
    const [first, second, third] = [await begin(), await begin(), await begin()];
    await leaves(first);
    expect(await kinds(third)).toEqual(["wait"]);
    const real = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => real() + 6_000);
    expect(await kinds(third)).toEqual(["steps"]);
    expect(await kinds(second)).toEqual(["wait"]);
    await leaves(third);
    expect(await kinds(second)).toEqual(["steps"]);
    await leaves(second);
  });
});
