import { describe, expect, it } from "vitest";
import { isListed, isLoopback } from "./hosts.ts";

describe("a list of hosts", () => {
  it.each([
    ["https://kv.example.com/", "kv.example.com", true],
    ["https://kv.example.com:8443/", "kv.example.com", true],
    ["https://kv.example.com:8443/", "other.example, KV.example.com:8443", true],
    ["https://kv.example.com:8444/", "kv.example.com:8443", false],
    ["https://kv.example.com/", "*.example.com", true],
    ["https://example.com/", "*.example.com", false],
    ["https://badexample.com/", "*.example.com", false],
    ["https://kv.example.com/", "*", false],
    ["https://kv.example.com/", "*.", false],
    ["https://kv.example.com/", "", false],
    ["https://kv.example.com/", undefined, false],
  ])("%s in %j: %j", (url, list, listed) => {
    expect(isListed(new URL(url), list)).toBe(listed);
  });
});

it.each([
  ["http://127.0.0.1:1/", true],
  ["http://127.1/", true],
  ["http://0x7f000001/", true],
  ["http://localhost/", true],
  ["http://[::1]/", true],
  ["http://127.0.0.1.example.com/", false],
  ["http://localhost.example.com/", false],
  ["http://10.0.0.1/", false],
])("%s is loopback: %j", (url, loopback) => {
  expect(isLoopback(new URL(url).hostname)).toBe(loopback);
});
