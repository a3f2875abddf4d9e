import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect, it, vi } from "vitest";
import {
  afterTest,
  eventually,
  type FakeService,
  fakeService,
  JOIN_TOKEN,
  nodeDirectory,
  startAgent,
} from "./agent-service.ts";
import { FIRST, SECOND } from "./certificates.ts";

vi.setConfig({ testTimeout: 120_000 });

const TOKEN = { SALLYPORT_JOIN_TOKEN: JOIN_TOKEN };
const PASSWORD = "CANARY-proxy-41c";

/** The service behind TLS with a certificate that no public authority has signed. @returns its origin */
async function behindTls({ url }: FakeService): Promise<string> {
  const server = createTlsServer({ cert: FIRST.cert, key: FIRST.key }, (socket) => {
    const inner = connect(Number(new URL(url).port), "127.0.0.1");
    socket.on("error", () => inner.destroy()).pipe(inner);
    inner.on("error", () => socket.destroy()).pipe(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  server.on("tlsClientError", () => {});
  afterTest(() => void server.close());
  return `https://localhost:${(server.address() as AddressInfo).port}`;
}

/** A proxy that tunnels to loopback, and what it was asked for. @param needs the credentials it requires */
async function proxy(needs = "") {
  const asked: string[] = [];
  const server = createServer((_, response) => void response.writeHead(405).end());
  server.on("connect", (request: IncomingMessage, socket) => {
    const given = request.headers["proxy-authorization"] ?? "";
    asked.push(`${request.url} ${given}`);
    if (given !== needs) return socket.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
    const inner = connect(Number(request.url?.split(":")[1]), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      inner.pipe(socket).pipe(inner);
    });
    inner.on("error", () => socket.destroy());
    socket.on("error", () => inner.destroy());
    return undefined;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  afterTest(() => {
    server.closeAllConnections();
    server.close();
  });
  return { asked, port: (server.address() as AddressInfo).port };
}

it("joins and connects to a service whose certificate is of the CA in caFile, and to no other", async () => {
  const service = await fakeService();
  const origin = await behindTls(service);
  const node = nodeDirectory(origin);
  const write = (pem: string) => writeFileSync(node.at("ca.pem"), pem);
  write(SECOND.cert);
  const configured = { ...node.config, caFile: node.at("ca.pem") };
  writeFileSync(node.path, JSON.stringify(configured));
  const agent = startAgent(node.path);
  await eventually("a refusal", () => /join_failed.*self-signed/.test(agent.log) || undefined);
  expect(service.joins).toEqual([]);
  // The file is read again by SIGHUP, also while the node has not joined.
  write(FIRST.cert);
  agent.child.kill("SIGHUP");
  await (await service.session(60_000)).welcome();
  write("no certificate");
  agent.child.kill("SIGHUP");
  await eventually("a refusal", () => agent.log.includes("has no PEM certificate") || undefined);
  await agent.kill();
  const again = startAgent(node.path);
  expect(await again.exit).toBe(2);
  expect(again.log).toContain("caFile: ");
});

it.each([
  ["the configuration", true],
  ["HTTPS_PROXY", false],
])(
  "reaches the service through the proxy of %s, with its credentials, which no log or file has",
  async (_, configured) => {
    const service = await fakeService();
    const origin = await behindTls(service);
    const basic = `Basic ${Buffer.from(`u:${PASSWORD}`).toString("base64")}`;
    const { asked, port } = await proxy(basic);
    const url = `http://u:${PASSWORD}@127.0.0.1:${port}`;
    const node = nodeDirectory(origin);
    writeFileSync(node.at("ca.pem"), FIRST.cert);
    const config = { ...node.config, caFile: node.at("ca.pem"), ...(configured && { proxy: url }) };
    writeFileSync(node.path, JSON.stringify(config));
    const env = configured ? { HTTPS_PROXY: "http://127.0.0.1:9", DEBUG: "*" } : { HTTPS_PROXY: url, DEBUG: "*" };
    const open = startAgent(node.path, { ...TOKEN, ...env });
    if (configured) {
      expect(await open.exit).toBe(2);
      expect(open.log).toContain("anyone on this machine can read it (chmod o-r), and proxy has a password");
      chmodSync(node.path, 0o640);
    }
    const agent = configured ? startAgent(node.path, { ...TOKEN, ...env }) : open;
    await (await service.session()).welcome();
    // The join and the connection.
    expect(asked).toEqual([1, 2].map(() => `${origin.replace("https://", "")} ${basic}`));
    expect(agent.log + agent.out).not.toContain(PASSWORD);
  },
);

it("reaches the service without a proxy that NO_PROXY or the configuration excludes", async () => {
  for (const excluded of [{ env: { NO_PROXY: "localhost" } }, { env: {}, change: { proxy: "none" } }]) {
    const service = await fakeService();
    const node = nodeDirectory(await behindTls(service));
    writeFileSync(node.at("ca.pem"), FIRST.cert);
    writeFileSync(node.path, JSON.stringify({ ...node.config, caFile: node.at("ca.pem"), ...excluded.change }));
    startAgent(node.path, { ...TOKEN, HTTPS_PROXY: "http://127.0.0.1:9", ...excluded.env });
    await (await service.session()).welcome();
  }
});

it("a changed proxy takes effect by SIGHUP: the agent connects again, through it", async () => {
  const service = await fakeService();
  const { asked, port } = await proxy();
  const node = nodeDirectory(service.url);
  const agent = startAgent(node.path);
  const first = await service.session();
  await first.welcome();
  writeFileSync(node.path, JSON.stringify({ ...node.config, proxy: `http://127.0.0.1:${port}` }));
  agent.child.kill("SIGHUP");
  expect((await first.closed).code).toBe(1000);
  await (await service.session()).welcome();
  expect(asked).toEqual([`${service.url.replace("http://", "")} `]);
});

it("keeps retrying while the proxy refuses or is away", async () => {
  const service = await fakeService();
  const { asked, port } = await proxy("Basic none");
  const refused = startAgent(nodeDirectory(service.url, { proxy: `http://127.0.0.1:${port}` }).path);
  await eventually("three attempts", () => asked.length >= 3 || undefined);
  expect(refused.log).toContain("the service answered 407");
  const gone = createTcpServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const { port: closed } = gone.address() as AddressInfo;
  gone.close();
  const away = startAgent(nodeDirectory(service.url, { proxy: `http://127.0.0.1:${closed}` }).path);
  await eventually("a failure", () => /join_failed.*ECONNREFUSED/.test(away.log) || undefined);
  expect([refused.child.exitCode, away.child.exitCode]).toEqual([null, null]);
});
