import { describe, expect, it } from "vitest";
import { connectionsFor } from "../../scripts/gateway.ts";
import { throughHttp, throughRecorder, undated } from "./gateway-sockets.ts";

describe("malformed requests are refused and never reach the service", () => {
  it.each([
    ["Content-Length beside Transfer-Encoding", "Content-Length: 4\r\nTransfer-Encoding: chunked"],
    ["two Content-Lengths", "Content-Length: 4\r\nContent-Length: 5"],
    ["two equal Content-Lengths", "Content-Length: 4\r\nContent-Length: 4"],
    ["a list of Content-Lengths", "Content-Length: 4, 4"],
    ["a signed Content-Length", "Content-Length: +4"],
    ["a hexadecimal Content-Length", "Content-Length: 0x4"],
    ["an empty Content-Length", "Content-Length:"],
    ["a Content-Length beyond 64 bits", "Content-Length: 99999999999999999999"],
    ["a Content-Length padded with other than spaces", "Content-Length: 4\xa0"],
    ["a coding besides chunked", "Transfer-Encoding: gzip, chunked"],
    ["a coding that looks like chunked", "Transfer-Encoding: xchunked"],
    ["two Transfer-Encodings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"],
    ["a folded field", "Transfer-Encoding:\r\n chunked"],
    ["a space before the colon", "Content-Length : 4"],
    ["a field without a colon", "Content-Length 4"],
    ["a bare LF", "X: y\nContent-Length: 4"],
    ["a bare CR", "X: y\rContent-Length: 4"],
    ["a NUL", "X: \0"],
    ["a second Host", "Host: b"],
  ])("%s", async (_name, fields) => {
    await expectRefusal(`POST /a HTTP/1.1\r\nHost: a\r\n${fields}\r\n\r\n`, "400 Bad Request");
  });

  it.each([
    ["a request line of other words", "hello\r\n\r\n"],
    ["a space too many", "LIST  /x HTTP/1.1\r\n\r\n"],
    ["a later protocol", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n"],
    ["line ends without CR, at once", "GET /a HTTP/1.1\n"],
    ["a target that is not a path", "GET a HTTP/1.1\r\n\r\n"],
    ["a target *", "OPTIONS * HTTP/1.1\r\n\r\n"],
    ["a target of the wrong type", "GET ftp://a/b HTTP/1.1\r\n\r\n"],
    ["Transfer-Encoding in HTTP/1.0", "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"],
  ])("%s", async (_name, request) => {
    await expectRefusal(request, "400 Bad Request");
  });

  it("an invalid Host, or an invalid host in the target", async () => {
    const hosts = [
      "a b",
      "[::1",
      "a/b",
      "a:b",
      "a:99999",
      "@",
      "a@b",
      "%zz",
      "\xfc",
      "a,b",
      "<x>",
      "a?b",
      "a#b",
      "a\\b",
      "999.1.1.1",
      "[v1.x]",
    ];
    for (const host of hosts) {
      await expectRefusal(`GET /v1/x HTTP/1.1\r\nHost: ${host}\r\n\r\n`, "400 Bad Request");
      if (!/[ /?#]/.test(host))
        await expectRefusal(`GET http://${host}/x HTTP/1.1\r\nHost: a\r\n\r\n`, "400 Bad Request");
    }
  });

  it("the local runtime's own paths, in any spelling", async () => {
    const paths = [
      "/cdn-cgi/local/scheduled",
      "/cdn-cgi",
      "/CDN-CGI/x",
      "/cdn-cgi/local/explorer?x",
      "/__scheduled",
      "/__cf_local/stream/x",
      "/x/../cdn-cgi/local/scheduled",
      "/%2e/cdn-cgi/x",
      "/./cdn-cgi/x",
      "/cdn-cgi\\local",
      "http://127.0.0.1/cdn-cgi/x",
    ];
    for (const path of paths) await expectRefusal(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`, "404 Not Found");
  });

  it("CONNECT, and an unknown method", async () => {
    await expectRefusal("CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n", "501 Not Implemented");
  });

  it("a head without an end", async () => {
    await expectRefusal(`GET /a HTTP/1.1\r\n${`X: ${"y".repeat(1000)}\r\n`.repeat(200)}`, "431 Request Header Fields");
    await expectRefusal(`GET /${"a".repeat(200_000)}`, "431 Request Header Fields");
  });

  it("after the answers to the preceding requests", async () => {
    const { client } = await throughHttp();
    client.send("LIST /1 HTTP/1.1\r\nHost: a\r\n\r\n", "nonsense\r\n\r\n");
    await client.closed();
    expect(client.text()).toMatch(/^HTTP\/1\.1 200 [\s\S]*\[GET \/1\?list=true\][\s\S]*HTTP\/1\.1 400 Bad Request\r\n/);
  });

  it.each([
    ["an invalid chunk size", "LIST\r\n"],
    ["a negative chunk size", "-5\r\n"],
    ["a chunk size beyond 64 bits", "fffffffffffffffff\r\n"],
    ["a chunk size line that does not end", ";".padStart(5000, "0")],
    ["a chunk longer than its size", "2\r\nab/x\r\n0\r\n\r\n"],
    ["a chunk line with a bare LF", "2;a\nab\r\n0\r\n\r\n"],
    ["a request among the trailers", "0\r\nGET /x HTTP/1.1\r\n\r\n"],
  ])("%s, and its connection is closed", async (_name, chunks) => {
    const { upstream, client } = await throughRecorder();
    const head = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(head);
    await upstream.received(head);
    client.send(chunks);
    await client.closed();
    expect(client.text()).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(upstream.text()).not.toContain("HTTP/1.1\r\n\r\nGET");
    expect(upstream.text()).not.toContain("/x");
  });
});

describe("a client after a refusal", () => {
  it("gets no error in the middle of an answer; the answer is cut", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    await upstream.received("/a");
    upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    await client.received("abc");
    client.send("nonsense\r\n");
    await expect(client.closed()).rejects.toThrow("ECONNRESET");
    expect(client.text()).toMatch(/abc$/);
  });

  it("is disconnected after a while if it does not close the connection", async () => {
    const { client } = await throughRecorder();
    client.send("nonsense\r\n\r\n");
    await client.closed();
    const cut = new Promise((resolve) => client.socket.on("close", resolve));
    const chatter = setInterval(() => client.send("more"), 100);
    await cut;
    clearInterval(chatter);
  });
});

describe("a slow client", () => {
  it("is refused during a head, at any constant rate", async () => {
    const { upstream, client } = await throughRecorder({ headMs: 300 });
    client.send("GET /a HTTP/1.1\r\n");
    const dribble = setInterval(() => client.send("X: y\r\n"), 50);
    await client.closed().finally(() => clearInterval(dribble));
    expect(client.text()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(upstream.text()).toBe("");
  });

  it("is refused when it stops during a body, but not while it sends", async () => {
    const { upstream, client } = await throughRecorder({ stallMs: 4_000 });
    client.send("POST /a HTTP/1.1\r\nContent-Length: 20\r\n\r\n");
    // Longer in total than the stall limit, with a tenth of it between characters.
    for (const letter of "abcdefghijk") {
      await new Promise((resolve) => setTimeout(resolve, 400));
      client.send(letter);
    }
    await upstream.received("abcdefghijk");
    expect(client.text()).toBe("");
    await client.closed();
    expect(client.text()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
  });

  it("is closed without an answer when it sends no first byte, or stops", async () => {
    const silent = await throughRecorder({ headMs: 100 });
    await silent.client.closed();
    expect(silent.client.text()).toBe("");
    const { upstream, client } = await throughRecorder({ idleMs: 100 });
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    const answer = "HTTP/1.1 204 No Content\r\n\r\n";
    upstream.answer(answer);
    await client.closed();
    expect(undated(client.text())).toBe(answer);
  });

  it("may wait for an answer, and between requests for the idle timeout", async () => {
    const { upstream, client } = await throughRecorder({ headMs: 700, stallMs: 700, writeMs: 700, idleMs: 60_000 });
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    upstream.answer("HTTP/1.1 204 No Content\r\n\r\n");
    await client.received("204");
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    client.send("GET /b HTTP/1.1\r\n\r\n");
    await upstream.received("/b");
    expect(client.text()).not.toContain("408");
  });

  it("is cut when it does not read an answer", async () => {
    const { upstream, client } = await throughRecorder({ writeMs: 300 });
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    client.socket.pause();
    const cut = upstream.closed();
    upstream.answer("HTTP/1.1 200 OK\r\n\r\n");
    // More than the system buffers for a client that does not read.
    upstream.socket().write(Buffer.alloc(64 * 1024 * 1024));
    await cut;
  });
});

async function expectRefusal(request: string, status: string): Promise<void> {
  const { upstream, client } = await throughRecorder();
  client.send(request);
  await client.closed();
  expect(client.text()).toMatch(new RegExp(`^HTTP/1.1 ${status}[\\s\\S]*Connection: close\r\n\r\n[ -~]+\n$`));
  expect(upstream.text()).toBe("");
}

describe("a limit of connections", () => {
  it("closes the longest idle connection, and refuses only when all are in use", async () => {
    for (const options of [{ maxConnections: 2, maxPerAddress: 9 }, { maxPerAddress: 2 }]) {
      const { upstream, client, connect } = await throughRecorder(options);
      client.send("GET /a HTTP/1.1\r\n\r\n");
      await upstream.received("/a");
      const idle = await connect();
      const second = await connect();
      await idle.closed();
      expect(idle.text()).toBe("");
      second.send("GET /b HTTP/1.1\r\n\r\n");
      await upstream.received("/b");
      const refused = await connect();
      await refused.closed();
      expect(refused.text()).toMatch(/^HTTP\/1\.1 503 [\s\S]*Retry-After: 1[\s\S]*too many connections/);
      second.socket.resetAndDestroy();
      await expect
        .poll(async () => {
          const next = await connect();
          next.send("GET /c HTTP/1.1\r\n\r\n");
          return Promise.race([
            next.closed().then(
              () => false,
              () => false,
            ),
            upstream.received("/c").then(() => true),
          ]);
        })
        .toBe(true);
    }
  });

  it("releases a closed connection of an address", async () => {
    const { upstream, client, connect } = await throughRecorder({ maxPerAddress: 1 });
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    client.socket.resetAndDestroy();
    await expect
      .poll(async () => {
        const next = await connect();
        next.send("GET /b HTTP/1.1\r\n\r\n");
        const refused = next.closed().then(
          () => false,
          () => false,
        );
        return Promise.race([refused, upstream.received("/b").then(() => true)]);
      })
      .toBe(true);
  });

  it("reserves descriptors for other uses, for any limit of the process", () => {
    expect([
      connectionsFor(1024),
      connectionsFor(1e6),
      connectionsFor(100),
      connectionsFor(Number.POSITIVE_INFINITY),
    ]).toEqual([384, 10_000, 16, 10_000]);
  });
});
