import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, get, patch, put, send } from "./client.ts";

/** docs/guides/sync.md, "Pause and queue capacity". */

const AT = "/sys/sync/config";
const defaults = { disabled: false, queue_capacity: 1_000_000 };
const inside = (namespace: string) => ({ headers: { "X-Orch-Namespace": namespace } });
const makeNamespace = async (name: string) => {
  const made = await put(`/v1/sys/namespaces/${name}`, {});
  expect(made.status, made.text).toBeLessThan(300);
};

describe("the global configuration", () => {
  // Proves: B.config.disabled.default, B.config.queue_capacity.default, E.limits.queue_capacity
  it("returns the defaults before the first write, with and without /v1", async () => {
    for (const at of [AT, `/v1${AT}`, `/v1${AT}/`]) {
      const read = await get(at);
      expect([read.status, read.body.data], at).toEqual([200, defaults]);
      expect(read.body).toMatchObject({ lease_id: "", wrap_info: null, warnings: null, auth: null });
    }
  });

  // Proves: B.config.patch, B.sync.global-config
  it("changes the fields of a patch, keeps the rest, and returns the configuration", async () => {
    const paused = await patch(AT, { disabled: true });
    expect([paused.status, paused.body.data]).toEqual([200, { ...defaults, disabled: true }]);
    expect((await patch(AT, { queue_capacity: 5 })).body.data).toEqual({ disabled: true, queue_capacity: 5 });
    expect((await patch(AT, {})).body.data).toEqual({ disabled: true, queue_capacity: 5 });
    expect((await get(AT)).body.data).toEqual({ disabled: true, queue_capacity: 5 });
  });

  it("warns of fields that it does not know", async () => {
    const patched = await patch(AT, { queue_capacity: 5, paused: true });
    expect([patched.body.data.queue_capacity, patched.body.warnings]).toEqual([
      5,
      ["Endpoint ignored these unrecognized parameters: [paused]"],
    ]);
  });

  it("restores a default with null, and all defaults with DELETE", async () => {
    await patch(AT, { disabled: true, queue_capacity: 5 });
    expect((await patch(AT, { disabled: null })).body.data).toEqual({ disabled: false, queue_capacity: 5 });
    expect((await patch(AT, { disabled: true, queue_capacity: null })).body.data).toEqual({
      ...defaults,
      disabled: true,
    });
    await patch(AT, { queue_capacity: 7 });
    const deleted = await del(AT);
    expect([deleted.status, deleted.body.data]).toEqual([200, defaults]);
    expect((await del(AT)).body.data).toEqual(defaults);
    expect((await get(AT)).body.data).toEqual(defaults);
  });

  // Proves: B.config.disabled.default, B.config.queue_capacity.default
  it.each([
    [
      { disabled: "true", queue_capacity: "12" },
      { disabled: true, queue_capacity: 12 },
    ],
    [{ disabled: 1 }, { disabled: true, queue_capacity: 1_000_000 }],
    [{ disabled: "False" }, defaults],
    [{ queue_capacity: 1 }, { disabled: false, queue_capacity: 1 }],
  ])("accepts %j", async (body, data) => {
    const patched = await patch(AT, body);
    expect([patched.status, patched.body.data]).toEqual([200, data]);
  });

  // Proves: B.config.disabled.default, B.config.queue_capacity.default
  itRows([
    [{ queue_capacity: 0 }, "queue_capacity: "],
    [{ queue_capacity: -1 }, "queue_capacity: "],
    [{ queue_capacity: 1.5 }, "queue_capacity: "],
    [{ queue_capacity: "many" }, "queue_capacity: "],
    [{ queue_capacity: [] }, "queue_capacity: "],
    [{ disabled: "maybe" }, "disabled: "],
    [{ disabled: 2 }, "disabled: "],
    [{ disabled: true, queue_capacity: 0 }, "queue_capacity: "],
  ])("refuses %j by the field's name without a change", async (body, field) => {
    const refused = await patch(AT, body);
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringContaining(field)]]);
    expect((await get(AT)).body.data).toEqual(defaults);
  });

  it.each(["application/merge-patch+json", "application/json", "application/json; charset=utf-8"])(
    "is patched as %s",
    async (type) => {
      const patched = await send("PATCH", AT, { queue_capacity: 9 }, { headers: { "Content-Type": type } });
      expect([patched.status, patched.body.data.queue_capacity]).toEqual([200, 9]);
    },
  );

  it("returns 415 for a patch of another content type", async () => {
    const refused = await send("PATCH", AT, { queue_capacity: 9 }, { headers: { "Content-Type": "text/plain" } });
    expect([refused.status, refused.body.errors]).toEqual([
      415,
      ["PATCH requires Content-Type of application/merge-patch+json, provided text/plain"],
    ]);
    expect((await get(AT)).body.data).toEqual(defaults);
  });

  it("returns 405 for POST", async () => {
    expect((await put(AT, { disabled: true })).status).toBe(405);
    expect((await get(AT)).body.data).toEqual(defaults);
  });

  // Proves: B.config.namespace, E.auth.3
  it("is shared by all namespaces, and served in the root and the administrative one only", async () => {
    for (const name of ["admin", "team"]) await makeNamespace(name);
    expect((await patch(AT, { queue_capacity: 3 }, inside("admin"))).status).toBe(200);
    expect((await get(AT, inside("admin/"))).body.data.queue_capacity).toBe(3);
    expect((await get(AT)).body.data.queue_capacity).toBe(3);
    for (const call of [
      get(AT, inside("team")),
      patch(AT, { disabled: true }, inside("team")),
      del(AT, inside("team")),
      get(`/v1/team${AT}`),
    ]) {
      const refused = await call;
      expect([refused.status, refused.body.errors]).toEqual([
        403,
        ["sys/sync/config is reserved to the root namespace and the administrative namespace (admin)"],
      ]);
    }
    expect((await get(AT)).body.data).toEqual({ disabled: false, queue_capacity: 3 });
  });

  it("requires the capabilities on its path", async () => {
    const policy = `path "sys/sync/config" { capabilities = ["read"] }`;
    await put("/v1/sys/policies/acl/reader", { policy });
    const { body } = await put("/v1/auth/token/create", { policies: ["reader"] });
    const options = { token: body.auth.client_token };
    expect((await get(AT, options)).status).toBe(200);
    expect((await patch(AT, { disabled: true }, options)).status).toBe(403);
    expect((await del(AT, options)).status).toBe(403);
    expect((await get(AT)).body.data).toEqual(defaults);
  });
});
