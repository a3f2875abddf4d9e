import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { STREAM_TOPICS } from "../../src/contracts/stream-topics.ts";
import type { EventSubscription } from "../../src/objects/event-subscription.ts";
import { SERVICE_ACCOUNT } from "../../src/publishing/event-accounts.ts";
import { eventSubscription } from "../../src/rpc/stubs.ts";
import { cut } from "../crash/crash-point.ts";
import { itRows } from "../support/rows.ts";
import { del, get, put } from "./client.ts";
import { evictObject } from "./evict-all.ts";
import { append, appendKeys, event, evict, withSettings } from "./streams.ts";
import { command, keysIn, newHook, SECRET, subscribe, subscription } from "./webhooks.ts";

const stub = () => env.EVENT_SUBSCRIPTION.getByName("s") as DurableObjectStub<EventSubscription>;

/** Makes the waiting batch due, as when the time of its retry has come, and runs the alarm. */
const retryNow = () =>
  runInDurableObject(stub(), async (object, { storage }) => {
    storage.sql.exec("UPDATE subscription SET ready_at = 0, lease_until = 0");
    await object.alarm();
  });

const OTHER_SECRET = `whsec_${Buffer.from("another key of 24 bytes!").toString("base64")}`;

/** Runs a change whose overlap is over at once. */
async function withoutOverlap(change: () => Promise<void>): Promise<void> {
  const now = vi.spyOn(Date, "now").mockReturnValue(Date.now() - 7_200_000);
  await change();
  now.mockRestore();
}

const attempts = (hook: Awaited<ReturnType<typeof newHook>>) => async () => (await hook.received()).length;

