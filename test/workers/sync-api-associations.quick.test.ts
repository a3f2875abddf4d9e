import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, get, list, mountKv, put } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import {
  association,
  cloudABody,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  write,
} from "./sync-helpers.ts";

/** Associations over HTTP. See docs/guides/sync.md. */

const AT = "/sys/sync/destinations";
const LISTED = "/sys/sync/associations";

let accessor = "";
beforeEach(async () => {
  ({ accessor } = await mountKv());
  await makeDestination("in-mem", "m");
});

const writeAt = async (mount: string, secret: string, data: object = { a: 1 }) => {
  const written = await put(`/v1/${mount}/data/${secret}`, { data });
  expect(written.status, written.text).toBe(200);
};
const associated = async (query: string) => {
  const { status, body } = await get(`${LISTED}/${query}`);
  return status === 200 ? body.data.associated_destinations : status;
};
const statusesOf = (destinations: Record<string, { sync_status: string }>) =>
  Object.fromEntries(Object.entries(destinations).map(([key, { sync_status }]) => [key, sync_status]));

describe("the associations of a destination", () => {
  it("are returned with their status, and counted by it", async () => {
    await cloudA.begin();
    await makeDestination("cloud-a-sm", "d", cloudABody());
    for (const secret of ["a", "b", "c/d"]) {
      await write(secret, { v: 1 });
      await setAssociation("cloud-a-sm/d", secret);
    }
    await write("big", { v: "x".repeat(70_000) });
    await setAssociation("cloud-a-sm/d", "big");
    const { body } = await get(`${AT}/cloud-a-sm/d/associations`);
    expect(body.data).toMatchObject({ store_name: "d", store_type: "cloud-a-sm" });
    expect(statusesOf(body.data.associated_secrets)).toEqual({
      [`${accessor}/a`]: "SYNCED",
      [`${accessor}/b`]: "SYNCED",
      [`${accessor}/c/d`]: "SYNCED",
      [`${accessor}/big`]: "CLIENT_SIDE_ERROR",
    });
    expect((await associated("destinations?mount=kv&secret_name=big"))["cloud-a-sm/d"]).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "value_too_large",
      error_message: expect.any(String),
      external_name: expect.any(String),
    });
    expect(body.data.sync_operation_counters).toEqual({ SYNCED: 3, CLIENT_SIDE_ERROR: 1 });
    expect(body.data.associated_secrets[`${accessor}/c/d`]).toEqual({
      accessor,
      secret_name: "c/d",
      external_name: `vault/${accessor}/c/d`,
      sync_status: "SYNCED",
      synced_version: 1,
      updated_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    });
    expect((await get(`${AT}/cloud-a-sm/d/associations/`)).body.data).toEqual(body.data);
  });

  it("have one entry per key with granularity secret-key", async () => {
    await makeDestination("in-mem", "k", { granularity: "secret-key" });
    await write("app", { user: "u", pass: "p" });
    const set = await setAssociation("in-mem/k", "app");
    const entries = Object.fromEntries(
      ["pass", "user"].map((key) => [
        `${accessor}/app/${key}`,
        expect.objectContaining({
          accessor,
          secret_name: "app",
          sub_key: key,
          external_name: `vault/${accessor}/app/${key}`,
          sync_status: "SYNCED",
        }),
      ]),
    );
    expect(set.body.data.associated_secrets).toEqual(entries);
    expect(set.body.data.sync_operation_counters).toEqual({ SYNCED: 2 });
    const removed = await removeAssociation("in-mem/k", "app");
    expect(Object.keys(removed.body.data.associated_secrets)).toEqual(Object.keys(entries));
    expect(removed.body.data.sync_operation_counters).toEqual({ UNSYNCED: 2 });
  });

  it("are paged on request, each page counted by itself", async () => {
    const names = ["a", "b", "c", "d", "e"];
    for (const name of names) {
      await write(name, { v: name });
      await setAssociation("in-mem/m", name);
    }
    const seen: string[] = [];
    let after = "";
    for (let pages = 1; ; pages++) {
      const { body } = await get(`${AT}/in-mem/m/associations?limit=2&after=${encodeURIComponent(after)}`);
      const { associated_secrets, next, sync_operation_counters, store_name, store_type } = body.data;
      expect([store_name, store_type]).toEqual(["m", "in-mem"]);
      const keys = Object.keys(associated_secrets);
      expect(sync_operation_counters).toEqual({ SYNCED: keys.length });
      seen.push(...keys);
      if (next === "") {
        expect(pages).toBe(3);
        break;
      }
      after = next;
    }
    expect(seen).toEqual(names.map((name) => `${accessor}/${name}`));
  });

  itRows(["limit=0", "limit=1001", "limit=x", "limit=-1", "limit="])("refuse %s by its name", async (query) => {
    const refused = await get(`${AT}/in-mem/m/associations?${query}`);
    expect([refused.status, refused.body.errors]).toEqual([400, ["limit: must be 1 to 1000"]]);
  });

  it("are streamed completely when they exceed one page", { timeout: 120_000 }, async () => {
    await write("app", { v: 1 });
    await setAssociation("in-mem/m", "app");
    await runInDurableObject(env.SYNC_DESTINATION.getByName("in-mem/m"), (_object, { storage: { sql } }) => {
      for (const table of ["associations", "copies"]) {
        const columns = sql
          .exec<{ name: string }>(`SELECT name FROM pragma_table_info('${table}')`)
          .toArray()
          .map(({ name }) => name);
        const own: Readonly<Record<string, string>> = {
          id: "id || printf('%04d', n)",
          association: "association || printf('%04d', n)",
          secret_name: "secret_name || printf('%04d', n)",
          external_name: "external_name || printf('%04d', n)",
          fold: "fold || printf('%04d', n)",
        };
        sql.exec(
          `INSERT INTO ${table} (${columns.join()})
           WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2100)
           SELECT ${columns.map((column) => own[column] ?? column).join()} FROM ${table}, numbers`,
        );
      }
    });
    const { status, body } = await get(`${AT}/in-mem/m/associations`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ lease_id: "", warnings: null, data: { store_name: "m", store_type: "in-mem" } });
    expect(Object.keys(body.data.associated_secrets)).toHaveLength(2_101);
    expect(body.data.associated_secrets[`${accessor}/app2100`]).toMatchObject({ sync_status: "SYNCED" });
    expect(body.data.sync_operation_counters).toEqual({ SYNCED: 2_101 });
  });
});

