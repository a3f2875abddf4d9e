import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { NewEvent } from "../../src/contracts/event.ts";
import type { StreamAnswer, StreamQuestion } from "../../src/contracts/stream-rights.ts";
import { settings } from "../../src/platform/settings.ts";
import { AccessControl, EventLog, EventRelay, ReadReplica } from "../../src/worker.ts";
import { del, put, send } from "./client.ts";
import { append, appendKeys, closeAll, event, kill, noReaders, openStream, state, withSettings } from "./streams.ts";
import { newHook, SECRET } from "./webhooks.ts";

/* Open streams whose token's rights change. */

afterEach(closeAll);

const READ = 'namespace "default" { capabilities = ["read-job"] }';

const policy = async (name: string, rules: string) =>
  expect((await put(`/v1/acl/policy/${name}`, { Rules: rules })).status).toBe(200);

interface Token {
  readonly AccessorID: string;
  readonly SecretID: string;
}

async function tokenOf(policies: readonly string[]): Promise<Token> {
  const made = await put("/v1/acl/token", { Name: "reader", Type: "client", Policies: policies });
  expect(made.status).toBe(200);
  return made.body;
}

type Stream = Awaited<ReturnType<typeof openStream>>;

const jobs = (token: Token, query = "") => openStream(`?topic=Job${query}`, { token: token.SecretID });

/** Reads until the stream ends. @returns the keys of the events, and its last line if that is an error */
async function toTheEnd(stream: Stream): Promise<{ keys: string[]; error: unknown }> {
  const keys: string[] = [];
  let error: unknown;
  for (let text = await stream.nextText(); text !== null; text = await stream.nextText()) {
    const line = JSON.parse(text) as { Events?: NewEvent[]; Error?: unknown };
    keys.push(...(line.Events ?? []).map(({ Key }) => Key));
    error = line.Error;
  }
  return { keys, error };
}

async function keysUntil(stream: Stream, last: string): Promise<string[]> {
  const keys: string[] = [];
  while (!keys.includes(last)) keys.push(...(await stream.nextLine()).Events.map(({ Key }) => Key));
  return keys;
}

type Asked = (questions: readonly StreamQuestion[]) => StreamAnswer[] | Promise<StreamAnswer[]>;

/** Intercepts rights checks of `AccessControl`. */
function askedThrough(way: (ask: Asked, ...parameters: Parameters<Asked>) => ReturnType<Asked>) {
  const original = AccessControl.prototype.mayStream;
  return vi.spyOn(AccessControl.prototype, "mayStream").mockImplementation(function (this: AccessControl, questions) {
    return way((asked) => original.call(this, asked), questions) as StreamAnswer[];
  });
}

/** Lets questions wait until they are let through. */
function held() {
  const gate = Promise.withResolvers<void>();
  const asked = askedThrough(async (ask, questions) => {
    await gate.promise;
    return ask(questions);
  });
  return { asked, letGo: () => gate.resolve() };
}

beforeEach(() => policy("read", READ));

