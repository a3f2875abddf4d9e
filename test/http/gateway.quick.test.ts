import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { clientOf, listen, throughHttp, throughRecorder, undated } from "./gateway-sockets.ts";

describe("LIST", () => {
  // Proves: B.dest.list, B.dest.list-type
  it.each([
    ["LIST /v1/kv/metadata/a HTTP/1.1", "GET /v1/kv/metadata/a?list=true HTTP/1.1"],
    ["LIST /p?q=1&r=%20 HTTP/1.1", "GET /p?list=true&q=1&r=%20 HTTP/1.1"],
    ["LIST /p? HTTP/1.1", "GET /p?list=true HTTP/1.1"],
    ["LIST /p?a=b?c HTTP/1.1", "GET /p?list=true&a=b?c HTTP/1.1"],
    ["LIST http://host/p HTTP/1.1", "GET http://host/p?list=true HTTP/1.1"],
    ["LIST /p HTTP/1.0", "GET /p?list=true HTTP/1.0"],
    ["SCAN /v1/kv/metadata/a?limit=2 HTTP/1.1", "GET /v1/kv/metadata/a?scan=true&limit=2 HTTP/1.1"],
  ])("%s becomes %s", async (sent, received) => {
    const { upstream, client } = await throughRecorder();
    client.send(`${sent}\r\nHost: a\r\n\r\n`);
    expect(await upstream.received("\r\n\r\n")).toBe(`${received}\r\nHost: a\r\n\r\n`);
  });

  it.each(["LISTX /p HTTP/1.1", "list /p HTTP/1.1", "XLIST /p HTTP/1.1", "GET /LIST HTTP/1.1", "GET /?LIST HTTP/1.1"])(
    "%s is unchanged",
    async (line) => {
      const { upstream, client } = await throughRecorder();
      client.send(`${line}\r\nHost: a\r\nX: LIST /x HTTP/1.1\r\n\r\n`);
      expect(await upstream.received("\r\n\r\n")).toBe(`${line}\r\nHost: a\r\nX: LIST /x HTTP/1.1\r\n\r\n`);
    },
  );

  it("is recognised on a kept-alive connection between other requests", async () => {
    const { client } = await throughHttp();
    for (const [line, answer] of [
      ["GET /1", "GET /1"],
      ["LIST /2", "GET /2?list=true"],
      ["LIST /3", "GET /3?list=true"],
      ["DELETE /4", "DELETE /4"],
    ]) {
      client.send(`${line} HTTP/1.1\r\nHost: a\r\n\r\n`);
      await client.received(`[${answer}]`);
    }
  });

  it("is recognised in pipelined requests, and the answers keep their order", async () => {
    const { client } = await throughHttp();
    client.send(
      "LIST /1 HTTP/1.1\r\nHost: a\r\n\r\n",
      "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nLIST",
      "LIST /3 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    const text = await client.received("[GET /3?list=true]");
    expect(text.match(/\[.*?\]/g)).toEqual(["[GET /1?list=true]", "[POST /2 LIST]", "[GET /3?list=true]"]);
  });

  it("is recognised in more pipelined requests than one read holds", async () => {
    const { client } = await throughHttp();
    const requests = Array.from(
      { length: 40 },
      (_, i) => `LIST /${i} HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(10_000)}\r\n\r\n`,
    );
    client.send(...requests);
    await client.received("[GET /39?list=true]");
  });

  it("is recognised when bytes arrive one at a time", async () => {
    const { client } = await throughHttp();
    const requests =
      "\r\nLIST /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
      "5;ext=LIST\r\nhello\r\n3\r\n\r\n!\r\n0\r\nTrailer: x\r\n\r\nLIST /3 HTTP/1.1\r\nHost: a\r\n\r\n";
    for (const byte of requests) {
      client.socket.write(byte);
      await sleep(0);
    }
    const text = await client.received("[GET /3?list=true]");
    expect(text).toContain("[GET /1?list=true]");
    expect(text).toContain("[POST /2 hello\r\n!]");
  });
});

describe("bodies", () => {
  const decoy = "\r\n\r\nLIST /x HTTP/1.1\r\nHost: a\r\n\r\n";

  it("with a length are forwarded byte for byte, for any content", async () => {
    const { upstream, client } = await throughRecorder();
    const request = `POST /a HTTP/1.1\r\nHost: a\r\ncontent-LENGTH:  ${decoy.length} \r\n\r\n${decoy}`;
    client.send(request);
    expect(await upstream.received(decoy)).toBe(request);
  });

  it("that are chunked are forwarded byte for byte, with extensions and trailers, for any content", async () => {
    const { upstream, client } = await throughRecorder();
    const size = decoy.length.toString(16).toUpperCase();
    const request =
      "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n" +
      `0${size};name="LIST /x HTTP/1.1"\r\n${decoy}\r\n5 ;a\r\n\r\n0\r\n\r\n000\r\nX-Trailer: LIST /x HTTP/1.1\r\nY: z\r\n\r\n`;
    client.send(request);
    expect(await upstream.received("Y: z\r\n\r\n")).toBe(request);
    upstream.answer("HTTP/1.1 204 No Content\r\n\r\n");
    client.send("LIST /b HTTP/1.1\r\n\r\n");
    await upstream.received("GET /b?list=true HTTP/1.1\r\n\r\n");
  });

  it("are forwarded while they arrive, also inside one large chunk", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\nfirst");
    await upstream.received("first");
  });

  it("are forwarded as bytes, not as text", async () => {
    const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const { upstream, client } = await throughRecorder();
    client.send(`LIST /\xe9 HTTP/1.1\r\nX: \xff\r\nContent-Length: 256\r\n\r\n`);
    client.socket.write(every);
    const head = "GET /\xe9?list=true HTTP/1.1\r\nX: \xff\r\nContent-Length: 256\r\n\r\n";
    expect(await upstream.received("\xfe\xff")).toBe(head + every.toString("latin1"));
  });

  it("wait for 100 Continue when the client requests it", async () => {
    const { client } = await throughHttp();
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    await client.received("100 Continue\r\n\r\n");
    client.send("ok", "LIST /b HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await client.received("[GET /b?list=true]")).toContain("[POST /a ok]");
  });

  it("may still arrive after the answer was sent", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nLIST ");
    await upstream.received("LIST ");
    upstream.answer("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
    await client.received("413");
    client.send("/x .", "LIST /b HTTP/1.1\r\n\r\n");
    await upstream.received("LIST /x .GET /b?list=true HTTP/1.1\r\n\r\n");
  });
});

describe("answers", () => {
  it.each([
    ["HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"],
    ["GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"],
    ["PUT", "HTTP/1.1 204 No Content\r\n\r\n"],
    [
      "GET",
      "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ],
    ["GET", "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc"],
  ])("to %s end with %j", async (method, answer) => {
    const { upstream, client } = await throughRecorder();
    client.send(`${method} /a HTTP/1.1\r\n\r\n`, "LIST /b HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    upstream.answer(answer);
    await upstream.received("GET /b?list=true");
    expect(undated(client.text())).toBe(answer);
  });

  it("have the time, for clients with a cache, unless the service has said it", async () => {
    const { upstream, client } = await throughRecorder();
    const said = "HTTP/1.1 204 No Content\r\ndate: Sat, 28 Nov 2026 10:00:00 GMT\r\n\r\n";
    client.send("GET /a HTTP/1.1\r\n\r\n", "GET /b HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    upstream.answer("HTTP/1.1 204 No Content\r\n\r\n");
    await upstream.received("/b");
    const [, date = ""] = /\r\nDate: (.*)\r\n\r\n$/.exec(client.text()) ?? [];
    expect(Math.abs(Date.parse(date) - Date.now())).toBeLessThan(10_000);
    upstream.answer(said);
    expect((await client.received("28 Nov 2026")).endsWith(said)).toBe(true);
  });

  it("exclude interim responses: the next request waits for the final one", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /a HTTP/1.1\r\n\r\n", "LIST /b HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    upstream.answer("HTTP/1.1 103 Early Hints\r\n\r\n");
    await client.received("103");
    await sleep(20);
    expect(upstream.text()).not.toContain("/b");
  });

  it("of unknown length end with the connection", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /a HTTP/1.0\r\n\r\n");
    await upstream.received("/a");
    upstream.answer("HTTP/1.0 200 OK\r\n\r\nabc");
    upstream.socket().end("def");
    await client.closed();
    expect(undated(client.text())).toBe("HTTP/1.0 200 OK\r\n\r\nabcdef");
  });

  it("are streamed: every line arrives when it is written", async () => {
    const { client, waiting } = await throughHttp((_request, response) => {
      response.write("one\n");
      waiting.push(() => response.write("two\n"));
    });
    client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await client.received("one\n")).not.toContain("two");
    waiting.shift()?.();
    await client.received("two\n");
  });

  it("are cut, not completed, when the service crashes in the middle", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    upstream.answer("HTTP/1.1 200 OK\r\n\r\nabc");
    await client.received("abc");
    upstream.socket().resetAndDestroy();
    await expect(client.closed()).rejects.toThrow("ECONNRESET");
  });
});

