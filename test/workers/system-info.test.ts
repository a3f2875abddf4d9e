import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ORCHESTRATOR_VERSION } from "../../src/compat/orchestrator.ts";
import { BUILD_DATE, RELEASE, VERSION } from "../../src/platform/version.ts";
import { itRows } from "../support/rows.ts";
import { issue } from "./access.ts";
import { del, get, list, put } from "./client.ts";

/* Descriptions of the deployment, and the operations on it that this service does not have. */

describe("descriptions of the deployment", () => {
  const reads: readonly [path: string, expected: object][] = [
    ["host-info", { cpu: [], disk: [], memory: { total: 0 }, host: { os: "workers" } }],
    [
      "version",
      { version: RELEASE, build_date: BUILD_DATE, upstream: { vault: VERSION, nomad: ORCHESTRATOR_VERSION } },
    ],
    ["experiments", { available: [], enabled: [] }],
    ["ha-status", { nodes: [{ active_node: true, api_address: "https://x", version: VERSION }] }],
    ["config/state/sanitized", { storage: { type: "durable-object" }, api_addr: "https://x" }],
    ["internal/counters/requests", { counters: [] }],
    ["internal/counters/entities", { counters: { entities: { total: 0 } } }],
    ["license/features", { features: ["Namespaces", "Secrets Sync"] }],
    ["license/status", { autoloading_used: false }],
    ["internal/counters/config", { enabled: "disable" }],
    ["rotate/config", { enabled: false }],
    [
      "plugins/catalog",
      { auth: expect.arrayContaining(["userpass"]), secret: ["cloud-a", "cloud-b", "cloud-c", "https-producer", "kv"] },
    ],
    ["plugins/catalog/secret/kv", { builtin: true, name: "kv", sha256: "" }],
  ];

  it("have upstream's fields, in data and at the top level", async () => {
    for (const [path, expected] of reads) {
      const { status, body } = await get(`/v1/sys/${path}`);
      expect([path, status, body.data], path).toMatchObject([path, 200, expected]);
      if (path !== "plugins/catalog") expect(body, path).toMatchObject(expected);
    }
    expect((await list("/v1/sys/version-history")).body.data).toMatchObject({
      keys: [VERSION],
      key_info: { [VERSION]: { previous_version: null } },
    });
    for (const path of ["activity", "activity/monthly"])
      expect((await get(`/v1/sys/internal/counters/${path}`)).status).toBe(204);
  });

  it("show no replication, also without a token", async () => {
    const { status, body } = await get("/v1/sys/replication/status", { token: null });
    expect([status, body.data]).toEqual([200, { dr: { mode: "disabled" }, performance: { mode: "disabled" } }]);
  });

  it("list plugins by upstream's name for upstream's clients", async () => {
    const headers = { "X-Vault-Request": "true" };
    expect((await list("/v1/sys/plugins/catalog/secret", { headers })).body.data.keys).toEqual([
      "aws",
      "azure",
      "gcp",
      "https-producer",
      "kv",
    ]);
    expect((await get("/v1/sys/plugins/catalog/secret/azure", { headers })).status).toBe(200);
    expect((await get("/v1/sys/plugins/catalog/secret/none")).status).toBe(404);
    expect((await get("/v1/sys/plugins/catalog/none/kv")).text).toContain("type: must be one of");
  });

  it("are those of the root namespace only", async () => {
    await put("/v1/sys/namespaces/team", {});
    const headers = { "X-Orch-Namespace": "team" };
    for (const path of ["version", "host-info", "ha-status", "config/state/sanitized", "internal/counters/tokens"])
      expect((await get(`/v1/sys/${path}`, { headers })).status, path).toBe(400);
  });

  it("count the existing tokens", async () => {
    const total = async () => (await get("/v1/sys/internal/counters/tokens")).body.data.counters.service_tokens.total;
    const before = await total();
    await issue();
    expect(await total()).toBe(before + 1);
  });
});

