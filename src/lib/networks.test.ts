import { describe, expect, it } from "vitest";
import { areWithinNetworks, isWithinNetworks, parseNetwork } from "./networks.ts";

describe("a network", () => {
  it.each(["10.0.0.0/8", "10.1.2.3", "0.0.0.0/0", "2001:db8::/32", "::1", "::/0"])("accepts %s", (text) => {
    expect(parseNetwork(text)).not.toBeNull();
  });

  it.each([
    "",
    "10.0.0.0/33",
    "10.0.0/8",
    "10.0.0.0/8/8",
    "10.0.0.0/-1",
    "2001:db8::/129",
    "fe80::1%eth0",
    "host",
    "10.0.0.0/8 ",
  ])("refuses %j", (text) => expect(parseNetwork(text)).toBeNull());
});

describe("an address", () => {
  it.each([
    ["10.1.2.3", ["10.0.0.0/8"], true],
    ["11.1.2.3", ["10.0.0.0/8"], false],
    ["11.1.2.3", ["10.0.0.0/8", "11.1.2.3"], true],
    ["10.1.2.3", ["0.0.0.0/0"], true],
    ["::1", ["0.0.0.0/0"], false],
    ["2001:db8::5", ["2001:db8::/32"], true],
    ["2001:db9::5", ["2001:db8::/32"], false],
    ["10.1.2.3", [], true],
    [null, [], true],
    [null, ["0.0.0.0/0"], false],
    ["nonsense", ["0.0.0.0/0"], false],
  ])("%s is within %j: %s", (address, networks, expected) => {
    expect(isWithinNetworks(address, networks)).toBe(expected);
  });
});

describe("a network inside others", () => {
  it.each([
    [["10.1.0.0/16"], ["10.0.0.0/8"], true],
    [["10.0.0.0/7"], ["10.0.0.0/8"], false],
    [["10.1.2.3"], ["10.1.2.3/32"], true],
    [["10.1.2.3", "11.0.0.1"], ["10.0.0.0/8"], false],
    [["10.1.2.3", "11.0.0.1"], ["10.0.0.0/8", "11.0.0.0/8"], true],
    [["200.1.2.3"], ["200.0.0.0/8"], true],
    [["1.2.3.4"], ["0.0.0.0/0"], true],
    [["::1"], ["0.0.0.0/0"], false],
    [["2001:db8:1::/48"], ["2001:db8::/32"], true],
    [["2001:db9::/48"], ["2001:db8::/32"], false],
    [["::ffff:10.0.0.1"], ["::ffff:10.0.0.0/104"], true],
    [["::ffff:11.0.0.1"], ["::ffff:10.0.0.0/104"], false],
    [["1:2:3:4:5:6:7:8"], ["1:2:3:4::/64"], true],
    [["::/0"], ["::/0"], true],
    [["nonsense"], ["::/0"], false],
    [["10.0.0.1"], [], false],
    [[], ["10.0.0.0/8"], true],
  ])("%j lies within %j: %s", (networks, outer, expected) => {
    expect(areWithinNetworks(networks, outer)).toBe(expected);
  });
});
