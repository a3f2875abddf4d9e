import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { placedName } from "../../src/platform/place.ts";
import { Settings } from "../../src/platform/settings.ts";
import { SERVICE_ACCOUNT } from "../../src/publishing/event-accounts.ts";
import { eventLog } from "../../src/rpc/stubs.ts";
import { randomFrom } from "../crash/random.ts";
import { amount } from "../support/long.ts";
import { holderOf, issue, path, policies } from "./access.ts";
import { mountAws, openAwsAccount } from "./aws-helpers.ts";
import { del, get, mountKv, put, send } from "./client.ts";
import { creds, dynamicRole, mountEngine, openTenant, revoke, succeeded, writeRole } from "./engine-helpers.ts";
import { evictObject } from "./evict-all.ts";
import { closeSockets, requestSubscription, subscribe } from "./notification-sockets.ts";
import { append, appendKeys, enableServiceEvents, event, killOnly, withSettings } from "./streams.ts";

/* Event notifications: rights, resume, namespaces and the life of a subscription. */

beforeEach(() => enableServiceEvents("Secret,Lease,Engine"));
afterEach(closeSockets);
afterAll(() => enableServiceEvents(Settings.parse({}).SERVICE_EVENTS));

const write = (name: string, value = "1") => put(`/v1/kv/data/${name}`, { data: { value } });
const log = () => env.EVENT_LOG.getByName("log");

/** The relay that serves the subscriptions of a token. */
async function relayOf(token = "root"): Promise<DurableObjectStub> {
  const { accessor } = (await send("POST", "/v1/auth/token/lookup", { token })).body.data;
  return env.EVENT_RELAY.getByName(placedName("notifications-anywhere", accessor, 1)) as DurableObjectStub;
}

const subscribes = (pattern: string) => path(`sys/events/subscribe/${pattern}`, "read");
/** A rule that shows events of types on a path. */
const seen = (at: string, capabilities: string[], types: string[]) =>
  `path "${at}" { capabilities = ${JSON.stringify(capabilities)} subscribe_event_types = ${JSON.stringify(types)} }\n`;

/** Of the test with kills, whose long run has as many as the promise is stated for. */
const KILLS = amount(4, 300);
const SEED = 7;
const storeOf = async (mount: string) => env.KV_STORE.getByName((await get(`/v1/sys/mounts/${mount}`)).body.data.uuid);

