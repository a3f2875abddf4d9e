import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import type { NewEvent } from "../../src/contracts/event.ts";
import { eventLog } from "../../src/rpc/stubs.ts";
import { itRows } from "../support/rows.ts";
import { put, send } from "./client.ts";
import { append, closeAll, event, evict, noReaders, openStream } from "./streams.ts";

/* Rights to topics and namespaces, and the format of events in each dialect. */

afterEach(closeAll);

async function tokenWith(rules: string): Promise<string> {
  expect((await put("/v1/acl/policy/rules", { Rules: rules })).status).toBe(200);
  return (await put("/v1/acl/token", { Name: "reader", Type: "client", Policies: ["rules"] })).body.SecretID;
}

type Stream = Awaited<ReturnType<typeof openStream>>;

async function eventsUntil(stream: Stream, last: string): Promise<(NewEvent & { Index: number })[]> {
  const events: (NewEvent & { Index: number })[] = [];
  while (!events.some(({ Key }) => Key === last)) events.push(...(await stream.nextLine()).Events);
  return events;
}

const keysUntil = async (stream: Stream, last: string) => (await eventsUntil(stream, last)).map(({ Key }) => Key);

describe("each topic requires its own capability only", () => {
  const inNamespace = (right: string) => `namespace "default" { capabilities = ["${right}"] }`;
  const WITHOUT_MANAGEMENT = [
    'namespace "*" { policy = "write" }',
    'node { policy = "write" }',
    'operator { policy = "write" }',
    'plugin { policy = "read" }',
    'node_pool "*" { policy = "write" }',
  ];
  const opened: [string, string | null][] = [
    ...["Job", "Allocation", "Evaluation", "Deployment", "Service", "CSIPlugin"].map((topic): [string, string] => [
      topic,
      inNamespace("read-job"),
    ]),
    ["HostVolume", inNamespace("host-volume-read")],
    ["CSIVolume", inNamespace("csi-read-volume")],
    ["Variable", 'namespace "default" { variables { path "a/*" { capabilities = ["list"] } } }'],
    ["Node", 'node { policy = "read" }'],
    ["NodeDrain", 'node { policy = "read" }'],
    ["Operator", 'operator { policy = "read" }'],
    ...["NodePool", "ACLToken", "ACLPolicy", "ACLRole", "ACLAuthMethod", "ACLBindingRule", "*", "Unknown"].map(
      (topic): [string, null] => [topic, null],
    ),
  ];

  itRows(opened)("for the topic %s", async (topic, rules) => {
    const statusWith = async (token: string) => (await openStream(`?topic=${topic}`, { token })).response.status;
    expect(await statusWith("root")).toBe(200);
    if (rules !== null) expect(await statusWith(await tokenWith(rules))).toBe(200);
    const family = rules?.split(" ")[0] ?? "none";
    const others = WITHOUT_MANAGEMENT.filter((each) => !each.startsWith(`${family} `));
    expect(await statusWith(await tokenWith(others.join("\n")))).toBe(403);
  });

  itRows([
    ["HostVolume", "read-job"],
    ["CSIVolume", "read-job"],
    ["Job", "csi-read-volume"],
    ["CSIPlugin", "host-volume-read"],
    ["Variable", "read-job"],
  ])("%s is refused with %s", async (topic, right) => {
    const { response } = await openStream(`?topic=${topic}`, { token: await tokenWith(inNamespace(right)) });
    expect(response.status).toBe(403);
  });

  it("a variable's event requires the capability to list it", async () => {
    const variable = (Key: string) =>
      event({ Topic: "Variable", Type: "VariableUpdated", Key, Payload: { Metadata: { Path: Key } } });
    const token = await tokenWith('namespace "default" { variables { path "a/*" { capabilities = ["list"] } } }');
    await append([variable("a/1"), variable("b/1")], [variable("b/2")], [variable("a/end")]);
    expect(await keysUntil(await openStream("?topic=Variable", { token }), "a/end")).toEqual(["a/1", "a/end"]);
  });
});

describe("all namespaces", () => {
  const star = "?topic=Job&namespace=*&index=-1";
  const job = (Key: string, Namespace: string) => event({ Key, Namespace });

  it("require the capability in each namespace that exists when the stream is opened", async () => {
    const token = await tokenWith(
      'namespace "*" { policy = "read" }\nnamespace "secret-*" { capabilities = ["list-jobs"] }',
    );
    expect((await openStream(star, { token })).response.status).toBe(200);
    await put("/v1/namespace/secret-one", {});
    expect((await openStream(star, { token })).response.status).toBe(403);
  });

  it("created later are included or excluded by the reader's closest rule", async () => {
    const token = await tokenWith(`namespace "*" { policy = "read" }
      namespace "secret-*" { policy = "deny" }
      namespace "secret-not" { policy = "read" }`);
    const stream = await openStream(star, { token });
    for (const name of ["new", "secret-one", "secret-not"]) await put(`/v1/namespace/${name}`, {});
    await append(
      [job("new", "new"), job("hidden", "secret-one")],
      [job("hidden", "secret-one")],
      [job("open", "secret-not"), job("end", "default")],
    );
    expect(await keysUntil(stream, "end")).toEqual(["new", "open", "end"]);
  });

  it("created later are included for management tokens", async () => {
    const stream = await openStream(star);
    await append([job("new", "new")], [job("end", "default")]);
    expect(await keysUntil(stream, "end")).toEqual(["new", "end"]);
  });
});

