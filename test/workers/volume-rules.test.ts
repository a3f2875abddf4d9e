import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { PolicyStore } from "../../src/access/policies/policy-store.ts";
import { accessObject, holderOf, policies } from "./access.ts";
import { type Answer, del, get, put, send } from "./client.ts";
import { create, register as csiRegister, openCsi } from "./csi-world.ts";
import { addNode, ask, listed, make, nodeId, nodes, openNodes, register, volume } from "./host-volumes.ts";

beforeEach(() => openNodes(1));

const rule = (asks: string, enforcement = "hard-mandatory", name = "size") =>
  `volume_rule "${name}" {\n ${asks}\n enforcement = "${enforcement}"\n}\n`;
const write = (asks: string, enforcement?: string) => policies({ storage: rule(asks, enforcement) });
const said = ({ status, text }: Answer) => [status, text];
const denied = (asked: string, enforcement = "hard-mandatory") => [
  403,
  `volume denied: policy "storage", rule "size" (${enforcement}): ${asked}`,
];
const override = (more: object = {}, options?: Parameters<typeof put>[2], intent = "create") =>
  put(`/v1/volume/host/${intent}`, { Volume: volume({ ...more }), PolicyOverride: true }, options);

const ZFS = 'plugins = ["zfs"]';
const ASKS_ZFS = 'plugin must be "zfs"';

describe("a volume that breaks a hard rule", () => {
  beforeEach(() => write(ZFS));

  it("is created for no caller, and no operation is sent to a node", async () => {
    const all = 'namespace "default" { capabilities = ["host-volume-write", "policy-override"] }';
    const { client_token: token } = await holderOf(all);
    for (const options of [undefined, { token }]) {
      expect(said(await ask({}, options))).toEqual(denied(ASKS_ZFS));
      expect(said(await override({}, options))).toEqual(denied(ASKS_ZFS));
    }
    expect([await listed(), nodes.sent]).toEqual([[], []]);
  });

  it("is not registered", async () => {
    expect(said(await register({ PluginID: "mkdir" }))).toEqual(denied(ASKS_ZFS));
    expect((await register()).status).toBe(200);
  });

  it("is refused while the rule exists, and accepted from the next request on", async () => {
    expect((await ask()).status).toBe(403);
    await write('plugins = ["mkdir", "zfs"]');
    expect((await ask()).status).toBe(200);
    await write(ZFS);
    expect((await ask({ Name: "two" })).status).toBe(403);
    await policies({ storage: 'node { policy = "read" }' });
    expect((await ask({ Name: "two" })).status).toBe(200);
    await write(ZFS);
    expect((await ask({ Name: "three" })).status).toBe(403);
    expect((await del("/v1/acl/policy/storage")).status).toBe(200);
    expect((await ask({ Name: "three" })).status).toBe(200);
  });

  it("has other errors of the request reported first", async () => {
    expect((await ask({ Name: "" })).status).toBe(400);
    expect((await ask({ Namespace: "nowhere" })).text).toContain("no such namespace");
  });
});

describe("an existing volume", () => {
  it("cannot be changed to break a rule, and is unchanged", async () => {
    const made = await make({ Name: "db-1", RequestedCapacityMaxBytes: 10 });
    await write('name_pattern = "^db-"\n max_capacity = 10');
    expect(said(await ask({ ID: made.ID, Name: "web", RequestedCapacityMaxBytes: 11 }))).toEqual(
      denied("name must match ^db- and capacity_max must be given, and at most 10 bytes"),
    );
    expect((await get(`/v1/volume/host/${made.ID}`)).body).toEqual(made);
    expect((await ask({ ID: made.ID, Name: "db-2", RequestedCapacityMaxBytes: 9 })).status).toBe(200);
  });

  it("is checked with its current plugin and pool if a change omits them", async () => {
    const { ID } = await make();
    await write(ZFS);
    expect(said(await ask({ ID, PluginID: "" }))).toEqual(denied(ASKS_ZFS));
    await write('node_pools = ["gpu"]');
    expect(said(await ask({ ID }))).toEqual(denied('node pool must be "gpu"'));
    await write('node_pools = ["default"]\n plugins = ["mkdir"]');
    expect((await ask({ ID, PluginID: "" })).status).toBe(200);
  });

  it("can be deleted under any rules", async () => {
    const { ID } = await make();
    await write(ZFS);
    expect((await del(`/v1/volume/host/${ID}`)).status).toBe(200);
  });

  it("that is missing or in another namespace returns 404 as before", async () => {
    const { ID } = await make();
    await put("/v1/namespace/prod", {});
    await write('plugins = ["mkdir"]');
    expect((await ask({ ID, Namespace: "prod" })).status).toBe(404);
    expect((await ask({ ID: "0199d1f0-0000-7000-8000-000000000000" })).status).toBe(404);
  });
});