describe("rights", () => {
  beforeEach(() => mountKv("kv"));

  it("need read on the path of the subscription, with its pattern", async () => {
    for (const [rules, status] of [
      [subscribes("kv*"), 101],
      [subscribes("kv-v2/*"), 403],
      [path("sys/events/subscribe/kv*", "list"), 403],
      [path("sys/events/subscribe/*", "read") + path("sys/events/subscribe/kv*", "deny"), 403],
    ] as const) {
      const { client_token: token } = await holderOf(rules);
      const response = await requestSubscription("kv%2A?json=true", { token });
      expect([rules, response.status]).toEqual([rules, status]);
      response.webSocket?.accept();
      response.webSocket?.close();
    }
  });

  it.each([
    [["list", "subscribe"], ["kv*"], ["kv-v2/data-write kv/data/app/a", "kv-v2/metadata-write kv/metadata/app/a"]],
    [["list", "subscribe"], ["kv-v2/metadata-*"], ["kv-v2/metadata-write kv/metadata/app/a"]],
    [["subscribe"], ["*"], []],
    [["list"], ["*"], []],
    [["read", "update", "list"], ["*"], []],
    [["list", "subscribe"], [], []],
    [["list", "subscribe"], ["lease/*"], []],
  ])("%j with %j on a path show %j", async (capabilities, types, expected) => {
    const rules = ["kv/data/app/*", "kv/metadata/app/*"].map((at) => seen(at, capabilities, types)).join("");
    const end = seen("kv/data/end", ["list", "subscribe"], ["*"]);
    const { client_token: token } = await holderOf(subscribes("*") + rules + end);
    const stream = await subscribe("*?json=true", { token });
    await write("app/a");
    await write("other");
    await put("/v1/kv/metadata/app/a", { max_versions: 3 });
    await write("end");
    expect(await stream.events(expected.length + 1)).toEqual([...expected, "kv-v2/data-write kv/data/end"]);
  });

  it("add up over policies", async () => {
    const one = seen("kv/data/*", ["list"], ["kv-v2/data-write"]);
    const two = seen("kv/data/*", ["subscribe"], ["kv-v2/data-delete"]);
    await policies({ one: subscribes("*") + one, two });
    const { client_token: token } = await issue({ policies: ["one", "two"] });
    const stream = await subscribe("*?json=true", { token });
    await write("a");
    await del("/v1/kv/data/a");
    expect(await stream.events(2)).toEqual(["kv-v2/data-write kv/data/a", "kv-v2/data-delete kv/data/a"]);
  });

  it("change with the policy, at the event of the change", async () => {
    const on = (name: string) => subscribes("*") + seen(`kv/data/${name}`, ["list", "subscribe"], ["*"]);
    const { client_token: token, policies: held } = await holderOf(on("a"));
    const stream = await subscribe("*?json=true", { token });
    await write("a");
    expect(await stream.events(1)).toEqual(["kv-v2/data-write kv/data/a"]);
    await policies({ [held[0]]: on("b") });
    await write("a");
    await write("b");
    expect(await stream.events(1)).toEqual(["kv-v2/data-write kv/data/b"]);
  });

  it.each([
    ["revocation", async (token: string) => void (await put("/v1/auth/token/revoke", { token }))],
    [
      "the loss of read",
      async (_token: string, policy: string) =>
        void (await policies({ [policy]: seen("kv/*", ["list", "subscribe"], ["*"]) })),
    ],
  ])("end an idle subscription with 1000 at %s", async (_name, end) => {
    const rules = subscribes("*") + seen("kv/*", ["list", "subscribe"], ["*"]);
    const { client_token: token, policies: held } = await holderOf(rules);
    const stream = await subscribe("*?json=true", { token });
    await end(token, held[0]);
    expect(await stream.closed()).toEqual({ code: 1000, reason: "permission denied" });
  });

  it("end with the token's time", async () => {
    await policies({ short: subscribes("*") });
    const { client_token: token } = await issue({ policies: ["short"], ttl: "5s", explicit_max_ttl: "5s" });
    const stream = await subscribe("*?json=true", { token });
    expect((await stream.closed()).code).toBe(1000);
  });

  it("show no event to a token that may only open the subscription", async () => {
    const { client_token: token } = await holderOf(subscribes("*") + seen("kv/data/end", ["list", "subscribe"], ["*"]));
    const stream = await subscribe("*?json=true", { token });
    await write("a");
    await write("end");
    expect(await stream.events(1)).toEqual(["kv-v2/data-write kv/data/end"]);
  });
});

