import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { SERVICE_ACCOUNT } from "../../src/publishing/event-accounts.ts";
import { eventLog } from "../../src/rpc/stubs.ts";
import { itRows } from "../support/rows.ts";
import { del, put, send } from "./client.ts";
import { append, appendKeys, closeAll, event, evict, kill, noReaders, openStream, withSettings } from "./streams.ts";

afterEach(closeAll);

const refused = (query: string, token: string | null = "root") =>
  send("GET", `/v1/event/stream${query}`, undefined, { token });

/** A token with the cluster rules of one policy. */
async function tokenWith(rules: string): Promise<string> {
  expect((await put("/v1/acl/policy/rules", { Rules: rules })).status).toBe(200);
  const made = await put("/v1/acl/token", { Name: "reader", Type: "client", Policies: ["rules"] });
  return made.body.SecretID;
}

const keysOf = ({ Events }: { Events: readonly { Key: string }[] }) => Events.map(({ Key }) => Key);

describe("the start of a stream", () => {
  // Proves: C.stream.backlog-first, E.events.1.order
  it("is the backlog, oldest first, followed by new events", async () => {
    await appendKeys("a", "b");
    const stream = await openStream();
    expect([await stream.next(), await stream.next()].map(({ Index }) => Index)).toEqual([1, 2]);
    await appendKeys("c");
    expect(keysOf(await stream.nextLine())).toEqual(["c"]);
  });

  it("is a heartbeat without a backlog, so that the response starts at once", async () => {
    expect(await (await openStream()).next()).toEqual({ Index: 0, Events: [] });
  });

  it("is {} for upstream clients, with a backlog or without", async () => {
    await appendKeys("a");
    const stream = await openStream("", { token: null, headers: { "X-Nomad-Token": "root" } });
    expect(await stream.nextText()).toBe("{}");
    expect(keysOf(await stream.nextLine())).toEqual(["a"]);
  });
});

describe("the index parameter", () => {
  // Proves: C.stream.index.default
  itRows([
    ["", 1],
    ["index=", 1],
    ["index=0", 1],
    ["index=1", 1],
    ["index=2", 2],
    ["index=%2B3", 3],
    ["index=+3", 3],
    ["index=4", 4],
  ])("?%s begins with line %i", async (query, first) => {
    await appendKeys("a", "b", "c", "d");
    expect((await (await openStream(`?${query}`)).nextLine()).Index).toBe(first);
  });

  it.each(["-1", "-5"])("%s begins after the newest line", async (index) => {
    await appendKeys("old", "older");
    const stream = await openStream(`?index=${index}`);
    expect(await stream.next()).toEqual({ Index: 2, Events: [] });
    await appendKeys("new");
    expect(keysOf(await stream.nextLine())).toEqual(["new"]);
  });

  it.each(["4", "5", "9007199254740993", "9223372036854775807", "18446744073709551615", "%2B99"])(
    "%s, beyond the next line, begins with new lines and says so in a header",
    async (index) => {
      await appendKeys("a", "b");
      const stream = await openStream(`?index=${index}`);
      for (const name of ["X-Orch-Start-Index", "X-Nomad-Start-Index"]) {
        expect(stream.response.headers.get(name)).toBe("3");
      }
      expect(await stream.next()).toEqual({ Index: 2, Events: [] });
      await appendKeys("c");
      expect(await stream.nextLine()).toMatchObject({ Index: 3, Events: [{ Key: "c" }] });
    },
  );

  it.each(["", "0", "-1", "1", "2", "3"])("%j has no such header", async (index) => {
    await appendKeys("a", "b");
    const stream = await openStream(`?index=${index}`);
    expect(stream.response.headers.get("X-Orch-Start-Index")).toBeNull();
    await appendKeys("c");
    const first = (await stream.nextLine()).Index;
    expect(first).toBe({ "": 1, 0: 1, 1: 1, 2: 2 }[index] ?? 3);
  });

  it("of a line that left for its account's share begins there, and the header names the line after the gap", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "20" });
    const lease = event({ Topic: "Lease", Namespace: "", FilterKeys: ["azure/creds/r"], Account: SERVICE_ACCOUNT });
    await append([event({ Key: "first" })], ...Array.from({ length: 30 }, () => [lease]));
    const [gap] = (await eventLog(env).bounds()).gaps ?? [];
    expect(gap).toEqual({ account: SERVICE_ACCOUNT, upTo: 22 });
    // Lines in memory are not lost.
    expect((await (await openStream("?index=2&topic=Lease")).nextLine()).Index).toBe(2);
    await closeAll();
    await evict();
    for (const [query, oldest, first] of [
      ["index=2&topic=Lease", 23, 23],
      ["index=0", 23, 1],
      ["index=1&topic=Job", 1, 1],
      ["index=23", 1, 23],
    ] as const) {
      const stream = await openStream(`?${query}`);
      expect([query, stream.response.headers.get("X-Orch-Oldest-Index")]).toEqual([query, String(oldest)]);
      expect([query, (await stream.nextLine()).Index]).toEqual([query, first]);
    }
  });

  // Proves: C.stream.index.too-old, E.limits.event-buffer
  it("of an evicted line begins with the oldest line, whose index is in the header", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "10" });
    for (const key of "abcdefghijklmnopqrstuvwxyz") await appendKeys(key);
    for (const query of ["?index=1", "?index=3", ""]) {
      const stream = await openStream(query);
      const oldest = Number(stream.response.headers.get("X-Orch-Oldest-Index"));
      expect(oldest).toBeGreaterThan(16);
      expect(stream.response.headers.get("X-Nomad-Oldest-Index")).toBe(String(oldest));
      expect((await stream.nextLine()).Index).toBe(oldest);
    }
  });

  it("of a buffered line is at least the oldest index in the header", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "10" });
    for (const key of "abcdefghijklmnopqrstuvwxyz") await appendKeys(key);
    const stream = await openStream("?index=20");
    expect(Number(stream.response.headers.get("X-Orch-Oldest-Index"))).toBeLessThanOrEqual(20);
    expect((await stream.nextLine()).Index).toBe(20);
  });

  // Proves: C.stream.index.default
  itRows([
    "x",
    "1.5",
    "1e3",
    "0x1",
    "--1",
    "1 2",
    "18446744073709551616",
    "-18446744073709551616",
    "9".repeat(40),
    "%00",
    "NaN",
    "Infinity",
  ])("%s is refused before the stream begins", async (index) => {
    const answer = await refused(`?index=${index}`);
    expect(answer.status).toBe(400);
    expect(answer.text).toMatch(/^Unable to parse index: /);
  });
});

