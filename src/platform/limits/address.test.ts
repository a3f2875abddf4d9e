import { expect, it } from "vitest";
import { networkOf } from "./address.ts";

it.each([
  ["203.0.113.7", "203.0.113.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:DB8:0001:2::6", "2001:db8:1:2::/64"],
  ["2001:db8::6", "2001:db8:0:0::/64"],
  ["::ffff:203.0.113.7", "0:0:0:0::/64"],
])("%s counts as %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});

it("counts all addresses of one /64 network together, separate from the next", () => {
  expect(networkOf("2001:db8::1")).toBe(networkOf("2001:db8:0:0:ffff:ffff:ffff:ffff"));
  expect(networkOf("2001:db8::1")).not.toBe(networkOf("2001:db8:0:1::1"));
});

it.each([null, "127.0.0.1", "127.8.8.8", "::1"])(
  "%s has no network: it occurs only in local development",
  (address) => {
    expect(networkOf(address)).toBeNull();
  },
);