describe("engines and leases", () => {
  it("report the life of a role and a lease by upstream's names", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    const leases = await subscribe("lease*?json=true");
    const engine = await subscribe("azure/*?json=true");
    await writeRole("ops", dynamicRole(tenant));
    await writeRole("ops", dynamicRole(tenant));
    const issued = succeeded(await creds("ops"));
    const id = issued.body.lease_id;
    await put("/v1/sys/leases/renew", { lease_id: id });
    succeeded(await revoke(id));
    const no = { fault: "error", status: 400, code: "Request_BadRequest", message: "no" } as const;
    await tenant.fault({ operation: "CreateApplication", ...no });
    expect((await creds("ops")).status).toBe(400);
    await del("/v1/cloud-b/roles/ops");
    const of = async (stream: typeof leases, count: number) => {
      const found: unknown[] = [];
      while (found.length < count) {
        const { data } = await stream.nextEvent();
        const { path: at, operation, modified, name, lease_id } = data.event.metadata;
        found.push([data.event_type, operation, modified, at, name ?? lease_id, data.plugin_info?.["plugin"]]);
      }
      return found;
    };
    const at = "cloud-b/creds/ops";
    expect(await of(leases, 3)).toEqual([
      ["lease/issued", "issue", "true", at, id, undefined],
      ["lease/renewed", "renew", "true", at, id, undefined],
      ["lease/revoked", "revoke", "true", at, id, undefined],
    ]);
    expect(await of(engine, 5)).toEqual([
      ["azure/role-create", "role-create", "true", "cloud-b/roles/ops", "ops", "azure"],
      ["azure/role-update", "role-update", "true", "cloud-b/roles/ops", "ops", "azure"],
      ["azure/creds-create", "creds-create", "false", at, "ops", "azure"],
      ["azure/creds-create-fail", "creds-create-fail", "false", at, "ops", "azure"],
      ["azure/role-delete", "role-delete", "true", "cloud-b/roles/ops", "ops", "azure"],
    ]);
  });

  it("report the end of a lease's time before its revocation", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    await writeRole("ops", { ...dynamicRole(tenant), ttl: "5s" });
    const stream = await subscribe("lease*?json=true");
    const { lease_id } = succeeded(await creds("ops")).body;
    for (const type of ["issued", "expired", "revoked"]) {
      const { data } = await stream.nextEvent();
      expect([data.event_type, data.event.metadata["lease_id"]]).toEqual([`lease/${type}`, lease_id]);
    }
  });

  it("of AWS are named likewise, with the paths of its configuration", async () => {
    const account = await openAwsAccount();
    const stream = await subscribe("aws/*?json=true");
    await mountAws(account);
    succeeded(await put("/v1/aws/config/lease", { lease: "1h", lease_max: "2h" }));
    succeeded(await put("/v1/aws/config/rotate-root", {}));
    succeeded(await put("/v1/aws/roles/ops", { credential_type: "iam_user" }));
    succeeded(await get("/v1/aws/creds/ops"));
    const found: unknown[] = [];
    while (found.length < 5) {
      const { data } = await stream.nextEvent();
      found.push([data.event_type, data.event.metadata.path, data.event.metadata.modified]);
    }
    expect(found).toEqual([
      ["aws/config-write", "aws/config/root", "true"],
      ["aws/config-write", "aws/config/root", "true"],
      ["aws/rotate", "aws/config/rotate-root", "true"],
      ["aws/role-create", "aws/roles/ops", "true"],
      ["aws/creds-create", "aws/creds/ops", "false"],
    ]);
  });
});

describe("namespaces", () => {
  it("are the request's own, and those that a pattern below it matches", async () => {
    for (const name of ["one", "two"]) await put(`/v1/sys/namespaces/${name}`, {});
    await put("/v1/one/sys/namespaces/child", {});
    for (const place of ["", "one/", "two/", "one/child/"]) {
      await put(`/v1/${place}sys/mounts/kv`, { type: "kv", options: { version: "2" } });
    }
    const streams = {
      root: await subscribe("kv*?json=true"),
      all: await subscribe("kv*?json=true&namespaces=%2A"),
      some: await subscribe("kv*?json=true&namespaces=tw*"),
      one: await subscribe("kv*?json=true", { headers: { "X-Vault-Namespace": "one" } }),
      below: await subscribe("kv*?json=true&namespaces=*", { headers: { "X-Vault-Namespace": "one/" } }),
    };
    const all = await subscribe("kv*?json=true&namespaces=*");
    for (const place of ["one/", "two/", "one/child/", ""]) {
      await put(`/v1/${place}kv/data/a`, { data: {} });
      const { data } = await all.nextEvent();
      expect([data.namespace, data.event.metadata["path"]]).toEqual([place || undefined, "kv/data/a"]);
    }
    const expected = {
      root: [""],
      all: ["one/", "two/", "one/child/", ""],
      some: ["two/", ""],
      one: ["one/"],
      below: ["one/", "one/child/"],
    };
    for (const [name, stream] of Object.entries(streams)) {
      const places: string[] = [];
      const wanted = expected[name as keyof typeof expected];
      while (places.length < wanted.length) places.push((await stream.nextEvent()).data.namespace ?? "");
      expect([name, places]).toEqual([name, wanted]);
      expect([name, stream.unread()]).toEqual([name, 0]);
    }
  });
});