describe("a token that loses its rights", () => {
  it.each([
    ["when it is deleted", ({ AccessorID }: Token) => del(`/v1/acl/token/${AccessorID}`)],
    ["when its policy is deleted", () => del("/v1/acl/policy/read")],
    ["when its policy changes", () => put("/v1/acl/policy/read", { Rules: 'node { policy = "read" }' })],
    [
      "when it is given other policies",
      ({ AccessorID }: Token) =>
        put(`/v1/acl/token/${AccessorID}`, { AccessorID, Name: "reader", Type: "client", Policies: ["none"] }),
    ],
  ])("ends its streams at the event of that change, %s", async (_when, lose) => {
    const token = await tokenOf(["read"]);
    const plain = await jobs(token);
    const told = await jobs(token, "&errors=true");
    await appendKeys("before");
    for (const stream of [plain, told]) expect(await keysUntil(stream, "before")).toEqual(["before"]);
    expect((await lose(token)).status).toBe(200);
    const { newest } = await state();
    await appendKeys("after");
    expect(await toTheEnd(plain)).toEqual({ keys: [], error: undefined });
    const end = await toTheEnd(told);
    expect(end).toEqual({ keys: [], error: { Code: "permission_denied", LastIndex: expect.any(Number) } });
    expect((end.error as { LastIndex: number }).LastIndex).toBeLessThan(newest + 1);
    await noReaders();
  });

  it.each([
    [
      "when its role loses the policy",
      (role: object & { ID: string }) => put(`/v1/acl/role/${role.ID}`, { ...role, Policies: [{ Name: "default" }] }),
    ],
    ["when its role is deleted", ({ ID }: { ID: string }) => del(`/v1/acl/role/${ID}`)],
  ])("ends its streams, %s", async (_when, lose) => {
    const role = (await put("/v1/acl/role", { Name: "readers", Policies: [{ Name: "read" }] })).body;
    const made = await put("/v1/acl/token", { Name: "reader", Type: "client", Roles: [{ Name: "readers" }] });
    const stream = await jobs(made.body);
    await appendKeys("before");
    expect(await keysUntil(stream, "before")).toEqual(["before"]);
    expect((await lose(role)).status).toBe(200);
    await appendKeys("after");
    expect(await toTheEnd(stream)).toEqual({ keys: [], error: undefined });
    await noReaders();
  });

  it("receives nothing more of its backlog, either", async () => {
    const token = await tokenOf(["read"]);
    const payload = { Job: { ID: "x".repeat(100_000) } };
    for (let n = 0; n < 100; n++) await append([event({ Key: `k${n}`, Payload: payload })]);
    const stream = await jobs(token);
    await stream.next();
    await del(`/v1/acl/token/${token.AccessorID}`);
    // Bytes that the runtime has read already are still delivered; the rest is dropped.
    expect((await toTheEnd(stream)).keys.length).toBeLessThan(60);
    await noReaders();
  });

  it("leaves no stream open when the request is refused after the stream was opened", async () => {
    const token = await tokenOf(["read"]);
    const server = settings(env).EVENT_RELAYS > 0 ? EventRelay.prototype : EventLog.prototype;
    const open = server.fetch;
    let isOpen = false;
    vi.spyOn(server, "fetch").mockImplementationOnce(async function (this: typeof server, request: Request) {
      const response = await open.call(this as never, request);
      // Longer than the moment for which a judgement stands.
      await scheduler.wait(20);
      isOpen = true;
      return response;
    });
    // The second judgement of the request comes too late for its stream.
    const judge = ReadReplica.prototype.authorizeAsText;
    vi.spyOn(ReadReplica.prototype, "authorizeAsText").mockImplementation(async function (this: ReadReplica, ...asked) {
      if (isOpen) {
        isOpen = false;
        await del(`/v1/acl/token/${token.AccessorID}`);
      }
      return judge.apply(this, asked);
    });
    expect((await jobs(token)).response.status).toBe(403);
    // Less than the time after which a stalled reader is cut.
    await vi.waitFor(async () => expect((await state()).readers).toBe(0), { timeout: 25_000 });
    expect(settings(env).EVENT_STALL_MS).toBeGreaterThan(30_000);
  });

  it("cannot open a stream during the change", async () => {
    const token = await tokenOf(["read"]);
    const original = AccessControl.prototype.mayStream;
    const asked = vi.spyOn(AccessControl.prototype, "mayStream");
    asked.mockImplementationOnce((async (questions: readonly StreamQuestion[]) => {
      const object = env.ACCESS_CONTROL.getByName("main");
      const answers = await object.mayStream(questions as StreamQuestion[]);
      // Judged, but not answered yet, when it is revoked.
      await del(`/v1/acl/token/${token.AccessorID}`);
      await appendKeys("secret");
      return answers;
    }) as unknown as typeof original);
    const stream = await jobs(token);
    if (stream.response.status === 200) expect((await toTheEnd(stream)).keys).toEqual([]);
    else expect(stream.response.status).toBe(403);
    await noReaders();
  });
});

