import { expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { WorkQueue, WorkView } from "../../platform/durable/work-queue.ts";
import type { Associations } from "../associations/associations.ts";
import { type AssociationRow, destinationMigrations } from "../schema.ts";
import { Breaker } from "./breaker.ts";
import { Resync } from "./resync.ts";

const NOW = 1_000_000;

const association = (id: string, status: AssociationRow["status"], synced: number): AssociationRow => ({
  id,
  mount_uuid: "m",
  mount_accessor: "m",
  mount_path: "kv/",
  named_path: null,
  secret_name: id,
  wish: "present",
  intent: 1,
  seed: "",
  status,
  error_code: null,
  error_message: null,
  synced_version: synced,
  updated: 0,
  asked: 0,
  naming: 0,
  manual: 1,
  trace: null,
});

/** Resyncs associations with secrets of version 1. @returns the ids set again, and whether each goes behind the others */
async function resynced(
  rows: readonly AssociationRow[],
  work: Readonly<Record<string, WorkView>> = {},
  owing: readonly string[] = [],
) {
  const set: [id: string, failed: boolean][] = [];
  const associations = {
    page: () => rows,
    find: (id: string) => rows.find((row) => row.id === id) ?? null,
    any: () => true,
    owes: ({ id }: AssociationRow) => owing.includes(id),
    setDesired: ({ id }: AssociationRow, _wish: string, _now: number, failed: boolean) => set.push([id, failed]),
  } as unknown as Associations;
  const newestVersions = async (names: readonly string[]) => names.map(() => 1);
  const object = {
    sql: memorySql(destinationMigrations),
    env: { KV_STORE: { getByName: () => ({ newestVersions }) } },
    commit: <T>(change: () => T): T => change(),
  } as unknown as ObjectContext;
  const queue = { find: (id: string) => work[id] ?? null, unpause: () => undefined } as unknown as WorkQueue;
  const resync = new Resync(object, associations, queue, new Breaker(object.sql));
  resync.restart(NOW);
  await resync.step(NOW);
  return set;
}

it("enqueues associations that failed behind those that are outdated", async () => {
  const rows = [
    association("current", "SYNCED", 1),
    association("outdated", "SYNCED", 0),
    association("failed", "EXTERNAL_SERVICE_ERROR", 1),
  ];
  expect(await resynced(rows)).toEqual([
    ["outdated", "many"],
    ["failed", "failed"],
  ]);
});

it("enqueues an association whose clean-up is owed", async () => {
  const rows = [association("current", "SYNCED", 1), association("owing", "SYNCED", 1)];
  expect(await resynced(rows, {}, ["owing"])).toEqual([["owing", "many"]]);
});

it("enqueues associations again that are in back-off or were leased before the change", async () => {
  const rows = ["new", "waiting", "leased"].map((id) => association(id, "PENDING", 0));
  const set = await resynced(rows, {
    new: { attempts: 0, readyAt: NOW, leased: false },
    waiting: { attempts: 2, readyAt: NOW + 60_000, leased: false },
    leased: { attempts: 0, readyAt: NOW + 60_000, leased: true },
  });
  expect(set.map(([id]) => id)).toEqual(["waiting", "leased"]);
});