describe("a rule about", () => {
  it("sizes applies to creations and registrations", async () => {
    await write('max_capacity = "1KiB"');
    const asked = denied("capacity_max must be given, and at most 1024 bytes");
    expect(said(await ask())).toEqual(asked);
    expect(said(await ask({ RequestedCapacityMaxBytes: 1025 }))).toEqual(asked);
    expect((await ask({ RequestedCapacityMaxBytes: 1024 })).status).toBe(200);
    expect(said(await register({ Name: "two", CapacityBytes: 1025 }))).toEqual(asked);
    expect(said(await register({ Name: "two", CapacityBytes: 1, RequestedCapacityMaxBytes: 1025 }))).toEqual(asked);
    expect((await register({ Name: "two", CapacityBytes: 1024 })).status).toBe(200);
  });

  it("pools applies to the requested pool or node, one of which is required", async () => {
    await addNode(2, { NodePool: "gpu" });
    await write('node_pools = ["gpu"]');
    const asked = denied('node pool must be "gpu"');
    expect(said(await ask())).toEqual(denied('node pool must be "gpu", by its name or that of a node'));
    expect(said(await ask({ NodePool: "default" }))).toEqual(asked);
    expect(said(await ask({ NodeID: nodeId(1) }))).toEqual(asked);
    expect(said(await register())).toEqual(asked);
    expect((await ask({ NodeID: nodeId(1), NodePool: "gpu" })).status).toBe(400);
    expect((await ask({ NodeID: nodeId(3) })).status).toBe(404);
    expect((await make({ NodePool: "gpu" })).NodeID).toBe(nodeId(2));
    expect((await make({ Name: "two", NodeID: nodeId(2) })).NodePool).toBe("gpu");
  });

  it("namespaces applies in those only", async () => {
    await put("/v1/namespace/prod-eu", {});
    await write(`${ZFS}\n namespaces = ["prod-*"]`);
    expect(said(await ask({ Namespace: "prod-eu" }))).toEqual(denied(ASKS_ZFS));
    expect(said(await put("/v1/volume/host/create?namespace=prod-eu", { Volume: volume({ Name: "one" }) }))).toEqual(
      denied(ASKS_ZFS),
    );
    expect((await ask()).status).toBe(200);
  });
});

describe("PolicyOverride", () => {
  beforeEach(() => write(ZFS, "soft-mandatory"));
  const warning = `policy "storage", rule "size" (soft-mandatory): ${ASKS_ZFS}`;

  // Proves: D.host.create.PolicyOverride, D.rules.7.override
  it("creates a volume that a soft rule denies, with a warning that names the rule", async () => {
    expect(said(await ask())).toEqual(denied(ASKS_ZFS, "soft-mandatory"));
    expect(said(await put("/v1/volume/host/create", { Volume: volume(), PolicyOverride: false }))).toEqual(
      denied(ASKS_ZFS, "soft-mandatory"),
    );
    const made = await override();
    expect([made.status, made.body.Warnings]).toEqual([200, warning]);
    expect(await listed()).toHaveLength(1);
  });

  // Proves: D.host.register.PolicyOverride, D.rules.7.override
  it("registers and updates one, too", async () => {
    const given = { PluginID: "mkdir", NodeID: nodeId(1), HostPath: "/srv/db" };
    expect(said(await register({ PluginID: "mkdir" }))).toEqual(denied(ASKS_ZFS, "soft-mandatory"));
    const made = await override(given, undefined, "register");
    expect([made.status, made.body.Warnings]).toEqual([200, warning]);
    expect((await ask({ ID: made.body.Volume.ID, Name: "x" })).status).toBe(403);
    expect((await override({ ID: made.body.Volume.ID, Name: "x" })).body.Volume.Name).toBe("x");
  });

  it.each([
    ["neither", [], false],
    ["the right", ["policy-override"], true],
    ["the right by its other name", ["sentinel-override"], true],
  ])("requires its capability: %s", async (_what, rights, passes) => {
    const capabilities = JSON.stringify(["host-volume-write", ...rights]);
    const { client_token: token } = await holderOf(`namespace "default" { capabilities = ${capabilities} }`);
    for (const [more, intent] of [
      [{ Name: "c" }, "create"],
      [{ Name: "r", PluginID: "mkdir", NodeID: nodeId(1), HostPath: "/srv/r" }, "register"],
    ] as const) {
      const answer = await override(more, { token }, intent);
      expect(passes ? answer.status : said(answer)).toEqual(passes ? 200 : [403, "Permission denied"]);
      // The right alone overrides nothing.
      expect((await ask(more, { token }, intent)).status).toBe(403);
    }
  });

  // Proves: D.rules.7.override
  it("does not override a hard rule beside the soft one, and the error names both", async () => {
    await policies({ hard: rule('name_pattern = "^x"', "hard-mandatory", "name") });
    expect(said(await override())).toEqual([
      403,
      'volume denied: policy "hard", rule "name" (hard-mandatory): name must match ^x',
    ]);
    expect((await ask()).text).toContain('policy "storage", rule "size" (soft-mandatory)');
  });
});

