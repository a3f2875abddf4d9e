import { describe, expect, it } from "vitest";
import { nearestPlace, placedName } from "./place.ts";

describe("the relay location of a client", () => {
  it.each([
    ["NA", "-122.4", "wnam"],
    ["NA", "-74", "enam"],
    ["NA", undefined, "enam"],
    ["SA", "-58", "sam"],
    ["EU", "-0.1", "weur"],
    ["EU", "30.5", "eeur"],
    ["AS", "55.3", "me"],
    ["AS", "139.7", "apac"],
    ["AF", "18", "afr"],
    ["OC", "151", "oc"],
    ["OC", "-175", "oc"],
    ["AN", "0", null],
    ["constructor", "0", null],
    [undefined, undefined, null],
  ])("on continent %s at longitude %s° is %s", (continent, longitude, place) => {
    expect(nearestPlace({ continent, longitude })).toBe(place);
  });
});

describe("the relay for a client", () => {
  const clients = Array.from({ length: 6_400 }, (_, n) => `token-${n % 7} ${n.toString(16).padStart(16, "0")}`);

  it("is stable and in the client's location", () => {
    for (const client of clients.slice(0, 100)) {
      expect(placedName("weur", client, 5)).toBe(placedName("weur", client, 5));
      expect(placedName("weur", client, 5)).toMatch(/^weur-[0-4]$/);
    }
  });

  it.each([1, 2, 3, 16, 64])("is one of %i, evenly distributed", (relays) => {
    const counts = new Map<string, number>();
    for (const client of clients) {
      const name = placedName("apac", client, relays);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    expect(counts.size).toBe(relays);
    for (const count of counts.values()) {
      expect(count).toBeGreaterThan((0.5 * clients.length) / relays);
      expect(count).toBeLessThan((1.5 * clients.length) / relays);
    }
  });
});