describe("a subscription", () => {
  it("delivers lines in order, signed, and reports its position", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    await appendKeys("a", "b", "c");
    await expect.poll(hook.keys).toEqual(["a", "b", "c"]);
    const [last] = (await appendKeys("d")).slice(-1);
    await expect.poll(hook.keys).toEqual(["a", "b", "c", "d"]);
    await expect.poll(async () => (await subscription("s")).DeliveredIndex).toBe(last);
    expect(await subscription("s")).toEqual({
      Name: "s",
      Topics: { "*": ["*"] },
      Namespace: "default",
      Target: { Type: "webhook", URL: hook.url },
      MaxAttempts: 20,
      DeliveredIndex: last,
      Paused: null,
      Attempts: 0,
      LastError: null,
      RetryAt: null,
      DeadLetters: 0,
    });
    const [first] = await hook.received();
    expect(JSON.parse(first?.body ?? "")).toMatchObject({ Id: first?.id, Subscription: "s" });
  });

  it("is listed, and found no more after its deletion", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    await subscribe("t", hook.url);
    const listed = async () => (await get("/v1/event/subscriptions")).body.map(({ Name }: { Name: string }) => Name);
    expect(await listed()).toEqual(["s", "t"]);
    expect((await del("/v1/event/subscription/s")).status).toBe(200);
    expect(await listed()).toEqual(["t"]);
    expect((await get("/v1/event/subscription/s")).status).toBe(404);
    await appendKeys("a");
    await expect.poll(hook.keys).toEqual(["a"]);
  });

  it("delivers only events of its topics, keys and namespace", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url, { Topics: { Job: ["web"], Node: ["*"] }, Namespace: "default" });
    await append(
      [event({ Key: "web" }), event({ Key: "other" })],
      [event({ Key: "web", Namespace: "elsewhere" })],
      [event({ Topic: "Node", Key: "n", Namespace: "" })],
      [event({ Topic: "Evaluation", Key: "web" })],
      [event({ Key: "web", Type: "JobDeregistered" })],
    );
    await expect.poll(hook.keys).toEqual(["web", "n", "web"]);
  });

  it("delivers events of secrets, destinations, leases and engines, also by filter key and for all topics", async () => {
    const [named, all] = [await newHook(), await newHook()];
    await subscribe("s", named.url, { Topics: { Secret: ["kv/a"], Lease: ["azure/"] } });
    await subscribe("t", all.url);
    const served = (Topic: string, Key: string, FilterKeys: string[]) =>
      event({ Topic, Key, Namespace: "", FilterKeys });
    await append(
      [served("Secret", "kv/a", ["kv/data/a", "kv/"]), served("Secret", "kv/b", ["kv/data/b", "kv/"])],
      [served("Lease", "azure/creds/r/1", ["azure/creds/r", "azure/"])],
      [served("Sync", "in-mem/d", ["sys/sync/destinations/in-mem/d"])],
      [served("Engine", "azure/roles/r", ["azure/roles/r", "azure/"])],
    );
    await expect.poll(named.keys).toEqual(["kv/a", "azure/creds/r/1"]);
    await expect.poll(all.keys).toEqual(["kv/a", "kv/b", "azure/creds/r/1", "in-mem/d", "azure/roles/r"]);
  });

  it("begins at StartIndex, and moves there when it is given again", async () => {
    const [, second] = await appendKeys("a", "b", "c");
    const hook = await newHook();
    await subscribe("s", hook.url, { StartIndex: second });
    await expect.poll(hook.keys).toEqual(["b", "c"]);
    await subscribe("s", hook.url, { StartIndex: 0 });
    await expect.poll(hook.keys).toEqual(["b", "c", "a", "b", "c"]);
  });

  it.each([99, 9_007_199_254_740_991, 2 ** 63])(
    "begins with new lines at the future StartIndex %s, also of a replay",
    async (StartIndex) => {
      await appendKeys("a");
      const hook = await newHook();
      await subscribe("s", hook.url, { StartIndex });
      await appendKeys("b");
      await expect.poll(hook.keys).toEqual(["b"]);
      expect((await put("/v1/event/subscription/s/replay", { Index: StartIndex })).status).toBe(200);
      await appendKeys("c");
      await expect.poll(hook.keys).toEqual(["b", "c"]);
    },
  );

  it("keeps its secret and its position when a change names neither", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    await appendKeys("a");
    await expect.poll(hook.keys).toEqual(["a"]);
    const shown = await subscription("s");
    const changed = await put("/v1/event/subscription/s", { ...shown, Topics: { Job: ["c"] } });
    expect([changed.status, changed.text]).toEqual([200, ""]);
    await appendKeys("b", "c");
    await expect.poll(hook.keys).toEqual(["a", "c"]);
  });

  it("signs with the previous secret, too, for the overlap of a change, so that receivers of either accept", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    await appendKeys("a");
    await expect.poll(hook.keys).toEqual(["a"]);
    const Target = { Type: "webhook", URL: hook.url, Secret: OTHER_SECRET, SecretOverlapSeconds: 3_600 };
    await subscribe("s", hook.url, { Target });
    const until = (await subscription("s")).Target.PreviousSecretUntil;
    expect(Date.parse(until)).toBeGreaterThan(Date.now());
    // A repeated request does not end the overlap, and neither does a read that is sent back.
    await subscribe("s", hook.url, { Target });
    await subscribe("s", hook.url, await subscription("s"));
    expect((await subscription("s")).Target.PreviousSecretUntil).toBe(until);
    await appendKeys("b");
    await expect.poll(hook.keys).toEqual(["a", "b"]);
    await hook.set([], OTHER_SECRET);
    await appendKeys("c");
    await expect.poll(hook.keys).toEqual(["a", "b", "c"]);
    const ended = { ...Target, SecretOverlapSeconds: 0 };
    await subscribe("s", hook.url, { Target: ended });
    expect((await subscription("s")).Target).toEqual({ Type: "webhook", URL: hook.url });
    // After the overlap only the new secret signs.
    await withoutOverlap(() => subscribe("s", hook.url, { Target: { ...Target, Secret: SECRET } }));
    await hook.set([], OTHER_SECRET);
    await appendKeys("d");
    await expect.poll(attempts(hook)).toBe(4);
    expect((await hook.received()).at(-1)).toMatchObject({ status: 401, fault: expect.stringContaining("signature") });
    await hook.set([], SECRET);
    await retryNow();
    await expect.poll(async () => (await hook.received()).at(-1)?.status).toBe(204);
    expect((await subscription("s")).Target).toEqual({ Type: "webhook", URL: hook.url });
  });

  it("replaces a secret at once without an overlap", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    await subscribe("s", hook.url, { Target: { Type: "webhook", URL: hook.url, Secret: OTHER_SECRET } });
    await appendKeys("a");
    await expect.poll(attempts(hook)).toBe(1);
    expect((await hook.received())[0]).toMatchObject({ status: 401 });
    await hook.set([], OTHER_SECRET);
    await retryNow();
    await expect.poll(async () => keysIn((await hook.received()).slice(1))).toEqual(["a"]);
  });

  it("delivers many lines in bounded calls", async () => {
    const hook = await newHook();
    const keys = Array.from({ length: 250 }, (_, number) => `k${number}`);
    await appendKeys(...keys);
    await subscribe("s", hook.url, { StartIndex: 1 });
    await expect.poll(hook.keys).toEqual(keys);
    expect(Math.max(...(await hook.received()).map(({ lines }) => lines.length))).toBe(100);
  });

  it("reports a gap with the index of the oldest line", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "2" });
    const indexes = await appendKeys("a", "b", "c", "d", "e");
    const hook = await newHook();
    await subscribe("s", hook.url, { StartIndex: 1 });
    await expect.poll(hook.keys).toContain("e");
    const [first] = await hook.received();
    expect(first?.oldestIndex).toBe(first?.lines[0]?.Index);
    await appendKeys("f");
    await expect.poll(hook.keys).toContain("f");
    expect((await hook.received()).at(-1)?.oldestIndex).toBeUndefined();
    expect(indexes).toHaveLength(5);
  });

  it("reports a gap of lines that left for their account's share once, and again after a replay", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "400" });
    const jobs = Array.from({ length: 150 }, () => [event()]);
    const leases = Array.from({ length: 300 }, () => [
      event({ Topic: "Lease", Namespace: "", FilterKeys: ["azure/creds/r"], Account: SERVICE_ACCOUNT }),
    ]);
    await append(...jobs, ...leases);
    await evict();
    const hook = await newHook();
    const oldest = async () => (await hook.received()).map(({ oldestIndex }) => oldestIndex);
    await subscribe("s", hook.url, { StartIndex: 1, Topics: { Job: ["*"], Lease: ["*"] } });
    await expect.poll(async () => (await hook.keys()).length).toBe(346);
    expect(await oldest()).toEqual([255, undefined, undefined, undefined]);
    expect((await command("s", "replay", { Index: 200 })).status).toBe(200);
    await expect.poll(async () => (await oldest()).slice(4)).toEqual([255, undefined]);
    // Lines of other accounts are all there.
    const other = await newHook();
    await subscribe("t", other.url, { StartIndex: 1, Topics: { Job: ["*"] } });
    await expect.poll(async () => (await other.keys()).length).toBe(150);
    expect((await other.received()).map(({ oldestIndex }) => oldestIndex)).toEqual([undefined, undefined]);
  });

  it("reports a gap with the first line that it wants, also after a change in between", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "2" });
    const newest = (await appendKeys("a", "b", "c", "d", "e")).at(-1);
    const hook = await newHook();
    const wanted = { StartIndex: 1, Topics: { Job: ["z"] } };
    await subscribe("s", hook.url, wanted);
    await expect.poll(async () => (await subscription("s")).DeliveredIndex).toBe(newest);
    const gap = await runInDurableObject(stub(), (_object, { storage: { sql } }) =>
      Number(sql.exec("SELECT oldest FROM subscription").one()["oldest"]),
    );
    expect(gap).toBeGreaterThan(1);
    await subscribe("s", hook.url, { Topics: wanted.Topics });
    await appendKeys("z");
    await expect.poll(hook.keys).toEqual(["z"]);
    expect((await hook.received())[0]?.oldestIndex).toBe(gap);
  });

  it("seals its URL and secret on disk, and shows no secret", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    const text = JSON.stringify([await subscription("s"), (await get("/v1/event/subscriptions")).body]);
    expect(text).not.toContain("whsec_");
    const stored = await runInDurableObject(stub(), (_object, { storage: { sql } }) =>
      JSON.stringify(
        sql
          .exec("SELECT * FROM subscription")
          .toArray()
          .map((row) => ({ ...row, target: Buffer.from(row["target"] as ArrayBuffer).toString("latin1") })),
      ),
    );
    expect(stored).not.toContain("whsec_");
    expect(stored).not.toContain("127.0.0.1");
  });
});