describe("the topic parameter", () => {
  const job = (Key: string, FilterKeys: string[] | null = null) => event({ Key, FilterKeys });
  const node = event({ Topic: "Node", Key: "n1", Namespace: "" });
  const drain = event({ Topic: "NodeDrain", Key: "n2", Namespace: "" });
  const deployment = event({ Topic: "Deployment", Key: "d1", FilterKeys: ["web", ""] });

  // Proves: C.event.FilterKeys, C.stream.topic.any-key, C.stream.topic.default, C.stream.topic.form,
  // C.stream.topic.key, C.stream.topic.repeated, E.auth.4.all
  it.each([
    ["", ["web", "api", "n1", "n2", "d1"]],
    ["topic=*", ["web", "api", "n1", "n2", "d1"]],
    ["topic=*:*", ["web", "api", "n1", "n2", "d1"]],
    ["topic=*:*&topic=*:*", ["web", "api", "n1", "n2", "d1"]],
    ["topic=Job", ["web", "api"]],
    ["topic=Job:*", ["web", "api"]],
    ["topic=Job:web", ["web"]],
    ["topic=Job:*&topic=Job:web", ["web", "api"]],
    ["topic=*:web", ["web", "d1"]],
    ["topic=Deployment:web", ["d1"]],
    ["topic=Deployment:", ["d1"]],
    ["topic=Deployment:d1&topic=Deployment:web", ["d1"]],
    ["topic=Job:web&topic=Job:api&topic=Node", ["web", "api", "n1", "n2"]],
    ["topic=Node", ["n1", "n2"]],
    ["topic=NodeDrain", ["n2"]],
    ["topic=job", []],
    ["topic=Job:we", []],
    ["topic=Job:we*", []],
    ["topic=", []],
    ["topic=__proto__", []],
    ["topic=constructor:toString", []],
    ["topic=J%C3%B6b:%E6%97%A5%E6%9C%AC", []],
  ])("?%s selects %j", async (query, keys) => {
    await append([job("web"), job("api"), node, drain, deployment]);
    await append([event({ Topic: "Job", Key: "end" }), event({ Topic: "Node", Key: "end", Namespace: "" })]);
    const stream = await openStream(`?${query}`);
    const line = keys.length === 0 ? await stream.next() : await stream.nextLine();
    expect(keysOf(line)).toEqual(keys);
    // A line without an event for the reader is passed over: what it waits at is the end.
    if (keys.length === 0) expect(line.Index).toBe(2);
  });

  it("accepts any key without a colon", async () => {
    await appendKeys("日本 %&=", "other");
    const stream = await openStream(`?topic=Job:${encodeURIComponent("日本 %&=")}`);
    expect(keysOf(await stream.nextLine())).toEqual(["日本 %&="]);
  });

  // Proves: C.stream.topic.form
  it("with two colons is refused by name, with a bounded message", async () => {
    const answer = await refused(`?topic=Job&topic=a:b:c${"x".repeat(2_000)}`);
    expect(answer.status).toBe(400);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
    expect(answer.text).toContain("Invalid key value pair for topic, topic: a:b:c");
    expect(answer.text.length).toBeLessThan(500);
  });
});

