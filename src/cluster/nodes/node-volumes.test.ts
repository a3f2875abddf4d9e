import { describe, expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import { sessionMigrations } from "../../node-agents/schema.ts";
import type { Migration } from "../../platform/durable/migrations.ts";
import { changedVolumes, NodeVolumes, VOLUMES_TEXT } from "./node-volumes.ts";
import { nodeMigrations } from "./schema.ts";

const volume = (id: string, name = id) => ({ ID: id, Name: name, Path: `/v/${id}`, ReadOnly: false });
const mapOf = (...volumes: ReturnType<typeof volume>[]) => Object.fromEntries(volumes.map((one) => [one.Name, one]));

/** Tables of an earlier release with rows, migrated to the current schema. */
function migrated(steps: readonly Migration[], table: string, rows: readonly string[]): SqlStorage {
  const at = steps.findIndex((sql) => sql.includes(`CREATE TABLE ${table}`));
  const insert = rows.join(";");
  return memorySql([...steps.slice(0, at), insert, ...steps.slice(at)]);
}

const nodeRow = (id: string, body: object) =>
  `INSERT INTO nodes (id, origin, pool, status, eligibility, draining, heard, body, events, create_line)
   VALUES ('${id}', 'agent', 'default', 'ready', 'eligible', 0, 0, '${JSON.stringify(body)}', '[]', 1)`;

describe("NodeVolumes", () => {
  it("migrates volumes out of the records of an earlier release without changing reads", () => {
    const volumes = mapOf(volume("a", "db"), volume("b"));
    const sql = migrated(nodeMigrations, "node_volumes", [
      nodeRow("n1", { ID: "n1", Big: 1, HostVolumes: volumes }),
      nodeRow("n2", { ID: "n2", HostVolumes: null }),
      nodeRow("n3", { ID: "n3", HostVolumes: {} }),
    ]);
    const rows = sql.exec(`SELECT id, body, ${VOLUMES_TEXT} FROM nodes ORDER BY id`).toArray();
    expect(rows.map(({ volumes: text }) => (text === null ? null : JSON.parse(String(text))))).toEqual([
      volumes,
      null,
      {},
    ]);
    expect(rows.map(({ body }) => Object.keys(JSON.parse(String(body))))).toEqual([
      ["ID", "Big"],
      ["ID", "HostVolumes"],
      ["ID"],
    ]);
  });

  it("writes changed volumes only and permits swapped names", () => {
    const sql = memorySql(nodeMigrations);
    const rows = new NodeVolumes(sql);
    rows.write("n2", mapOf(volume("a")));
    rows.write("n1", mapOf(volume("a"), volume("b"), volume("c")));
    const change = { put: [volume("a", "b"), volume("b", "a"), volume("d")], gone: ["c", "x"] };
    const differs = { put: change.put, gone: ["c"] };
    expect(rows.difference("n1", change)).toEqual(differs);
    rows.change("n1", differs);
    expect(rows.difference("n1", change)).toBeNull();
    const shown = (id: string) =>
      sql.exec("SELECT name, id FROM node_volumes WHERE node_id = ? ORDER BY name", id).toArray();
    expect(shown("n1").map(({ name, id }) => [name, id])).toEqual([
      ["a", "b"],
      ["b", "a"],
      ["d", "d"],
    ]);
    rows.write("n1", mapOf(volume("d")));
    expect(shown("n1")).toHaveLength(1);
    rows.remove("n1");
    expect([shown("n1").length, shown("n2").length]).toEqual([0, 1]);
  });

  it("applies a change in memory as in rows", () => {
    const before = mapOf(volume("a"), volume("b"), volume("c"));
    const change = { put: [volume("a", "b"), volume("b", "a")], gone: ["c"] };
    expect(changedVolumes(before, change)).toEqual(mapOf(...change.put));
    expect(changedVolumes(null, { put: [volume("a")], gone: ["b"] })).toEqual(mapOf(volume("a")));
  });
});

it("migrates a session's volumes, including those the registry does not have yet", () => {
  const volumes = mapOf(volume("a", "db"), volume("b"));
  const report = { node: { Name: "n", HostVolumes: volumes }, unavailableVolumes: [{ id: "c" }] };
  const sql = migrated(sessionMigrations, "report_volumes", [
    `INSERT INTO report VALUES (1, '${JSON.stringify(report)}', 7, 5)`,
  ]);
  expect(sql.exec("SELECT body, seq, told FROM report").toArray()).toEqual([
    { body: '{"node":{"Name":"n"}}', seq: 7, told: 5 },
  ]);
  const rows = sql.exec("SELECT id, seq, body FROM report_volumes ORDER BY id").toArray();
  expect(rows.map(({ id, seq, body }) => [id, seq, JSON.parse(String(body))])).toEqual([
    ["a", 7, volumes["db"]],
    ["b", 7, volumes["b"]],
  ]);
});
