import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { del, get, list, mountKv, put } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { cloudABody, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";

const AT = "/sys/sync/destinations";

beforeEach(() => cloudA.begin());

describe("a destination", () => {
  it("is answered with sensitive values masked, defaults filled in and unset fields absent", async () => {
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

  it("of a type that needs no connection is answered with empty details", async () => {
    const made = await makeDestination("in-mem", "try");
    expect(made.body.data).toMatchObject({ name: "try", type: "in-mem", connection_details: {} });
    expect(made.body.data.options.custom_tags).toEqual({});
  });

  it("that was never made, or is of no known type, is not found", async () => {
    expect((await get(`${AT}/in-mem/none`)).status).toBe(404);
    expect((await get(`${AT}/in-mem/none`)).body).toEqual({ errors: [] });
    const unknown = await put(`${AT}/cloud-z/d`, {});
    expect([unknown.status, unknown.body.errors[0]]).toEqual([404, expect.stringContaining("cloud-z")]);
    expect((await get(`${AT}/in-mem/none/associations`)).status).toBe(404);
    expect((await get(`${AT}/in-mem/none/objects`)).status).toBe(404);
  });

  it("keeps what a second write leaves out, sends back masked, and clears what it names as empty", async () => {
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

  it.each([
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
  ])("refuses a change of %s by its name and stays as it was (%#)", async (_field, change, text) => {
    await makeDestination("cloud-a-sm", "d");
    const before = await get(`${AT}/cloud-a-sm/d`);
    const refused = await put(`${AT}/cloud-a-sm/d`, change);
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0]).toContain(text);
    expect((await get(`${AT}/cloud-a-sm/d`)).body.data).toEqual(before.body.data);
  });

  it.each([
    [{ region: "eu-west-1", access_key_id: "AKIA" }, "secret_access_key"],
    [{ region: "eu-west-1", secret_access_key: "s" }, "access_key_id"],
    [{ region: "Moon" }, "region"],
  ])("is not made from %j", async (body, field) => {
    const refused = await put(`${AT}/cloud-a-sm/d`, body);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining(field)]);
    expect((await get(`${AT}/cloud-a-sm/d`)).status).toBe(404);
  });

  it("is deleted when it has no associations, and deleting it again is no error", async () => {
    await makeDestination("in-mem", "d");
    expect((await del(`${AT}/in-mem/d`)).status).toBe(204);
    expect((await get(`${AT}/in-mem/d`)).status).toBe(404);
    expect((await del(`${AT}/in-mem/d`)).status).toBe(204);
  });

  it("is not deleted while it has associations", async () => {
    await mountKv();
    await write("app", { a: 1 });
    await makeDestination("in-mem", "d");
    await setAssociation("in-mem/d", "app");
    const refused = await del(`${AT}/in-mem/d`);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("1 association")]);
    expect((await get(`${AT}/in-mem/d`)).status).toBe(200);
  });
});

describe("the lists of destinations", () => {
  it("are not found while empty, and then read every write that was answered", async () => {
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

  it("lag while D1 is down, writes succeed all the same, and the lists catch up by themselves", async () => {
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