describe("back-pressure", () => {
  it("slows down the service when the client does not read", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    client.socket.pause();
    upstream.answer("HTTP/1.1 200 OK\r\n\r\n");
    await expectHeld(upstream.socket());
    client.socket.resume();
    await once(upstream.socket(), "drain");
  });

  it("slows down the client when the service does not read", async () => {
    const { upstream, client } = await throughRecorder();
    client.send(`POST /a HTTP/1.1\r\nContent-Length: ${2 ** 40}\r\n\r\n`);
    await upstream.received("/a");
    upstream.socket().pause();
    await expectHeld(client.socket);
    upstream.socket().resume();
    await once(client.socket, "drain");
  });

  it("slows down the client when its requests queue up behind an unanswered one", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    await expectHeld(client.socket, 10 * 1024 * 1024);
  });
});

describe("connections", () => {
  it("become a tunnel when the service upgrades; LIST in WebSocket data is not a method", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /ws HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n");
    await upstream.received("/ws");
    upstream.answer("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello");
    await client.received("\r\n\r\nhello");
    client.send("LIST /x HTTP/1.1\r\n\r\n");
    await upstream.received("LIST /x HTTP/1.1\r\n\r\n");
    upstream.answer("\x00LIST");
    await client.received("\x00LIST");
    client.socket.end("bye");
    await upstream.received("bye");
    await once(upstream.socket(), "end");
    upstream.socket().end("good bye");
    await client.closed();
    expect(client.text()).toMatch(/good bye$/);
  });

  it("stay HTTP when the service does not upgrade, and recognise the next LIST", async () => {
    const { upstream, client } = await throughRecorder();
    client.send(
      "GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
      "LIST /b HTTP/1.1\r\nUpgrade: h2c\r\n\r\n",
    );
    await upstream.received("/ws");
    upstream.answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    await upstream.received("GET /b?list=true");
  });

  it("of clients that half-close and disappear are reset at the service", async () => {
    const { upstream, client, connect } = await throughRecorder();
    const all = [client, ...(await Promise.all(Array.from({ length: 20 }, () => connect())))];
    for (const one of all) one.send("GET /slow HTTP/1.1\r\n\r\n");
    await expect.poll(() => upstream.text().split("/slow").length - 1).toBe(all.length);
    for (const socket of upstream.sockets()) socket.write("HTTP/1.1 200 OK\r\n\r\n");
    await Promise.all(all.map((one) => one.received("200")));
    // The first line after the end meets a closed socket, as after the exit of a program.
    const lines = setInterval(() => {
      for (const socket of upstream.sockets()) socket.write("line\n");
    }, 5);
    for (const one of all) one.socket.destroy();
    await expect.poll(() => upstream.sockets().size).toBe(0);
    clearInterval(lines);
  });

  it("with an event stream are reset when their client half-closes", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /v1/event/stream?topic=* HTTP/1.1\r\n\r\n");
    await upstream.received("/v1/event/stream");
    upstream.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n");
    await client.received("{}");
    const gone = upstream.closed();
    client.socket.end();
    await gone;
  });

  it.each([0, 700])("awaiting an answer are reset when their client closes %i ms after its request", async (after) => {
    const { upstream, client } = await throughRecorder();
    client.send("PUT /v1/azure/creds/reader HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
    await upstream.received("{}");
    await sleep(after);
    const gone = upstream.closed();
    const began = performance.now();
    client.socket.end();
    await gone;
    // An immediate half-close has half a second for its answer.
    if (after > 500) expect(performance.now() - began).toBeLessThan(400);
  });

  it("reset by the client are reset at the service", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /stream HTTP/1.1\r\n\r\n");
    await upstream.received("/stream");
    const gone = upstream.closed();
    client.socket.resetAndDestroy();
    await gone;
  });

  it("left by the client in the middle of a stream close at the service with the next line", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /stream HTTP/1.1\r\n\r\n");
    await upstream.received("/stream");
    upstream.answer("HTTP/1.1 200 OK\r\n\r\none\n");
    await client.received("one\n");
    const gone = upstream.closed();
    client.socket.destroy();
    const lines = setInterval(() => upstream.answer("line\n"), 10);
    await gone;
    clearInterval(lines);
  });

  it("half-closed by the client still return their answers", async () => {
    const { upstream, client } = await throughRecorder();
    client.socket.end("GET /a HTTP/1.1\r\n\r\nLIST /b HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    await upstream.received("GET /b?list=true");
    upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    await client.closed();
    expect(client.text()).toMatch(/\r\n\r\n1HTTP[\s\S]*\r\n\r\n2$/);
  });

  it("stay open while they are used, regardless of the total size of their heads", async () => {
    const { client } = await throughHttp();
    for (let i = 0; i < 20; i++) {
      client.send(`LIST /${i} HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(10_000)}\r\n\r\n`);
      await client.received(`[GET /${i}?list=true]`);
    }
  });

  it("end when an idle service closes them", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    upstream.answer(answer);
    await client.received("GMT\r\n\r\n");
    upstream.socket().end();
    await client.closed();
    expect(undated(client.text())).toBe(answer);
  });

  it("to an unreachable service return 503 with Retry-After and one line of text", async () => {
    const nobody = createServer();
    const port = await listen(nobody);
    nobody.close();
    await once(nobody, "close");
    const client = await clientOf(port);
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await client.closed();
    expect(client.text()).toMatch(
      /^HTTP\/1\.1 503 Service Unavailable\r\n[\s\S]*Retry-After: 1\r\nConnection: close\r\n\r\nthe service is not reachable; try again\n$/,
    );
  });

  it("return 503 while the runtime is down, and work again when it is back", async () => {
    const { upstream, gateway, connect } = await throughRecorder();
    const { upstreamPort } = gateway;
    gateway.upstreamPort = null;
    const early = await connect();
    early.send("GET /a HTTP/1.1\r\n\r\n");
    await early.closed();
    expect(early.text()).toMatch(
      /^HTTP\/1\.1 503 [\s\S]*Retry-After: 1\r\n[\s\S]*the service is starting; try again\n$/,
    );
    gateway.upstreamPort = upstreamPort;
    const later = await connect();
    later.send("GET /b HTTP/1.1\r\n\r\n");
    await upstream.received("/b");
    expect(upstream.text()).not.toContain("/a");
  });

  it("return 502 when the service closes them without an answer", async () => {
    const { upstream, client } = await throughRecorder();
    client.send("GET /a HTTP/1.1\r\n\r\n");
    await upstream.received("/a");
    upstream.socket().end();
    await client.closed();
    expect(client.text()).toContain("502 Bad Gateway");
  });
});

