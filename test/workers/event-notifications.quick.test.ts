import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Settings } from "../../src/platform/settings.ts";
import { del, mountKv, patch, put, send } from "./client.ts";
import { closeSockets, requestSubscription, subscribe } from "./notification-sockets.ts";
import { enableServiceEvents } from "./streams.ts";

/* The exchange of upstream's clients with `sys/events/subscribe`: each is written down from its public source. */

beforeEach(() => enableServiceEvents("Secret,Lease,Engine"));
afterEach(closeSockets);
afterAll(() => enableServiceEvents(Settings.parse({}).SERVICE_EVENTS));

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/;

describe("GET sys/events/subscribe/:eventType", () => {
  it("sends a CloudEvent as JSON and a line feed", async () => {
    await mountKv("secret");
    const stream = await subscribe("kv%2A?json=true", { headers: { "X-Vault-Namespace": "" } });
    expect(stream.response.status).toBe(101);
    await put("/v1/secret/data/foo", { data: { password: "hunter2" } });
    const text = String(await stream.next());
    expect(text).not.toContain("hunter2");
    expect(text.endsWith("}\n")).toBe(true);
    const frame = JSON.parse(text);
    expect(frame).toEqual({
      id: expect.stringMatching(UUID),
      source: "vault://sallyport",
      specversion: "1.0",
      type: "*",
      data: {
        event: {
          id: frame.id,
          metadata: {
            current_version: "1",
            data_path: "secret/data/foo",
            index: expect.stringMatching(/^\d+$/),
            modified: "true",
            oldest_version: "0",
            operation: "data-write",
            path: "secret/data/foo",
          },
        },
        event_type: "kv-v2/data-write",
        plugin_info: {
          mount_class: "secret",
          mount_accessor: expect.stringMatching(/^kv_[0-9a-f]{8}$/),
          mount_path: "secret/",
          plugin: "kv",
          version: "2",
        },
      },
      datacontentype: "application/cloudevents",
      time: expect.stringMatching(TIME),
    });
    expect(Object.keys(frame.data.event.metadata)).toEqual([...Object.keys(frame.data.event.metadata)].sort());
  });

  it("has each event of both KV APIs, with upstream's paths", async () => {
    await mountKv("kv");
    await put("/v1/sys/mounts/old", { type: "kv" });
    const stream = await subscribe("kv*?json=true");
    await put("/v1/kv/data/a/b", { data: { x: "1" } });
    await patch("/v1/kv/data/a/b", { data: { x: "2" } });
    await del("/v1/kv/data/a/b");
    await send("POST", "/v1/kv/undelete/a/b", { versions: [2] });
    await send("POST", "/v1/kv/delete/a/b", { versions: [1] });
    await send("POST", "/v1/kv/destroy/a/b", { versions: [1, 2] });
    await put("/v1/kv/metadata/a/b", { max_versions: 4 });
    await patch("/v1/kv/metadata/a/b", { max_versions: 5 });
    await put("/v1/kv/config", { max_versions: 6 });
    await del("/v1/kv/metadata/a/b");
    await put("/v1/old/c", { x: "1" });
    await del("/v1/old/c");
    const seen: [string, ...unknown[]][] = [];
    while (seen.length < 12) {
      const { data } = await stream.nextEvent();
      const { index: _, modified, path, data_path = null, ...others } = data.event.metadata;
      expect([modified, others["operation"]]).toEqual(["true", data.event_type.split("/")[1]]);
      const { operation: _operation, ...more } = others;
      seen.push([data.event_type, path, data_path, more]);
    }
    // Mounts publish independently of each other.
    seen.sort(([a], [b]) => Number(a.startsWith("kv-v1")) - Number(b.startsWith("kv-v1")));
    const two = { current_version: "2", oldest_version: "0" };
    expect(seen).toEqual([
      ["kv-v2/data-write", "kv/data/a/b", "kv/data/a/b", { current_version: "1", oldest_version: "0" }],
      ["kv-v2/data-patch", "kv/data/a/b", "kv/data/a/b", two],
      ["kv-v2/data-delete", "kv/data/a/b", null, two],
      ["kv-v2/undelete", "kv/undelete/a/b", "kv/data/a/b", { ...two, undeleted_versions: "[2]" }],
      ["kv-v2/delete", "kv/delete/a/b", null, { ...two, deleted_versions: "[1]" }],
      ["kv-v2/destroy", "kv/destroy/a/b", null, { ...two, destroyed_versions: "[1,2]" }],
      ["kv-v2/metadata-write", "kv/metadata/a/b", "kv/metadata/a/b", {}],
      ["kv-v2/metadata-patch", "kv/metadata/a/b", "kv/metadata/a/b", {}],
      ["kv-v2/config-write", "kv/config", "kv/config", {}],
      ["kv-v2/metadata-delete", "kv/metadata/a/b", null, two],
      ["kv-v1/write", "old/c", "old/c", {}],
      ["kv-v1/delete", "old/c", null, {}],
    ]);
  });

  it.each([
    ["kv-v2/data-patch?json=true", ["kv-v2/data-patch"]],
    ["kv-v2%2Fmetadata-%2A?json=1", ["kv-v2/metadata-write"]],
    ["*?json=true&filter=operation%20%3D%3D%20%22data-patch%22", ["kv-v2/data-patch"]],
    ["*?json=true&filter=data_path%20matches%20%22end%24%22", ["kv-v2/data-write"]],
    [
      "*?json=true&filter=source_plugin_mount%20%3D%3D%20%22kv%2F%22%20and%20operation%20!%3D%20%22data-write%22",
      ["kv-v2/data-patch", "kv-v2/metadata-write"],
    ],
  ])("%s has only what it selects", async (path, expected) => {
    await mountKv("kv");
    const stream = await subscribe(path);
    await put("/v1/kv/data/a", { data: { x: "1" } });
    await patch("/v1/kv/data/a", { data: { x: "2" } });
    await put("/v1/kv/metadata/a", { max_versions: 4 });
    await put("/v1/kv/data/end", { data: { x: "1" } });
    const all = await subscribe("*?json=true&index=0");
    await all.events(4);
    const seen: string[] = [];
    while (seen.length < expected.length) seen.push((await stream.nextEvent()).data.event_type);
    expect(seen).toEqual(expected);
    expect(stream.unread()).toBe(0);
  });

  it.each([
    ["kv*", { json: "maybe" }, 400, '{"errors":["invalid parameter for JSON: maybe"]}'],
    ["", {}, 400, '{"errors":["did not specify eventType to subscribe to"]}'],
    ["kv*", { filter: "a ==" }, 400, /^Error subscribing: .*/],
    ["kv*", { filter: 'secret == "x"' }, 400, /^Error subscribing: .*secret/],
    ["kv*", { index: "x" }, 400, /Unable to parse index/],
    ["kv*", { namespaces: "a".repeat(9_000) }, 400, /too long/],
  ])("refuses a request before the upgrade: %s", async (pattern, query, status, body) => {
    const response = await requestSubscription(`${pattern}?${new URLSearchParams(query as Record<string, string>)}`);
    const text = await response.text();
    expect([response.status, text]).toEqual([status, typeof body === "string" ? body : expect.stringMatching(body)]);
  });

  it("needs a token, and an upgrade or a stream", async () => {
    const statuses = [
      await requestSubscription("kv*", { token: null }),
      await requestSubscription("kv*", { token: "wrong" }),
      await requestSubscription("kv*", { headers: { Upgrade: "h2c" } }),
    ].map(({ status, headers }) => [status, headers.get("Upgrade")]);
    expect(statuses).toEqual([
      [403, null],
      [403, null],
      [426, "websocket"],
    ]);
  });

  it("says that a topic is disabled, instead of a silent subscription", async () => {
    await enableServiceEvents("Lease");
    const refused = await requestSubscription("azure/*?json=true");
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining("SERVICE_EVENTS")]);
    // Events of secrets are published on demand.
    for (const pattern of ["*", "lease*", "database*", "kv-v2/*"]) {
      expect((await subscribe(`${pattern}?json=true`)).response.status).toBe(101);
    }
  });
});
