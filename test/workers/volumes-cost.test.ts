import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { ask } from "./host-volumes.ts";
import { registryObject } from "./nodes-helpers.ts";
import { type AgentSocket, done, eventually, ScriptedAgent, statusOf } from "./scripted-agent.ts";

interface Cost {
  statements: number;
  transactions: number;
}

/** Counts what an object does from now on. */
const count = (stub: unknown): Promise<Cost> =>
  runInDurableObject(stub as DurableObjectStub, (object, { storage }) => {
    const cost: Cost = { statements: 0, transactions: 0 };
    const { sql } = object as unknown as { sql: SqlStorage };
    const exec = sql.exec.bind(sql) as SqlStorage["exec"];
    const transactionSync = storage.transactionSync.bind(storage);
    Object.defineProperty(sql, "exec", {
      value: (...given: Parameters<SqlStorage["exec"]>) => {
        cost.statements += 1;
        return exec(...given);
      },
    });
    Object.defineProperty(storage, "transactionSync", {
      value: (change: () => unknown) => {
        cost.transactions += 1;
        return transactionSync(change);
      },
    });
    return cost;
  });

/** Answers every request as a good agent does. */
async function serve(socket: AgentSocket, requests: number): Promise<void> {
  for (let read = 0; read < requests; read++) {
    const op = (await socket.seen("req", read + 1))[read]?.op ?? "";
    socket.send({ t: "ack", op, state: "accepted" });
    socket.send(done(op, { path: `/v/${read}`, bytes: 0 }));
  }
}

const VOLUMES = 6;

it("a host volume takes the registry at most 43 statements and 5 transactions, the session of its node 21 and 3", async () => {
  const [agent, socket] = await ScriptedAgent.connected();
  await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
  const served = serve(socket, VOLUMES);
  const [registry, session] = [await count(registryObject()), await count(agent.stub)];
  const spent: number[][] = [];
  for (let number = 0; number < VOLUMES; number++) {
    const before = [registry.statements, registry.transactions, session.statements, session.transactions];
    expect((await ask({ Name: `v${number}`, NodeID: agent.node })).status).toBe(200);
    // What the answer does not wait for.
    await eventually(async () => expect(await agent.rows("SELECT seq FROM outbox")).toEqual([]));
    const after = [registry.statements, registry.transactions, session.statements, session.transactions];
    spent.push(after.map((value, at) => value - (before[at] ?? 0)));
  }
  await served;
  // Alarms and whatever else comes now and then are not what a volume takes.
  const least = [0, 1, 2, 3].map((at) => Math.min(...spent.map((each) => each[at] ?? 0)));
  // The look at the outbox is one statement of the session's, too.
  const most = [43, 5, 21 + 1, 3];
  expect(least.map((value, at) => value <= (most[at] ?? 0))).toEqual([true, true, true, true]);
});
