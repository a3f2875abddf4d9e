import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, put, send } from "./client.ts";
import { append, appendKeys, closeAll, event, openStream } from "./streams.ts";

/* The same stream as server-sent events. */

afterEach(closeAll);

interface Message {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** Reads a stream as a browser does (WHATWG HTML 9.2.6): the fired events, and the state for a reconnect. */
async function eventSource(query = "", { headers = {}, token = "root" }: { headers?: object; token?: string } = {}) {
  const stream = await openStream(query, { token, headers: { Accept: "text/event-stream", ...headers } });
  let [lastId, retry] = ["", 0];
  /** The next block that fires, or every block when `silent`; null at the end. */
  const next = async (silent = false): Promise<Message | null> => {
    for (;;) {
      let [type, data] = ["", ""];
      for (;;) {
        const line = await stream.nextText();
        if (line === null) return null;
        if (line === "") break;
        const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
        if (field === "id") lastId = value;
        else if (field === "retry") retry = Number(value);
        else if (field === "event") type = value;
        else if (field === "data") data += `${value}\n`;
        else throw new Error(`a browser does not know ${line}`);
      }
      if (data !== "" || silent) return { id: lastId, event: type || "message", data: data.slice(0, -1) };
    }
  };
  return { ...stream, next, lastId: () => lastId, retry: () => retry };
}

describe("server-sent events", () => {
  it("have the same lines, with the index as the event id", async () => {
    await append([event({ Key: "a\nb", Payload: { Job: { ID: "\r\n\u2028data: x" } } })], [event({ Key: "c" })]);
    const lines = await openStream("");
    const source = await eventSource();
    expect(source.response.headers.get("content-type")).toBe("text/event-stream");
    expect(source.response.headers.get("content-encoding")).toBe("identity");
    expect(source.response.headers.get("cache-control")).toBe("no-store, no-transform");
    expect(source.response.headers.get("x-orch-oldest-index")).toBe("1");
    for (const id of ["1", "2"]) {
      expect(await source.next()).toEqual({ id, event: "message", data: await lines.nextText() });
    }
    await appendKeys("d");
    expect(await source.next()).toEqual({ id: "3", event: "message", data: await lines.nextText() });
  });

  it("start with the retry interval", async () => {
    await appendKeys("a");
    const source = await eventSource();
    expect(await source.nextText()).toMatch(/^retry: \d+$/);
    await source.next();
    await appendKeys("b");
    let text = await source.nextText();
    for (; !text?.includes('"b"'); text = await source.nextText()) expect(text).not.toContain("retry");
  });

  it("have heartbeats that fire no event and advance the id past filtered events", async () => {
    const source = await eventSource("?topic=Node");
    await appendKeys("a", "b");
    while (source.lastId() !== "2") expect((await source.next(true))?.data).toBe("");
  });

  itRows([
    ["1", "", "b"],
    ["1", "?index=3", "b"],
    ["0", "?index=3", "a"],
    ["", "?index=3", "c"],
    ["2", "?index=-1", "c"],
  ])("resume after Last-Event-ID %j, for any index (%s)", async (id, query, first) => {
    await appendKeys("a", "b", "c");
    const source = await eventSource(query, { headers: { "Last-Event-ID": id } });
    expect(JSON.parse((await source.next())?.data ?? "").Events[0].Key).toBe(first);
  });

  it.each(["7", "9007199254740992", "9223372036854775807", "18446744073709551615"])(
    "begin with new lines after the future Last-Event-ID %s, and say so in a header",
    async (id) => {
      await appendKeys("a", "b");
      const source = await eventSource("?index=1", { headers: { "Last-Event-ID": id } });
      expect(source.response.headers.get("x-orch-start-index")).toBe("3");
      await appendKeys("c");
      expect(JSON.parse((await source.next())?.data ?? "").Events[0].Key).toBe("c");
    },
  );

  itRows(["x", "1.5", "18446744073709551616"])("refuse the Last-Event-ID %s by name", async (id) => {
    const headers = { Accept: "text/event-stream", "Last-Event-ID": id };
    const answer = await send("GET", "/v1/event/stream", undefined, { headers });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain("Last-Event-ID");
  });

  it("require the same rights", async () => {
    await put("/v1/acl/policy/p", { Rules: 'node { policy = "read" }' });
    const token = (await put("/v1/acl/token", { Name: "t", Type: "client", Policies: ["p"] })).body;
    expect((await eventSource("", { token: token.SecretID })).response.status).toBe(403);
    const source = await eventSource("?topic=Node&errors=true", { token: token.SecretID });
    await source.next(true);
    await del(`/v1/acl/token/${token.AccessorID}`);
    const last = await source.next();
    expect([last?.event, JSON.parse(last?.data ?? "")]).toEqual([
      "error",
      { Error: { Code: "permission_denied", LastIndex: expect.any(Number) } },
    ]);
    expect(await source.next(true)).toBeNull();
  });

  it("have upstream names in the upstream dialect", async () => {
    await append([event({ Topic: "Node", Type: "NodeEvent", Namespace: "", Payload: { Node: { ID: "n" } } })]);
    const source = await eventSource("", { headers: { "X-Nomad-Token": "root" } });
    expect(JSON.parse((await source.next())?.data ?? "").Events[0].Type).toBe("NodeStreamEvent");
  });
});

itRows([
  [undefined, "application/json"],
  ["*/*", "application/json"],
  ["application/json, text/plain, */*", "application/json"],
  ["text/*", "application/json"],
  ["text/html", "application/json"],
  ["text/event-stream;q=0", "application/json"],
  ["text/event-stream, application/json", "application/json"],
  ["text/event-stream;q=0.5, application/json", "application/json"],
  ["text/event-stream;q=0.5, */*;q=0.8", "application/json"],
  ["text/event-stream", "text/event-stream"],
  ["TEXT/Event-Stream; charset=utf-8", "text/event-stream"],
  ["text/event-stream, */*", "text/event-stream"],
  ["application/json;q=0.4, text/event-stream;q=0.9", "text/event-stream"],
])("Accept: %s returns %s", async (accept, type) => {
  const response = await exports.default.fetch("https://x/v1/event/stream", {
    headers: { "X-Orch-Token": "root", ...(accept !== undefined && { Accept: accept }) },
  });
  expect(response.headers.get("content-type")).toBe(type);
  await response.body?.cancel();
});
