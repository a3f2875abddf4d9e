import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { nodeDirectory, startAgent, writePlugin } from "./agent-service.ts";
import { Service } from "./events-service.ts";

/* Host volumes as users have them: the service as it is, and nodes with the agent as it is. */

const service = new Service({});
let base = "";

beforeAll(async () => {
  await service.create();
  base = service.base;
}, 300_000);

afterAll(() => service.destroy());

async function call(method: string, path: string, body?: object) {
  const init = { method, headers: { "X-Orch-Token": "root" }, ...(body && { body: JSON.stringify(body) }) };
  const response = await fetch(`${base}${path}`, init);
  const text = await response.text();
  return { status: response.status, text, body: /^[{[]/.test(text) ? JSON.parse(text) : null };
}

const create = (more: object = {}) =>
  call("PUT", "/v1/volume/host/create", { Volume: { Name: "db", PluginID: "mkdir", ...more } });

/** A node in a separate pool, without volumes of other tests. */
async function startNode(pool: string) {
  const made = await call("POST", "/v1/agent/tokens", { NodePool: pool });
  const node = nodeDirectory(base, { pool });
  const config = {
    ...node.config,
    hostVolumes: { ...node.config.hostVolumes, plugins: [{ name: "slow" }, { name: "broken" }] },
  };
  writeFileSync(node.path, JSON.stringify(config));
  const fingerprint = '[ "$1" = fingerprint ] && { echo \'{"version":"1.0.0"}\'; exit 0; }';
  writePlugin(node.at("plugins"), "broken", `${fingerprint}\necho '{"error":"the disk is on fire"}'; exit 1`);
  writePlugin(
    node.at("plugins"),
    "slow",
    `${fingerprint}\n/bin/mkdir -p "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"\n[ -e "${node.at("go")}" ] || /bin/sleep 30\necho "{\\"path\\":\\"$DHV_VOLUMES_DIR/$DHV_VOLUME_ID\\",\\"bytes\\":4096}"`,
  );
  const agent = startAgent(node.path, { SALLYPORT_JOIN_TOKEN: made.body.Token });
  const id = await ready(pool, () => agent.log);
  return { id, node, agent };
}

const ready = (pool: string, log: () => string, status = "ready"): Promise<string> =>
  vi.waitFor(
    async () => {
      const nodes = (await call("GET", `/v1/nodes?filter=${encodeURIComponent(`NodePool == "${pool}"`)}`)).body;
      expect(nodes?.[0]?.Status, log()).toBe(status);
      return nodes[0].ID;
    },
    { interval: 100 },
  );

const stateIs = (id: string, state: string) =>
  vi.waitFor(async () => expect((await call("GET", `/v1/volume/host/${id}`)).body).toMatchObject({ State: state }), {
    interval: 100,
  });

// Proves: D.host.create.endpoint, D.host.delete.endpoint
it("creates a volume as a directory on its node, marks it ready, and removes it on deletion", async () => {
  const { id, node } = await startNode("life");
  const made = await create({ NodePool: "life", Parameters: { mode: "0750" } });
  expect(made.status, made.text).toBe(200);
  const { ID, HostPath, NodeID } = made.body.Volume;
  expect([NodeID, HostPath]).toEqual([id, node.at(`volumes/${ID}`)]);
  expect(existsSync(HostPath)).toBe(true);
  await stateIs(ID, "ready");
  expect((await create({ NodeID: id })).text).toBe("volume name already exists on this node");
  const renamed = await create({ ID, Name: "renamed" });
  expect(renamed.body?.Volume, renamed.text).toMatchObject({ ID, Name: "renamed", HostPath });
  await stateIs(ID, "ready");
  expect((await call("DELETE", `/v1/volume/host/${ID}`)).status).toBe(200);
  expect(existsSync(HostPath)).toBe(false);
  expect((await call("GET", `/v1/volume/host/${ID}`)).status).toBe(404);
});

// Proves: D.host.register.endpoint
it("registers an existing directory, and keeps it when it is deregistered", async () => {
  const { id, node } = await startNode("register");
  mkdirSync(node.at("data/mine"));
  const register = (more: object) =>
    call("PUT", "/v1/volume/host/register", { Volume: { Name: "mine", NodeID: id, ...more } });
  const made = await register({ HostPath: node.at("data/mine"), CapacityBytes: 5 });
  expect(made.body?.Volume, made.text).toMatchObject({ HostPath: node.at("data/mine"), CapacityBytes: 5 });
  await stateIs(made.body.Volume.ID, "ready");
  const missing = await register({ Name: "no", HostPath: node.at("data/none") });
  expect([missing.status, missing.text]).toEqual([404, expect.stringContaining("could not verify host path")]);
  expect((await register({ Name: "etc", HostPath: "/etc" })).status).toBe(400);
  expect((await call("DELETE", `/v1/volume/host/${made.body.Volume.ID}`)).status).toBe(200);
  expect(existsSync(node.at("data/mine"))).toBe(true);
});

it("returns a plugin's error to the caller, and leaves nothing", async () => {
  await startNode("broken");
  const failed = await create({ NodePool: "broken", PluginID: "broken" });
  expect([failed.status, failed.text]).toEqual([502, expect.stringContaining("the disk is on fire")]);
  expect((await call("GET", "/v1/volumes?type=host&node_pool=broken")).body).toEqual([]);
  const unknown = await create({ NodePool: "broken", Parameters: { colour: "red" } });
  expect([unknown.status, unknown.text]).toEqual([400, expect.stringContaining("colour")]);
});

it("an agent killed during a creation creates the volume once after its restart", async () => {
  const { node, agent } = await startNode("killed");
  const asked = create({ NodePool: "killed", PluginID: "slow" });
  await vi.waitFor(() => expect(agent.log + readFileSync(node.at("state/journal"), "utf8")).toContain("dhv.create"));
  await agent.kill();
  writeFileSync(node.at("go"), "");
  const again = startAgent(node.path, {});
  const made = await asked;
  expect(made.status, made.text + again.log).toBe(200);
  expect(made.body.Volume).toMatchObject({ CapacityBytes: 4096, HostPath: node.at(`volumes/${made.body.Volume.ID}`) });
  expect((await call("GET", "/v1/volumes?type=host&node_pool=killed")).body).toHaveLength(1);
  await stateIs(made.body.Volume.ID, "ready");
}, 120_000);

it("a lost node refuses requests at once, and its volume is deleted by force only and stays on disk", async () => {
  const { id, node, agent } = await startNode("gone");
  const { ID } = (await create({ NodePool: "gone" })).body.Volume;
  await stateIs(ID, "ready");
  await agent.kill();
  await ready("gone", () => agent.log, "disconnected");
  await stateIs(ID, "unavailable");
  expect((await create({ NodeID: id, Name: "other" })).status).toBe(503);
  const refused = await call("DELETE", `/v1/volume/host/${ID}`);
  expect([refused.status, refused.text]).toEqual([503, expect.stringContaining("force=true")]);
  expect((await call("DELETE", `/v1/volume/host/${ID}?force=true`)).status).toBe(200);
  writeFileSync(node.at(`volumes/${ID}/data`), "precious");
  const again = startAgent(node.path, {});
  await ready("gone", () => again.log);
  await vi.waitFor(() => expect(again.log).toContain("volume_unknown_to_service"));
  expect(readFileSync(node.at(`volumes/${ID}/data`), "utf8")).toBe("precious");
  rmSync(node.at(`volumes/${ID}/data`));
}, 120_000);