describe("setting and removing", () => {
  it("accept a mount with or without slashes, and return only the changed associations", async () => {
    await write("app", { a: 1 });
    await write("other", { a: 1 });
    await setAssociation("in-mem/m", "other");
    for (const mount of ["kv", "kv/", "/kv/", "kv//"]) {
      const set = await setAssociation("in-mem/m", "app", mount);
      expect([set.status, Object.keys(set.body.data?.associated_secrets ?? {})], mount).toEqual([
        200,
        [`${accessor}/app`],
      ]);
      const removed = await removeAssociation("in-mem/m", "app", mount);
      expect(removed.body.data.sync_operation_counters, mount).toEqual({ UNSYNCED: 1 });
    }
    expect(Object.keys(await objects("m"))).toEqual([`vault/${accessor}/other`]);
  });

  it("returns 400 with advice for a pattern, unless a secret has that name", async () => {
    const refused = await setAssociation("in-mem/m", "app/*");
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [
        "secret not found: kv/app/*. secret_name: an association is one secret; list the folder (LIST <mount>/metadata/<folder>) and set each of its secrets; * stands for nothing but itself",
      ],
    ]);
    await write("app/*", { a: 1 });
    expect((await setAssociation("in-mem/m", "app/*")).status).toBe(200);
  });

  itRows([
    [{ secret_name: "app" }, "mount: required"],
    [{ mount: "kv" }, "secret_name: required"],
    [{ mount: "", secret_name: "app" }, "mount: required"],
    [{ mount: "kv", secret_name: "" }, "secret_name: required"],
    [
      { mount: "kv", secret_name: "app/" },
      "Secret not found. Please provide full path to existing secret. secret_name: an association is one secret; list the folder (LIST <mount>/metadata/<folder>) and set each of its secrets",
    ],
    [{ mount: "kv", secret_name: "/app" }, "secret_name: must not hold control characters nor empty, . or .. segments"],
    [{ mount: "kv", secret_name: "a//b" }, "secret_name: must not hold control characters nor empty, . or .. segments"],
    [{ mount: "kv", secret_name: "a\nb" }, "secret_name: must not hold control characters nor empty, . or .. segments"],
  ])("refuse %j in the same words", async (body, text) => {
    for (const what of ["set", "remove"]) {
      const refused = await put(`${AT}/in-mem/m/associations/${what}`, body);
      expect([refused.status, refused.body.errors], what).toEqual([400, [text]]);
    }
  });

  it("warn of fields that they do not know", async () => {
    await write("app", { a: 1 });
    for (const what of ["set", "remove", "remove"]) {
      const done = await put(`${AT}/in-mem/m/associations/${what}`, {
        mount: "kv",
        secret_name: "app",
        zoo: 1,
        ape: 2,
      });
      expect([done.status, done.body.warnings], what).toEqual([
        200,
        ["Endpoint ignored these unrecognized parameters: [ape zoo]"],
      ]);
    }
    expect((await setAssociation("in-mem/m", "app")).body.warnings).toBeNull();
  });

  it("find a mount whose path has slashes, but none with the same prefix", async () => {
    await mountKv("team/kv");
    await writeAt("team/kv", "a/b");
    const set = await setAssociation("in-mem/m", "a/b", "team/kv");
    expect(set.body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    for (const mount of ["team", "team/kv/a", "tea"]) {
      const refused = await setAssociation("in-mem/m", "b", mount);
      expect([refused.status, refused.body.errors]).toEqual([400, [`mount: no secret engine mount at ${mount}/`]]);
    }
  });

  it("remove an association of a disabled mount, also after another was mounted there", async () => {
    await write("app", { a: 1 });
    await setAssociation("in-mem/m", "app");
    await del("/v1/sys/mounts/kv");
    await mountKv();
    const removed = await removeAssociation("in-mem/m", "app");
    expect(Object.keys(removed.body.data.associated_secrets)).toEqual([`${accessor}/app`]);
    expect(await association("in-mem/m", "app")).toBeUndefined();
    expect(await objects("m")).toEqual({});
    expect((await del(`${AT}/in-mem/m`)).status).toBe(204);
  });

  it("prefer the current mount at a path to an earlier one", async () => {
    await write("app", { a: 1 });
    await setAssociation("in-mem/m", "app");
    await del("/v1/sys/mounts/kv");
    await eventually(async () => expect((await association("in-mem/m", "app"))?.sync_status).toBe("UNSYNCED"));
    const { accessor: now } = await mountKv();
    await write("app", { a: 2 });
    await setAssociation("in-mem/m", "app");
    expect(statusesOf(await associated("kv/app"))).toEqual({ "in-mem/m": "SYNCED" });
    expect((await list(LISTED)).body.data).toMatchObject({ total_associations: 1, total_secrets: 1 });
    for (const each of [now, accessor]) {
      const removed = await removeAssociation("in-mem/m", "app");
      expect(Object.keys(removed.body.data.associated_secrets)).toEqual([`${each}/app`]);
    }
    expect((await removeAssociation("in-mem/m", "app")).body.data.associated_secrets).toEqual({});
    expect((await list(LISTED)).status).toBe(404);
    expect(await objects("m")).toEqual({});
  });

  it("return 403 without the capability to write", async () => {
    await write("app", { a: 1 });
    await put("/v1/sys/policies/acl/reader", { policy: 'path "kv/data/*" { capabilities = ["read"] }' });
    const { body } = await put("/v1/auth/token/create", { policies: ["reader"] });
    const options = { token: body.auth.client_token };
    for (const what of ["set", "remove"]) {
      const refused = await put(`${AT}/in-mem/m/associations/${what}`, { mount: "kv", secret_name: "app" }, options);
      expect(refused.status, what).toBe(403);
    }
    expect((await get(`${AT}/in-mem/m/associations`, options)).status).toBe(403);
    expect((await get(`${LISTED}/kv/app`, options)).status).toBe(403);
    expect((await list(LISTED, options)).status).toBe(403);
    expect(await association("in-mem/m", "app")).toBeUndefined();
  });
});

