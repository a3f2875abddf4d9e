import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Operation } from "./agent-dhv-agent.ts";
import { DIRECTORY_PLUGIN, request, TestNode } from "./agent-dhv-node.ts";
import { AgentProcess } from "./agent-dhv-process.ts";

vi.setConfig({ testTimeout: 120_000 });

/** The real process is killed after each step of each operation, and restarted on the remaining state. */
let node: TestNode;
let agent: AgentProcess;
beforeEach(() => {
  node = freshNode();
  agent = new AgentProcess(node);
});
afterEach(async () => {
  await agent.stop();
  node.remove();
});

function freshNode(): TestNode {
  const fresh = new TestNode();
  fresh.plugin("p", DIRECTORY_PLUGIN);
  return fresh;
}

function startAnew(): void {
  node.remove();
  node = freshNode();
  agent.moveTo(node);
}

async function done(operation: Operation) {
  const answer = await agent.run(operation);
  expect(answer?.result).toMatchObject({ ok: true });
  return answer;
}

/** Invariant at all times, also while the agent is down: a volume with a `ready` record exists. */
function nothingPromisedIsGone(): void {
  for (const [file, { state, request }] of Object.entries(node.records()))
    if (file.endsWith(".json") && state === "ready") expect(node.volumes()).toContain(request.id);
}

/** Calls `check` with the agent having crashed after each step of `operation`, on a fresh node prepared by `before`. */
async function afterEachStep(before: () => Promise<unknown>, operation: Operation, check: () => Promise<void>) {
  await before();
  const steps = (await done(operation))?.steps ?? [];
  expect(steps.length).toBeGreaterThanOrEqual(3);
  for (const [index, step] of steps.entries()) {
    startAnew();
    await before();
    expect(await agent.run(operation, index + 1), step).toBeUndefined();
    nothingPromisedIsGone();
    await check();
    nothingPromisedIsGone();
  }
}

describe.each(["mkdir", "p"])("plugin %s", (pluginId) => {
  const volume = request({ pluginId, name: "db", parameters: pluginId === "mkdir" ? { mode: "0711" } : {} });
  const path = () => join(node.volumesDir, volume.id);
  const other = request({ name: "db" });
  const exactlyOne = () => {
    expect(node.volumes()).toEqual([volume.id]);
    const bytes = pluginId === "p" ? 1024 : 0;
    const record = { state: "ready", request: volume, path: path(), bytes };
    expect(node.records()).toEqual({ [`${volume.id}.json`]: record });
  };
  const nothing = () => expect([node.volumes(), node.records()]).toEqual([[], {}]);

  it("completes or drops an interrupted creation at the next start, and a repeated request yields one volume", async () => {
    await afterEachStep(
      async () => {},
      { create: volume },
      async () => {
        const volumes = (await done({ restore: true }))?.volumes;
        if (volumes?.length === 0) nothing();
        else {
          expect(volumes).toMatchObject([{ id: volume.id, path: path(), problem: undefined }]);
          exactlyOne();
        }
        await done({ create: volume });
        exactlyOne();
        expect((await agent.run({ create: other }))?.result).toMatchObject({ ok: false });
      },
    );
  });

  it("leaves no volume and no reserved name when an interrupted creation is deleted", async () => {
    await afterEachStep(
      async () => {},
      { create: volume },
      async () => {
        await done({ delete: { id: volume.id } });
        nothing();
        await done({ create: other });
      },
    );
  });

  it("completes an interrupted deletion at the next start or keeps the whole volume, and a repeated request removes it", async () => {
    const before = () => done({ create: volume }).then(() => writeFileSync(join(path(), "file"), "data"));
    await afterEachStep(before, { delete: { id: volume.id } }, async () => {
      const volumes = (await done({ restore: true }))?.volumes;
      if (volumes?.length === 0) nothing();
      else exactlyOne();
      await done({ delete: { id: volume.id } });
      nothing();
      await done({ create: other });
    });
  });

  it("keeps the volume through an interrupted update", async () => {
    const before = () => done({ create: volume }).then(() => writeFileSync(join(path(), "file"), "data"));
    const update = { create: { ...volume, name: "renamed" } };
    await afterEachStep(before, update, async () => {
      const volumes = (await done({ restore: true }))?.volumes;
      expect(volumes).toMatchObject([{ id: volume.id, path: path(), problem: undefined }]);
      await done(update);
      expect(node.volumes()).toEqual([volume.id]);
      expect(node.records()[`${volume.id}.json`]?.request.name).toBe("renamed");
      await done({ create: other });
    });
  });
});

it("records a repeated registration once after an interruption, and does not touch its directory", async () => {
  const volume = request();
  const before = async () => mkdirSync(join(node.root, "v"), { mode: 0o751 });
  const register = () => ({ register: { ...volume, hostPath: join(node.root, "v") } });
  await before();
  const steps = (await done(register()))?.steps ?? [];
  for (const index of steps.keys()) {
    startAnew();
    await before();
    expect(await agent.run(register(), index + 1)).toBeUndefined();
    await done({ restore: true });
    expect((await done(register()))?.volumes).toMatchObject([{ id: volume.id, problem: undefined }]);
    expect(Object.keys(node.records())).toEqual([`${volume.id}.json`]);
    await done({ delete: { id: volume.id } });
    expect(node.records()).toEqual({});
  }
});
