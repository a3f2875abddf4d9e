import { beforeEach, describe, expect, it } from "vitest";
import { del, get, mountKv, patch } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { type ProviderAccount, providers } from "./sync-doubles.ts";
import { foreign, tagsOf } from "./sync-foreign-writer.ts";
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

const NOTE = "an object was there already, and update_policy if-not-exists leaves it";

beforeEach(async () => {
  await cloudA.begin();
  await mountKv();
  await write("app", { v: 1 });
});

const becomes = (at: string, expected: Record<string, unknown>) =>
  eventually(async () => expect(await association(at, "app")).toMatchObject(expected));

describe.each(Object.keys(providers))("at %s", (type) => {
  const at = `${type}/k`;
  /** All that these types accept as a name. */
  const name = "APP";
  let account: ProviderAccount;
  const configure = (changes: Record<string, unknown>) =>
    makeDestination(type, "k", {
      ...account.body,
      granularity: "secret-path",
      secret_name_template: "{{ .SecretPath | uppercase }}",
      ...changes,
    });
  const outside = (expected: Record<string, string>) =>
    eventually(async () => expect(await account.values()).toEqual(expected));

  beforeEach(async () => {
    account = await (providers[type] as () => Promise<ProviderAccount>)();
  });

  it("replace overwrites an existing object, which is ours from then on", async () => {
    await configure({});
    await foreign(account, name, "theirs");
    expect((await setAssociation(at, "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    await outside({ [name]: '{"v":1}' });
    await removeAssociation(at, "app");
    await outside({});
  });

  it("if-not-exists leaves an existing object with a note, and does not remove it", async () => {
    await configure({ update_policy: "if-not-exists" });
    await foreign(account, name, "theirs");
    await setAssociation(at, "app");
    await becomes(at, { sync_status: "SYNCED", note: NOTE });
    expect((await association(at, "app"))?.["synced_version"]).toBeUndefined();
    await write("app", { v: 2 });
    await eventually(async () => expect((await association(at, "app"))?.sync_status).toBe("SYNCED"));
    await outside({ [name]: "theirs" });
    await removeAssociation(at, "app");
    await eventually(async () => expect(await association(at, "app")).toBeUndefined());
    await outside({ [name]: "theirs" });
  });

  it("if-not-exists creates a missing object, leaves it from then on, and removes it", async () => {
    await configure({ update_policy: "if-not-exists" });
    await setAssociation(at, "app");
    await becomes(at, { sync_status: "SYNCED", synced_version: 1 });
    await outside({ [name]: '{"v":1}' });
    await write("app", { v: 2 });
    await becomes(at, { sync_status: "SYNCED", note: NOTE });
    await outside({ [name]: '{"v":1}' });
    await removeAssociation(at, "app");
    await eventually(async () => expect(await association(at, "app")).toBeUndefined());
    await outside({});
  });

  it("if-not-exists changed to replace overwrites with the next push, even the same value", async () => {
    await configure({ update_policy: "if-not-exists" });
    await foreign(account, name, "theirs");
    await setAssociation(at, "app");
    await becomes(at, { note: NOTE });
    await configure({ update_policy: "replace" });
    await write("app", { v: 1 });
    await outside({ [name]: '{"v":1}' });
    await becomes(at, { sync_status: "SYNCED", synced_version: 2 });
    expect((await association(at, "app"))?.["note"]).toBeUndefined();
  });

  it("owned-only neither changes nor removes a foreign object", async () => {
    await configure({ update_policy: "owned-only" });
    await foreign(account, name, "theirs");
    await setAssociation(at, "app");
    await becomes(at, { sync_status: "CLIENT_SIDE_ERROR", error_code: "not_owned" });
    await outside({ [name]: "theirs" });
    await removeAssociation(at, "app");
    await eventually(async () => expect(await association(at, "app")).toBeUndefined());
    await outside({ [name]: "theirs" });
  });

  it("owned-only after a refusal removes no object under replace without a push in between", async () => {
    await configure({ update_policy: "owned-only" });
    await foreign(account, name, "theirs");
    await setAssociation(at, "app");
    await becomes(at, { error_code: "not_owned" });
    await patch("/sys/sync/config", { disabled: true });
    await configure({ update_policy: "replace" });
    await removeAssociation(at, "app");
    await patch("/sys/sync/config", { disabled: false });
    await eventually(async () => expect(await association(at, "app")).toBeUndefined());
    await outside({ [name]: "theirs" });
  });

  it("owned-only creates, updates and removes our objects", async () => {
    await configure({ update_policy: "owned-only" });
    await setAssociation(at, "app");
    await becomes(at, { sync_status: "SYNCED" });
    await write("app", { v: 2 });
    await outside({ [name]: '{"v":2}' });
    await becomes(at, { sync_status: "SYNCED", synced_version: 2 });
    await removeAssociation(at, "app");
    await outside({});
  });

  it("owned-only with retain updates the retained object once its secret is written again", async () => {
    await configure({ update_policy: "owned-only", deletion_policy: "retain" });
    await setAssociation(at, "app");
    await becomes(at, { sync_status: "SYNCED" });
    await del("/v1/kv/data/app");
    await becomes(at, { sync_status: "UNSYNCED" });
    // Another task of the deleted secret.
    await setAssociation(at, "app");
    await becomes(at, { sync_status: "UNSYNCED" });
    await write("app", { v: 2 });
    await becomes(at, { sync_status: "SYNCED", synced_version: 2 });
    await outside({ [name]: '{"v":2}' });
  });

  it("retain leaves pushed objects when the secret is deleted, renamed or removed", async () => {
    await configure({ deletion_policy: "retain" });
    await setAssociation(at, "app");
    await outside({ [name]: '{"v":1}' });
    await del("/v1/kv/data/app");
    await becomes(at, { sync_status: "UNSYNCED" });
    await write("app", { v: 2 });
    await outside({ [name]: '{"v":2}' });
    await configure({ deletion_policy: "retain", secret_name_template: "NEW" });
    await setAssociation(at, "app");
    await outside({ [name]: '{"v":2}', NEW: '{"v":2}' });
    await removeAssociation(at, "app");
    await eventually(async () => expect(await association(at, "app")).toBeUndefined());
    await outside({ [name]: '{"v":2}', NEW: '{"v":2}' });
  });
});

describe("a destination of kind stored", () => {
  const inMem = (changes: Record<string, unknown>) =>
    makeDestination("in-mem", "m", { secret_name_template: "{{ .SecretPath }}", ...changes });

  it("keeps the first value under if-not-exists", async () => {
    await inMem({ update_policy: "if-not-exists" });
    await setAssociation("in-mem/m", "app");
    await write("app", { v: 2 });
    await becomes("in-mem/m", { sync_status: "SYNCED", note: NOTE });
    expect(await objects("m")).toEqual({ app: '{"v":1}' });
    await removeAssociation("in-mem/m", "app");
    await eventually(async () => expect(await objects("m")).toEqual({}));
  });

  it("updates and removes under owned-only", async () => {
    await inMem({ update_policy: "owned-only" });
    await setAssociation("in-mem/m", "app");
    await write("app", { v: 2 });
    await eventually(async () => expect(await objects("m")).toEqual({ app: '{"v":2}' }));
    await removeAssociation("in-mem/m", "app");
    await eventually(async () => expect(await objects("m")).toEqual({}));
  });

  it("retains under retain", async () => {
    await inMem({ deletion_policy: "retain" });
    await setAssociation("in-mem/m", "app");
    await removeAssociation("in-mem/m", "app");
    await eventually(async () => expect(await association("in-mem/m", "app")).toBeUndefined());
    expect(await objects("m")).toEqual({ app: '{"v":1}' });
  });

  it.each(["retain", "delete"])(
    "retains the object of a deleted secret, also when it is removed under %s",
    async (policy) => {
      await inMem({ deletion_policy: "retain" });
      await setAssociation("in-mem/m", "app");
      await del("/v1/kv/data/app");
      await becomes("in-mem/m", { sync_status: "UNSYNCED" });
      await inMem({ deletion_policy: policy });
      await removeAssociation("in-mem/m", "app");
      await eventually(async () => expect(await association("in-mem/m", "app")).toBeUndefined());
      expect(await objects("m")).toEqual({ app: '{"v":1}' });
    },
  );
});

describe.each([
  ["cloud-a-sm", "hashicorp:vault", (key: string) => key],
  ["cloud-b-kv", "hashicorp:vault", (key: string) => key],
  ["cloud-c-sm", "hashicorp-vault", (key: string) => key.toLowerCase()],
])("tags at %s", (type, marker, spelled) => {
  // Proves: B.cloud-b-kv.custom_tags, B.cloud-c-sm.custom_tags, B.dest.custom_tags.merged
  it("are the marker and the custom tags; the next push applies a change and removes old ones", async () => {
    const account = await (providers[type] as () => Promise<ProviderAccount>)();
    const at = `${type}/k`;
    const configure = (custom_tags: Record<string, string>) =>
      makeDestination(type, "k", { ...account.body, secret_name_template: "APP", custom_tags });
    const tags = (expected: Record<string, string>) =>
      eventually(async () => expect(await tagsOf(account, "APP")).toEqual({ [marker]: "", ...expected }));
    await configure({ Team: "a", stage: "x" });
    await setAssociation(at, "app");
    await tags({ [spelled("Team")]: "a", stage: "x" });
    await configure({ stage: "y", more: "z" });
    await becomes(at, { sync_status: "SYNCED" });
    expect(await tagsOf(account, "APP")).toMatchObject({ [spelled("Team")]: "a", stage: "x" });
    // The value is the same as before: the tags alone are a reason to push.
    await write("app", { v: 1 });
    await tags({ stage: "y", more: "z" });
    await configure({});
    await setAssociation(at, "app");
    await tags({});
  });
});

it("keeps tags that another writer added to an object of ours", async () => {
  await makeDestination("cloud-a-sm", "d", cloudABody({ secret_name_template: "APP", custom_tags: { ours: "1" } }));
  await setAssociation("cloud-a-sm/d", "app");
  await cloudA.call("TagResource", { SecretId: "APP", Tags: [{ Key: "theirs", Value: "2" }] });
  await makeDestination("cloud-a-sm", "d", { custom_tags: {} });
  await setAssociation("cloud-a-sm/d", "app");
  await eventually(async () =>
    expect((await cloudA.secrets())[0]?.tags).toEqual({ theirs: "2", "hashicorp:vault": "" }),
  );
});

describe("tags of an object at cloud-a-sm", () => {
  const update = async (v: number) => {
    const before = (await cloudA.requests()).length;
    await write("app", { v });
    await eventually(async () => expect(await cloudA.value("APP")).toBe(`{"v":${v}}`));
    await becomes("cloud-a-sm/d", { sync_status: "SYNCED" });
    return (await cloudA.requests()).slice(before).map(({ operation }) => operation);
  };
  const make = (custom_tags = {}) =>
    makeDestination("cloud-a-sm", "d", cloudABody({ secret_name_template: "APP", custom_tags }));

  beforeEach(async () => {
    await make();
    await setAssociation("cloud-a-sm/d", "app");
    await becomes("cloud-a-sm/d", { sync_status: "SYNCED" });
  });

  it("are sent by an update only when they differ from those of the last push", async () => {
    expect(await update(2)).toEqual(["UpdateSecret"]);
    await make({ team: "a" });
    expect(await update(3)).toEqual(["UpdateSecret", "TagResource"]);
    expect(await update(4)).toEqual(["UpdateSecret"]);
    expect((await cloudA.secrets())[0]?.tags).toEqual({ "hashicorp:vault": "", team: "a" });
  });

  it("are sent again after an update whose tags were refused", async () => {
    await make({ team: "a" });
    await cloudA.fault({ fault: "error", type: "InternalServiceError", operation: "TagResource", count: 1 });
    expect((await update(2)).filter((operation) => operation === "TagResource")).toHaveLength(2);
    expect((await cloudA.secrets())[0]?.tags).toEqual({ "hashicorp:vault": "", team: "a" });
  });

  it("are in drift after another writer changed them, until the association is set again", async () => {
    const state = async () => {
      const { body } = await get("/sys/sync/destinations/cloud-a-sm/d/drift");
      return Object.values(body.data.objects as Record<string, { state: string }>).map((object) => object.state);
    };
    expect(await state()).toEqual(["in_sync"]);
    await cloudA.call("UntagResource", { SecretId: "APP", TagKeys: ["hashicorp:vault"] });
    expect(await state()).toEqual(["changed"]);
    await setAssociation("cloud-a-sm/d", "app");
    await eventually(async () => expect((await cloudA.secrets())[0]?.tags).toEqual({ "hashicorp:vault": "" }));
    await becomes("cloud-a-sm/d", { sync_status: "SYNCED" });
    expect(await state()).toEqual(["in_sync"]);
  });
});

it("removes tags also when a key has adopted the name of another one", async () => {
  const changed = (changes: Record<string, unknown>) =>
    makeDestination("cloud-a-sm", "d", cloudABody({ granularity: "secret-key", ...changes }));
  await changed({ secret_name_template: "{{ .SecretKey }}", custom_tags: { old: "1" } });
  await write("app", { a: "1", b: "2" });
  await setAssociation("cloud-a-sm/d", "app");
  await eventually(async () => expect(await cloudA.secrets()).toHaveLength(2));
  const swapped = '{{ .SecretKey | replace "a" "x" | replace "b" "a" | replace "x" "b" }}';
  await changed({ secret_name_template: swapped, custom_tags: {} });
  await setAssociation("cloud-a-sm/d", "app");
  await eventually(async () =>
    expect((await cloudA.secrets()).map(({ name, value, tags }) => [name, value, tags]).sort()).toEqual([
      ["a", "2", { "hashicorp:vault": "" }],
      ["b", "1", { "hashicorp:vault": "" }],
    ]),
  );
  expect((await get("/sys/sync/destinations/cloud-a-sm/d")).status).toBe(200);
});