describe("a drain event", () => {
  const drain = event({
    Topic: "NodeDrain",
    Type: "NodeDrain",
    Key: "n1",
    Namespace: "",
    Payload: { Node: { ID: "n1", Drain: true, Resources: { CPU: 1 }, Reserved: null, NodeResources: {} } },
  });
  const last = event({ Topic: "Node", Type: "NodeEvent", Key: "end", Namespace: "", Payload: { Node: { ID: "end" } } });
  const upstream = { headers: { "X-Nomad-Token": "root" } };

  it.each(["Node", "NodeDrain&topic=Node:end", "*"])("is a NodeDrain event for ?topic=%s", async (topic) => {
    await append([drain], [last]);
    expect(await eventsUntil(await openStream(`?topic=${topic}`), "end")).toEqual([
      { ...drain, Index: 1 },
      { ...last, Index: 2 },
    ]);
  });

  it.each(["Node", "NodeDrain&topic=Node:end", "*"])(
    "is a Node event for upstream clients with ?topic=%s, with upstream's names and fields",
    async (topic) => {
      await append([drain, event({ Key: "untouched" })], [last]);
      const events = await eventsUntil(await openStream(`?topic=${topic}`, upstream), "end");
      expect(events.filter(({ Topic }) => Topic !== "Job")).toEqual([
        { ...drain, Topic: "Node", Payload: { Node: { ID: "n1", Drain: true, NodeResources: {} } }, Index: 1 },
        { ...last, Type: "NodeStreamEvent", Index: 2 },
      ]);
      if (topic === "*") expect(events[1]).toEqual({ ...event({ Key: "untouched" }), Index: 1 });
    },
  );

  it("reaches readers of both dialects from one stored line", async () => {
    const [neutral, other] = [await openStream("?index=-1"), await openStream("?index=-1", upstream)];
    await append([drain]);
    expect((await neutral.nextLine()).Events[0]?.Topic).toBe("NodeDrain");
    expect((await other.nextLine()).Events[0]?.Topic).toBe("Node");
  });
});

describe("an invalid query", () => {
  itRows([
    ["index=18446744073709551616", "index"],
    ["index=-18446744073709551616", "index"],
    ["index=1_000", "index"],
    ["index=%E0%A5%A7", "index"],
    ["index=+", "index"],
    ["topic=a:b:c", "topic"],
    ["topic=Job&topic=:::", "topic"],
    ["errors=maybe", "errors"],
  ])("?%s is refused before the first byte, naming %s", async (query, name) => {
    const answer = await send("GET", `/v1/event/stream?${query}`);
    expect(answer.status).toBe(400);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
    expect(answer.text).toContain(name);
  });

  it("excludes unknown parameters, which are ignored", async () => {
    const query = "?pretty&wait=x&per_page=-1&filter=%28&stale=maybe&index=9007199254740991&errors=false";
    expect((await openStream(query)).response.status).toBe(200);
  });
});

it("a filter has the same result from disk and from memory, in either dialect", async () => {
  const nodes = ["Node", "NodeDrain"].map((Topic) => event({ Topic, Key: `n "${Topic}"`, Namespace: "" }));
  await append(...nodes.map((node) => [node]));
  await append([event({ Key: "é\n", FilterKeys: ["group", ""] }), event({ Key: "other", Namespace: "prod" })]);
  await append([event({ Topic: "Deployment", Key: "d", FilterKeys: ["é\n"] })]);
  const end = ["Job", "Node", "Deployment", "NodeDrain"].map((Topic) => event({ Topic, Key: "end", Namespace: "" }));
  await append([event({ Key: "between" })], end);
  const queries = [
    "topic=Node",
    "topic=NodeDrain",
    "topic=Job",
    "topic=*:%C3%A9%0A&topic=Job:end",
    "topic=Job:&topic=Job:end",
    "topic=Node:n%20%22Node%22&topic=Node:end",
    "topic=Deployment",
    "",
    "namespace=*&topic=Job",
    "namespace=prod",
  ];
  const seen = async () => {
    const all: string[][] = [];
    for (const query of queries) {
      for (const headers of [{}, { "X-Nomad-Token": "root" }]) {
        const stream = await openStream(`?${query}`, { headers });
        all.push((await eventsUntil(stream, "end")).map((each) => JSON.stringify(each)));
      }
    }
    await closeAll();
    await noReaders();
    return all;
  };
  const inMemory = await seen();
  expect(new Set(inMemory.map(String)).size).toBeGreaterThan(queries.length);
  await evict();
  expect(await seen()).toEqual(inMemory);
});

it("a line without events is sent to no reader", async () => {
  const stream = await openStream("?index=-1", { headers: { "X-Nomad-Token": "root" } });
  await eventLog(env).append("quiet", [{ seq: 1, events: [] }]);
  await append([event({ Key: "end" })]);
  const texts: (string | null)[] = [];
  while (!texts.at(-1)?.includes("end")) texts.push(await stream.nextText());
  expect(texts.filter((text) => text !== "{}")).toHaveLength(1);
});
