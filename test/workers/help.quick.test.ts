import { beforeEach, describe, expect, it } from "vitest";
import { issue, policies } from "./access.ts";
import { get, mountKv, put } from "./client.ts";

describe("?help=1", () => {
  beforeEach(async () => {
    await mountKv("kv");
  });

  it("describes the operations of a path, or the paths below it", async () => {
    const rows: readonly [path: string, says: RegExp][] = [
      ["/v1/sys/mounts/kv", /Path: sys\/mounts\/\{path\}\n\nGET: Read a mount\n {4}Needs: read on/],
      ["/v1/sys/policies/acl", /LIST: List the policies/],
      ["/v1/kv/data/app/db", /POST: .*\n/],
      ["/v1/kv/metadata", /LIST: /],
      ["/v1/kv/", /Paths:\n\n(?:.|\n)*data\/\{path\}/],
      ["/v1/sys/tools", /Paths:\n\n {4}sys\/tools\/hash\n/],
      ["/v1/auth/token", /auth\/token\/create\n/],
    ];
    for (const [path, says] of rows) {
      const { status, body } = await get(`${path}?help=1`);
      expect([path, status, body?.see_also]).toEqual([path, 200, null]);
      expect(body.help, path).toMatch(says);
    }
    expect((await get("/v1/sys/none?help=1")).status).toBe(404);
  });

  it("is public for system paths, and requires a capability in a mount", async () => {
    await policies({ reads: 'path "kv/data/app" { capabilities = ["read"] }' });
    const { client_token: token } = await issue({ policies: ["reads"] });
    expect((await get("/v1/sys/mounts/kv?help=1", { token: null })).status).toBe(200);
    expect((await get("/v1/kv/data/app?help=1", { token })).status).toBe(200);
    for (const who of [null, "hvs.unknown", token])
      expect((await get("/v1/kv/data/other?help=1", { token: who })).status).toBe(403);
  });

  it("reads no secret", async () => {
    await put("/v1/kv/data/app", { data: { value: "canary" } });
    expect((await get("/v1/kv/data/app?help=1")).text).not.toContain("canary");
  });
});

describe("the resultant ACL of a web interface", () => {
  it("contains exact rules and globs", async () => {
    await policies({
      p: `path "kv/data/a" { capabilities = ["read"] }
        path "kv/metadata/*" { capabilities = ["list"] }
        path "sys/internal/ui/resultant-acl" { capabilities = ["read"] }`,
    });
    const { client_token: token } = await issue({ policies: ["p"], no_default_policy: true });
    const acl = await get("/v1/sys/internal/ui/resultant-acl", { token });
    expect(acl.body.data).toEqual({
      root: false,
      exact_paths: {
        "kv/data/a": { capabilities: ["read"] },
        "sys/internal/ui/resultant-acl": { capabilities: ["read"] },
      },
      glob_paths: { "kv/metadata/": { capabilities: ["list"] } },
      chroot_namespace: "",
    });
    expect((await get("/v1/sys/internal/ui/resultant-acl")).body.data.root).toBe(true);
  });

  it("contains the child namespaces in which the token has a capability", async () => {
    for (const name of ["mine", "theirs"]) await put(`/v1/sys/namespaces/${name}`, {});
    await policies({ p: 'path "mine/kv/data/a" { capabilities = ["read"] }' });
    const { client_token: token } = await issue({ policies: ["p"], no_default_policy: true });
    const keys = async (who: string) =>
      (await get("/v1/sys/internal/ui/namespaces", { token: who })).body.data.keys as string[];
    expect(await keys(token)).toEqual(["mine/"]);
    expect(await keys("root")).toEqual(["mine/", "theirs/"]);
  });
});
