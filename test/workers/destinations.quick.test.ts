import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { everyObject } from "../../src/backup/directory.ts";
import { ACCESS_CONTROL, storedObject } from "../../src/rpc/stored-objects.ts";
import { SyncDestination } from "../../src/worker.ts";
import { itRows } from "../support/rows.ts";
import { del, get, list, mountKv, patch, put, send } from "./client.ts";
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

const AT = "/sys/sync/destinations";

beforeEach(() => cloudA.begin());

describe("a destination", () => {
  // Proves: B.dest.read, B.dest.read.obfuscated, E.auth.2.obfuscated
  it("is returned with sensitive values masked, defaults filled in and unset fields absent", async () => {
    const made = await makeDestination("cloud-a-sm", "prod", cloudABody({ custom_tags: { team: "pay" } }));
    const data = {
      name: "prod",
      type: "cloud-a-sm",
      connection_details: { access_key_id: "*****", secret_access_key: "*****", region: "eu-west-1" },
      options: {
        granularity_level: "secret-path",
        secret_name_template: "vault/{{ .MountAccessor }}/{{ .SecretPath }}",
        custom_tags: { team: "pay" },
        update_policy: "replace",
        deletion_policy: "delete",
      },
    };
    expect(made.body.data).toEqual(data);
    expect((await get(`${AT}/cloud-a-sm/prod`)).body.data).toEqual(data);
    expect((await get(`/v1${AT}/cloud-a-sm/prod`)).body.data).toEqual(data);
    expect(made.text).not.toContain(cloudA.key().secretAccessKey);
  });

  it("keeps the stated end of its credentials until a new secret or an empty text", async () => {
    const steps: readonly (readonly [changes: Readonly<Record<string, unknown>>, end: string | undefined])[] = [
      [cloudABody({ credentials_expire_at: "2031-01-31" }), "2031-01-31T00:00:00.000Z"],
      [{}, "2031-01-31T00:00:00.000Z"],
      [{ credentials_expire_at: "2030-01-31T12:00:00+02:00" }, "2030-01-31T10:00:00.000Z"],
      [{ credentials_expire_at: null }, undefined],
      [cloudABody({ credentials_expire_at: "2033-01-31" }), "2033-01-31T00:00:00.000Z"],
      [cloudABody(), "2033-01-31T00:00:00.000Z"],
      [{ credentials_expire_at: "" }, undefined],
      [{ credentials_expire_at: "2031-01-31" }, "2031-01-31T00:00:00.000Z"],
      [{ secret_access_key: "new".repeat(9) }, undefined],
      [{ secret_access_key: "old".repeat(9), credentials_expire_at: "2032-01-31" }, "2032-01-31T00:00:00.000Z"],
    ];
    for (const [changes, end] of steps) {
      const written = await makeDestination("cloud-a-sm", "ends", changes);
      expect([changes, written.body.data.options.credentials_expire_at]).toEqual([changes, end]);
    }
    for (const bad of ["soon", "2031-02-30", "2031-01-31T00:00:00", 5]) {
      const refused = await put(`${AT}/cloud-a-sm/ends`, { credentials_expire_at: bad });
      expect([refused.status, refused.body.errors]).toEqual([
        400,
        [expect.stringMatching(/^credentials_expire_at: must be a date or a time/)],
      ]);
    }
    const cleared = await patch(`${AT}/cloud-a-sm/ends`, { credentials_expire_at: null });
    expect(cleared.body.data.options.credentials_expire_at).toBeUndefined();
  });

  it("accepts numbers of any length as the text of a tag, and ignores them in unknown fields", async () => {
    const body = '{"custom_tags":{"build":12345678901234567890,"version":1.10},"unknown":{"deep":[9007199254740993]}}';
    const made = await put(`${AT}/in-mem/n`, body);
    expect([made.status, made.body.data?.options.custom_tags]).toEqual([
      200,
      { build: "12345678901234567890", version: "1.10" },
    ]);
    expect(made.body.warnings[0]).toContain("unknown");
    expect((await patch(`${AT}/in-mem/n`, '{"custom_tags":{"build":99999999999999999999}}')).status).toBe(200);
    expect((await put(`${AT}/in-mem/n`, '{"granularity":12345678901234567890}')).status).toBe(400);
  });

  it("of a type without connection fields is returned with empty details", async () => {
    const made = await makeDestination("in-mem", "try");
    expect(made.body.data).toMatchObject({ name: "try", type: "in-mem", connection_details: {} });
    expect(made.body.data.options.custom_tags).toEqual({});
  });

  it("returns 404 when it does not exist or its type is unknown", async () => {
    expect((await get(`${AT}/in-mem/none`)).status).toBe(404);
    expect((await get(`${AT}/in-mem/none`)).body).toEqual({ errors: [] });
    const unknown = await put(`${AT}/cloud-z/d`, {});
    expect([unknown.status, unknown.body.errors[0]]).toEqual([404, expect.stringContaining("cloud-z")]);
    expect((await get(`${AT}/in-mem/none/associations`)).status).toBe(404);
    expect((await get(`${AT}/in-mem/none/objects`)).status).toBe(404);
  });

  it("keeps fields that a second write leaves out or masks, and clears empty ones", async () => {
    await makeDestination(
      "cloud-a-sm",
      "d",
      cloudABody({ role_arn: "arn:aws:iam::123456789012:role/sync", external_id: "abc" }),
    );
    const merged = await makeDestination("cloud-a-sm", "d", {
      secret_access_key: "*****",
      external_id: "",
      custom_tags: { a: "1" },
    });
    expect(merged.body.data.connection_details).toEqual({
      access_key_id: "*****",
      secret_access_key: "*****",
      region: "eu-west-1",
      role_arn: "arn:aws:iam::123456789012:role/sync",
    });
    const again = await makeDestination("cloud-a-sm", "d", {
      role_arn: "",
      secret_name_template: "x/{{ .SecretPath }}",
    });
    expect(again.body.data.options).toMatchObject({
      secret_name_template: "x/{{ .SecretPath }}",
      custom_tags: { a: "1" },
    });
    // The key is still the one that was written first: a push with it is accepted.
    await mountKv();
    await write("app", { a: 1 });
    expect((await setAssociation("cloud-a-sm/d", "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
  });

  itRows([
    ["region", { region: "us-east-1" }, 'field "region" cannot be updated'],
    ["region", { region: "" }, 'field "region" cannot be updated'],
    [
      "secret_access_key",
      { secret_access_key: "" },
      "secret_access_key: access_key_id and secret_access_key must be given together",
    ],
    ["granularity", { granularity: "secret-mount" }, "granularity: "],
    ["secret_name_template", { secret_name_template: "{{ .Nope }}" }, "Nope"],
    ["custom_tags", { custom_tags: { "aws:x": "1" } }, "custom_tags: "],
  ])("refuses a change of %s by its name and stays unchanged (%#)", async (_field, change, text) => {
    await makeDestination("cloud-a-sm", "d");
    const before = await get(`${AT}/cloud-a-sm/d`);
    const refused = await put(`${AT}/cloud-a-sm/d`, change);
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0]).toContain(text);
    expect((await get(`${AT}/cloud-a-sm/d`)).body.data).toEqual(before.body.data);
  });

  itRows([
    [{ region: "eu-west-1", access_key_id: "AKIA" }, "secret_access_key"],
    [{ region: "eu-west-1", secret_access_key: "s" }, "access_key_id"],
    [{ region: "Moon" }, "region"],
  ])("is not created from %j", async (body, field) => {
    const refused = await put(`${AT}/cloud-a-sm/d`, body);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining(field)]);
    expect((await get(`${AT}/cloud-a-sm/d`)).status).toBe(404);
  });

  // Proves: B.dest.delete
  it("is deleted without associations, and a repeated deletion succeeds", async () => {
    await makeDestination("in-mem", "d");
    expect((await del(`${AT}/in-mem/d`)).status).toBe(204);
    expect((await get(`${AT}/in-mem/d`)).status).toBe(404);
    expect((await del(`${AT}/in-mem/d`)).status).toBe(204);
  });

  // Proves: B.state.delete.refused
  it("returns 400 on deletion while it has associations", async () => {
    await mountKv();
    await write("app", { a: 1 });
    await makeDestination("in-mem", "d");
    await setAssociation("in-mem/d", "app");
    const refused = await del(`${AT}/in-mem/d`);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("an association")]);
    expect((await get(`${AT}/in-mem/d`)).status).toBe(200);
  });
});

