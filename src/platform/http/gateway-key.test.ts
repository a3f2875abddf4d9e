import { expect, it } from "vitest";
import { GATEWAY_KEY_HEADER, refusedBesideGateway } from "./gateway-key.ts";

it.each([
  ["on the platform, where no key is bound", undefined, null, true],
  ["with the gateway's key", "k".repeat(64), "k".repeat(64), true],
  ["without a key", "k".repeat(64), null, false],
  ["with an empty key", "k".repeat(64), "", false],
  ["with another key", "k".repeat(64), "j".repeat(64), false],
  ["with the beginning of the key", "k".repeat(64), "k".repeat(63), false],
])("a request %s passes: key %j, given %j: %j", async (_, key, given, passes) => {
  const headers = given === null ? {} : { [GATEWAY_KEY_HEADER]: given };
  const request = new Request("http://127.0.0.1/v1/sys/health", {
    headers: { ...headers, "CF-Connecting-IP": "10.0.0.1" },
  });
  const refused = refusedBesideGateway(request, key === undefined ? {} : { GATEWAY_KEY: key });
  expect(refused?.status ?? 200).toBe(passes ? 200 : 403);
});