it("setting an association is one use of a token with limited uses", async () => {
  await write("app", { a: 1 });
  const rules = 'path "sys/sync/*" { capabilities = ["update"] } path "kv/data/*" { capabilities = ["read"] }';
  await put("/v1/sys/policies/acl/few", { policy: rules });
  for (const num_uses of [1, 2]) {
    const { body } = await put("/v1/auth/token/create", { policies: ["few"], num_uses });
    const once = { token: body.auth.client_token };
    const set = await put(`${AT}/in-mem/m/associations/set`, { mount: "kv", secret_name: "app" }, once);
    expect(set.status, set.text).toBe(200);
    expect((await get("/v1/kv/data/app", once)).status).toBe(num_uses === 1 ? 403 : 200);
  }
});

describe("the list of associations", () => {
  // Proves: B.assoc.list, B.assoc.list.many
  it("contains each secret once, with mount and path, and counts both", async () => {
    expect([(await list(LISTED)).status, (await list(LISTED)).body]).toEqual([404, { errors: [] }]);
    await mountKv("my/kv");
    await makeDestination("in-mem", "n");
    await write("app", { a: 1 });
    await writeAt("my/kv", "a/b");
    for (const at of ["in-mem/m", "in-mem/n"]) {
      await setAssociation(at, "app");
      await setAssociation(at, "a/b", "my/kv");
    }
    const data = {
      keys: ["kv/app", "my/kv/a/b"],
      key_info: {
        "kv/app": [{ mount: "kv/", secret_path: "app" }],
        "my/kv/a/b": [{ mount: "my/kv/", secret_path: "a/b" }],
      },
      total_associations: 4,
      total_secrets: 2,
    };
    for (const at of [LISTED, `${LISTED}/`]) expect((await list(at)).body.data).toEqual(data);
    await removeAssociation("in-mem/m", "app");
    expect((await list(LISTED)).body.data).toMatchObject({ total_associations: 3, total_secrets: 2 });
    await removeAssociation("in-mem/n", "app");
    expect((await list(LISTED)).body.data).toMatchObject({ keys: ["my/kv/a/b"], total_secrets: 1 });
    for (const at of ["m", "n"]) await del(`${AT}/in-mem/${at}?force_delete=true`);
    expect((await list(LISTED)).status).toBe(404);
  });

  it("counts an association with many objects once, and keeps namespaces apart", async () => {
    await put("/v1/sys/namespaces/team", {});
    await makeDestination("in-mem", "k", { granularity: "secret-key" });
    await write("app", { a: 1, b: 2, c: 3 });
    await setAssociation("in-mem/k", "app");
    expect((await list(LISTED)).body.data).toMatchObject({ total_associations: 1, total_secrets: 1 });
    const inside = { headers: { "X-Orch-Namespace": "team" } };
    expect((await list(LISTED, inside)).status).toBe(404);
    expect((await get(`${LISTED}/kv/app`, inside)).status).toBe(404);
  });
});