describe("sys/tools", () => {
  itRows([
    ["16 in hex", "random", { bytes: 16, format: "hex" }, "hex", 16],
    ["32 by default in base64", "random", {}, "base64", 32],
    ["the path's number", "random/8", { bytes: "16" }, "base64", 8],
    ["a number after a source", "random/seal/70000", {}, "base64", 70_000],
    ["a source in the body", "random", { source: "all", bytes: "5" }, "base64", 5],
  ] as const)("returns %s of random bytes", async (_what, path, body, format, size) => {
    const one = (await put(`/v1/sys/tools/${path}`, body)).body.data.random_bytes;
    const other = (await put(`/v1/sys/tools/${path}`, body)).body.data.random_bytes;
    expect(Buffer.from(one, format)).toHaveLength(size);
    expect(one).not.toBe(other);
  });

  itRows([
    ["sha2-512, in base64", "hash", { algorithm: "sha2-512", format: "base64" }, "sha512", "base64"],
    ["sha2-256 by default", "hash", {}, "sha256", "hex"],
    ["the path's algorithm", "hash/sha2-384", { algorithm: "sha2-256" }, "sha384", "hex"],
  ] as const)("hashes with %s", async (_what, path, body, algorithm, format) => {
    const { sum } = (await put(`/v1/sys/tools/${path}`, { ...body, input: btoa("a value") })).body.data;
    expect(sum).toBe(createHash(algorithm).update("a value").digest(format));
  });

  it("returns 400 with the field's name for invalid values", async () => {
    const rows: readonly [path: string, body: object, says: string][] = [
      ["random", { bytes: 0 }, "bytes"],
      ["random/0", {}, "bytes"],
      ["random/131073", {}, '"bytes" should be less than 131072'],
      ["random/platform/some", {}, "bytes: must be an integer"],
      ["random", { format: "text" }, "format: unsupported encoding format"],
      ["random", { source: "moon" }, "source: unsupported entropy source"],
      ["random/moon", {}, "source: unsupported entropy source"],
      ["hash", { input: "no base64" }, "input: unable to decode input as base64"],
      ["hash/md5", { input: "" }, "algorithm: unsupported algorithm"],
      ["hash/constructor", { input: "" }, "algorithm: unsupported algorithm"],
      ["hash", { input: "", format: "text" }, "format: unsupported encoding format"],
    ];
    for (const [path, body, says] of rows) {
      const { status, text } = await put(`/v1/sys/tools/${path}`, body);
      expect([path, status, JSON.parse(text).errors[0]]).toEqual([path, 400, expect.stringContaining(says)]);
    }
  });
});

describe("operations on seal, key shares and servers", () => {
  it("return an error with the alternative", async () => {
    const rows: readonly [path: string, says: string][] = [
      ["seal", "removing MASTER_KEY"],
      ["rekey/init", "sys/rotate"],
      ["rekey/update", "sys/rotate"],
      ["generate-root/attempt", "/v1/acl/bootstrap"],
      ["generate-root/update", "/v1/acl/bootstrap"],
      ["rotate/root/init", "sys/rotate"],
      ["rotate/root/update", "sys/rotate"],
      ["generate-root-token/attempt", "/v1/acl/bootstrap"],
      ["generate-root-token/update", "/v1/acl/bootstrap"],
      ["rotate/config", "call sys/rotate"],
      ["audit/file", "AUDIT_LOG"],
      ["plugins/catalog/secret/mine", "built in"],
    ];
    for (const [path, says] of rows) {
      const { status, text } = await put(`/v1/sys/${path}`, {});
      expect([path, status, text]).toEqual([path, 400, expect.stringContaining(says)]);
    }
    expect((await del("/v1/sys/audit/log")).status).toBe(400);
  });

  it("report that nothing is in progress, and cancel nothing", async () => {
    for (const path of ["rekey/init", "rotate/root/init", "generate-root/attempt", "generate-root-token/attempt"]) {
      const { body } = await get(`/v1/sys/${path}`, { token: null });
      expect(/^rotate|-token/.test(path) ? body.data : body).toMatchObject({ started: false, progress: 0 });
      expect((await del(`/v1/sys/${path}`, { token: null })).status).toBe(204);
    }
    expect((await put("/v1/sys/step-down", {})).status).toBe(204);
  });

  it("return the seal status for an unseal of an unsealed service", async () => {
    const { status, body } = await put("/v1/sys/unseal", { key: "a share" }, { token: null });
    expect([status, body]).toMatchObject([200, { sealed: false, initialized: true }]);
  });
});
