import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { assertionFor } from "../../src/credentials/assertion.ts";
import { warn } from "../../src/platform/observability/log.ts";
import { itRows } from "../support/rows.ts";
import { holderOf, issue, path, policies } from "./access.ts";
import { get, list, mountKv, patch, put, send } from "./client.ts";
import { joinToken, ScriptedAgent } from "./scripted-agent.ts";
import { setAssociation } from "./sync-helpers.ts";

/** Refusals that docs/operate/security.md promises and the tests of no single area cover. */

const ALL = path("*", "create", "read", "update", "patch", "delete", "list", "sudo");
const EVERYWHERE = ["/v1/sys/mounts", "/v1/kv/data/a", "/v1/nodes", "/v1/event/stream", "/v1/sys/sync/config"];

describe("credentials of one kind are refused elsewhere", () => {
  const impostors: Record<string, () => Promise<string>> = {
    "a join token": async () => (await joinToken()).Token,
    "what an agent connects by": async () => (await ScriptedAgent.joined()).token(),
    "an identity token of ours": async () => {
      const assertion = await assertionFor(
        env,
        {
          namespace: "",
          namespaceId: "root",
          mountAccessor: "cloud-b_0",
          mountPath: "cloud-b/",
          audience: "sallyport",
          ttlSeconds: 3_600,
          origin: "https://x",
        },
        "azure",
      );
      return assertion.sign();
    },
    "the secret of the bootstrap": async () => "bootstrap-secret-of-the-tests",
    "the accessor of a root token": async () => (await issue({ policies: ["root"] })).accessor,
    "the hash of a root token": async () => {
      const { client_token: input } = await issue({ policies: ["root"] });
      return (await put("/v1/sys/audit-hash", { input })).body.data.hash;
    },
  };

  itRows(Object.keys(impostors))("%s is not a token of the API", async (kind) => {
    const token = await (impostors[kind] as () => Promise<string>)();
    expect(token).toBeTruthy();
    for (const where of EVERYWHERE) {
      for (const headers of [{ "X-Orch-Token": token }, { Authorization: `Bearer ${token}` }]) {
        expect((await get(where, { token: null, headers })).status, `${kind} at ${where}`).toBe(403);
      }
    }
  });

  it("a token of the API is neither a join token nor a connect token", async () => {
    const agent = await ScriptedAgent.joined();
    const { client_token: token } = await issue({ policies: ["root"] });
    const body = { Token: token, PublicKey: Buffer.alloc(32, 7).toString("base64"), Name: "n" };
    expect((await send("POST", "/v1/agent/join", body, { token: null })).status).toBe(403);
    expect((await agent.request(token)).status).toBe(401);
  });
});

describe("the administrator of a namespace of secrets", () => {
  /** Everything in `a`, which holds a mount, beside `b` and the root, which hold secrets and users of secrets. */
  async function tenant() {
    for (const name of ["a", "b"]) await put(`/v1/sys/namespaces/${name}`, {});
    const inB = { headers: { "X-Orch-Namespace": "b" } };
    for (const at of [{}, inB]) {
      await mountKv("kv", at);
      await put("/v1/kv/data/app", { data: { value: "canary-of-another" } }, at);
      await put("/v1/sys/sync/destinations/in-mem/theirs", { secret_name_template: "canary-of-another" }, at);
      await policies({ "canary-of-another": ALL }, at);
    }
    await put("/v1/sys/mounts/theirs", { type: "kv", options: { version: "2" } }, inB);
    const at = { headers: { "X-Orch-Namespace": "a" } };
    await policies({ admin: ALL }, at);
    const { client_token: token } = await issue({ policies: ["admin"] }, at);
    return { inside: { ...at, token }, outside: { token }, accessor: (await get("/v1/sys/mounts/kv", inB)).body.data };
  }

  it("cannot push a secret of another namespace, for any mount name", async () => {
    const { inside, accessor } = await tenant();
    expect((await put("/v1/sys/sync/destinations/in-mem/mine", {}, inside)).status).toBe(200);
    const names = ["kv", "b/kv", "/b/kv", "../b/kv", "../kv", "theirs", "b/theirs", accessor.accessor, accessor.uuid];
    for (const mount of names) {
      const asked = { mount, secret_name: "app" };
      const answer = await put("/v1/sys/sync/destinations/in-mem/mine/associations/set", asked, inside);
      expect(answer.status, `${mount}: ${answer.text}`).toBeGreaterThanOrEqual(400);
      expect(answer.status, `${mount}: ${answer.text}`).toBeLessThan(500);
    }
    const pushed = async () => (await get("/v1/sys/sync/destinations/in-mem/mine/objects", inside)).body.data.objects;
    expect(await pushed()).toEqual({});
    await mountKv("own", inside);
    await put("/v1/own/data/app", { data: { value: "own" } }, inside);
    const own = { mount: "own", secret_name: "app" };
    expect((await put("/v1/sys/sync/destinations/in-mem/mine/associations/set", own, inside)).status).toBe(200);
    expect(Object.keys(await pushed())).toHaveLength(1);
  });

  it("cannot read other namespaces, or change global settings", async () => {
    const { inside, outside } = await tenant();
    const reads = [
      "/v1/kv/data/app",
      "/v1/theirs/data/app",
      "/v1/sys/mounts/theirs",
      "/v1/b/kv/data/app",
      "/v1/sys/policies/acl/canary-of-another",
      "/v1/sys/sync/destinations/in-mem/theirs",
      "/v1/sys/sync/associations/kv/app",
      "/v1/sys/internal/ui/mounts/theirs",
    ];
    const lists = ["/v1/sys/policies/acl", "/v1/sys/namespaces", "/v1/sys/sync/destinations"];
    for (const at of [inside, outside]) {
      for (const where of reads) {
        const answer = await get(where, at);
        expect(answer.status, where).toBeGreaterThanOrEqual(400);
        expect(answer.text, where).not.toContain("canary-of-another");
      }
      expect((await get("/v1/sys/mounts", at)).text).not.toContain("theirs");
      for (const where of lists) expect((await list(where, at)).text, where).not.toMatch(/canary-of-another|theirs/);
    }
    const shared = [
      ["GET", "/v1/sys/metrics"],
      ["GET", "/v1/sys/audit"],
      ["PUT", "/v1/sys/audit-hash", { input: "x" }],
      ["GET", "/v1/sys/snapshot"],
      ["GET", "/v1/sys/key-status"],
      ["PUT", "/v1/sys/rotate", {}],
      ["GET", "/v1/sys/sync/config"],
      ["PUT", "/v1/identity/oidc/config", { issuer: "https://elsewhere.example" }],
      ["PUT", "/v1/identity/oidc/key/default/rotate", {}],
      ["PUT", "/v1/cluster/objects", []],
      ["GET", "/v1/metrics"],
      ["GET", "/v1/agents"],
    ] as const;
    for (const [method, where, body] of shared) {
      for (const at of [inside, outside]) {
        const answer = await send(method, where, body, at);
        expect([400, 403, 404, 405], `${method} ${where}: ${answer.text.slice(0, 200)}`).toContain(answer.status);
      }
    }
    expect((await patch("/v1/sys/sync/config", { disabled: true }, inside)).status).toBe(403);
    expect((await get("/v1/sys/sync/config")).body.data.disabled).toBe(false);
  });
});