describe("a patch of a destination", () => {
  const at = `${AT}/cloud-a-sm/d`;
  const tags = async () => (await get(at)).body.data.options.custom_tags;
  beforeEach(() => makeDestination("cloud-a-sm", "d", cloudABody({ custom_tags: { a: "1", b: "2", c: "3" } })));

  it("changes the named fields and returns the destination", async () => {
    const before = (await get(at)).body.data;
    const patched = await patch(at, { external_id: "ext", secret_name_template: "x/{{ .SecretPath }}" });
    expect(patched.status, patched.text).toBe(200);
    const after = {
      ...before,
      connection_details: { ...before.connection_details, external_id: "ext" },
      options: { ...before.options, secret_name_template: "x/{{ .SecretPath }}" },
    };
    expect(patched.body.data).toEqual(after);
    expect((await patch(at, {})).body.data).toEqual(after);
    expect((await patch(at, { external_id: null, secret_name_template: null })).body.data).toEqual(before);
  });

  it("merges tags key by key, where a write replaces them all", async () => {
    await patch(at, { custom_tags: { b: "two", d: "4" } });
    expect(await tags()).toEqual({ a: "1", b: "two", c: "3", d: "4" });
    await patch(at, { custom_tags: { a: null } });
    expect(await tags()).toEqual({ b: "two", c: "3", d: "4" });
    await patch(at, { custom_tags: "c=three,e=5" });
    expect(await tags()).toEqual({ b: "two", c: "three", d: "4", e: "5" });
    await put(at, { custom_tags: { x: "1" } });
    expect(await tags()).toEqual({ x: "1" });
    await patch(at, { custom_tags: null });
    expect(await tags()).toEqual({});
  });

  it("removes the listed tags, given as list or text, where a write does not", async () => {
    await patch(at, { tags_to_remove: ["a", "never"] });
    expect(await tags()).toEqual({ b: "2", c: "3" });
    await patch(at, { tags_to_remove: "b, c", custom_tags: { d: 4 } });
    expect(await tags()).toEqual({ d: "4" });
    await patch(at, { tags_to_remove: ["d"], custom_tags: { d: "5" } });
    expect(await tags()).toEqual({});
    await put(at, { custom_tags: { a: "1" }, tags_to_remove: ["a"] });
    expect(await tags()).toEqual({ a: "1" });
    const refused = await patch(at, { tags_to_remove: 5 });
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("tags_to_remove: ")]);
  });

  it("returns 404 and creates no destination", async () => {
    const patched = await patch(`${AT}/in-mem/none`, {});
    expect([patched.status, patched.body]).toEqual([404, { errors: [] }]);
    expect((await get(`${AT}/in-mem/none`)).status).toBe(404);
  });

  it("accepts a merge patch or JSON as content type only", async () => {
    for (const [type, status] of [
      ["application/merge-patch+json", 200],
      ["application/json", 200],
      ["application/x-www-form-urlencoded", 415],
    ] as const) {
      const patched = await send("PATCH", at, { external_id: "e1" }, { headers: { "Content-Type": type } });
      expect(patched.status, type).toBe(status);
    }
  });

  it("cannot clear required fields", async () => {
    for (const field of ["access_key_id", "region"]) {
      const refused = await patch(at, { [field]: null });
      expect([refused.status, refused.body.errors[0]], field).toEqual([400, expect.stringContaining(field)]);
    }
  });
});

