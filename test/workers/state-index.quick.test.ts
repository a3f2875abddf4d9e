import { expect, it } from "vitest";
import { get, list, mountKv, put } from "./client.ts";

const indexOf = (header: string | null): string[] => atob(header ?? "").split(":");

it("every answer of the secrets API has an index in the form that Go clients take apart, and refusals have none", async () => {
  await mountKv("kv");
  const written = await put("/v1/kv/data/a", { data: { x: 1 } });
  const answers = [written, await get("/v1/kv/data/a"), await list("/v1/kv/metadata"), await get("/v1/sys/mounts")];
  let last = 0;
  for (const { status, headers } of answers) {
    const [version, cluster, local = "", replicated, checksum] = indexOf(headers.get("X-Vault-Index"));
    expect([status, version, cluster, replicated, checksum]).toEqual([200, "v1", "sallyport", local, "00"]);
    expect(Number(local)).toBeGreaterThanOrEqual(last);
    last = Number(local);
  }
  expect((await get("/v1/kv/data/none")).headers.get("X-Vault-Index")).toBeNull();
  expect((await get("/v1/agent/self")).headers.get("X-Vault-Index")).toBeNull();
});

it("a request that carries an index is answered by the newest state", async () => {
  await mountKv("kv");
  const ahead = btoa("v1:elsewhere:99999999999999:99999999999999:00");
  for (const [index, x] of [
    [ahead, 1],
    ["no index", 2],
    [btoa("{}"), 3],
  ] as const) {
    await put("/v1/kv/data/a", { data: { x } });
    for (const inconsistent of ["", "fail", "forward-active-node"]) {
      const headers = { "X-Vault-Index": index, "X-Vault-Inconsistent": inconsistent };
      const { status, body } = await get("/v1/kv/data/a", { headers });
      expect([status, body.data.data]).toEqual([200, { x }]);
    }
  }
});