describe("the namespace parameter", () => {
  const three = () =>
    append(
      [event({ Key: "in-default" })],
      [event({ Key: "in-prod", Namespace: "prod" }), event({ Key: "in-dev", Namespace: "dev" })],
      [event({ Topic: "Node", Key: "nowhere", Namespace: "" })],
    );
  const all = async (query: string, token = "root", headers = {}) => {
    const stream = await openStream(query, { token, headers });
    const found: string[] = [];
    while (!found.includes("nowhere")) found.push(...keysOf(await stream.nextLine()));
    return found;
  };

  // Proves: C.stream.namespace.all, C.stream.namespace.all-right, C.stream.namespace.default,
  // C.stream.namespace.filter
  itRows([
    ["", ["in-default", "nowhere"]],
    ["?namespace=", ["in-default", "nowhere"]],
    ["?namespace=default", ["in-default", "nowhere"]],
    ["?namespace=prod", ["in-prod", "nowhere"]],
    ["?namespace=unknown", ["nowhere"]],
    ["?namespace=*", ["in-default", "in-prod", "in-dev", "nowhere"]],
  ])("%j returns %j", async (query, keys) => {
    await three();
    expect(await all(query)).toEqual(keys);
  });

  // Proves: C.stream.namespace.all-right, E.errors.6
  it("* requires a rule for all namespaces, and a rule that denies one refuses it", async () => {
    for (const name of ["prod", "dev"]) await put(`/v1/namespace/${name}`, {});
    const query = "?namespace=*&topic=Job&index=-1";
    const star = await tokenWith('namespace "*" { policy = "read" }');
    const stream = await openStream(query, { token: star });
    expect(stream.response.status).toBe(200);
    await stream.next();
    await three();
    expect(keysOf(await stream.nextLine())).toEqual(["in-default"]);
    expect(keysOf(await stream.nextLine())).toEqual(["in-prod", "in-dev"]);
    const holed = await tokenWith('namespace "*" { policy = "read" }\nnamespace "dev" { policy = "deny" }');
    expect((await refused(query, holed)).status).toBe(403);
  });

  // Proves: C.stream.namespace.all-right, E.errors.6
  it("* is refused to tokens that may read every current namespace but not future ones", async () => {
    const each = await tokenWith('namespace "default" { policy = "read" }\nnode { policy = "read" }');
    expect((await refused("?namespace=*&topic=Job", each)).status).toBe(403);
    expect((await refused("?namespace=*&topic=Node", each)).status).toBe(403);
    const stream = await openStream("?topic=Job&topic=Node", { token: each });
    expect(stream.response.status).toBe(200);
  });
});

