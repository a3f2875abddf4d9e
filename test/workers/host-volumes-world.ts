import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { eventsOf } from "./access.ts";
import { alarmsUntil } from "./clock-and-alarms.ts";
import { listed, type ScriptedNodes, storedRows } from "./host-volumes.ts";

/** Helpers for crash tests: the invariants of host volumes once everything is settled. */

const registry = () => env.CLUSTER_REGISTRY.getByName("main");

/** The power goes out in the registry. */
export const killRegistry = async (): Promise<void> => {
  const died = runInDurableObject(registry(), (_registry, state) => state.abort("killed by a test"));
  await died.catch(() => undefined);
};

/** Lets alarms and back-offs pass until `check` holds, without any request. */
export const byItself = (check: () => Promise<void>): Promise<void> =>
  alarmsUntil(registry, check, { quiet: 6, step: 5_000 });

/** The volumes on the disks, by node and id. */
const onDisks = ({ disks }: ScriptedNodes): [node: string, id: string, name: string][] =>
  [...disks].flatMap(([node, held]) => [...held].map(([id, { name }]): [string, string, string] => [node, id, name]));

interface Shown {
  readonly ID: string;
  readonly Name: string;
  readonly NodeID: string;
  readonly State: string;
  readonly ModifyIndex: number;
}

/**
 * Everything has ended, and rows, names, disks and the stream agree.
 * @param ghosts volumes that were removed without their node, and may still be on its disk
 */
export async function expectSettled(nodes: ScriptedNodes, ghosts: ReadonlySet<string> = new Set()): Promise<void> {
  const rows = await storedRows();
  expect(rows.filter(({ state, topic }) => state === "running" || topic !== undefined)).toEqual([]);
  const volumes = (await listed()) as Shown[];
  const placesOf = (some: readonly Shown[]) => some.map(({ ID, Name, NodeID }) => [NodeID, ID, Name]).sort();
  const places = placesOf(volumes);
  // A volume that came into use while its node deleted it is kept as unavailable.
  expect(placesOf(volumes.filter(({ State }) => State !== "unavailable"))).toEqual(
    onDisks(nodes)
      .filter(([, id]) => !ghosts.has(id))
      .sort(),
  );
  expect(
    rows
      .flatMap((row) => ("volume_id" in row && "name" in row ? [[row["node_id"], row["volume_id"], row["name"]]] : []))
      .sort(),
  ).toEqual(places);
  expect(new Set(places.map(([node, , name]) => `${node} ${name}`)).size).toBe(places.length);
  const events = await eventsOf("HostVolume");
  expect(events.map(({ Index }) => Index)).toEqual(events.map(({ Index }) => Index).toSorted((a, b) => a - b));
  const lines = Map.groupBy(events, ({ Key }) => Key as string);
  const live = [...lines].flatMap(([id, told]) => {
    expect(told[0].Type, "begins with its registration").toBe("HostVolumeRegistered");
    const deleted = told.findIndex(({ Type }) => Type === "HostVolumeDeleted");
    if (deleted >= 0) expect(deleted, "ends with its deletion").toBe(told.length - 1);
    return deleted >= 0 ? [] : [[id, told.at(-1).Index, told.at(-1).Payload.Volume.Name]];
  });
  expect(live.sort()).toEqual(volumes.map(({ ID, ModifyIndex, Name }) => [ID, ModifyIndex, Name]).sort());
}