/** A time in nanoseconds, beyond 2^53. */
const SUBMITTED = "1764525000123456789";

/** Appends the line of a reported job, nested as deep as a report may be. @returns its index */
async function reported(Key: string): Promise<number> {
  const deep = `${"[".repeat(125)}${"]".repeat(125)}`;
  const Payload = [`{"Job":{"ID":"${Key}","SubmitTime":${SUBMITTED},"Meta":${deep}}}`];
  const [index = 0] = await append([event({ Key, Payload })]);
  return index;
}

describe("a failed delivery", () => {
  it("is repeated with the same id and body, before any later line", async () => {
    const hook = await newHook({ status: 500 }, { status: 404 });
    await subscribe("s", hook.url);
    await appendKeys("a");
    await expect.poll(attempts(hook)).toBe(1);
    await expect.poll(async () => (await subscription("s")).Attempts).toBe(1);
    expect(await subscription("s")).toMatchObject({ LastError: "the receiver answered with status 500" });
    await appendKeys("b");
    await retryNow();
    await expect.poll(attempts(hook)).toBe(2);
    await expect.poll(async () => (await subscription("s")).Attempts).toBe(2);
    await retryNow();
    await expect.poll(hook.keys).toEqual(["a", "b"]);
    const [first, second, third] = await hook.received();
    expect([second?.id, third?.id]).toEqual([first?.id, first?.id]);
    expect([second?.body, third?.body]).toEqual([first?.body, first?.body]);
  });

  it("is repeated by itself", async () => {
    const hook = await newHook({ status: 503 });
    await subscribe("s", hook.url);
    await appendKeys("a");
    await expect.poll(hook.keys).toEqual(["a"]);
    expect(await hook.received()).toHaveLength(2);
  });

  it("waits as long as Retry-After says", async () => {
    const hook = await newHook({ status: 429, headers: { "Retry-After": "600" } });
    await subscribe("s", hook.url);
    await appendKeys("a");
    await expect.poll(async () => (await subscription("s")).Attempts).toBe(1);
    const { RetryAt } = await subscription("s");
    expect(Date.parse(RetryAt) - Date.now()).toBeGreaterThan(500_000);
  });

  it("is one by the status of its answer, whose body may be large and without an end", async () => {
    const hook = await newHook({ status: 200, endless: true }, { status: 410, endless: true });
    await subscribe("s", hook.url);
    const [index] = await appendKeys("a");
    await expect.poll(async () => (await subscription("s")).DeliveredIndex).toBe(index);
    await appendKeys("b");
    await expect.poll(async () => (await subscription("s")).Paused).toBe("the receiver answered with status 410");
    expect((await hook.received()).map(({ status }) => status)).toEqual([200, 410]);
  });

  it("does not follow a redirect", async () => {
    const target = await newHook();
    const hook = await newHook({ status: 307, headers: { Location: target.url } });
    await subscribe("s", hook.url);
    await appendKeys("a");
    await expect.poll(async () => (await subscription("s")).LastError).toContain("redirect");
    expect(await target.received()).toEqual([]);
  });

  it("becomes a dead letter after MaxAttempts, and later lines are delivered", async () => {
    const hook = await newHook({ status: 400 }, { status: 400 });
    await subscribe("s", hook.url, { MaxAttempts: 2 });
    const index = await reported("a");
    await expect.poll(async () => (await subscription("s")).Attempts).toBe(1);
    await retryNow();
    await expect.poll(async () => (await subscription("s")).DeadLetters).toBe(1);
    await appendKeys("b");
    await expect.poll(hook.keys).toEqual(["b"]);
    const [first] = await hook.received();
    // With all digits of its numbers.
    expect(first?.body).toContain(SUBMITTED);
    for (const query of ["", "?pretty"]) {
      expect((await get(`/v1/event/subscription/s/dead-letters${query}`)).text).toContain(SUBMITTED);
    }
    expect((await get("/v1/event/subscription/s/dead-letters")).body).toEqual([
      {
        Id: first?.id,
        Attempts: 2,
        Error: "the receiver answered with status 400",
        FailedAt: expect.any(String),
        Delivery: JSON.parse(first?.body ?? ""),
      },
    ]);
    expect((await command("s", "replay", { Index: index })).status).toBe(200);
    await expect.poll(hook.keys).toEqual(["b", "a", "b"]);
    expect((await subscription("s")).DeadLetters).toBe(0);
  });

  it("with 410 pauses the subscription, and nothing is lost", async () => {
    const hook = await newHook({ status: 410 });
    await subscribe("s", hook.url);
    await appendKeys("a");
    await expect.poll(async () => (await subscription("s")).Paused).toBe("the receiver answered with status 410");
    await appendKeys("b");
    expect(await hook.keys()).toEqual([]);
    expect((await command("s", "resume")).status).toBe(200);
    await expect.poll(hook.keys).toEqual(["a", "b"]);
  });
});

