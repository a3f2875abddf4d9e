import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { randomFrom } from "../crash/random.ts";
import { amount } from "../support/long.ts";
import type { Operation } from "./agent-dhv-agent.ts";
import { request, TestNode } from "./agent-dhv-node.ts";
import { AgentProcess, SLOW_PLUGIN } from "./agent-dhv-process.ts";

const OPERATIONS = amount(60, 300);
const seed = Number(process.env["CRASH_SEED"] ?? Date.now() % 1_000_000);
const random = randomFrom(seed);
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;

const node = new TestNode();
node.plugin("p", SLOW_PLUGIN);
const agent = new AgentProcess(node);
afterAll(async () => {
  await agent.stop();
  node.remove();
});

const ids = Array.from({ length: 6 }, () => randomUUID());
const directories = ["a", "b"].map((name) => join(node.root, name));
for (const dir of directories) mkdirSync(dir);

/** The expected volumes by id: the volume's name, and its plugin or its registered directory. */
interface Held {
  readonly name: string;
  readonly pluginId: string;
  readonly path: string;
}
let model = new Map<string, Held>();

/** The model after an operation, or undefined when the operation must be refused. */
function after(operation: Operation): Map<string, Held> | undefined {
  const next = new Map(model);
  if ("delete" in operation) next.delete(operation.delete.id);
  if ("restore" in operation || "delete" in operation) return next;
  const { id, name, pluginId, path } =
    "create" in operation
      ? { ...operation.create, path: join(node.volumesDir, operation.create.id) }
      : { ...operation.register, pluginId: "", path: operation.register.hostPath };
  const taken = [...model].some(([other, held]) => held.name === name && other !== id);
  if (taken || (model.get(id)?.pluginId ?? pluginId) !== pluginId) return undefined;
  return next.set(id, { name, pluginId, path });
}

function anyOperation(): Operation {
  const [id, name] = [pick(ids), pick(["x", "y", "z", "u", "v"])];
  const kind = random();
  if (kind < 0.5) return { create: request({ id, name, pluginId: pick(["mkdir", "p"]) }) };
  if (kind < 0.6) return { register: { id, name, namespace: "default", hostPath: pick(directories) } };
  if (kind < 0.95) return { delete: { id } };
  return { restore: true };
}

/** The volumes on disk, in the form of the model. */
function recorded(): Map<string, Held> {
  const records = Object.values(node.records());
  for (const { state } of records) expect(state, `seed ${seed}`).toBe("ready");
  return new Map(
    records.map(({ request: { id, name, pluginId }, path = "" }) => [id, { name, pluginId, path }] as const),
  );
}

/** Directories, records and the model agree. */
function agree(): void {
  expect(recorded(), `seed ${seed}`).toEqual(model);
  const created = [...model].filter(([, { pluginId }]) => pluginId !== "").map(([id]) => id);
  expect(node.volumes(), `seed ${seed}`).toEqual(created.sort());
  expect(readdirSync(node.root)).toEqual(["a", "b"]);
}

it(`directories and records match the requests after ${OPERATIONS} operations with random crashes (seed ${seed})`, async () => {
  await agent.run({ restore: true });
  let crashes = 0;
  for (let count = 0; count < OPERATIONS; count++) {
    const operation = anyOperation();
    const wanted = after(operation);
    const kind = random();
    // After one of the agent's steps, or at a random moment, when a plugin may be running.
    const crashAfter = kind < 0.35 ? 1 + Math.floor(random() * 8) : undefined;
    const killAfterMs = kind > 0.7 ? random() * 60 : undefined;
    let answer = await agent.run(operation, crashAfter, killAfterMs);
    if (answer === undefined) {
      crashes++;
      const restored = await agent.run({ restore: true });
      expect(
        restored?.volumes.filter(({ problem }) => problem !== undefined),
        `seed ${seed}`,
      ).toEqual([]);
      if (random() < 0.7) answer = await agent.run(operation);
    }
    if (answer === undefined) {
      // Without a retry the operation took effect completely or not at all.
      const now = recorded();
      expect([model, wanted ?? model], `seed ${seed}`).toContainEqual(now);
      model = now;
    } else {
      expect(answer.result.ok, `seed ${seed}, ${JSON.stringify(operation)}: ${answer.result.message}`).toBe(
        wanted !== undefined,
      );
      model = wanted ?? model;
    }
    agree();
  }
  expect(crashes).toBeGreaterThan(0);
  await agent.stop();
  await agent.run({ restore: true });
  agree();
}, 240_000);
