import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { describe, expect, it } from "vitest";
import { Forwarding } from "../../scripts/forwarding.ts";
import { createGateway } from "../../scripts/gateway.ts";
import type { Head } from "../../scripts/http-framing.ts";
import { itRows } from "../support/rows.ts";
import { FIRST, SECOND } from "./certificates.ts";
import { clientOf, listen, throughRecorder } from "./gateway-sockets.ts";

const head = (fields: Record<string, string | string[]>): Head => ({
  startLine: "GET / HTTP/1.1",
  fields: new Map(Object.entries(fields).map(([name, value]) => [name, [value].flat()])),
  lines: [],
});

describe("the address of a client", () => {
  const forwarding = new Forwarding(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);

  itRows([
    ["of a stranger is its connection's, whatever it claims", "198.51.100.1", "203.0.113.9", "198.51.100.1"],
    ["behind a proxy is the one that the proxy names", "10.1.2.3", "203.0.113.9", "203.0.113.9"],
    ["behind a proxy is never what the client claims to that proxy", "10.1.2.3", "1.1.1.1, 203.0.113.9", "203.0.113.9"],
    ["behind two proxies is found past the inner one", "10.1.2.3", "1.1.1.1, 203.0.113.9, 192.0.2.7", "203.0.113.9"],
    ["is the outermost proxy's when all are proxies", "10.1.2.3", "10.9.9.9, 192.0.2.7", "10.9.9.9"],
    ["stops at what is no address", "10.1.2.3", "203.0.113.9, unknown, 192.0.2.7", "192.0.2.7"],
    ["is the proxy's when the proxy names none", "10.1.2.3", "", "10.1.2.3"],
    ["has no port", "10.1.2.3", "203.0.113.9:4711", "203.0.113.9"],
    ["may be one of IPv6, in brackets", "2001:db8::1", "[2001:dead::5]:4711", "2001:dead::5"],
    ["of IPv4 on an IPv6 socket is compared as IPv4", "::ffff:10.1.2.3", "203.0.113.9", "203.0.113.9"],
  ] as const)("%s", (_what, peer, forwarded, expected) => {
    expect(forwarding.origin(peer, true, head({ "x-forwarded-for": forwarded })).address).toBe(expected);
  });

  it("is read from all lines of the header, the last one nearest", () => {
    const lines = head({ "x-forwarded-for": ["1.1.1.1", "203.0.113.9"] });
    expect(forwarding.origin("10.1.2.3", false, lines).address).toBe("203.0.113.9");
  });

  it("has the scheme that the proxy names, and no other", () => {
    const scheme = (peer: string, isTls: boolean, named: string) =>
      forwarding.origin(peer, isTls, head({ "x-forwarded-proto": named })).scheme;
    expect(scheme("10.1.2.3", false, "https")).toBe("https");
    expect(scheme("10.1.2.3", false, "http, https")).toBe("https");
    expect(scheme("10.1.2.3", false, "javascript")).toBe("http");
    expect(scheme("198.51.100.1", false, "https")).toBe("http");
    expect(scheme("198.51.100.1", true, "http")).toBe("https");
  });

  it("needs proxies by address or network", () => {
    for (const wrong of ["proxy.example.com", "10.0.0.0/33", "2001:db8::/129", "10.0.0.0/", "10.0.0", ""])
      expect(() => new Forwarding([wrong]), wrong).toThrow(RangeError);
  });
});

describe("a gateway with addresses", () => {
  it("states address and scheme to the service, and drops what others state", async () => {
    const { upstream, client } = await throughRecorder({ trustedProxies: [] });
    client.send(
      "GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 9.9.9.9\r\nx-forwarded-proto: https\r\nForwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\nCF-Connecting-IP: 9.9.9.9\r\nX-Mine: kept\r\n\r\n",
    );
    expect(await upstream.received("\r\n\r\n")).toBe(
      "GET /a HTTP/1.1\r\nHost: a\r\nX-Mine: kept\r\nCF-Connecting-IP: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\r\n",
    );
  });

  it("believes a named proxy, request by request", async () => {
    const { upstream, client } = await throughRecorder({ trustedProxies: ["127.0.0.1"] });
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n\r\n");
    expect(await upstream.received("\r\n\r\n")).toContain(
      "CF-Connecting-IP: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n\r\n",
    );
  });

  it("counts no connections of a named proxy as those of one client", async () => {
    const upstream = createServer((socket) => {
      socket.on("error", () => {}).end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    const port = await listen(upstream);
    const first = await clientOf(port, { maxConnections: 8, maxPerAddress: 0, trustedProxies: ["127.0.0.1"] });
    first.send("GET /a HTTP/1.1\r\n\r\n");
    expect(await first.received("\r\n\r\n")).toContain("200 OK");
    const stranger = await clientOf(port, { maxConnections: 8, maxPerAddress: 0, trustedProxies: [] });
    await stranger.closed();
    expect(stranger.text()).toContain("too many connections from this address");
  });
});

describe("a gateway with TLS", () => {
  const serve = async (onRequest: (socket: Socket) => void) => {
    const upstream = createServer((socket) => {
      socket.on("error", () => {}).once("data", () => onRequest(socket));
    });
    const gateway = createGateway(await listen(upstream), { trustedProxies: [] });
    const tls = gateway.withTls(FIRST);
    const port = await listen(tls);
    const client = async (options: ConnectionOptions = {}) => {
      const socket = connectTls({ port, host: "127.0.0.1", ca: [FIRST.cert, SECOND.cert], ...options });
      let text = "";
      socket.setEncoding("latin1").on("data", (piece) => {
        text += piece;
      });
      socket.on("error", () => {});
      await once(socket, "secureConnect");
      return { socket, text: () => text, ended: once(socket, "close") };
    };
    return { gateway, tls, client, port };
  };
  const ok = (socket: Socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");

  it("answers requests, and drains without cutting an answer", async () => {
    let asked = (_socket: Socket) => {};
    const upstream = new Promise<Socket>((resolve) => {
      asked = resolve;
    });
    const { gateway, client } = await serve((socket) => asked(socket));
    const { socket, text, ended } = await client();
    socket.write("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    const service = await upstream;
    const drained = gateway.drain();
    ok(service);
    await Promise.all([drained, ended]);
    expect(text()).toContain("200 OK");
    expect(text()).toMatch(/ok$/);
  });

  it("shows a new certificate to new connections after a change", async () => {
    const { tls, client } = await serve(ok);
    const before = await client();
    expect(before.socket.getPeerCertificate().subject.CN).toBe("localhost-1");
    tls.setSecureContext(SECOND);
    expect((await client()).socket.getPeerCertificate().subject.CN).toBe("localhost-2");
    before.socket.write("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    await expect.poll(before.text).toContain("200 OK");
  });

  it("refuses TLS 1.1", async () => {
    const { client } = await serve(ok);
    const old = { maxVersion: "TLSv1.1", minVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" } as const;
    await expect(client(old)).rejects.toThrow(/protocol version|unsupported/i);
  });
});