describe("a token that may write a destination but not read a secret", () => {
  it("cannot push the secret, nor see its associations", async () => {
    await mountKv();
    await put("/v1/kv/data/app", { data: { value: "canary-value" } });
    await put("/v1/sys/sync/destinations/in-mem/d", {});
    const rules = path("sys/sync/destinations/*", "create", "read", "update", "patch", "delete");
    const { client_token: token } = await holderOf(rules);
    const asked = { mount: "kv", secret_name: "app" };
    const refused = await put("/v1/sys/sync/destinations/in-mem/d/associations/set", asked, { token });
    expect(refused.status).toBe(403);
    await setAssociation("in-mem/d", "app");
    for (const where of ["", "/associations", "/drift"]) {
      expect((await get(`/v1/sys/sync/destinations/in-mem/d${where}`, { token })).text).not.toContain("canary-value");
    }
  });
});

describe("a page of another origin in a user's browser", () => {
  it("can read no response, and gets no cookie, in either API and for any outcome", async () => {
    await mountKv();
    await put("/v1/kv/data/a", { data: {} });
    const asks = [...EVERYWHERE, "/v1/sys/health", "/v1/nowhere", "/v1/openapi.json", "/docs", "/v1/jobs?per_page=-1"];
    for (const where of asks) {
      for (const method of ["GET", "OPTIONS"]) {
        for (const token of ["root", "guess", null]) {
          const headers = new Headers({ Origin: "https://evil.example", "Access-Control-Request-Method": "GET" });
          if (token !== null) headers.set("X-Orch-Token", token);
          const answer = await exports.default.fetch(`https://x${where}`, { method, headers });
          void answer.body?.cancel();
          const shown = [...answer.headers.keys()].filter((name) => /^access-control-|^set-cookie$/.test(name));
          expect(shown, `${method} ${where}`).toEqual([]);
        }
      }
    }
  });
});

describe("the log", () => {
  it("contains no lines forged by callers through paths or headers", async () => {
    const printed: string[] = [];
    for (const method of ["log", "info", "warn", "error", "debug"] as const) {
      vi.spyOn(console, method).mockImplementation((...words: unknown[]) => void printed.push(words.join(" ")));
    }
    await mountKv();
    const forged = '\n{"level":"audit","kind":"answer","status":200,"path":"forged"}\r\n';
    const encoded = encodeURIComponent(forged);
    const tries = [
      () => put(`/v1/kv/data/${encoded}`, { data: {} }),
      () => get(`/v1/${encoded}/x`),
      () => get(`/v1/jobs?namespace=${encoded}&filter=${encoded}`),
      () => put(`/v1/sys/sync/destinations/in-mem/${encoded}`, {}),
      () => put("/v1/cluster/objects?source=s&source_index=1", [{ Topic: "Job", Payload: { Job: { ID: forged } } }]),
      () => get("/v1/sys/mounts", { token: null, headers: { Authorization: `Bearer ${encoded}` } }),
      () => send("GET", "/v1/sys/mounts", undefined, { headers: { "X-Orch-Namespace": encoded } }),
    ];
    for (const attempt of tries) expect((await attempt()).status).not.toBe(500);
    warn("what-came", { name: forged });
    const all = printed.flatMap((text) => text.split(/[\r\n]/));
    expect(all.length).toBeGreaterThanOrEqual(tries.length);
    for (const line of all) expect(() => JSON.parse(line), line).not.toThrow();
    expect(all.map((line) => JSON.parse(line)).filter(({ path: where }) => where === "forged")).toEqual([]);
  });
});