describe("platform headers", () => {
  it("are removed from client requests", async () => {
    const { upstream, client } = await throughRecorder();
    client.send(
      "LIST /a HTTP/1.1\r\nHost: a\r\nMF-CF-Blob: {\r\nmf-original-url: http://b/\r\nCF-Connecting-IP: 1.2.3.4\r\nX-Mf: kept\r\n\r\n",
    );
    expect(await upstream.received("\r\n\r\n")).toBe("GET /a?list=true HTTP/1.1\r\nHost: a\r\nX-Mf: kept\r\n\r\n");
  });

  it("include the key of the runtime, never one of the client", async () => {
    const { upstream, client } = await throughRecorder({ upstreamKey: "secret" });
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nCF-Gateway-Key: guessed\r\n\r\n");
    expect(await upstream.received("\r\n\r\n")).toBe("GET /a HTTP/1.1\r\nHost: a\r\nCF-Gateway-Key: secret\r\n\r\n");
  });

  it("include only the signed assertion of Cloudflare Access, by its exact name", async () => {
    const { upstream, client } = await throughRecorder();
    const others = "Cf-Access-Jwt-Assertions: b\r\nCf-Access-Jwt: c\r\nCf-Access-Jwt-Assertion-X: d\r\n";
    client.send(`GET /a HTTP/1.1\r\nHost: a\r\ncf-access-jwt-assertion: a\r\n${others}\r\n`);
    expect(await upstream.received("\r\n\r\n")).toBe(
      "GET /a HTTP/1.1\r\nHost: a\r\ncf-access-jwt-assertion: a\r\n\r\n",
    );
  });
});