describe("formats", () => {
  it("are upstream's protobuf message by default", async () => {
    await mountKv("kv");
    const [binary, json] = [await subscribe("kv*"), await subscribe("kv*?json=true")];
    await write("a");
    const frame = Buffer.from((await binary.next()) as ArrayBuffer);
    const { data } = await json.nextEvent();
    const { fields, texts } = decode(frame);
    expect(texts.get(3)).toEqual(["kv-v2/data-write"]);
    const event = decode(fields.get(1)?.[0] ?? Buffer.alloc(0));
    expect(event.texts.get(1)).toEqual([data.event.id]);
    const members = (decode(event.fields.get(2)?.[0] ?? Buffer.alloc(0)).fields.get(1) ?? []).map((member) => {
      const { texts: key, fields: value } = decode(member);
      return [key.get(1)?.[0], decode(value.get(2)?.[0] ?? Buffer.alloc(0)).texts.get(3)?.[0]];
    });
    expect(Object.fromEntries(members)).toEqual(data.event.metadata);
    const plugin = decode(fields.get(4)?.[0] ?? Buffer.alloc(0)).texts;
    expect([1, 2, 3, 4, 6].map((member) => plugin.get(member)?.[0])).toEqual([
      "secret",
      data.plugin_info?.["mount_accessor"],
      "kv/",
      "kv",
      "2",
    ]);
  });

  it("are server-sent events for a client that accepts them, with the id to resume from", async () => {
    await mountKv("kv");
    const open = (headers: Record<string, string> = {}) =>
      exports.default.fetch("https://x/v1/sys/events/subscribe/kv*", {
        headers: { "X-Vault-Token": "root", Accept: "text/event-stream", ...headers },
      });
    const response = await open();
    expect([response.status, response.headers.get("Content-Type")]).toEqual([200, "text/event-stream"]);
    await write("a");
    const [id, first] = await serverSent(response);
    expect(JSON.parse(first).data.event.metadata).toMatchObject({ path: "kv/data/a", index: id });
    await write("b");
    const [, second] = await serverSent(await open({ "Last-Event-ID": id }));
    expect(JSON.parse(second).data.event.metadata).toMatchObject({ path: "kv/data/b" });
  });
});

/** Members of length-delimited fields of a protobuf message, by number. */
function decode(bytes: Buffer) {
  const fields = new Map<number, Buffer[]>();
  const texts = new Map<number, string[]>();
  for (let at = 0; at < bytes.length; ) {
    const tag = bytes[at] ?? 0;
    expect(tag & 7).toBe(2);
    let [length, shift] = [0, 0];
    do {
      at += 1;
      length |= ((bytes[at] ?? 0) & 0x7f) << shift;
      shift += 7;
    } while ((bytes[at] ?? 0) & 0x80);
    const value = bytes.subarray(at + 1, at + 1 + length);
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value]);
    texts.set(tag >> 3, [...(texts.get(tag >> 3) ?? []), value.toString()]);
    at += 1 + length;
  }
  return { fields, texts };
}

/** The first event of a response; it is cancelled then. */
async function serverSent(response: Response): Promise<[id: string, data: string]> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  for (let text = ""; ; text += decoder.decode((await reader?.read())?.value, { stream: true })) {
    const [, id = "", data = ""] = /id: (\d+)\ndata: (.*)\n\n/.exec(text) ?? [];
    if (data === "") continue;
    await reader?.cancel();
    return [id, data];
  }
}

