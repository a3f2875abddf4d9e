import { beforeEach, expect, it } from "vitest";
import { memorySql } from "../../test/memory-sql.ts";
import { outboxMigrations } from "../platform/durable/outbox.ts";
import { kvMigrations } from "./schema.ts";
import { Watchers } from "./watchers.ts";

let watchers: Watchers;
beforeEach(() => {
  watchers = new Watchers(memorySql([...outboxMigrations, ...kvMigrations]));
  for (const path of ["a", "b", "c"]) watchers.add(path, "d", 0);
});

it("a destination is told of all that has changed at once, of what has waited longest first", () => {
  watchers.tell("c", "d", 1);
  watchers.tell("a", "d", 2);
  expect(watchers.untold("d", 10)).toEqual(["c", "a"]);
  expect(watchers.untold("d", 1)).toEqual(["c"]);
  expect(watchers.untold("e", 10)).toEqual([]);
});

it("a change that comes while the destination is told of the one before is told, too", () => {
  watchers.tell("a", "d", 1);
  watchers.tell("b", "d", 2);
  const told = watchers.untold("d", 10);
  watchers.tell("a", "d", 3);
  watchers.told("d", told, 2);
  expect(watchers.untold("d", 10)).toEqual(["a"]);
});

it("what a destination does not watch any more it is not told", () => {
  watchers.tell("a", "d", 1);
  watchers.remove("a", "d");
  expect(watchers.untold("d", 10)).toEqual([]);
});
