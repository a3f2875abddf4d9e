import { amount } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import { capacityOf, machineFacts } from "./machine.ts";

it("names the machine by an id that stays the same", async () => {
  const ids = await Promise.all([1, 2].map(async () => (await machineFacts("/tmp")).attributes["unique.host_id"]));
  expect(ids[0]).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(ids[1]).toBe(ids[0]);
});

it("reports a file system without a meaningful size within the bounds of a report", () => {
  expect(capacityOf({ blocks: 100, bsize: 4_096 })).toBe(409_600);
  expect(amount.safeParse(capacityOf({ blocks: 2 ** 64, bsize: 4_096 })).success).toBe(true);
});