describe("resume", () => {
  beforeEach(() => mountKv("kv"));

  const indexOf = (frame: { data: { event: { metadata: Readonly<Record<string, string>> } } }) =>
    Number(frame.data.event.metadata["index"]);

  it("starts at the asked index, and says where", async () => {
    const first = await subscribe("kv*?json=true");
    await write("a");
    await write("b");
    const a = await first.nextEvent();
    const b = await first.nextEvent();
    const again = await subscribe(`kv*?json=true&index=${indexOf(a) + 1}`);
    expect(again.response.headers.get("X-Nomad-Start-Index")).toBe(String(indexOf(a) + 1));
    expect(await again.nextEvent()).toEqual(b);
    await write("c");
    expect(await again.events(1)).toEqual(["kv-v2/data-write kv/data/c"]);
    const whole = await subscribe("kv*?json=true&index=0");
    expect(await whole.events(3)).toEqual(["a", "b", "c"].map((name) => `kv-v2/data-write kv/data/${name}`));
  });

  it("says a gap as an event", async () => {
    await write("lost");
    const lost = indexOf(await (await subscribe("kv*?json=true&index=0")).nextEvent());
    await withSettings({ EVENT_BUFFER_LINES: "10" }, [log() as DurableObjectStub]);
    for (const key of "abcdefghijklmnopqrstuvwxyz") await appendKeys(key);
    const { oldest } = await eventLog(env).bounds();
    const stream = await subscribe(`kv*?json=true&index=${lost}`);
    expect(stream.response.headers.get("X-Nomad-Oldest-Index")).toBe(String(oldest));
    const { data } = await stream.nextEvent();
    expect([data.event_type, data.event.metadata]).toEqual([
      "events/gap",
      { operation: "gap", modified: "false", from: String(lost), index: String(oldest - 1) },
    ]);
    await write("next");
    expect(await stream.events(1)).toEqual(["kv-v2/data-write kv/data/next"]);
  });

  it("says a gap of its account's lines as an event, also while older lines of others are there", async () => {
    const [older] = await appendKeys("older");
    await withSettings({ EVENT_BUFFER_LINES: "20" }, [log() as DurableObjectStub]);
    const Secret = { Namespace: "", Mount: "kv/", MountType: "kv", Api: 2, Operation: "data-write", Path: "a" };
    const written = event({
      Topic: "Secret",
      Namespace: "",
      FilterKeys: ["kv/data/a"],
      Account: SERVICE_ACCOUNT,
      Payload: { Secret },
    });
    await append(...Array.from({ length: 30 }, () => [written]));
    const [gap] = (await eventLog(env).bounds()).gaps ?? [];
    await evictObject(log() as DurableObjectStub);
    const stream = await subscribe(`kv*?json=true&index=${older}`);
    expect(stream.response.headers.get("X-Nomad-Oldest-Index")).toBe(String(Number(gap?.upTo) + 1));
    const { data } = await stream.nextEvent();
    expect([data.event_type, data.event.metadata]).toEqual([
      "events/gap",
      { operation: "gap", modified: "false", from: String(older), index: String(gap?.upTo) },
    ]);
    expect(await stream.events(2)).toEqual(Array(2).fill("kv-v2/data-write kv/data/a"));
  });

  it("has each event once and in order, over kills of the relay, the log and the store", { timeout: 0 }, async () => {
    const random = randomFrom(SEED);
    const relay = await relayOf();
    const expected: string[] = [];
    const read: string[] = [];
    let next = (await eventLog(env).bounds()).newest + 1;
    let open = await subscribe(`kv*?json=true&index=${next}`);
    const take = async () => {
      const frame = await open.nextEvent();
      read.push(frame.data.event.metadata["path"] ?? "");
      next = indexOf(frame) + 1;
    };
    const store = async (name: string) => {
      await write(name);
      expected.push(`kv/data/${name}`);
    };
    for (let round = 0; round < KILLS; round += 1) {
      const victim = random() < 0.5 ? "relay" : random() < 0.5 ? "log" : "store";
      await store(`${round}-a`);
      await store(`${round}-b`);
      // A part of them may have arrived.
      for (let some = Math.floor(random() * 3); some > 0 && open.unread() > 0; some -= 1) await take();
      if (victim === "store") await killOnly(await storeOf("kv"));
      else await killOnly(victim === "relay" ? relay : (log() as DurableObjectStub));
      await store(`${round}-c`);
      if (victim !== "relay") continue;
      open.socket.close();
      open = await subscribe(`kv*?json=true&index=${next}`);
    }
    await store("end");
    while (read.at(-1) !== "kv/data/end") await take();
    expect(read).toEqual(expected);
    expect(open.unread()).toBe(0);
  });
});

