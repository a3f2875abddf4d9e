import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { performJobs } from "../../src/credentials/runner/job-worker.ts";
import { AccessControl } from "../../src/objects/access-control.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { clock } from "./clock.ts";
import { creds, engineObject, revoke, rows, succeeded } from "./engine-helpers.ts";
import { openEngineWithRole, uuid } from "./engine-world.ts";
import { type Cost, count } from "./object-costs.ts";
import { eventually } from "./scripted-agent.ts";

clock.moves = true;

beforeEach(() => openEngineWithRole());

const TIMES = 4;

/** Waits until the events of the engine are delivered. */
const delivered = () =>
  eventually(async () =>
    expect(
      await runInDurableObject(engineObject(uuid), (_object, { storage }) =>
        storage.sql.exec("SELECT seq FROM outbox").toArray(),
      ),
    ).toEqual([]),
  );

/** The minimum of several runs, to exclude alarms. */
async function least(cost: Cost, work: (time: number) => Promise<unknown>): Promise<Cost> {
  const spent: Cost[] = [];
  for (let time = 0; time < TIMES; time++) {
    await delivered();
    const before = { ...cost };
    await work(time);
    spent.push({
      statements: cost.statements - before.statements,
      transactions: cost.transactions - before.transactions,
    });
  }
  return {
    statements: Math.min(...spent.map(({ statements }) => statements)),
    transactions: Math.min(...spent.map(({ transactions }) => transactions)),
  };
}

it("issues and revokes credentials with few statements and transactions", async () => {
  const leases: string[] = [];
  for (let time = 0; time <= TIMES; time++) leases.push(succeeded(await creds("web")).body.lease_id);
  const cost = await count(engineObject(uuid));
  const issued = await least(cost, () => creds("web"));
  const revoked = await least(cost, (time) => revoke(leases[time] ?? ""));
  expect(issued.statements).toBeLessThanOrEqual(15);
  expect(issued.transactions).toBeLessThanOrEqual(6);
  expect(revoked.statements).toBeLessThanOrEqual(14);
  expect(revoked.transactions).toBeLessThanOrEqual(3);
});

it("registers a token once for all its leases, and again after its end was reported", async () => {
  const asked = vi.spyOn(AccessControl.prototype, "holdsLeases");
  await Promise.all([creds("web"), creds("web")]);
  const first = asked.mock.calls.length;
  await creds("web");
  expect(asked).toHaveBeenCalledTimes(first);
  const [lease] = await rows(uuid, "leases");
  await engineObject(uuid).tokensEnded([String(lease?.["token"])]);
  succeeded(await creds("web"));
  expect(asked).toHaveBeenCalledTimes(first + 1);
});

it("revokes ended leases with one call of the object for each", async () => {
  const [one, two] = [succeeded(await creds("web")), succeeded(await creds("web"))];
  vi.spyOn(env.SYNC_WORK, "send").mockRejectedValue(new Error("later"));
  await engineObject(uuid).revokeSoon([one, two].map(({ body }) => body.lease_id.slice("cloud-b/".length)));
  const polls = vi.spyOn(CredentialEngine.prototype, "poll");
  await performJobs(env, uuid, { budgetMs: 20_000 });
  expect(await rows(uuid, "leases")).toEqual([]);
  const reports = polls.mock.calls.filter(([, report]) => report !== null);
  const others = polls.mock.calls.length - reports.length;
  // The first poll of each of the Worker's six loops; each report gets the next job or none.
  expect(others).toBe(6);
});