describe("a token that keeps its rights", () => {
  it("misses and repeats nothing after a change of policies or of another token", async () => {
    const [token, other] = [await tokenOf(["read"]), await tokenOf(["read"])];
    const stream = await jobs(token);
    const found = keysUntil(stream, "end");
    const sent: string[] = [];
    for (let n = 0; n < 30; n++) {
      await appendKeys(`k${n}`);
      sent.push(`k${n}`);
      if (n % 3 === 0) await policy(`other${n}`, READ);
      if (n === 10) await policy("read", `${READ}\nnode { policy = "read" }`);
      if (n === 20) await del(`/v1/acl/token/${other.AccessorID}`);
    }
    await appendKeys("end");
    expect(await found).toEqual([...sent, "end"]);
  });

  it("is checked only when an event may concern it, and once for all of its equal streams", async () => {
    const [token, other] = [await tokenOf(["read"]), await tokenOf(["read"])];
    const streams = await Promise.all(Array.from({ length: 20 }, () => jobs(token)));
    const asked = vi.spyOn(AccessControl.prototype, "mayStream");
    await appendKeys("a");
    await tokenOf(["none"]);
    await policy("another", READ);
    await del(`/v1/acl/token/${other.AccessorID}`);
    await appendKeys("b");
    for (const stream of streams) await keysUntil(stream, "b");
    expect(asked).not.toHaveBeenCalled();
    await policy("read", READ);
    await appendKeys("c");
    for (const stream of streams) await keysUntil(stream, "c");
    expect(asked.mock.calls.map(([questions]) => questions)).toEqual([
      [{ accessor: token.AccessorID, topics: ["Job"], namespace: "default" }],
    ]);
  });

  it("is checked in batches, for any number of tokens", async () => {
    const tokens = await Promise.all(Array.from({ length: 130 }, () => tokenOf(["read"])));
    const streams: Stream[] = [];
    for (const token of tokens) streams.push(await jobs(token, "&index=-1"));
    const asked = vi.spyOn(AccessControl.prototype, "mayStream");
    await policy("read", READ);
    await appendKeys("end");
    for (const stream of streams) await keysUntil(stream, "end");
    const sizes = asked.mock.calls.map(([questions]) => questions.length);
    expect(sizes).toEqual([100, 30]);
  }, 60_000);

  it("continues under narrower rules without the excluded events", async () => {
    for (const name of ["prod", "dev"]) await put(`/v1/namespace/${name}`, {});
    await policy("star", 'namespace "*" { capabilities = ["read-job"] }');
    const token = await tokenOf(["star"]);
    const stream = await openStream("?topic=Job&namespace=*&index=-1", { token: token.SecretID });
    await append([event({ Key: "seen", Namespace: "later" })]);
    await keysUntil(stream, "seen");
    await policy(
      "star",
      'namespace "*" { capabilities = ["read-job"] }\nnamespace "later" { capabilities = ["list-jobs"] }',
    );
    await append([event({ Key: "hidden", Namespace: "later" }), event({ Key: "end" })]);
    expect(await keysUntil(stream, "end")).toEqual(["end"]);
  });
});

describe("while rights cannot be checked", () => {
  it("events wait, heartbeats continue, and nothing is lost afterwards", async () => {
    const token = await tokenOf(["read"]);
    const stream = await jobs(token);
    await stream.next();
    const { letGo } = held();
    await policy("read", READ);
    await appendKeys("a", "b");
    for (let n = 0; n < 3; n++) expect((await stream.next()).Events).toEqual([]);
    letGo();
    expect(await keysUntil(stream, "b")).toEqual(["a", "b"]);
  });

  it("failed checks are retried until one succeeds", async () => {
    const token = await tokenOf(["read"]);
    const stream = await jobs(token);
    let failures = 3;
    const asked = askedThrough((ask, questions) => {
      if (failures-- > 0) throw new Error("unreachable");
      return ask(questions);
    });
    await policy("read", READ);
    await appendKeys("a");
    expect(await keysUntil(stream, "a")).toEqual(["a"]);
    expect(asked).toHaveBeenCalledTimes(4);
  });

  it("no stream is opened", async () => {
    const token = await tokenOf(["read"]);
    askedThrough(() => {
      throw new Error("unreachable");
    });
    const answer = await send("GET", "/v1/event/stream?topic=Job", undefined, { token: token.SecretID });
    expect([answer.status, answer.headers.get("Retry-After")]).toEqual([503, "1"]);
    await noReaders();
  });

  it("a concurrent revocation takes effect afterwards", async () => {
    const token = await tokenOf(["read"]);
    const stream = await jobs(token);
    const { letGo } = held();
    await policy("read", READ);
    await appendKeys("hidden");
    await del(`/v1/acl/token/${token.AccessorID}`);
    letGo();
    expect((await toTheEnd(stream)).keys).toEqual([]);
  });
});

