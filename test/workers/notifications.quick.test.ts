import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { EventLog } from "../../src/objects/event-log.ts";
import { KvStore } from "../../src/objects/kv-store.ts";
import { itRows } from "../support/rows.ts";
import { issue, policies } from "./access.ts";
import { del, get, list, mountKv, patch, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { mountEngine, openTenant } from "./engine-helpers.ts";
import { evictObject } from "./evict-all.ts";
import { channel, newAccount, rule } from "./messages.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { cloudABody, makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { newHook, SECRET } from "./webhooks.ts";

clock.moves = true;
const AT = "/v1/sys/notifications";
const PATH = "/T0001/B0001/token";

let time: ShiftedClock;
beforeEach(() => {
  time = new ShiftedClock();
});
afterEach(() => time.end());

const log = () => env.EVENT_LOG.getByName("log") as DurableObjectStub<EventLog>;

/** Lets time pass, and evaluates the rules. */
async function pass(seconds: number): Promise<void> {
  time.advance(seconds * 1000);
  await runInDurableObject(log(), (object) => object.alarm());
}

const pause = (disabled: boolean) => patch("/v1/sys/sync/config", { disabled });
const active = async () => (await get(`${AT}/active`)).body.data.active;

/** A Slack channel `ops`, and the titles that it has shown. */
async function slackChannel(name = "ops") {
  const account = newAccount();
  await channel(name, { type: "slack", url: account.at("slack", PATH) });
  const titles = async () => (await account.messages()).map(({ blocks }) => blocks[0].text.text);
  return { ...account, titles };
}

type Expiring = ReturnType<KvStore["expiring"]>;

/** The expiring secrets of engines by their uuid; null: as they are. */
function expiringIn(found: (uuid: string) => Expiring | Promise<Awaited<Expiring>> | null): void {
  const { expiring } = KvStore.prototype;
  vi.spyOn(KvStore.prototype, "expiring").mockImplementation(function (this: KvStore, ...given) {
    const { name } = (this as unknown as { context: { name: string } }).context;
    return (found(name) ?? expiring.apply(this, given)) as Expiring;
  });
}

describe("notifications", () => {
  it("sends what a rule found to a channel", async () => {
    const ops = await slackChannel();
    const hook = await newHook();
    await channel("hook", { type: "webhook", url: hook.url, secret: SECRET });
    await mountKv();
    await cloudA.begin();
    // Larger than the provider takes.
    await write("app", { a: "x".repeat(70_000) });
    await makeDestination("cloud-a-sm", "prod");
    await setAssociation("cloud-a-sm/prod", "app");
    await rule("sync", {
      condition: "sync-failing",
      channels: ["ops", "hook"],
      for: "1m",
      severity: "error",
      title: "{{condition}} ({{severity}})",
      text: "<{{rule}}>\n{{subjects}}",
    });
    await pass(20);
    expect(await active()).toMatchObject([{ rule: "sync", subject: "cloud-a-sm/prod", state: "pending" }]);
    await pass(100);
    await expect.poll(ops.titles).toEqual(["Sync fails (error)"]);
    const [message] = await ops.messages();
    expect(message.blocks[1].text.text).toBe("&lt;sync&gt;\n• cloud-a-sm/prod: 1 CLIENT_SIDE_ERROR");
    await expect.poll(hook.keys).toEqual(["sync"]);
    const [delivered] = await hook.received();
    expect(JSON.parse(delivered?.body ?? "").Lines[0].Events[0]).toMatchObject({
      Topic: "Notification",
      Type: "NotificationFiring",
      Payload: { Notification: { Rule: "sync", Status: "firing", Subjects: [{ Name: "cloud-a-sm/prod" }], Total: 1 } },
    });
    expect(await active()).toMatchObject([{ subject: "cloud-a-sm/prod", state: "firing" }]);
  });

  it("shows a rule and a channel as they were given", async () => {
    const ops = await slackChannel();
    const given = {
      name: "r",
      condition: "sync-queue-full",
      channels: ["ops"],
      subjects: ["queue", "q*"],
      for: 60,
      percent: 50,
      severity: "critical",
      group_by: "subject",
      repeat: 3600,
      recovery: false,
      quiet_hours: { from: "22:00", to: "06:30", days: ["mon", "sat"], time_zone: "Europe/Berlin" },
      title: "{{rule}}",
      text: "{{ subjects }}",
    };
    await rule("r", given);
    expect((await get(`${AT}/rules/r`)).body.data).toEqual(given);
    expect((await list(`${AT}/rules`)).body.data).toEqual({ keys: ["r"], key_info: { r: given } });
    await rule("b", { condition: "backup-missing", channels: ["ops"], within: "2d", for: "1h" });
    expect((await get(`${AT}/rules/b`)).body.data).toMatchObject({ within: 172_800, severity: "warning" });
    const shown = (await get(`${AT}/channels/ops`)).body.data;
    expect(shown).toMatchObject({ name: "ops", type: "slack", url: `${new URL(ops.at("slack", "")).origin}/…` });
    expect((await list(`${AT}/channels`)).body.data).toEqual({ keys: ["ops"], key_info: { ops: shown } });
    expect((await get("/v1/event/subscriptions")).body).toEqual([]);
    // A read that is sent back keeps the URL.
    await channel("ops", shown);
    expect((await put(`${AT}/channels/ops/test`, {})).body.data).toMatchObject({ delivered: true, error: null });
    expect(await ops.titles()).toEqual(["Test of the notification channel"]);
  });

  it("sends a condition that lasts once, its end, and its return", async () => {
    const ops = await slackChannel();
    await rule("paused", { condition: "sync-paused", channels: ["ops"] });
    await pause(true);
    await pass(61);
    await expect.poll(ops.titles).toEqual(["Sync is paused: sync"]);
    for (let minute = 0; minute < 3; minute++) await pass(61);
    await pause(false);
    await pass(61);
    await expect.poll(ops.titles).toEqual(["Sync is paused: sync", "Resolved: Sync is paused: sync"]);
    expect(await active()).toEqual([]);
    await pause(true);
    await pass(61);
    await expect.poll(async () => (await ops.titles()).length).toBe(3);
    expect(await ops.titles()).toMatchObject({ 2: "Sync is paused: sync" });
  });

  it("repeats a condition that lasts after the interval, and sends no recovery unless asked to", async () => {
    const ops = await slackChannel();
    await rule("paused", { condition: "sync-paused", channels: ["ops"], repeat: "10m", recovery: false });
    await pause(true);
    for (let minute = 0; minute < 9; minute++) await pass(61);
    await expect.poll(async () => (await ops.titles()).length).toBe(1);
    await pass(120);
    await expect.poll(async () => (await ops.titles()).length).toBe(2);
    await pause(false);
    await pass(61);
    expect(await active()).toEqual([]);
    expect(await ops.titles()).toHaveLength(2);
  });

  it("tells of secrets that expire by their metadata, by their names only, until they are renewed", async () => {
    const ops = await slackChannel();
    await mountKv();
    const day = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    const expires = async (name: string, expires_at: string) => {
      await write(name, { key: "very-secret" });
      const metadata = await put(`/v1/kv/metadata/${name}`, { custom_metadata: { expires_at } });
      expect(metadata.status, metadata.text).toBe(204);
    };
    await expires("soon", day(3).slice(0, 10));
    await expires("past", day(-40));
    await expires("later", day(40));
    await expires("offset", `${day(15).slice(0, 19)}+09:00`);
    await expires("never", "never");
    await expires("odd", "1 January");
    await rule("expiry", { condition: "secret-expires", channels: ["ops"] });
    await pass(61);
    await expect.poll(ops.titles).toEqual(["Secrets expire: 2"]);
    const [{ blocks }] = await ops.messages();
    expect(blocks[1].text.text).toMatch(/^• kv\/past: ended \(.*\)\n• kv\/soon: ends in 2 d \(.*\)$/);
    expect(JSON.stringify(await ops.messages())).not.toContain("very-secret");
    await rule("expiry", { condition: "secret-expires", channels: ["ops"], within: "41d" });
    await pass(61);
    await expect.poll(async () => (await active()).length).toBe(4);
    // The retry of a message that meets the one before it on its way comes by an alarm, for which the clock stands still.
    await expect.poll(async () => (await ops.titles()).at(-1)).toBe("Secrets expire: 4");
    for (const name of ["soon", "past", "later", "offset"]) await expires(name, day(100));
    await pass(61);
    await expect.poll(async () => (await ops.titles()).at(-1)).toBe("Resolved: Secrets expire");
    expect(await active()).toEqual([]);
  });

  it("tells of a root credential whose end the provider states", async () => {
    const ops = await slackChannel();
    const tenant = await openTenant();
    await mountEngine(tenant);
    await rule("root", { condition: "root-secret-ends", channels: ["ops"], within: "400d" });
    const rotated = await put("/v1/cloud-b/rotate-root", {});
    expect(rotated.status, rotated.text).toBe(204);
    await pass(61);
    await expect
      .poll(async () => (await active()).map(({ subject }: { subject: string }) => subject))
      .toEqual(["cloud-b/"]);
    await expect.poll(ops.titles).toEqual(["The root credential of an engine ends: cloud-b/"]);
  });

  it("tells of the nodes that are down by their names, until they are back", async () => {
    const ops = await slackChannel();
    const report = async (Status: string, ...names: readonly string[]) => {
      const events = names.map((Name, at) => ({
        Topic: "Node",
        Type: "NodeRegistration",
        Payload: { Node: { ID: `d0000000-0000-4000-8000-00000000000${at}`, Name, Status, NodePool: "default" } },
      }));
      expect((await put("/v1/cluster/objects", events)).status).toBe(200);
    };
    await report("ready", "one", "two", "three");
    await report("down", "one", "two");
    await rule("nodes", { condition: "node-down", channels: ["ops"], group_by: "subject" });
    await pass(61);
    await expect
      .poll(async () => (await ops.titles()).sort())
      .toEqual(["Node down: one (d0000000)", "Node down: two (d0000000)"]);
    await report("ready", "one", "two");
    await pass(61);
    await expect
      .poll(async () => (await ops.titles()).filter((title) => title.startsWith("Resolved: ")))
      .toHaveLength(2);
    expect(await active()).toEqual([]);
  });

  it("tells of a destination whose credentials end, until they are replaced", async () => {
    const ops = await slackChannel();
    await cloudA.begin();
    const day = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    await makeDestination("cloud-a-sm", "near", cloudABody({ credentials_expire_at: day(5) }));
    await makeDestination("cloud-a-sm", "far", cloudABody({ credentials_expire_at: day(50).slice(0, 10) }));
    await makeDestination("cloud-a-sm", "open");
    await rule("keys", { condition: "destination-key-ends", channels: ["ops"] });
    await pass(61);
    await expect.poll(ops.titles).toEqual(["The credentials of a destination end: cloud-a-sm/near"]);
    expect((await active())[0].detail).toBe("ends in 4 d");
    await makeDestination("cloud-a-sm", "near", cloudABody({ secret_access_key: "new".repeat(9) }));
    await pass(61);
    await expect.poll(async () => (await ops.titles()).at(-1)).toMatch(/^Resolved: /);
    expect(await active()).toEqual([]);
  });

  it("resolves what a rule has sent when it is deleted", async () => {
    const ops = await slackChannel();
    await rule("paused", { condition: "sync-paused", channels: ["ops"] });
    await pause(true);
    await pass(61);
    expect((await del(`${AT}/channels/ops`)).body.errors).toEqual(["the rule paused sends to this channel"]);
    expect((await del(`${AT}/rules/paused`)).status).toBe(204);
    await expect.poll(ops.titles).toEqual(["Sync is paused: sync", "Resolved: Sync is paused: sync"]);
    expect((await get(`${AT}/rules/paused`)).status).toBe(404);
    expect((await del(`${AT}/channels/ops`)).status).toBe(204);
    expect((await list(`${AT}/channels`)).status).toBe(404);
  });

  it("looks at the other rules and engines while a secrets engine does not answer", async () => {
    const ops = await slackChannel();
    const silent = await mountKv("silent");
    await mountKv("kv");
    await write("soon", { a: "b" });
    const expires_at = new Date(Date.now() + 86_400_000).toISOString();
    expect((await put("/v1/kv/metadata/soon", { custom_metadata: { expires_at } })).status).toBe(204);
    expiringIn((uuid) => (uuid === silent.uuid ? Promise.reject(new Error("no")) : null));
    await rule("expiry", { condition: "secret-expires", channels: ["ops"] });
    await rule("paused", { condition: "sync-paused", channels: ["ops"] });
    await pause(true);
    await pass(61);
    await expect
      .poll(async () => (await ops.titles()).sort())
      .toEqual(["Secrets expire: kv/soon", "Sync is paused: sync"]);
  });

  it("counts the subjects that a rule watches, the first by name, and ends none of more than it may have", async () => {
    await slackChannel();
    const counts = new Map([
      [(await mountKv("a")).uuid, 1_000],
      [(await mountKv("b")).uuid, 3],
    ]);
    expiringIn(async (uuid) => ({
      secrets: Array.from({ length: counts.get(uuid) ?? 0 }, (_, at) => ({
        path: `s${1_000 + at}`,
        at: Date.now() + 86_400_000,
      })),
      isWhole: true,
    }));
    await rule("b", { condition: "secret-expires", channels: ["ops"], subjects: ["b/*"] });
    await rule("all", { condition: "secret-expires", channels: ["ops"], for: "1h" });
    await pass(61);
    const of = Map.groupBy<string, { rule: string; subject: string }>(await active(), ({ rule: name }) => name);
    expect(of.get("b")).toHaveLength(3);
    expect(of.get("all")).toHaveLength(1_000);
    expect(of.get("all")?.some(({ subject }) => subject.startsWith("b/"))).toBe(false);
  });

  it("ends `delivery-failing` of a channel by its resumption, which forgets the dead letters", async () => {
    await slackChannel();
    await runInDurableObject(env.EVENT_SUBSCRIPTION.getByName("notification/ops"), (_object, { storage }) =>
      storage.sql.exec("INSERT INTO batches (id, upto, body, at, dead) VALUES ('x', 1, '{}', 1, 1)"),
    );
    const dead = async () => (await get(`${AT}/channels/ops`)).body.data.dead_letters;
    expect(await dead()).toBe(1);
    expect((await put(`${AT}/channels/ops/resume`, {})).status).toBe(204);
    expect(await dead()).toBe(0);
  });

  it("keeps what is pending when the metrics cannot be read", async () => {
    await slackChannel();
    await rule("paused", { condition: "sync-paused", channels: ["ops"], for: "1h" });
    await pause(true);
    await pass(61);
    const before = await active();
    await runInDurableObject(env.METRICS.getByName("main") as DurableObjectStub, (object) =>
      Object.assign(object, { read: () => Promise.reject(new Error("no")) }),
    );
    await pass(61);
    expect((await get(`${AT}/active`)).body.data).toMatchObject({
      error: expect.stringContaining("could not be read"),
    });
    expect(await active()).toEqual(before);
  });
});

/** The fields of a channel of each type, and what its service gets first and last, in the end. */
const TYPES: readonly { type: string; path: string; fields: object; sent: object; resolved: object }[] = [
  {
    type: "teams",
    path: "/workflows/w1",
    fields: {},
    sent: { attachments: [{ content: { body: [{ text: "Sync is paused: sync", color: "Warning" }, {}, {}] } }] },
    resolved: { attachments: [{ content: { body: [{ color: "Good" }, {}, {}] } }] },
  },
  {
    type: "pagerduty",
    path: "/v2/enqueue",
    fields: { secret: "0123456789abcdef0123456789abcdef" },
    sent: {
      event_action: "trigger",
      dedup_key: "sallyport/paused",
      payload: { severity: "warning", custom_details: { subjects: ["sync: no destination gets changes"] } },
    },
    resolved: { event_action: "resolve", dedup_key: "sallyport/paused" },
  },
  {
    type: "opsgenie",
    path: "/v2/alerts",
    fields: { secret: "og-key" },
    sent: { alias: "sallyport:paused", priority: "P3", message: "Sync is paused: sync" },
    resolved: { note: "Resolved: Sync is paused: sync" },
  },
  {
    type: "sendgrid",
    path: "/v3/mail/send",
    fields: { secret: "SG.key", from: "sallyport@mail.example", to: ["a@mail.example", "b@mail.example"] },
    sent: {
      personalizations: [{ to: [{ email: "a@mail.example" }, { email: "b@mail.example" }] }],
      subject: "[Sallyport] Sync is paused: sync",
    },
    resolved: { subject: "[Sallyport] Resolved: Sync is paused: sync" },
  },
  {
    type: "postmark",
    path: "/email",
    fields: { secret: "pm-token", from: "sallyport@mail.example", to: ["a@mail.example"] },
    sent: { To: "a@mail.example", Subject: "[Sallyport] Sync is paused: sync" },
    resolved: { Subject: "[Sallyport] Resolved: Sync is paused: sync" },
  },
  {
    type: "mailgun",
    path: "/v3/mail.example/messages",
    fields: { secret: "mg-key", from: "sallyport@mail.example", to: ["a@mail.example"] },
    sent: { to: "a@mail.example", subject: "[Sallyport] Sync is paused: sync" },
    resolved: { subject: "[Sallyport] Resolved: Sync is paused: sync" },
  },
];

describe("messages", () => {
  itRows(TYPES)("are sent in the form of $type", async ({ type, path, fields, sent, resolved }) => {
    const account = newAccount();
    await channel("ops", { type, url: account.at(type, path), ...fields });
    await rule("paused", { condition: "sync-paused", channels: ["ops"] });
    await pause(true);
    await pass(61);
    await expect.poll(async () => (await account.messages())[0]).toMatchObject(sent);
    await pause(false);
    await pass(61);
    await expect.poll(async () => (await account.messages())[1]).toMatchObject(resolved);
    // A title and a text at their limits stay within those of the service.
    await rule("paused", {
      condition: "sync-paused",
      channels: ["ops"],
      title: "é".repeat(300),
      text: "<&>".repeat(1_000),
    });
    await pause(true);
    await pass(61);
    await expect.poll(async () => (await account.messages()).length).toBe(3);
    await pause(false);
    await del(`${AT}/rules/paused`);
    await expect.poll(async () => (await account.messages()).length).toBe(4);
  });

  it("takes and shows the fields of each type", async () => {
    const account = newAccount();
    const url = account.at("sendgrid", "/v3/mail/send");
    const good = { type: "sendgrid", url, secret: "SG.key", from: "a@mail.example", to: ["b@mail.example"] };
    await channel("mail", good);
    const shown = (await get(`${AT}/channels/mail`)).body.data;
    expect(shown).toMatchObject({ type: "sendgrid", url, from: good.from, to: good.to });
    // A read that is sent back keeps the secret, unless it would go to another address.
    await channel("mail", shown);
    const rows: readonly [body: object, says: string][] = [
      [{ ...shown, url: `${url}x` }, "secret: is required with another url"],
      [{ ...good, to: ["nobody"] }, "to.0: must be an e-mail address"],
      [{ ...good, from: undefined }, "from: is required"],
      [{ ...good, secret: "a\nb" }, "secret: must have printable characters"],
      [{ type: "pagerduty", secret: "k", to: ["b@mail.example"] }, "to: has no effect with the type pagerduty"],
      [{ type: "pagerduty" }, "secret: is required"],
      [{ type: "mailgun", secret: "k", from: good.from, to: good.to }, "url: is required"],
    ];
    for (const [body, says] of rows) {
      const { status, text } = await put(`${AT}/channels/mail`, body);
      expect([says, status, JSON.parse(text).errors?.[0]]).toEqual([says, 400, expect.stringContaining(says)]);
    }
    expect((await put(`${AT}/channels/mail/test`, {})).body.data).toMatchObject({ delivered: true });
    await channel("duty", { type: "pagerduty", secret: "k" });
    expect((await get(`${AT}/channels/duty`)).body.data.url).toBe("https://events.pagerduty.com/v2/enqueue");
  });
});

describe("a channel", () => {
  it("says why a test failed, and delivers it later", async () => {
    const ops = await slackChannel();
    await ops.answers({ status: 500, body: "oops" });
    expect((await put(`${AT}/channels/ops/test`, {})).body.data).toMatchObject({
      delivered: false,
      error: "the receiver answered with status 500",
    });
    await expect.poll(ops.titles).toEqual(["Test of the notification channel"]);
  });

  it("loses nothing when the log is killed after it has decided", async () => {
    const ops = await slackChannel();
    await rule("paused", { condition: "sync-paused", channels: ["ops"] });
    await pause(true);
    time.advance(61_000);
    // The line is on disk, and no subscription is woken.
    await runInDurableObject(log(), async (object) => {
      const { storage } = (object as unknown as { ctx: DurableObjectState }).ctx;
      storage.sync = () => Promise.reject(new Error("killed"));
      await object.alarm();
    });
    await evictObject(log());
    expect(await active()).toMatchObject([{ state: "firing" }]);
    expect(await ops.titles()).toEqual([]);
    time.advance(61_000);
    await runInDurableObject(env.EVENT_SUBSCRIPTION.getByName("notification/ops") as DurableObjectStub, (object) =>
      (object as unknown as EventLog).alarm(),
    );
    await expect.poll(ops.titles).toEqual(["Sync is paused: sync"]);
    await pass(61);
    expect(await ops.titles()).toHaveLength(1);
  });

  it("seals its URL, and shows no secret", async () => {
    await slackChannel();
    const shown = JSON.stringify([(await list(`${AT}/channels`)).body, (await get(`${AT}/channels/ops`)).body]);
    expect(shown).not.toContain("T0001");
    const object = env.EVENT_SUBSCRIPTION.getByName("notification/ops") as DurableObjectStub;
    const stored = await runInDurableObject(object, (_object, { storage: { sql } }) => {
      const [row] = sql.exec("SELECT * FROM subscription").toArray();
      return JSON.stringify({ ...row, target: Buffer.from(row?.["target"] as ArrayBuffer).toString("latin1") });
    });
    expect(stored).not.toContain("T0001");
  });
});

describe("sys/notifications", () => {
  it("returns 400 for what it cannot do", async () => {
    await slackChannel();
    const good = { condition: "sync-failing", channels: ["ops"] };
    const rows: readonly [path: string, body: object, says: string][] = [
      ["rules/a b", good, "name: must match"],
      ["rules/r", { ...good, channels: ["nobody"] }, "channels: there is no channel nobody"],
      ["rules/r", { ...good, channels: [] }, "channels: must name a channel"],
      ["rules/r", { ...good, condition: "rain" }, "condition: must be one of sync-failing"],
      ["rules/r", { ...good, within: "1h" }, "within: has no effect with the condition sync-failing"],
      ["rules/r", { ...good, percent: 5 }, "percent: has no effect"],
      ["rules/r", { ...good, title: "{{password}}" }, "title: {{password}} is unknown"],
      ["rules/r", { ...good, quiet_hours: { from: "25:00", to: "06:00" } }, "quiet_hours.from: must be a time"],
      [
        "rules/r",
        { ...good, quiet_hours: { from: "22:00", to: "06:00", time_zone: "Mars/One" } },
        "quiet_hours.time_zone: must be a name",
      ],
      ["channels/c", { type: "fax" }, "type: must be one of webhook"],
      ["channels/c", { type: "webhook", secret: SECRET }, "url: is required"],
      ["channels/c", { type: "webhook", url: "https://hooks.example/" }, "secret: is required"],
      ["channels/c", { type: "webhook", url: "https://hooks.example/", secret: "x" }, "secret: must be whsec_"],
      ["channels/c", { type: "slack" }, "url: is required"],
      ["channels/c", { type: "slack", url: "http://10.0.0.1/" }, "url: must begin with https://"],
      ["channels/c", { type: "slack", url: "https://hooks.slack.com/x", secret: "x" }, "secret: a channel of the type"],
    ];
    for (const [path, body, says] of rows) {
      const { status, text } = await put(`${AT}/${encodeURI(path)}`, body);
      expect([says, status, JSON.parse(text).errors?.[0]]).toEqual([says, 400, expect.stringContaining(says)]);
    }
    expect((await list(`${AT}/rules`)).status).toBe(404);
    expect((await put(`${AT}/channels/nobody/test`, {})).status).toBe(404);
    expect((await put(`${AT}/channels/nobody/resume`, {})).status).toBe(404);
  });

  it("returns 403 without the right on the path, and exists in the root namespace only", async () => {
    await slackChannel();
    await policies({ viewer: `path "sys/notifications/*" { capabilities = ["read", "list"] }` });
    const { client_token: token } = await issue({ policies: ["viewer"] });
    expect((await list(`${AT}/channels`, { token })).status).toBe(200);
    expect((await get(`${AT}/active`, { token })).status).toBe(200);
    expect((await put(`${AT}/channels/ops/test`, {}, { token })).status).toBe(403);
    expect((await put(`${AT}/rules/r`, { condition: "sync-failing", channels: ["ops"] }, { token })).status).toBe(403);
    await put("/v1/sys/namespaces/team", {});
    expect((await get(`${AT}/active`, { headers: { "X-Orch-Namespace": "team" } })).status).toBe(400);
  });
});