const PRIVATE = "must not be a private address, unless PRIVATE_HOSTS lists it";

describe("commands", () => {
  it("pause and resume deliveries", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    expect((await command("s", "pause")).status).toBe(200);
    expect((await subscription("s")).Paused).toBe("requested");
    await appendKeys("a");
    expect(await runInDurableObject(stub(), (object) => object.next(null, true))).toBeNull();
    expect(await hook.received()).toEqual([]);
    await command("s", "resume");
    await expect.poll(hook.keys).toEqual(["a"]);
  });

  it("replay deliver again from an index on, under new ids", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    const [, second] = await appendKeys("a", "b");
    await expect.poll(hook.keys).toEqual(["a", "b"]);
    expect((await command("s", "replay", { Index: second })).status).toBe(200);
    await expect.poll(hook.keys).toEqual(["a", "b", "b"]);
    const ids = (await hook.received()).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("return 404 for an unknown subscription", async () => {
    const answers = [
      await get("/v1/event/subscription/none"),
      await get("/v1/event/subscription/none/dead-letters"),
      await command("none", "replay", { Index: 1 }),
      await command("none", "pause"),
      await command("none", "resume"),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404]);
    expect((await del("/v1/event/subscription/none")).status).toBe(200);
  });

  const target = (more: Record<string, unknown>) => ({
    Target: { Type: "webhook", URL: "https://receiver.invalid/", Secret: SECRET, ...more },
  });
  itRows<[string, string, Record<string, unknown>, number, string]>([
    ["a name with a dot", "a.b", target({}), 400, "name: must match ^[a-zA-Z0-9_-]{1,128}$"],
    ["no target", "s", {}, 400, "Target: is required"],
    ["another type", "s", target({ Type: "mail" }), 400, "Target.Type: must be webhook or queue"],
    ["no URL", "s", target({ URL: null }), 400, "Target.URL: must be a URL without credentials"],
    ["plain http", "s", target({ URL: "http://a.invalid/" }), 400, "Target.URL: must begin with https://"],
    ["a private address", "s", target({ URL: "https://10.0.0.1/" }), 400, `Target.URL: ${PRIVATE}`],
    ["no secret", "s", target({ Secret: null }), 400, "Target.Secret: is required"],
    [
      "a short secret",
      "s",
      target({ Secret: `whsec_${btoa("short")}` }),
      400,
      "Target.Secret: must be whsec_ and the base64 text of 24 to 64 bytes",
    ],
    [
      "an overlap without a secret",
      "s",
      target({ Secret: null, SecretOverlapSeconds: 9 }),
      400,
      "Target.SecretOverlapSeconds: needs a Secret",
    ],
    ["a queue with a URL", "s", target({ Type: "queue" }), 400, "Target: a queue has neither URL nor Secret"],
    ["a queue that is not bound", "s", { Target: { Type: "queue" } }, 400, "Target.Type: EVENT_QUEUE is not bound"],
    ["no topic", "s", { ...target({}), Topics: {} }, 400, "Topics: must name a topic"],
    [
      "a misspelt topic",
      "s",
      { ...target({}), Topics: { job: ["*"] } },
      400,
      'Topics: no topic "job": did you mean Job?',
    ],
    [
      "an unknown topic",
      "s",
      { ...target({}), Topics: { Job: ["*"], Operator: ["*"] } },
      400,
      `Topics: no topic "Operator": the topics are ${STREAM_TOPICS.join(", ")}`,
    ],
    ["an unknown namespace", "s", { ...target({}), Namespace: "none" }, 404, 'namespace "none" not found'],
    ["no attempt", "s", { ...target({}), MaxAttempts: 0 }, 400, "MaxAttempts: Too small: expected number to be >=1"],
  ])("refuse %s", async (_what, name, body, status, text) => {
    const answer = await put(`/v1/event/subscription/${name}`, body);
    expect([answer.status, answer.text]).toEqual([status, text]);
    expect((await get("/v1/event/subscriptions")).body).toEqual([]);
  });
});