describe("an expiring token", () => {
  const shortLived = async (seconds: number): Promise<string> => {
    const body = { policies: ["read"], ttl: `${seconds}s`, explicit_max_ttl: "1h" };
    return (await send("POST", "/v1/auth/token/create", body)).body.auth.client_token;
  };

  it("ends its streams at its expiry, without any event", async () => {
    await withSettings({ EVENT_HEARTBEAT_MS: "600000" });
    const stream = await openStream("?topic=Job&errors=true", { token: await shortLived(5) });
    vi.spyOn(EventLog.prototype, "append").mockRejectedValue(new Error("unreachable"));
    const end = await toTheEnd(stream);
    expect(end.error).toMatchObject({ Code: "permission_denied" });
    await noReaders();
  });

  it("receives no heartbeat after its expiry while its renewal cannot be checked", async () => {
    const stream = await openStream("?topic=Job", { token: await shortLived(5) });
    const { letGo, asked } = held();
    const signs: number[] = [];
    const reading = (async () => {
      for (let text = await stream.nextText(); text !== null; text = await stream.nextText()) signs.push(Date.now());
    })();
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    await appendKeys("hidden");
    const before = signs.length;
    await scheduler.wait(1_000);
    expect(signs.length).toBe(before);
    letGo();
    await reading;
    expect(signs.length).toBe(before);
  });

  it("continues after a renewal, beyond its earlier expiry", async () => {
    const secret = await shortLived(5);
    const stream = await openStream("?topic=Job", { token: secret });
    const ends = Date.now() + 5_000;
    const renewed = await send("POST", "/v1/auth/token/renew-self", { increment: "1h" }, { token: secret });
    expect(renewed.body.auth.lease_duration).toBeGreaterThan(1_000);
    while (Date.now() < ends + 500) expect((await stream.next()).Events).toEqual([]);
    await appendKeys("a");
    expect(await keysUntil(stream, "a")).toEqual(["a"]);
  });
});

it("a subscription belongs to the deployment: it outlives its writer's token, which can no longer change it", async () => {
  const writer = (await put("/v1/acl/token", { Name: "setup", Type: "management" })).body as Token;
  const hook = await newHook();
  const body = { Topics: { Job: ["*"] }, Target: { Type: "webhook", URL: hook.url, Secret: SECRET } };
  expect((await put("/v1/event/subscription/s", body, { token: writer.SecretID })).status).toBe(200);
  await appendKeys("before");
  await expect.poll(hook.keys).toEqual(["before"]);
  expect((await del(`/v1/acl/token/${writer.AccessorID}`)).status).toBe(200);
  await appendKeys("after");
  await expect.poll(hook.keys).toEqual(["before", "after"]);
  expect((await put("/v1/event/subscription/s", body, { token: writer.SecretID })).status).toBe(403);
  expect((await del("/v1/event/subscription/s")).status).toBe(200);
});

it("rights are restored after a restart of the log", async () => {
  const token = await tokenOf(["read"]);
  const stream = await jobs(token);
  await stream.next();
  await kill();
  await del(`/v1/acl/token/${token.AccessorID}`);
  expect((await send("GET", "/v1/event/stream?topic=Job", undefined, { token: token.SecretID })).status).toBe(403);
});
