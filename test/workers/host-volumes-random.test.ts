import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { randomFrom } from "../crash/random.ts";
import { del } from "./client.ts";
import { clock } from "./clock.ts";
import { ask, type Behaviour, listed, lose, nodeId, nodes, openNodes, run } from "./host-volumes.ts";
import { byItself, expectSettled, killRegistry } from "./host-volumes-world.ts";

clock.moves = true;

/*
 * Random histories of users, schedulers, nodes and crashes. Once everything is settled, the rows match the disks and
 * the stream, no name is on a node twice, and no volume in use was deleted.
 */

const STEPS = 60;
const NODES = [1, 2, 3];
const NAMES = ["db", "cache"];

beforeEach(() => openNodes(...NODES));

it.each(Array.from({ length: 8 }, (_, seed) => [seed + 1]))(
  "rows, disks and events agree after random requests, reports and crashes (history %i)",
  async (seed) => {
    const random = randomFrom(seed);
    const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
    /** Names that allocations use, by node. */
    const used = new Map<string, string>();
    const ghosts = new Set<string>();
    const pending: Promise<unknown>[] = [];
    const lost: (() => Promise<void>)[] = [];
    const violations: string[] = [];

    nodes.behave = (operation, node): Behaviour => {
      const { id } = operation.params as { id: string };
      const name = nodes.disks.get(node)?.get(id)?.name;
      if (operation.method === "dhv.delete" && name !== undefined && used.get(node) === name)
        violations.push(`${name} on ${node} was deleted while it was used`);
      const luck = random();
      if (luck < 0.6) return "work";
      if (luck < 0.7) return "hold";
      if (luck < 0.8) {
        // The answer is lost; the session reports it later.
        lost.push(() => nodes.tell(node, operation.id, nodes.work(node, operation)));
        return { state: "unknown", error: { kind: "timeout", message: "who knows" } };
      }
      if (luck < 0.9) return { state: "failed", error: { kind: "plugin", message: "no" } };
      return { ok: false, reason: "unavailable", message: "away" };
    };

    /** A request that is abandoned after a moment. */
    const impatiently = (request: Promise<unknown>) => {
      const settled = request.catch(() => undefined);
      pending.push(settled);
      return Promise.race([settled, scheduler.wait(100)]);
    };

    const someVolume = async () => {
      const volumes = await listed();
      return volumes.length === 0 ? null : (pick(volumes) as { ID: string; Name: string; NodeID: string });
    };

    const steps: readonly (() => Promise<unknown>)[] = [
      () => impatiently(ask({ Name: pick(NAMES) })),
      () => impatiently(ask({ Name: pick(NAMES), NodeID: nodeId(pick(NODES)) })),
      async () => {
        const volume = await someVolume();
        if (volume) await impatiently(ask({ ID: volume.ID, Name: pick([...NAMES, "other"]) }));
      },
      async () => {
        const volume = await someVolume();
        if (volume) await impatiently(del(`/v1/volume/host/${volume.ID}`));
      },
      async () => {
        const volume = await someVolume();
        if (!volume) return;
        const answer = await impatiently(del(`/v1/volume/host/${volume.ID}?force=true`));
        const isThere = nodes.disks.get(volume.NodeID)?.has(volume.ID);
        if ((answer as { status?: number } | undefined)?.status === 200 && isThere) ghosts.add(volume.ID);
      },
      () => nodes.report(nodeId(pick(NODES))),
      () => lose(nodeId(pick(NODES))),
      ...Array.from({ length: 2 }, () => () => clusterRegistry(env).nodeConnected(nodeId(pick(NODES)))),
      async () => {
        const [node, name] = [nodeId(pick(NODES)), pick(NAMES)];
        await run(node, [name], { alloc: node, job: node });
        used.set(node, name);
      },
      async () => {
        const node = nodeId(pick(NODES));
        used.delete(node);
        await run(node, [], { alloc: node, job: node, status: "complete" });
      },
      () => nodes.release(),
      async () => void (await lost.shift()?.()),
      killRegistry,
    ];

    for (let step = 0; step < STEPS; step++) await pick(steps)().catch(() => undefined);

    nodes.behave = () => "work";
    for (const number of NODES) {
      const node = nodeId(number);
      await run(node, [], { alloc: node, job: node, status: "complete" });
      await clusterRegistry(env).nodeConnected(node);
    }
    await nodes.release();
    for (const tell of lost) await tell();
    await Promise.all(pending);
    await byItself(async () => {
      for (const number of NODES) await nodes.report(nodeId(number));
      await expectSettled(nodes, ghosts);
    });
    expect(violations).toEqual([]);
  },
);
