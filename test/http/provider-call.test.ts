import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { sampledTrace, withTrace } from "../../src/platform/observability/otlp/trace-context.ts";
import {
  callProvider,
  failure,
  mayHaveApplied,
  retryAfterMs,
  throttleHintMs,
  withoutEffect,
  withUnsureEffect,
} from "../../src/providers/outcome.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

/** The URL of a loopback server with the given answer. */
async function serving(answer: (response: ServerResponse, url: string) => void): Promise<string> {
  const listening = createServer((request, response) => answer(response, request.url ?? ""));
  server = listening;
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

const call = (url: string, deadlineMs = 2000, init: RequestInit = {}) => callProvider([url, init], { deadlineMs });
const refused = (outcome: string, code: string) => ({
  ok: false,
  outcome: { outcome, code, message: expect.any(String) },
});

describe("a call to a provider", () => {
  it("returns any status with the whole text, also for a Request", async () => {
    const url = await serving((response) => response.writeHead(418).end("é".repeat(1000)));
    expect(await call(url)).toMatchObject({ ok: true, text: "é".repeat(1000), response: { status: 418 } });
    const request = new Request(url, { method: "POST", body: "x" });
    expect(await callProvider(request, { deadlineMs: 2000 })).toMatchObject({ ok: true, response: { status: 418 } });
  });

  it.each([301, 302, 303, 307, 308])("does not follow a %i, which would forward the credentials", async (status) => {
    const visited: string[] = [];
    const url = await serving((response, path) => {
      visited.push(path);
      response.writeHead(status, { location: "/elsewhere" }).end();
    });
    expect(await call(url)).toEqual(refused("client", "redirect_refused"));
    expect(await callProvider(new Request(url), { deadlineMs: 2000 })).toEqual(refused("client", "redirect_refused"));
    const write = new Request(url, { method: "POST", body: "x" });
    const maybe = { ok: false, outcome: { outcome: "client", code: "redirect_refused", unsure: true } };
    expect(await callProvider(write, { deadlineMs: 2000 })).toMatchObject(maybe);
    expect(visited).toEqual(["/", "/", "/"]);
  });

  it.each([
    ["http://example.com", "insecure_url"],
    ["http://127.0.0.1.example.com", "insecure_url"],
    ["http://localhost.example.com", "insecure_url"],
    ["http://10.0.0.1", "insecure_url"],
    ["ftp://127.0.0.1", "insecure_url"],
    ["https://user:pass@example.com", "invalid_url"],
    ["nonsense", "invalid_url"],
  ])("refuses %s before a request is sent", async (url, code) => {
    expect(await call(url)).toEqual(refused("client", code));
  });

  it("sends no request when no time is left", async () => {
    let requests = 0;
    const url = await serving((response) => response.end(String(++requests)));
    for (const deadline of [0, -5, Number.NaN]) {
      expect(await call(url, deadline)).toEqual(refused("external", "deadline_exceeded"));
    }
    expect(requests).toBe(0);
  });

  it("is 'unknown' when the deadline passes before or during the answer", async () => {
    const silent = await serving(() => {});
    expect(await call(silent, 50)).toEqual(refused("unknown", "deadline_exceeded"));
    server?.closeAllConnections();
    const stalling = await serving((response) => response.writeHead(200).write("half"));
    expect(await call(stalling, 80)).toEqual(refused("unknown", "deadline_exceeded"));
  });

  it("is 'unknown' when the connection fails before or during the answer", async () => {
    const url = await serving((response) => response.socket?.destroy());
    expect(await call(url)).toEqual(refused("unknown", "network_error"));
    const cut = await serving((response) => {
      response.writeHead(200, { "content-length": "100" }).write("half", () => response.socket?.destroy());
    });
    expect(await call(cut)).toEqual(refused("unknown", "network_error"));
  });

  it("reads at most 1 MiB", async () => {
    const mebibyte = 1024 * 1024;
    const url = await serving((response, path) => response.end("x".repeat(mebibyte + Number(path.slice(1)))));
    const whole = await call(`${url}/0`);
    expect(whole.ok && whole.text.length).toBe(mebibyte);
    expect(await call(`${url}/1`)).toEqual(refused("unknown", "answer_too_large"));
  });
});

describe("Retry-After", () => {
  const now = Date.parse("2026-11-21T06:00:00Z");
  it.each([
    ["7", 7000],
    ["0", 0],
    ["Sat, 21 Nov 2026 06:00:30 GMT", 30_000],
    ["Sat, 21 Nov 2026 05:00:00 GMT", 0],
    ["999999999", 3_600_000],
    ["soon", null],
    ["-1", null],
  ])("%j is a wait of %s ms", (header, wait) => {
    expect(retryAfterMs(new Response(null, { headers: { "retry-after": header } }), now)).toBe(wait);
  });

  it("may be absent", () => expect(retryAfterMs(new Response(null))).toBeNull());
});

describe("a write that is answered with a failure", () => {
  it.each([
    [500, "external", "provider_unavailable", true],
    [503, "external", "provider_unavailable", true],
    [408, "external", "provider_unavailable", true],
    [499, "external", "provider_unavailable", true],
    [503, "external", "throttled", false],
    [429, "external", "throttled", false],
    [409, "external", "conflict", false],
    [500, "client", "value_too_large", false],
  ] as const)("with %s as %s %s may be applied: %s", (status, outcome, code, isUnsure) => {
    const failed = withUnsureEffect(failure(outcome, code, "It failed."), status);
    expect(mayHaveApplied(failed)).toBe(isUnsure);
    expect(withoutEffect(failed)).toEqual({ outcome, code, message: "It failed." });
  });
});

describe("the hint of a throttling answer", () => {
  const now = Date.parse("2026-11-21T06:00:00Z");
  const seconds = now / 1000;
  it.each([
    [{ "retry-after-ms": "1500" }, 1500],
    [{ "retry-after-ms": "250.5", "retry-after": "9" }, 250.5],
    [{ "retry-after-ms": "soon", "retry-after": "9" }, 9000],
    [{ "retry-after": "9", "x-ratelimit-reset": "30" }, 9000],
    [{ "ratelimit-reset": "30" }, 30_000],
    [{ "ratelimit-reset": "30", "x-ratelimit-reset": "60" }, 30_000],
    [{ "x-ratelimit-reset": String(seconds + 12) }, 12_000],
    [{ "x-ratelimit-reset": String(seconds - 12) }, 0],
    [{ "x-ratelimit-reset": String(now + 700) }, 700],
    [{ "x-ratelimit-reset": "2026-11-21T06:00:05Z" }, 5000],
    [{ "x-ratelimit-reset": "2026-11-28T06:00:05Z" }, 3_600_000],
    [{ "x-ratelimit-reset": "2026-99-99T99:00:05Z" }, null],
    [{ "x-ratelimit-reset": "tomorrow" }, null],
    [{ "retry-after-ms": "99999999999" }, 3_600_000],
    [{}, null],
  ] as const)("%j is a wait of %s ms", (headers, wait) => {
    expect(throttleHintMs(new Response(null, { headers }), now)).toBe(wait);
  });
});

describe("a call within a sampled trace", () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

  it("has the trace context beside its own headers, and one span each, also for a Request and a failure", async () => {
    const seen: IncomingHttpHeaders[] = [];
    const listening = createServer(({ headers }, response) => {
      seen.push(headers);
      response.writeHead(503).end();
    });
    server = listening;
    await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(listening.address() as AddressInfo).port}/a-secret-name`;
    const spans: object[] = [];
    const trace = sampledTrace(new Headers({ traceparent, tracestate: "a=1" }), (span) => spans.push(span));
    if (!trace) throw new Error("no trace");
    const init = { method: "PUT", headers: { authorization: "signed" }, body: "value" };
    await withTrace(trace, async () => {
      await call(url, 2000, init);
      await callProvider(new Request(url, init), { deadlineMs: 2000 });
      await call("http://127.0.0.1:1", 2000, init);
    });
    const ids = spans.map((span) => (span as { spanId: string }).spanId);
    expect(seen.map(({ authorization, traceparent, tracestate }) => [authorization, traceparent, tracestate])).toEqual(
      ids.slice(0, 2).map((id) => ["signed", `00-0af7651916cd43dd8448eb211c80319c-${id}-01`, "a=1"]),
    );
    expect(spans).toEqual(
      spans.map(() => expect.objectContaining({ parentSpanId: trace.span, kind: 3, status: { code: 2 } })),
    );
    expect(spans).toHaveLength(3);
    expect(JSON.stringify(spans[2])).toContain('{"key":"error.type","value":{"stringValue":"network_error"}}');
    expect(JSON.stringify(spans)).not.toMatch(/a-secret-name|signed/);
  });
});