describe("deleting a destination with associations", () => {
  const at = `${AT}/in-mem/m`;
  const gone = () => eventually(async () => expect((await get(at)).status).toBe(404));
  beforeEach(async () => {
    await mountKv();
    await makeDestination("in-mem", "m");
    for (const secret of ["one", "two"]) {
      await write(secret, { a: 1 });
      await setAssociation("in-mem/m", secret);
    }
  });

  // Proves: B.dest.delete.purge
  itRows(["", "?purge=false", "?purge=0&force_delete=f"])("is refused without purge: %j", async (query) => {
    const refused = await del(at + query);
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [
        "destination has 2 associations; remove them first, or delete it with purge=true, which removes their secrets there",
      ],
    ]);
    expect(Object.keys(await objects("m"))).toHaveLength(2);
    expect(await association("in-mem/m", "one")).toMatchObject({ sync_status: "SYNCED" });
  });

  // Proves: B.dest.delete.purge, B.state.delete.purged
  it.each([
    ["the query", "?purge=true", undefined],
    ["the query, by itself", "?purge", undefined],
    ["the body", "", { purge: true }],
    ["the body, as a text", "", { purge: "true" }],
  ])("with purge in %s removes its secrets and then itself", async (_where, query, body) => {
    expect((await send("DELETE", at + query, body)).status).toBe(204);
    await gone();
    expect((await list("/sys/sync/associations")).status).toBe(404);
    expect((await list(AT)).status).toBe(404);
    // A new one of the name begins with nothing.
    await eventually(async () => expect((await put(at, {})).status).toBe(200));
    expect(await objects("m")).toEqual({});
    expect(await association("in-mem/m", "one")).toBeUndefined();
  });

  it("is deleted by its first alarms, although time passes during each", async () => {
    const now = Date.now.bind(Date);
    let last = 0;
    vi.spyOn(Date, "now").mockImplementation(() => (last = Math.max(now(), last + 1)));
    const alarms = vi.spyOn(SyncDestination.prototype, "alarm");
    expect((await del(`${at}?purge=true`)).status).toBe(204);
    await gone();
    expect(alarms.mock.calls.length).toBeLessThan(6);
  });

  it("shows its start, refuses set and remove, and shows the error after a failure", async () => {
    await makeDestination("cloud-a-sm", "d", cloudABody());
    await setAssociation("cloud-a-sm/d", "one");
    await patch("/sys/sync/config", { disabled: true });
    expect((await del(`${AT}/cloud-a-sm/d?purge=true`)).status).toBe(204);
    const { data } = (await get(`${AT}/cloud-a-sm/d`)).body;
    expect(data).toMatchObject({ purge_initiated_at: expect.stringMatching(/^\d{4}-.*Z$/), purge_error: "" });
    expect(data.connection_details.region).toBe("eu-west-1");
    for (const answer of [
      await setAssociation("cloud-a-sm/d", "one"),
      await removeAssociation("cloud-a-sm/d", "one"),
    ]) {
      expect([answer.status, answer.body.errors[0]]).toEqual([400, expect.stringContaining("purge in progress")]);
    }
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "DeleteSecret", count: 3 });
    await patch("/sys/sync/config", { disabled: false });
    await eventually(async () =>
      expect((await get(`${AT}/cloud-a-sm/d`)).body.data.purge_error).toContain("1 secret could not be removed"),
    );
    expect((await setAssociation("cloud-a-sm/d", "one")).status).toBe(200);
  });

  it.each([
    ["force_delete=true", 1],
    ["force_delete=true&purge=true", 0],
  ])("with %s is deleted despite any failure", async (query, left) => {
    await makeDestination("cloud-a-sm", "d", cloudABody());
    await setAssociation("cloud-a-sm/d", "one");
    expect((await del(`${AT}/cloud-a-sm/d?${query}`)).status).toBe(204);
    await eventually(async () => expect((await get(`${AT}/cloud-a-sm/d`)).status).toBe(404));
    expect(await cloudA.secrets()).toHaveLength(left);
  });

  // Proves: B.dest.delete.purge
  itRows([
    ["?purge=maybe", undefined, "purge: "],
    ["?force_delete=2", undefined, "force_delete: "],
    ["", { purge: "maybe" }, "purge: "],
  ])("requires true or false for %s: %j", async (query, body, field) => {
    const refused = await send("DELETE", at + query, body);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining(field)]);
    expect((await get(at)).status).toBe(200);
  });
});

