import { describe, expect, it } from "vitest";
import type { PathRight } from "../contracts/service-topics.ts";
import { ACCESS_ACCOUNT, accessAccount, SERVICE_ACCOUNT, volumeAccount } from "../publishing/event-accounts.ts";
import { newestGap, notifiesOfAccount, seesAccount } from "./account-gaps.ts";

const [SERVICE, A, B] = [SERVICE_ACCOUNT, accessAccount("a/deep/"), accessAccount("b/")];
const reads = (...paths: string[]): PathRight[] => paths.map((path) => ({ path, capabilities: ["read"] }));

describe("a stream", () => {
  it.each([
    [{ "*": ["*"] }, null, [SERVICE, A, B]],
    [{ "*": ["*"] }, undefined, [A, B]],
    [{ Job: ["*"], Node: ["*"] }, null, []],
    [{ ACLPolicy: ["*"] }, undefined, [A, B]],
    [{ Secret: ["*"] }, null, [SERVICE, A, B]],
    [{ Secret: ["*"] }, undefined, []],
    [{ Lease: ["kv/app"] }, null, [SERVICE]],
    [{ Lease: ["a/kv/app"] }, null, [SERVICE, A]],
    [{ Secret: ["*"] }, reads("a/kv/*"), [SERVICE, A]],
    [{ Secret: ["*"] }, reads("+/kv/x"), [SERVICE, A, B]],
    [{ Secret: ["*"] }, reads("kv/*"), [SERVICE]],
    [{ Secret: ["*"] }, [{ path: "*", capabilities: ["update"] }] as PathRight[], []],
  ])("of %j with the paths %j has gaps of %j", (topics, paths, expected) => {
    const filter = { topics: topics as Record<string, string[]>, ...(paths !== undefined && { paths }) };
    const all = [SERVICE, A, B, ACCESS_ACCOUNT, volumeAccount("prod")];
    expect(all.filter((account) => seesAccount(filter, account))).toEqual(expected);
  });
});

describe("a subscription to event notifications", () => {
  it.each([
    ["", [], null, [SERVICE]],
    ["", ["*"], null, [SERVICE, A, B]],
    ["", ["/a/*"], null, [SERVICE, A]],
    ["", ["a*"], null, [SERVICE, A]],
    ["a/deep/", [], null, [A]],
    ["a/", ["x"], null, [A]],
    ["", ["*"], reads("b/kv/*"), [SERVICE, B]],
    ["", ["*"], undefined, []],
  ])("in %j with the namespaces %j and the paths %j has gaps of %j", (namespace, namespaces, paths, expected) => {
    const request = { namespace, namespaces };
    expect([SERVICE, A, B].filter((account) => notifiesOfAccount(request, paths, account))).toEqual(expected);
  });
});

it("the newest gap is that of the accounts that a reader may see", () => {
  const gaps = [
    { account: "x", upTo: 3 },
    { account: "y", upTo: 7 },
    { account: "z", upTo: 5 },
  ];
  expect(newestGap(gaps, (account) => account !== "y")).toBe(5);
  expect(newestGap(gaps, () => false)).toBe(0);
});
