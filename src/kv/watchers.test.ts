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

it("returns the pending paths of a destination, oldest change first", () => {
  watchers.mark("c", "d", 1);
  watchers.mark("a", "d", 2);
  expect(watchers.pending("d", 10)).toEqual(["c", "a"]);
  expect(watchers.pending("d", 1)).toEqual(["c"]);
  expect(watchers.pending("e", 10)).toEqual([]);
});

it("keeps a change pending that happens during the notification of an earlier one", () => {
  watchers.mark("a", "d", 1);
  watchers.mark("b", "d", 2);
  const sent = watchers.pending("d", 10);
  watchers.mark("a", "d", 3);
  watchers.acknowledge("d", sent, 2);
  expect(watchers.pending("d", 10)).toEqual(["a"]);
});

it("drops pending paths when the watch ends", () => {
  watchers.mark("a", "d", 1);
  watchers.remove("a", "d");
  expect(watchers.pending("d", 10)).toEqual([]);
});