describe("authorization is complete before the first byte", () => {
  // Proves: E.auth.4.ACLPolicy, E.auth.4.ACLToken, E.auth.4.Node, E.auth.4.all, E.auth.4.policies-stream
  itRows([
    ["topic=Job", 'namespace "default" { capabilities = ["read-job"] }', 200],
    ["topic=Allocation&topic=Deployment&topic=Evaluation", 'namespace "default" { capabilities = ["read-job"] }', 200],
    ["topic=Job", 'namespace "default" { capabilities = ["list-jobs"] }', 403],
    ["topic=Job&namespace=prod", 'namespace "default" { capabilities = ["read-job"] }', 403],
    ["topic=Job&topic=Node", 'namespace "default" { capabilities = ["read-job"] }', 403],
    ["topic=Node", 'node { policy = "read" }', 200],
    ["topic=NodeDrain", 'node { policy = "write" }', 200],
    ["topic=Node", 'namespace "*" { policy = "write" }', 403],
    ["topic=HostVolume", 'namespace "default" { capabilities = ["host-volume-read"] }', 200],
    ["topic=HostVolume", 'namespace "default" { capabilities = ["read-job"] }', 403],
    ["topic=CSIVolume", 'namespace "default" { capabilities = ["csi-read-volume"] }', 200],
    ["topic=Operator", 'operator { policy = "read" }', 200],
    ["topic=ACLToken", 'namespace "*" { policy = "write" }\noperator { policy = "write" }', 403],
    ["topic=ACLPolicy", 'namespace "*" { policy = "write" }\noperator { policy = "write" }', 403],
    ["topic=Unknown", 'namespace "*" { policy = "write" }', 403],
    ["topic=", 'namespace "*" { policy = "write" }', 403],
    ["topic=*", 'namespace "*" { policy = "write" }\nnode { policy = "write" }', 403],
    ["", 'namespace "*" { policy = "write" }\nnode { policy = "write" }', 403],
  ])("?%s with %s: %i", async (query, rules, status) => {
    const token = await tokenWith(rules);
    const { response } = await openStream(`?${query}`, { token });
    expect(response.status).toBe(status);
    if (status === 403) expect(await (await refused(`?${query}`, token)).text).toBe("Permission denied");
  });

  // Proves: E.auth.4.policies-stream
  itRows([null, "unknown"])("refuses the token %s", async (token) => {
    const answer = await refused("", token);
    expect([answer.status, answer.text]).toEqual([403, "Permission denied"]);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
  });

  it("uses a revocation at once", async () => {
    const token = await tokenWith('node { policy = "read" }');
    expect((await openStream("?topic=Node", { token })).response.status).toBe(200);
    await del("/v1/acl/policy/rules");
    expect((await refused("?topic=Node", token)).status).toBe(403);
  });
});

describe("framing", () => {
  // Proves: C.envelope.Events, C.envelope.Index, C.event.Index, C.event.Key, C.event.Topic, C.event.Type,
  // C.stream.ndjson, C.stream.several
  it("is one object and one line feed per line, for any payload", async () => {
    const stream = await openStream("?index=-1");
    await append([event({ Key: "\n\r\n\u2028", Payload: { Job: { ID: "line\nfeed", Meta: { "a\r\nb": "\n\n" } } } })]);
    await append([event({ Key: "b" }), event({ Key: "c" })]);
    const texts: string[] = [];
    while (texts.filter((text) => text.includes('"Key"')).length < 2) texts.push((await stream.nextText()) ?? "");
    for (const text of texts) {
      expect([text.at(0), text.at(-1)]).toEqual(["{", "}"]);
      expect(JSON.parse(text)).toBeInstanceOf(Object);
    }
    expect(texts.map((text) => JSON.parse(text)).find(({ Index }) => Index === 2).Events).toEqual([
      { ...event({ Key: "b" }), Index: 2 },
      { ...event({ Key: "c" }), Index: 2 },
    ]);
    expect(stream.rest()).not.toMatch(/^\s/);
  });

  it("fills in unset indexes of the object, and no others", async () => {
    await append([event({ Payload: { Job: { ID: "a", CreateIndex: null, ModifyIndex: null, Other: null } } })]);
    await append([event({ Payload: { Job: { ID: "a", CreateIndex: 1, ModifyIndex: null } } })]);
    const stream = await openStream();
    expect((await stream.next()).Events[0]?.Payload).toEqual({
      Job: { ID: "a", CreateIndex: 1, ModifyIndex: 1, Other: null },
    });
    expect((await stream.next()).Events[0]?.Payload).toEqual({ Job: { ID: "a", CreateIndex: 1, ModifyIndex: 2 } });
  });

  // Proves: C.stream.endpoint, E.versioning.1.stream
  it("has headers that prevent buffering by intermediaries", async () => {
    const { response } = await openStream();
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "application/json",
      "content-encoding": "identity",
      "cache-control": "no-store, no-transform",
      "x-orch-oldest-index": "0",
    });
  });
});

describe("a heartbeat", () => {
  // Proves: C.envelope.Events, C.envelope.Index, C.stream.heartbeat, C.stream.open
  it("is repeated with the newest passed index", async () => {
    await appendKeys("a");
    const stream = await openStream("?topic=Node");
    expect([await stream.next(), await stream.next()]).toEqual([
      { Index: 1, Events: [] },
      { Index: 1, Events: [] },
    ]);
    await appendKeys("b");
    let beat = await stream.next();
    while (beat.Index === 1) beat = await stream.next();
    expect(beat).toEqual({ Index: 2, Events: [] });
  });

  it("is {} for upstream clients", async () => {
    const stream = await openStream("", { headers: { "X-Vault-Request": "true" } });
    expect([await stream.nextText(), await stream.nextText()]).toEqual(["{}", "{}"]);
  });

  it("reaches a reader whose filter excludes all events of a busy stream", async () => {
    const stream = await openStream("?topic=Node");
    await stream.next();
    let busy = true;
    const writing = (async () => {
      for (let n = 0; busy; n++) await appendKeys(`k${n}`);
    })();
    const beats = [await stream.next(), await stream.next(), await stream.next()];
    busy = false;
    await writing;
    expect(beats.every(({ Events }) => Events.length === 0)).toBe(true);
    expect(beats[2]?.Index).toBeGreaterThan(beats[0]?.Index ?? 0);
  });
});

