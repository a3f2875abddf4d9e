import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { controllers, create } from "./csi-world.ts";
import { connect } from "./healthy-agent.ts";
import { ask } from "./host-volumes.ts";
import { registryObject } from "./nodes-helpers.ts";
import { type Cost, count } from "./object-costs.ts";
import { eventually, type ScriptedAgent } from "./scripted-agent.ts";

const TIMES = 6;
type Spent = readonly [registry: Cost, session: Cost];

/** The minimum of several runs, to exclude alarms and other background work. */
async function least(agent: ScriptedAgent, work: (time: number) => Promise<unknown>): Promise<Spent> {
  const costs = [await count(registryObject()), await count(agent.stub)] as const;
  const spent: Cost[][] = [];
  for (let time = 0; time < TIMES; time++) {
    const before = costs.map((cost) => ({ ...cost }));
    await work(time);
    // Work behind the answer; the reads of this check count, too.
    const rests = async (stub: unknown) => {
      const waiting = await runInDurableObject(stub as DurableObjectStub, (_object, { storage }) =>
        storage.sql.exec("SELECT seq FROM outbox").toArray(),
      );
      expect(waiting).toEqual([]);
    };
    for (const stub of [registryObject(), agent.stub]) await eventually(() => rests(stub));
    spent.push(
      costs.map(({ statements, transactions }, at) => ({
        statements: statements - 1 - (before[at]?.statements ?? 0),
        transactions: transactions - (before[at]?.transactions ?? 0),
      })),
    );
  }
  const of = (at: 0 | 1): Cost => ({
    statements: Math.min(...spent.map((each) => each[at]?.statements ?? 0)),
    transactions: Math.min(...spent.map((each) => each[at]?.transactions ?? 0)),
  });
  return [of(0), of(1)];
}

const within = (spent: Spent, most: Spent): void => {
  const values = (costs: Spent) => costs.flatMap(({ statements, transactions }) => [statements, transactions]);
  expect(values(spent).map((value, at) => Math.max(value, values(most)[at] ?? 0))).toEqual(values(most));
};

it("a host volume costs the registry at most 34 statements and 5 transactions, and its node's session 13 and 3", async () => {
  const { agent, stop } = await connect();
  const make = async (time: number) => expect((await ask({ Name: `v${time}`, NodeID: agent.node })).status).toBe(200);
  within(await least(agent, make), [
    { statements: 34, transactions: 5 },
    { statements: 13, transactions: 3 },
  ]);
  await stop();
});

it("a CSI volume costs the registry at most 35 statements and 4 transactions, and its node's session 13 and 3", async () => {
  const { agent, stop } = await connect(controllers());
  const make = async (time: number) => expect((await create({ ID: `v${time}`, Name: `v${time}` })).status).toBe(200);
  within(await least(agent, make), [
    { statements: 35, transactions: 4 },
    { statements: 13, transactions: 3 },
  ]);
  await stop();
});