describe("a change of a CSI volume", () => {
  beforeEach(openCsi);

  it("is checked with the volume's current name and capacities if it omits them", async () => {
    await create({ RequestedCapacityMin: 5, RequestedCapacityMax: 10 });
    await write('name_pattern = "^vol-"\n max_capacity = 10');
    expect((await create({ Name: "" })).status).toBe(200);
    expect((await csiRegister({ Name: "" })).status).toBe(200);
    const asked = "capacity_max must be given, and at most 10 bytes";
    // A new minimum without a maximum replaces both.
    expect(said(await create({ Name: "", RequestedCapacityMin: 6 }))).toEqual(denied(asked));
    expect(said(await create({ ID: "v2", Name: "web" }))).toEqual(denied(`name must match ^vol- and ${asked}`));
    await write("max_capacity = 9");
    expect(said(await create({ Name: "" }))).toEqual(denied("capacity_max must be given, and at most 9 bytes"));
  });
});

it("an advisory rule adds a warning to others", async () => {
  await write(ZFS, "advisory");
  const made = await put("/v1/volume/host/create", { Volume: { Name: "db", plugin_id: "mkdir" } });
  expect([made.status, made.body.Warnings]).toEqual([
    200,
    `Volume.plugin_id was read as PluginID; policy "storage", rule "size" (advisory): ${ASKS_ZFS}`,
  ]);
});

describe("a policy with volume rules", () => {
  const text = `# who may have what\n${rule(ZFS)}`;

  it("is returned as it was written, in both formats", async () => {
    const json = JSON.stringify(
      { volume_rule: { size: { plugins: ["zfs"], enforcement: "hard-mandatory" } } },
      null,
      1,
    );
    for (const written of [text, json]) {
      expect((await put("/v1/acl/policy/storage", { Rules: written })).status).toBe(200);
      expect((await get("/v1/acl/policy/storage")).body.Rules).toBe(written);
      expect((await get("/v1/sys/policies/acl/storage")).body.data.policy).toBe(written);
      expect(said(await ask())).toEqual(denied(ASKS_ZFS));
    }
  });

  it("grants its tokens nothing by those rules", async () => {
    const { client_token: token } = await holderOf(rule('plugins = ["mkdir"]'));
    expect(said(await ask({}, { token }))).toEqual([403, "Permission denied"]);
  });

  it("is refused outside the root namespace, because it applies to all namespaces", async () => {
    await send("POST", "/v1/sys/namespaces/team", {});
    const headers = { "X-Orch-Namespace": "team" };
    const refused = await put("/v1/sys/policies/acl/storage", { policy: text }, { headers });
    expect([refused.status, refused.text]).toEqual([
      400,
      expect.stringContaining("only policies of the root namespace"),
    ]);
    expect((await ask()).status).toBe(200);
  });

  it("with an error is refused by either route with the same message, and keeps the previous rules", async () => {
    await write(ZFS);
    const wrong = rule("plugins = []");
    const says = 'plugins of volume_rule \\"size\\": must have 1 to 100 entries (line 2)';
    const first = await put("/v1/sys/policies/acl/storage", { policy: wrong });
    expect([first.status, first.text]).toEqual([400, expect.stringContaining(says)]);
    const second = await put("/v1/acl/policy/storage", { Rules: wrong });
    expect([second.status, second.text]).toEqual([
      400,
      expect.stringContaining(`policy 0 invalid: Invalid policy: ${says.replaceAll("\\", "")}`),
    ]);
    expect((await ask()).status).toBe(403);
  });

  it("is refused above the total size of all rules; a replacement is not counted twice", async () => {
    const many = (count: number) =>
      Array.from({ length: count }, (_, at) => rule(ZFS, "hard-mandatory", `r${at}`)).join("");
    await policies({ storage: many(150) });
    await policies({ storage: many(150) });
    const refused = await put("/v1/sys/policies/acl/more", { policy: many(51) });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("may hold 200 rules")]);
    await policies({ more: many(50) });
    expect((await ask()).text.endsWith("; and 180 more")).toBe(true);
    const wide = `volume_rule "a" { enforcement = "advisory" plugins = ${JSON.stringify(
      Array.from({ length: 100 }, (_, at) => String(at).padStart(128, "p")),
    )} }`;
    const documents = Array.from({ length: 10 }, (_, at) => wide.replace('"a"', `"a${at}"`)).join("\n");
    expect((await put("/v1/sys/policies/acl/more", { policy: documents })).status).toBe(400);
  });

  it("costs the same for any number of policies without rules", async () => {
    await write(ZFS);
    const { rules, read } = await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO policies (namespace, name, text, parsed, description)
         SELECT '', 'p' || i, '', '{"paths":[],"cluster":{}}', '' FROM n`,
      );
      const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
      const counting = {
        exec: (query: string, ...values: unknown[]) => {
          const cursor = sql.exec(query, ...values);
          cursors.push(cursor);
          return cursor;
        },
      } as unknown as SqlStorage;
      const found = new PolicyStore(counting).volumeRules();
      return { rules: found.length, read: cursors.reduce((sum, { rowsRead }) => sum + rowsRead, 0) };
    });
    expect(rules).toBe(1);
    expect(read).toBeLessThanOrEqual(4);
  });
});