describe("an interrupted stream", () => {
  it("resumes by index without loss or repetition, through restarts and concurrent writes", async () => {
    const seen: number[] = [];
    for (let round = 0; round < 5; round++) {
      const stream = await openStream(`?index=${(seen.at(-1) ?? 0) + 1}`);
      await appendKeys(...Array.from({ length: 7 }, (_, n) => `${round}-${n}`));
      while ((seen.at(-1) ?? 0) < round * 7 + 5) seen.push((await stream.nextLine()).Index);
      await kill();
      await expect(
        (async () => {
          for (;;) if ((await stream.nextText()) === null) throw new Error("ended");
        })(),
      ).rejects.toThrow();
    }
    const stream = await openStream(`?index=${(seen.at(-1) ?? 0) + 1}`);
    while (seen.length < 35) seen.push((await stream.nextLine()).Index);
    expect(seen).toEqual(Array.from({ length: 35 }, (_, n) => n + 1));
  });

  it("after a graceful restart reads the backlog from disk unchanged", async () => {
    const payload = { Job: { ID: "é\n", Number: 1e21, Deep: { list: [1, null, ""] } } };
    await append([event({ Payload: payload }), event({ Key: "b" })]);
    const warm = await openStream();
    const text = await warm.nextText();
    await warm.close();
    await noReaders();
    await evict();
    expect(await (await openStream()).nextText()).toBe(text);
  });
});

describe("events of access control", () => {
  // Proves: C.type.ACLPolicyDeleted, C.type.ACLPolicyUpserted, C.type.ACLTokenDeleted, C.type.ACLTokenUpserted,
  // E.auth.4.ACLPolicy, E.auth.4.ACLToken
  it("report written and deleted policies and tokens, without the secret", async () => {
    const stream = await openStream("?topic=ACLPolicy&topic=ACLToken&index=-1");
    await stream.next();
    await put("/v1/acl/policy/p", { Rules: 'node { policy = "read" }' });
    const token = (await put("/v1/acl/token", { Name: "t", Type: "client", Policies: ["p"] })).body;
    await del(`/v1/acl/token/${token.AccessorID}`);
    await del("/v1/acl/policy/p");
    const told = [];
    for (let n = 0; n < 4; n++) told.push(await stream.nextLine());
    expect(told.map(({ Events }) => [Events[0]?.Topic, Events[0]?.Type, Events[0]?.Key])).toEqual([
      ["ACLPolicy", "ACLPolicyUpserted", "p"],
      ["ACLToken", "ACLTokenUpserted", token.AccessorID],
      ["ACLToken", "ACLTokenDeleted", token.AccessorID],
      ["ACLPolicy", "ACLPolicyDeleted", "p"],
    ]);
    expect(JSON.stringify(told)).not.toContain(token.SecretID);
    expect(told[1]?.Index).toBe(token.ModifyIndex);
  });

  // Proves: C.event.Index, E.events.1.order
  it("are in the order of their indexes under concurrent writes", async () => {
    const stream = await openStream("?topic=ACLPolicy");
    await Promise.all(
      Array.from({ length: 12 }, (_, n) => put(`/v1/acl/policy/p${n}`, { Rules: 'node { policy = "read" }' })),
    );
    const found: number[] = [];
    const keys = new Set<string | undefined>();
    while (keys.size < 12) {
      const { Index, Events } = await stream.nextLine();
      found.push(Index);
      for (const { Key, Index: own } of Events) {
        keys.add(Key);
        expect(own).toBe(Index);
      }
    }
    expect(found).toEqual([...found].sort((a, b) => a - b));
    expect(new Set(found).size).toBe(found.length);
  });
});

// Proves: E.versioning.1.stream
itRows(["POST", "PUT", "PATCH", "DELETE"])("%s returns 405 for the stream", async (method) => {
  const answer = await send(method, "/v1/event/stream");
  expect([answer.status, answer.text, answer.headers.get("Allow")]).toEqual([
    405,
    "Invalid method",
    "GET, HEAD, OPTIONS",
  ]);
  const without = await exports.default.fetch("https://x/event/stream", { headers: { "X-Orch-Token": "root" } });
  expect(without.status).toBe(404);
});