describe("a draining gateway", () => {
  const begin = async (path: string) => {
    const through = await throughRecorder();
    through.client.send(`GET ${path} HTTP/1.1\r\n\r\n`);
    await through.upstream.received(path);
    through.upstream.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    return through;
  };

  it("ends an event stream after a complete line and chunk", async () => {
    for (const [before, after] of [
      ["3\r\n{}\n\r\n", ""],
      ["3\r\n{}\n\r\n2\r\n{", '"\r\n3\r\n"}\n\r\n'],
    ] as const) {
      const { upstream, client, gateway } = await begin("/v1/event/stream");
      upstream.answer(before);
      await client.received(before);
      const drained = gateway.drain();
      if (after !== "") upstream.answer(after);
      await client.closed();
      expect(client.text().endsWith(`\r\n\r\n${before}${after}0\r\n\r\n`)).toBe(true);
      await drained;
    }
  });

  it("completes finite answers, cuts endless ones, and closes idle connections", async () => {
    const complete = await begin("/v1/jobs");
    const idle = await complete.connect();
    const drained = complete.gateway.drain();
    await idle.closed();
    complete.upstream.answer("3\r\n[]\n\r\n0\r\n\r\n");
    await complete.client.closed();
    expect(complete.client.text().endsWith("[]\n\r\n0\r\n\r\n")).toBe(true);
    await drained;
    const endless = await begin("/v1/jobs");
    endless.upstream.answer("3\r\n[]\n\r\n");
    await endless.client.received("[]");
    const cut = expect(endless.client.closed()).rejects.toThrow("ECONNRESET");
    await endless.gateway.drain();
    await cut;
  });
});

/** Writes until the other side stops reading; gateway and kernel buffer some megabytes. */
async function expectHeld(socket: Socket, limit = 32 * 1024 * 1024): Promise<void> {
  const block = Buffer.alloc(256 * 1024);
  let written = 0;
  while (written < limit && (socket.write(block) || (await drained(socket)))) written += block.length;
  expect(written).toBeLessThan(limit);
}

function drained(socket: Socket): Promise<boolean> {
  return Promise.race([once(socket, "drain").then(() => true), sleep(400, false)]);
}
