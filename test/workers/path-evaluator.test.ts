import { beforeEach, describe, expect, it } from "vitest";
import { holderOf, path } from "./access.ts";
import { get, mountKv, put, send } from "./client.ts";
import { makeDestination, write } from "./sync-helpers.ts";

/** Further rights that a request needs, beyond those on its own path, are evaluated by the same function. */

const SYNC = path("sys/sync/*", "create", "update", "read");
const rule = (pattern: string, more: string) => `path "${pattern}" { capabilities = ["read"] ${more} }\n`;

describe("a rule that allows only wrapped responses", () => {
  beforeEach(async () => {
    await mountKv();
    await write("app", { a: 1 });
  });

  it.each(['min_wrapping_ttl = "10s"', 'max_wrapping_ttl = "60s"', "min_wrapping_ttl = 1"])(
    "(%s) returns 403 for open answers on every route",
    async (wrapped) => {
      await makeDestination("in-mem", "m");
      const rules =
        SYNC + rule("kv/data/app", wrapped) + rule("kv/subkeys/app", wrapped) + path("kv/subkeys/*", "read");
      const { client_token: token } = await holderOf(rules + path("sys/capabilities-self", "update"));
      const refused = [
        await get("/v1/kv/data/app", { token }),
        await put(
          "/v1/sys/sync/destinations/in-mem/m/associations/set",
          { mount: "kv", secret_name: "app" },
          { token },
        ),
        await get("/v1/kv/subkeys/app", { token }),
        await get("/v1/kv/subkeys/app%3Fdepth=1", { token }),
        await get("/v1/kv/subkeys/app%3Fversion=1", { token }),
      ];
      expect(refused.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403]);
      for (const { text } of refused) expect(text).toContain("a policy allows only wrapped answers here");
      const { body } = await send(
        "POST",
        "/v1/sys/capabilities-self",
        { paths: ["kv/data/app", "kv/subkeys/x"] },
        { token },
      );
      expect(body.data).toEqual({ "kv/data/app": ["read"], "kv/subkeys/x": ["read"] });
    },
  );
});

it("GET subkeys/PATH%3Fdepth=1 follows the parameter constraints of the rule", async () => {
  await mountKv();
  await write("app", { a: { b: 1 } });
  const rules = rule("kv/subkeys/app", "denied_parameters = { depth = [] }") + path("kv/subkeys/*", "read");
  const { client_token: token } = await holderOf(rules);
  expect((await get("/v1/kv/subkeys/app?depth=1", { token })).status).toBe(403);
  expect((await get("/v1/kv/subkeys/app%3Fdepth=1", { token })).status).toBe(403);
  expect((await get("/v1/kv/subkeys/app%3Fversion=1", { token })).status).toBe(200);
});

it("sys/capabilities agrees with the authorization of requests, for any spelling of names", async () => {
  await put("/v1/sys/mounts/azure", { type: "cloud-b" });
  const { client_token: token } = await holderOf(
    path("sys/policies/acl/*", "read") +
      path("sys/policies/acl/foo", "deny") +
      path("sys/policy/Bar", "deny") +
      path("azure/*", "read") +
      path("azure/roles/prod", "deny") +
      path("kv/*", "read") +
      path("kv/data/foo", "deny"),
  );
  const expected = {
    "sys/policies/acl/foo": ["deny"],
    "sys/policies/acl/FOO": ["deny"],
    "sys/policies/acl/Foo": ["deny"],
    "sys/policies/acl/other": ["read"],
    "sys/policy/BAR": ["deny"],
    "azure/roles/PROD": ["deny"],
    "azure/creds/Prod": ["read"],
    "kv/data/FOO": ["read"],
    "kv/data/foo": ["deny"],
  };
  const { body } = await send("POST", "/v1/sys/capabilities", { token, paths: Object.keys(expected) });
  expect(body.data).toEqual(expected);
});