describe("the destinations of a secret", () => {
  // Proves: B.assoc.of-secret, B.assoc.of-secret.query
  it("are returned with type, name and status in either form", async () => {
    await makeDestination("in-mem", "n");
    await write("app", { a: 1 });
    await setAssociation("in-mem/m", "app");
    await setAssociation("in-mem/n", "app");
    const expected = Object.fromEntries(
      ["m", "n"].map((name) => [
        `in-mem/${name}`,
        {
          type: "in-mem",
          name,
          sync_status: "SYNCED",
          updated_at: expect.any(String),
          external_name: `vault/${accessor}/app`,
          synced_version: 1,
        },
      ]),
    );
    for (const query of [
      "kv/app",
      "kv/app/",
      "destinations?mount=kv&secret_name=app",
      "destinations?mount=kv/&secret_name=app",
    ]) {
      expect(await associated(query), query).toEqual(expected);
    }
  });

  // Proves: B.assoc.of-secret, B.assoc.of-secret.query.required
  it("are not found for a secret without any, or when a part is missing", async () => {
    await write("app", { a: 1 });
    for (const query of ["kv/app", "zz/app", "destinations?mount=kv&secret_name=app"]) {
      const { status, body } = await get(`${LISTED}/${query}`);
      expect([status, body], query).toEqual([404, { errors: [] }]);
    }
    for (const [query, ...texts] of [
      ["destinations?mount=kv", "secret_name: required"],
      ["destinations?secret_name=app", "mount: required"],
      ["destinations", "mount: required", "secret_name: required"],
      ["kv", "secret_name: required"],
    ]) {
      const { status, body } = await get(`${LISTED}/${query}`);
      expect([status, body.errors], query).toEqual([400, texts]);
    }
  });

  // Proves: B.assoc.of-secret.query.slash
  it("are found for names and mounts with slashes, encoded or not", async () => {
    await mountKv("my/kv");
    await writeAt("my/kv", "a/b");
    await setAssociation("in-mem/m", "a/b", "my/kv");
    for (const query of [
      "destinations?mount=my/kv&secret_name=a/b",
      "destinations?mount=my%2Fkv%2F&secret_name=a%2Fb",
      "my%2Fkv/a%2Fb",
      "my/kv/a/b",
      "my%2Fkv/a/b",
    ]) {
      expect(Object.keys(await associated(query)), query).toEqual(["in-mem/m"]);
    }
  });

  it("belong to the mount of an encoded slash when the path is ambiguous", async () => {
    await mountKv("a");
    await makeDestination("in-mem", "n");
    await writeAt("a", "b/c");
    await setAssociation("in-mem/m", "b/c", "a");
    // The mount `a` goes, one at `a/b` comes: the association of the first is still known by its path.
    await del("/v1/sys/mounts/a");
    await mountKv("a/b");
    await writeAt("a/b", "c");
    await setAssociation("in-mem/n", "c", "a/b");
    expect(Object.keys(await associated("a%2Fb/c"))).toEqual(["in-mem/n"]);
    expect(Object.keys(await associated("a/b%2Fc"))).toEqual(["in-mem/m"]);
    expect((await list(LISTED)).body.data).toEqual({
      keys: ["a/b/c"],
      key_info: {
        "a/b/c": [
          { mount: "a/", secret_path: "b/c" },
          { mount: "a/b/", secret_path: "c" },
        ],
      },
      total_associations: 2,
      total_secrets: 2,
    });
  });

  it("of a mount named destinations are found, too", async () => {
    await mountKv("destinations");
    await writeAt("destinations", "app");
    await setAssociation("in-mem/m", "app", "destinations");
    expect(Object.keys(await associated("destinations/app"))).toEqual(["in-mem/m"]);
  });

  it("show the worst status of their keys, and each key's", async () => {
    await cloudA.begin();
    await makeDestination("cloud-a-sm", "k", cloudABody({ granularity: "secret-key" }));
    await write("app", { fine: "x", large: "y".repeat(70_000) });
    await setAssociation("cloud-a-sm/k", "app");
    const { "cloud-a-sm/k": seen } = await associated("kv/app");
    const large = { sync_status: "CLIENT_SIDE_ERROR", error_code: "value_too_large" };
    expect(seen).toMatchObject({
      type: "cloud-a-sm",
      name: "k",
      ...large,
      updated_at: expect.any(String),
      sub_keys: {
        fine: { sync_status: "SYNCED", external_name: `vault/${accessor}/app/fine`, synced_version: 1 },
        large: { ...large, external_name: `vault/${accessor}/app/large` },
      },
    });
  });
});