describe("the life of a subscription", () => {
  beforeEach(() => mountKv("kv"));

  it("outlives hibernation of its relay, without a lost or a double event", async () => {
    const rules = subscribes("*") + seen("kv/data/*", ["list", "subscribe"], ["*"]);
    const { client_token: token } = await holderOf(rules);
    const stream = await subscribe("*?json=true", { token });
    const relay = await relayOf(token);
    for (const name of ["a", "b"]) {
      await write(name);
      expect(await stream.events(1)).toEqual([`kv-v2/data-write kv/data/${name}`]);
      await vi.waitFor(() => evictObject(relay));
    }
    await write("c");
    expect(await stream.events(1)).toEqual(["kv-v2/data-write kv/data/c"]);
    await vi.waitFor(() => evictObject(relay));
    await put("/v1/auth/token/revoke", { token });
    expect(await stream.closed()).toMatchObject({ code: 1000 });
  });

  it("does not wake its relay for lines of other topics", async () => {
    const stream = await subscribe("*?json=true");
    const relay = await relayOf();
    await write("a");
    await stream.events(1);
    const notify = await runInDurableObject(relay, (object) =>
      vi.spyOn(Object.getPrototypeOf(object) as { notify: () => number }, "notify"),
    );
    await append([
      { Topic: "Job", Type: "JobRegistered", Key: "web", Namespace: "default", FilterKeys: null, Payload: {} },
    ]);
    await write("b");
    await stream.events(1);
    expect(notify).toHaveBeenCalledTimes(1);
    notify.mockRestore();
  });

  it("opens while a quota counts its request, with the quota's headers", async () => {
    await put("/v1/sys/quotas/rate-limit/all", { rate: 1_000 });
    await put("/v1/sys/quotas/config", { enable_rate_limit_response_headers: true });
    const stream = await subscribe("*?json=true");
    expect(stream.response.headers.get("X-RateLimit-Limit")).not.toBeNull();
    await write("a");
    expect(await stream.events(1)).toEqual(["kv-v2/data-write kv/data/a"]);
    await del("/v1/sys/quotas/rate-limit/all");
  });

  it("is closed with 1008 when its client sends data", async () => {
    const stream = await subscribe("*?json=true");
    stream.socket.send("hello");
    expect((await stream.closed()).code).toBe(1008);
  });

  it("is closed with 1013 when its client takes nothing", { timeout: 60_000 }, async () => {
    await withSettings({ EVENT_STALL_MS: "200" }, [await relayOf()]);
    const [slow, quick] = [await subscribe("*?json=true", { reads: false }), await subscribe("*?json=true")];
    const Payload = (n: number) => ({
      Secret: {
        Namespace: "",
        Mount: "kv/",
        MountType: "kv",
        Api: 2,
        Operation: "data-write",
        Path: `${n}${"x".repeat(60_000)}`,
      },
    });
    const line = (n: number) => [
      {
        Topic: "Secret",
        Type: "SecretWritten",
        Key: `kv/${n}`,
        Namespace: "",
        FilterKeys: ["kv/data/a"],
        Payload: Payload(n),
      },
    ];
    for (let n = 0; n < 8; n += 1) await append(line(n));
    await quick.events(8);
    await scheduler.wait(500);
    await append(line(9));
    await quick.events(1);
    slow.socket.accept();
    expect((await slow.closed()).code).toBe(1013);
  });

  it("leaves the log's list of relays with its last subscriber", async () => {
    const stream = await subscribe("*?json=true");
    await write("a");
    await stream.events(1);
    stream.socket.close();
    await stream.closed();
    await write("b");
    const listed = () =>
      runInDurableObject(log() as DurableObjectStub, (_object, { storage }) =>
        storage.sql.exec("SELECT name FROM notified_relays").toArray(),
      );
    await vi.waitFor(async () => expect(await listed()).toEqual([]));
    const again = await subscribe("*?json=true");
    await write("c");
    expect(await again.events(1)).toEqual(["kv-v2/data-write kv/data/c"]);
  });
});