describe("the lists of destinations", () => {
  it("accept a trailing slash, and distinguish an unknown type from an empty one", async () => {
    await makeDestination("in-mem", "a");
    for (const at of [AT, `${AT}/`, `/v1${AT}/`]) expect((await list(at)).body.data.keys, at).toEqual(["in-mem/"]);
    for (const at of [`${AT}/in-mem`, `${AT}/in-mem/`]) {
      expect((await list(at)).body.data, at).toEqual({ keys: ["a"], total_destinations: 1 });
    }
    expect((await list(`${AT}/repo-host`)).body).toEqual({ errors: [] });
    const unknown = await list(`${AT}/cloud-z`);
    expect([unknown.status, unknown.body.errors]).toEqual([404, ['unsupported path: no destination type "cloud-z"']]);
    expect((await get(AT)).status).toBe(405);
  });

  // Proves: B.dest.list, B.dest.list-type
  it("return 404 while empty, and include every acknowledged write", async () => {
    expect((await list(AT)).status).toBe(404);
    for (const name of ["b", "a"]) {
      await makeDestination("in-mem", name);
      expect((await list(`${AT}/in-mem`)).body.data.keys).toContain(name);
    }
    await makeDestination("cloud-a-sm", "c");
    expect((await list(AT)).body.data).toEqual({
      keys: ["cloud-a-sm/", "in-mem/"],
      key_info: { "cloud-a-sm/": ["c"], "in-mem/": ["a", "b"] },
      total_destinations: 3,
    });
    await del(`${AT}/in-mem/a`);
    expect((await list(`${AT}/in-mem`)).body.data.keys).toEqual(["b"]);
  });

  it("lag while D1 is down without failing writes, and catch up by themselves", async () => {
    await makeDestination("in-mem", "before");
    const prepare = vi.spyOn(env.LISTINGS, "prepare").mockImplementation(() => {
      throw new Error("D1 is down");
    });
    await makeDestination("in-mem", "during");
    expect((await del(`${AT}/in-mem/before`)).status).toBe(204);
    expect((await get(`${AT}/in-mem/during`)).status).toBe(200);
    expect(prepare).toHaveBeenCalled();
    prepare.mockRestore();
    await eventually(async () => expect((await list(`${AT}/in-mem`)).body.data?.keys).toEqual(["during"]));
  });
});

describe("a destination that is being created", () => {
  const access = () => storedObject(env, ACCESS_CONTROL);
  /** The destinations that a snapshot would hold. */
  async function known(): Promise<string[]> {
    const names: string[] = [];
    for await (const { kind, name } of everyObject(env)) if (kind === "sync-destination") names.push(name);
    return names;
  }

  it("is registered for snapshots before it is stored, and not stored if that fails", async () => {
    await access().freeze("s");
    const refused = await put(`${AT}/in-mem/late`, {});
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    expect((await get(`${AT}/in-mem/late`)).status).toBe(404);
    await access().thaw("s");
    await access().endCut("s");
    await makeDestination("in-mem", "late");
    expect(await known()).toEqual(["in-mem/late"]);
  });

  it("stays registered when a predecessor of its name is deleted", async () => {
    await makeDestination("in-mem", "again");
    await access().freeze("s");
    expect((await del(`${AT}/in-mem/again`)).status).toBe(204);
    expect((await put(`${AT}/in-mem/again`, {})).status).toBe(409);
    await access().thaw("s");
    await access().endCut("s");
    await eventually(async () => expect((await put(`${AT}/in-mem/again`, {})).status).toBe(200));
    expect(await known()).toEqual(["in-mem/again"]);
  });
});
