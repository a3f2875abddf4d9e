import { beforeEach, describe, expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import { controlMigrations } from "../control-schema.ts";
import { QueueCapacity } from "./queue-capacity.ts";

let queue: QueueCapacity;
beforeEach(() => {
  queue = new QueueCapacity(memorySql(controlMigrations));
});

const grant = (capacity: number, destination: string, kept: number, waiting = 0, asked = 0): number =>
  queue.grant(destination, { kept, waiting, asked }, capacity).granted;

describe("the division of the queue capacity", () => {
  it("grants needs up to the capacity", () => {
    expect(grant(10, "a", 0, 0, 6)).toBe(6);
    expect(grant(10, "b", 0, 0, 6)).toBe(4);
    expect(grant(10, "c", 0, 0, 1)).toBe(0);
    expect(queue.granted()).toBe(10);
  });

  it("grants a repeated request the same quota", () => {
    for (let time = 0; time < 5; time++) expect(grant(10, "a", 3, 4, 1)).toBe(8);
    expect(queue.granted()).toBe(8);
  });

  it("keeps the quota of queued operations when the capacity is lowered", () => {
    grant(10, "a", 0, 8);
    expect(grant(3, "a", 8, 5)).toBe(8);
    expect(grant(3, "b", 0, 0, 1)).toBe(0);
    expect(grant(3, "a", 2, 5)).toBe(3);
  });

  it("limits each destination to an equal part while others want more", () => {
    expect(grant(10, "a", 0, 100)).toBe(10);
    expect(grant(10, "b", 0, 100)).toBe(0);
    expect(grant(10, "a", 1, 90)).toBe(5);
    expect(grant(10, "b", 0, 100)).toBe(5);
  });

  it("gives extra quota to growing demand until quota is scarce", () => {
    expect(queue.grant("a", { kept: 0, waiting: 1, asked: 0 }, 1_000_000)).toEqual({ granted: 65, scarce: false });
    expect(queue.grant("a", { kept: 1, waiting: 0, asked: 0 }, 1_000_000)).toEqual({ granted: 1, scarce: false });
    expect(queue.grant("a", { kept: 1, waiting: 1, asked: 0 }, 10_000)).toEqual({ granted: 2, scarce: true });
  });

  it("keeps no row for a destination without quota and need", () => {
    grant(10, "b", 0, 0, 3);
    grant(10, "a", 0, 1);
    expect(queue.destinations("", 10)).toEqual(["a", "b"]);
    expect(queue.destinations("a", 10)).toEqual(["b"]);
    expect(queue.destinations("", 1)).toEqual(["a"]);
    grant(10, "a", 0);
    grant(10, "b", 0);
    expect(queue.destinations("", 10)).toEqual([]);
    expect(queue.granted()).toBe(0);
  });
});
