import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { hostVolumeKey } from "@sallyport/agent-protocol";
import { SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createTestHarness } from "wrangler";
import { parseAllDocuments } from "yaml";
import { createGateway } from "../../scripts/gateway.ts";
import type { Operation } from "../../src/contracts/node-operation.ts";
import { uuidV7 } from "../../src/lib/uuid-v7.ts";
import { type AgentProcess, nodeDirectory, startAgent } from "./agent-service.ts";

/* The agent as it is, against the service as it is: directly at the runtime, and through the gateway of `npm start`. */

const harness = createTestHarness({
  workers: [
    {
      configPath: "./wrangler.toml",
      secrets: { MASTER_KEY: Buffer.alloc(32, 1).toString("base64"), DEV_ROOT_TOKEN: "root" },
    },
  ],
});
const bases: Record<string, string> = {};
let gateway: ReturnType<typeof createGateway>;

beforeAll(async () => {
  const { url } = await harness.listen();
  await harness.getWorker().applyD1Migrations("LISTINGS");
  bases["directly"] = url.origin;
  gateway = createGateway(Number(url.port));
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  bases["through the gateway"] = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
}, 300_000);

afterAll(async () => {
  gateway.close();
  await harness.close();
});

async function call(way: string, method: string, path: string, body?: object) {
  const init = { method, headers: { "X-Orch-Token": "root" }, ...(body && { body: JSON.stringify(body) }) };
  const response = await fetch(`${bases[way]}${path}`, init);
  const text = await response.text();
  return { status: response.status, text, body: /^[{[]/.test(text) ? JSON.parse(text) : null };
}

/** A new node, joined with its own token. */
async function joined(way: string) {
  const { body } = await call(way, "POST", "/v1/agent/tokens", { TTL: "5m" });
  const node = nodeDirectory(bases[way] ?? "");
  const agent = startAgent(node.path, { SALLYPORT_JOIN_TOKEN: body.Token });
  const id = await vi.waitFor(
    async () => {
      const tokens = (await call(way, "GET", "/v1/agent/tokens")).body as { AccessorID: string; NodeID: string }[];
      const used = tokens.find(({ AccessorID }) => AccessorID === body.AccessorID)?.NodeID;
      if (!used) throw new Error(`not joined: ${agent.log}`);
      return used;
    },
    { timeout: 30_000 },
  );
  return { id, node, agent, token: body.Token as string };
}

const statusIs = (way: string, id: string, status: string, agent?: AgentProcess) =>
  vi.waitFor(
    async () => {
      const read = await call(way, "GET", `/v1/node/${id}`);
      expect(read.body?.Status, `${read.text} ${agent?.log}`).toBe(status);
      return read.body;
    },
    { timeout: 30_000, interval: 100 },
  );

/** Starts an operation as its owner does after storing it. */
async function ask(id: string, wanted: Operation): Promise<unknown> {
  type Session = { start(operation: Operation): Promise<unknown> };
  const env = (await harness.getWorker().getEnv()) as { NODE_SESSION: { getByName(name: string): Session } };
  return env.NODE_SESSION.getByName(id).start(wanted);
}

describe.each(["directly", "through the gateway"])("%s", { timeout: 90_000 }, (way) => {
  it("an agent joins, its node becomes ready, reconnects after a crash, and exits when it is removed", async () => {
    const { id, node, agent, token } = await joined(way);
    expect(await statusIs(way, id, "ready", agent)).toMatchObject({
      Name: "node-1",
      NodePool: "default",
      SecretID: "",
      Attributes: expect.objectContaining({ "plugins.host_volume.mkdir.version": "0.0.1" }),
    });
    await agent.kill();
    await statusIs(way, id, "disconnected");
    // The state needed to reconnect is on disk, and the join token is not.
    const again = startAgent(node.path, {});
    await statusIs(way, id, "ready", again);
    for (const file of readdirSync(node.at("state"), { recursive: true, withFileTypes: true })) {
      // The agent replaces its files by renaming new ones.
      if (!file.isFile() || file.name.endsWith(".next")) continue;
      expect(readFileSync(join(file.parentPath, file.name), "utf8"), file.name).not.toContain(token);
    }
    expect((await call(way, "DELETE", `/v1/agent/${id}`)).status).toBe(200);
    expect(await again.exit).toBe(4);
    await statusIs(way, id, "disconnected");
    expect(await startAgent(node.path, {}).exit).toBe(4);
  });

  it("an operation completes on the node, also when its agent crashes meanwhile", async () => {
    const { id, node, agent } = await joined(way);
    await statusIs(way, id, "ready", agent);
    const volume = crypto.randomUUID();
    const wanted: Operation = {
      id: uuidV7(),
      method: "dhv.create",
      key: hostVolumeKey(volume),
      gen: 1,
      deadlineMs: 30_000,
      params: {
        id: volume,
        name: "data",
        namespace: "default",
        pluginId: "mkdir",
        parameters: {},
        capacityMin: 0,
        capacityMax: 0,
      },
    };
    expect(await ask(id, wanted)).toEqual({ ok: true, value: null });
    await agent.kill();
    const again = startAgent(node.path, {});
    await vi.waitFor(() => expect(existsSync(node.at(`volumes/${volume}`)), again.log).toBe(true), { timeout: 30_000 });
    await vi.waitFor(
      async () =>
        expect((await call(way, "GET", `/v1/agent/${id}`)).body).toMatchObject({
          Connected: true,
          Operations: { InFlight: 0, Queued: 0 },
        }),
      { timeout: 30_000 },
    );
    // The volume is unknown to the service: the agent is informed and changes nothing.
    await agent.kill();
    await again.kill();
    writeFileSync(node.at(`volumes/${volume}/file`), "kept");
    const last = startAgent(node.path, {});
    await statusIs(way, id, "ready", last);
    expect(readFileSync(node.at(`volumes/${volume}/file`), "utf8")).toBe("kept");
  });

  it("a copy of an agent's state replaces the original once, and the older process exits", async () => {
    const { id, node, agent } = await joined(way);
    await statusIs(way, id, "ready", agent);
    const copy = nodeDirectory(bases[way] ?? "");
    cpSync(node.at("state"), copy.at("state"), { recursive: true, filter: (path) => !path.endsWith("lock") });
    rmSync(copy.at("state/lock"), { force: true });
    const second = startAgent(copy.path, {});
    expect(await agent.exit).toBe(3);
    await statusIs(way, id, "ready", second);
    expect(second.child.exitCode).toBeNull();
  });

  it("an agent with an invalid token exits with the reason", async () => {
    const node = nodeDirectory(bases[way] ?? "");
    const agent = startAgent(node.path, { SALLYPORT_JOIN_TOKEN: "0".repeat(64) });
    expect(await agent.exit).toBe(6);
    expect(agent.log).toContain("unknown or has expired");
  });
});

describe("a node of deploy/agent-daemonset.yaml", () => {
  const way = "directly";
  const parts = parseAllDocuments(readFileSync("deploy/agent-daemonset.yaml", "utf8")).map((each) => each.toJS());
  const script = parts[2].data["join.sh"] as string;
  const [setup] = /(?<=```sh\n)[^`]*v1\/acl\/auth-method[^`]*/.exec(readFileSync("docs/guides/agent.md", "utf8")) ?? [
    "",
  ];
  const SUBJECT = "system:serviceaccount:sallyport:sallyport-agent";

  /** Runs the script as the pod does, or the page's commands. */
  const sh = (text: string, env: Record<string, string>) => {
    const { status, stdout, stderr } = spawnSync("sh", ["-c", text], { env: { PATH: process.env["PATH"], ...env } });
    return { status, out: `${stdout}${stderr}` };
  };

  it("joins by itself, under its own name, and again after its pod was replaced", { timeout: 90_000 }, async () => {
    const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const at = nodeDirectory(bases[way] ?? "").at;
    writeFileSync(at("issuer.pem"), publicKey.export({ type: "spki", format: "pem" }));
    const service = { SALLYPORT_ADDR: bases[way] ?? "", SALLYPORT_TOKEN: "root", KEYS: at("issuer.pem") };
    expect(sh(setup, service)).toMatchObject({ status: 0 });
    const signed = (sub: string) =>
      new SignJWT({ sub })
        .setProtectedHeader({ alg: "RS256" })
        .setIssuer("https://kubernetes.default.svc.cluster.local")
        .setAudience("sallyport")
        .setIssuedAt()
        .setExpirationTime("10m")
        .sign(privateKey);
    const env = {
      ...service,
      SALLYPORT_TOKEN: "",
      AUTH_METHOD: "kubernetes-nodes",
      NODE_NAME: "worker-1",
      NODE_POOL: "default",
      CONFIG_DIR: at("data"),
      STATE_DIR: at("state"),
      SERVICE_ACCOUNT_TOKEN: at("login"),
    };
    writeFileSync(at("login"), await signed("system:serviceaccount:default:other"));
    expect(sh(script, env).status).not.toBe(0);
    expect(existsSync(at("state"))).toBe(false);

    writeFileSync(at("login"), await signed(SUBJECT));
    // A first join that has failed leaves the key alone.
    mkdirSync(at("failed"));
    writeFileSync(at("failed/identity.key"), "a key");
    for (const state of ["failed", "state"])
      expect(sh(script, { ...env, STATE_DIR: at(state) }), state).toEqual({
        status: 0,
        out: "This node joins as worker-1.\n",
      });
    expect(readdirSync(at("data")).sort()).toEqual(["agent.json", "join-token"]);
    const agent = startAgent(at("data/agent.json"), {});
    const node = () =>
      call(way, "GET", "/v1/nodes").then(({ body }) =>
        (body as { Name: string; Status: string }[]).find(({ Name }) => Name === "worker-1"),
      );
    await vi.waitFor(async () => expect((await node())?.Status, agent.log).toBe("ready"), 30_000);
    await agent.kill();

    // The next pod has an empty directory of configuration, and the node's state.
    rmSync(at("data"), { recursive: true });
    mkdirSync(at("data"));
    expect(sh(script, { ...env, SERVICE_ACCOUNT_TOKEN: at("none") })).toEqual({
      status: 0,
      out: "This node has joined before.\n",
    });
    const again = startAgent(at("data/agent.json"), {});
    await vi.waitFor(async () => expect((await node())?.Status, again.log).toBe("ready"), 30_000);
  });
});