describe("during an outage of D1", () => {
  it("associations are set and removed, and the lists catch up by themselves", async () => {
    await makeDestination("in-mem", "n");
    await write("app", { a: 1 });
    await write("gone", { a: 1 });
    await setAssociation("in-mem/m", "gone");
    const down = () => {
      throw new Error("D1 is down");
    };
    for (const method of ["prepare", "batch", "withSession"] as const) {
      vi.spyOn(env.LISTINGS, method).mockImplementation(down);
    }
    for (const at of ["in-mem/m", "in-mem/n"]) {
      expect((await setAssociation(at, "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    }
    expect((await removeAssociation("in-mem/m", "gone")).body.data.sync_operation_counters).toEqual({ UNSYNCED: 1 });
    expect(await association("in-mem/m", "app")).toMatchObject({ sync_status: "SYNCED" });
    for (const answer of [
      await list(LISTED),
      await list(AT),
      await list(`${AT}/in-mem`),
      await get(`${LISTED}/kv/app`),
    ]) {
      expect([answer.status, answer.body.errors]).toEqual([503, [expect.stringContaining("try again")]]);
    }
    vi.restoreAllMocks();
    await eventually(async () =>
      expect((await list(LISTED)).body.data).toEqual({
        keys: ["kv/app"],
        key_info: { "kv/app": [{ mount: "kv/", secret_path: "app" }] },
        total_associations: 2,
        total_secrets: 1,
      }),
    );
    expect(Object.keys(await associated("kv/app"))).toEqual(["in-mem/m", "in-mem/n"]);
  });
});