describe("a queue", () => {
  it("receives the same bodies, and a line that is too large becomes a dead letter", async () => {
    const sent: string[] = [];
    const queue = { send: async (body: string) => void sent.push(body) };
    const bound = env as unknown as { EVENT_QUEUE?: unknown };
    bound.EVENT_QUEUE = queue;
    await runInDurableObject(stub(), (object) => Object.assign((object as unknown as { env: object }).env, bound));
    try {
      await put("/v1/event/subscription/s", { Target: { Type: "queue" } }).then(({ text }) => expect(text).toBe(""));
      await append(
        [event({ Key: "large", Payload: { Job: { Meta: "x".repeat(130_000) } } })],
        [event({ Key: "small" })],
      );
      await expect.poll(() => sent.length).toBe(1);
      expect(JSON.parse(sent[0] ?? "").Lines[0].Events[0].Key).toBe("small");
      expect((await get("/v1/event/subscription/s/dead-letters")).body).toMatchObject([
        { Attempts: 1, Error: "the line is too large for a queue" },
      ]);
    } finally {
      delete bound.EVENT_QUEUE;
    }
  });
});

describe("a crash", () => {
  afterEach(() => void vi.restoreAllMocks());

  it.each([
    ["before", "wake"],
    ["before", "next"],
    ["after", "next"],
  ] as const)("%s %s loses no line and keeps the order", async (when, method) => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    const happened = cut(["EventSubscription", method, when]);
    await appendKeys("a", "b");
    await expect.poll(happened).toBe(true);
    await appendKeys("c");
    await expect
      .poll(async () => {
        await retryNow().catch(() => undefined);
        return [...new Set(keysIn(await hook.received()))];
      })
      .toEqual(["a", "b", "c"]);
  });

  /** Leases the batch of a line as a Worker does, while no Worker runs. */
  async function leased(url: string) {
    await subscribe("s", url);
    await command("s", "pause");
    const [index] = await appendKeys("a");
    await runInDurableObject(stub(), (_object, { storage }) => {
      storage.sql.exec("UPDATE subscription SET paused = NULL");
    });
    const lost = await eventSubscription(env, "s").next(null, true);
    expect(lost?.body).toContain('"Key":"a"');
    // A second Worker gets nothing while the lease runs.
    expect(await eventSubscription(env, "s").next(null, true)).toBeNull();
    return { lost, index };
  }

  it("of the Worker after the call, and of the object, repeats the delivery under its id", async () => {
    const hook = await newHook();
    const { lost } = await leased(hook.url);
    await evictObject(stub());
    await retryNow();
    await expect.poll(hook.keys).toEqual(["a"]);
    expect((await hook.received())[0]?.id).toBe(lost?.id);
  });

  it("makes the report of the late Worker void", async () => {
    const { lost, index } = await leased((await newHook()).url);
    await runInDurableObject(stub(), (_object, { storage }) => {
      storage.sql.exec("UPDATE subscription SET lease_until = 0");
    });
    const second = await eventSubscription(env, "s").next(null, true);
    expect([second?.id, second?.body]).toEqual([lost?.id, lost?.body]);
    const report = (lease = "", error: string | null = null) => ({ lease, error, action: "dead", afterMs: 0 }) as const;
    await eventSubscription(env, "s").next(report(lost?.lease, "late"), false);
    expect(await subscription("s")).toMatchObject({ DeadLetters: 0, LastError: null });
    await eventSubscription(env, "s").next(report(second?.lease), false);
    expect(await subscription("s")).toMatchObject({ DeadLetters: 0, DeliveredIndex: index });
  });

  it("of the log between an append and its wake-up is repaired by the alarm", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    const wake = vi.spyOn((await import("../../src/worker.ts")).EventSubscription.prototype, "wake");
    wake.mockResolvedValue(undefined);
    await appendKeys("a");
    await expect.poll(() => wake.mock.calls.length).toBeGreaterThan(0);
    expect(await hook.received()).toEqual([]);
    await runInDurableObject(stub(), (object) => {
      const due = object.nextDue() ?? 0;
      vi.spyOn(Date, "now").mockReturnValue(due + 1);
      return object.alarm().finally(() => void vi.mocked(Date.now).mockRestore());
    });
    await expect.poll(hook.keys).toEqual(["a"]);
  });

  it("of a wake-up is repaired by the alarm that comes after the object's memory is gone", async () => {
    const hook = await newHook();
    await subscribe("s", hook.url);
    const wake = vi.spyOn((await import("../../src/worker.ts")).EventSubscription.prototype, "wake");
    wake.mockResolvedValue(undefined);
    await appendKeys("a");
    await expect.poll(() => wake.mock.calls.length).toBeGreaterThan(0);
    await evictObject(stub());
    await runInDurableObject(stub(), (object) => object.alarm());
    await expect.poll(hook.keys).toEqual(["a"]);
  });
});

describe("the namespace of a subscription", () => {
  it("pauses it when it is deleted, so that a later one of its name is not delivered", async () => {
    await put("/v1/namespace/team", { Name: "team" });
    const hook = await newHook();
    await subscribe("s", hook.url, { Namespace: "team" });
    await append([event({ Key: "a", Namespace: "team" })]);
    await expect.poll(hook.keys).toEqual(["a"]);
    expect((await del("/v1/namespace/team")).status).toBe(200);
    await put("/v1/namespace/team", { Name: "team" });
    await append([event({ Key: "foreign", Namespace: "team" })]);
    await expect.poll(async () => (await subscription("s")).Paused).toBe("the namespace was deleted");
    expect(await hook.keys()).toEqual(["a"]);
  });
});
