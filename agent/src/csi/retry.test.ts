import { expect, it } from "vitest";
import { pauseAfter, retriesOf } from "./retry.ts";

it("a volume in use on another node does not block the agent's plugin", () => {
  const tries = (rpc: Parameters<typeof retriesOf>[0]) =>
    [1, 2, 3, 4, 5, 6].filter((times) => pauseAfter(9, times, retriesOf(rpc)) !== undefined);
  expect([tries("ControllerPublishVolume"), tries("CreateVolume")]).toEqual([[1, 2, 3, 4], []]);
});
