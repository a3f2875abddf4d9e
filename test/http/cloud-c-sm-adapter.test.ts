import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { crc32c } from "../../src/lib/crc32c.ts";
import { cloudCSm } from "../../src/sync/destinations/cloud-c-sm/adapter.ts";
import type { ExternalObject } from "../../src/sync/destinations/destination-type.ts";
import { again, connectionOf, contextOf, marker, operations, wanted } from "../doubles/cloud-c-sm/fixture.ts";
import { type CloudCDouble, startCloudC } from "../doubles/cloud-c-sm/server.ts";

let double: CloudCDouble;

beforeAll(async () => {
  double = await startCloudC();
});
afterAll(() => double.close());
beforeEach(() => double.reset());

const put = (object: ExternalObject) => cloudCSm.put(object, connectionOf(double), contextOf(double));
/** A push that must succeed. @returns its result */
async function pushed(object: ExternalObject): Promise<string> {
  const done = await put(object);
  if (done.outcome !== "ok" || done.reference === undefined) throw new Error(JSON.stringify(done));
  return done.reference;
}
const remove = (ownedOnly = false) =>
  cloudCSm.remove({ name: "app-db", reference: null, ownedOnly }, connectionOf(double), contextOf(double));
const inspect = (reference: string | null = null) =>
  cloudCSm.inspect({ name: "app-db", reference }, connectionOf(double), contextOf(double));
const secret = () => double.secrets()[0];
const states = () => secret()?.versions.map(({ number, state }) => `${number} ${state}`);
const creation = (labels: Record<string, string> = {}) => ({
  operation: "CreateSecret",
  query: { secretId: "app-db" },
  body: { replication: { automatic: {} }, labels },
});
const create = (labels: Record<string, string> = {}) => double.call(creation(labels));
const addAsSomebodyElse = () =>
  double.call({
    operation: "AddSecretVersion",
    secretId: "app-db",
    body: { payload: { data: "b25l", dataCrc32c: "714388201" } },
  });
const relabelling = (labels: Record<string, string>) => ({
  operation: "UpdateSecret",
  secretId: "app-db",
  query: { updateMask: "labels" },
  body: { labels },
});
const relabelAsSomebodyElse = (labels: Record<string, string>) => double.call(relabelling(labels));

describe("reading for an import", () => {
  const list = (cursor = "") => cloudCSm.reading?.list(cursor, connectionOf(double), contextOf(double));
  const read = (name = "app-db") => cloudCSm.reading?.read?.(name, connectionOf(double), contextOf(double));
  const add = (bytes: Buffer) => {
    const payload = { data: bytes.toString("base64"), dataCrc32c: String(crc32c(bytes)) };
    double.call({ operation: "AddSecretVersion", secretId: "app-db", body: { payload } });
  };

  it("goes on page by page", async () => {
    expect(await list()).toEqual({ outcome: "ok", names: [], next: null });
    const ids = Array.from({ length: 101 }, (_, each) => `n${each}`);
    for (const secretId of ids) double.call({ ...creation(), query: { secretId } });
    const first = await list();
    if (first?.outcome !== "ok" || first.next === null) throw new Error(JSON.stringify(first));
    const second = await list(first.next);
    expect([...first.names, ...(second?.outcome === "ok" ? second.names : [])]).toEqual(ids);
    expect(second).toMatchObject({ next: null });
  });

  it("reads the newest version, and none that is absent, disabled, destroyed or binary", async () => {
    create();
    expect(await read()).toEqual({ outcome: "ok", content: null });
    add(Buffer.from("\uFEFFé€😀"));
    expect(await read()).toEqual({ outcome: "ok", content: { value: "\uFEFFé€😀" } });
    double.call({ operation: "DisableSecretVersion", secretId: "app-db", version: "1" });
    expect(await read()).toMatchObject({ outcome: "client", code: "disabled" });
    double.call({ operation: "DestroySecretVersion", secretId: "app-db", version: "1" });
    expect(await read()).toMatchObject({ outcome: "client", code: "disabled" });
    add(Buffer.from([0xff, 0xfe, 0x00]));
    expect(await read()).toMatchObject({ outcome: "client", code: "value_invalid" });
  });
});

describe("put", () => {
  it("creates an unknown secret with its labels and adds the value", async () => {
    await pushed(wanted({ tags: { "hashicorp:vault": "", "Cost Center": "R&D" } }));
    expect(operations(double)).toEqual(["CreateSecret", "AddSecretVersion"]);
    expect(secret()).toMatchObject({ name: "app-db", value: "hunter2-hunter2" });
    expect(secret()?.labels).toEqual({ ...marker, "cost-center": "r-d" });
  });

  it("stores every byte of a non-ASCII value of up to 65 536 bytes", async () => {
    const value = "é€😀".repeat(7281) + "x".repeat(7);
    expect(Buffer.byteLength(value)).toBe(65_536);
    await pushed(wanted({ value }));
    expect(secret()?.value).toBe(value);
  });

  it("adds a version to a known secret in one call, then destroys the version of the last push", async () => {
    const first = await pushed(wanted());
    const second = await pushed(again(first));
    expect(operations(double).slice(2)).toEqual(["AddSecretVersion", "DestroySecretVersion"]);
    expect(secret()?.value).toBe("two");
    expect(states()).toEqual(["1 DESTROYED", "2 ENABLED"]);
    await pushed(again(second, { value: "three" }));
    expect(states()).toEqual(["1 DESTROYED", "2 DESTROYED", "3 ENABLED"]);
  });

  it("creates a known secret that is missing, and destroys no version of the new one", async () => {
    const first = await pushed(wanted());
    await remove();
    await pushed(again(first));
    expect(operations(double).slice(3)).toEqual(["AddSecretVersion", "CreateSecret", "AddSecretVersion"]);
    expect(states()).toEqual(["1 ENABLED"]);
    expect(secret()?.labels).toEqual(marker);
  });

  it("adopts a foreign secret: keeps its labels and versions, and adds ours", async () => {
    create({ team: "foreign", env: "prod" });
    addAsSomebodyElse();
    await pushed(wanted({ tags: { "hashicorp:vault": "", team: "payments" } }));
    expect(operations(double)).toEqual(["CreateSecret", "GetSecret", "UpdateSecret", "AddSecretVersion"]);
    expect(secret()?.labels).toEqual({ ...marker, team: "payments", env: "prod" });
    expect(states()).toEqual(["1 ENABLED", "2 ENABLED"]);
  });

  it("removes only its own labels, and patches only differences", async () => {
    const tags = { "hashicorp:vault": "", Team: "a", old: "1" };
    const first = await pushed(wanted({ tags }));
    relabelAsSomebodyElse({ ...secret()?.labels, foreign: "x" });
    const next = { tags: { "hashicorp:vault": "", Team: "b" }, previousTagKeys: Object.keys(tags) };
    const second = await pushed(again(first, next));
    expect(secret()?.labels).toEqual({ ...marker, team: "b", foreign: "x" });
    await pushed(again(second, { tags: next.tags, previousTagKeys: Object.keys(next.tags) }));
    expect(operations(double).slice(-3)).toEqual(["GetSecret", "AddSecretVersion", "DestroySecretVersion"]);
  });

  it("reads no labels when the last push wrote the same", async () => {
    const tags = { "hashicorp:vault": "", team: "a" };
    const first = await pushed(wanted({ tags }));
    const before = double.requests().length;
    await pushed(again(first, { tags, tagsWritten: true }));
    expect(operations(double).slice(before)).toEqual(["AddSecretVersion", "DestroySecretVersion"]);
  });

  it("never destroys a foreign version, nor one with the same number in a recreated secret", async () => {
    const first = await pushed(wanted());
    addAsSomebodyElse();
    await pushed(again(first));
    expect(states()).toEqual(["1 DESTROYED", "2 ENABLED", "3 ENABLED"]);
    double.call({ operation: "DeleteSecret", secretId: "app-db" });
    create();
    addAsSomebodyElse();
    await pushed(again(first));
    expect(states()).toEqual(["1 ENABLED", "2 ENABLED"]);
  });

  it("succeeds when the old version cannot be destroyed, and destroys it with the next push", async () => {
    const first = await pushed(wanted());
    double.change({ deny: ["secretmanager.versions.destroy"] });
    const second = await pushed(again(first));
    const third = await pushed(again(second));
    expect(states()).toEqual(["1 ENABLED", "2 ENABLED", "3 ENABLED"]);
    double.change({ deny: [] });
    await pushed(again(third));
    expect(states()).toEqual(["1 DESTROYED", "2 DESTROYED", "3 DESTROYED", "4 ENABLED"]);
  });

  it("returns a reference of at most 512 characters, for any number of versions to destroy", async () => {
    double.change({ deny: ["secretmanager.versions.destroy"] });
    let reference = await pushed(wanted());
    for (let push = 0; push < 40; push++) reference = await pushed(again(reference));
    expect(reference.length).toBeLessThanOrEqual(512);
    expect(JSON.parse(reference)[0][0]).toBe("41");
  });

  it.each(["ABORTED", "FAILED_PRECONDITION"] as const)(
    "reads again when the labels changed since its read (answer %s)",
    async (etagMismatch) => {
      await using own = await startCloudC({ etagMismatch });
      own.call(creation({ foreign: "x" }));
      own.fault({ fault: "meanwhile", calls: [relabelling({ foreign: "y" })], operation: "UpdateSecret" });
      expect(await cloudCSm.put(wanted(), connectionOf(own), contextOf(own))).toMatchObject({ outcome: "ok" });
      expect(own.secrets()[0]?.labels).toEqual({ ...marker, foreign: "y" });
      expect(operations(own).filter((one) => one === "UpdateSecret")).toHaveLength(2);
    },
  );

  it("returns the missing permission when a policy refuses new labels", async () => {
    create({ foreign: "x" });
    double.fault({ fault: "error", status: "FAILED_PRECONDITION", operation: "UpdateSecret", count: 9 });
    expect(await put(wanted())).toMatchObject({ outcome: "client", code: "precondition_failed" });
    expect(operations(double).filter((one) => one === "UpdateSecret")).toHaveLength(2);
  });

  it("returns 'external' when another writer keeps creating and deleting the object", async () => {
    double.fault({ fault: "error", status: "ALREADY_EXISTS", operation: "CreateSecret", count: 99 });
    expect(await put(wanted())).toMatchObject({ outcome: "external", code: "contended" });
    expect(operations(double)).toHaveLength(8);
  });

  it("refuses more than 64 labels, those of other writers included", async () => {
    create(Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`l${at}`, ""])));
    expect(await put(wanted())).toMatchObject({ outcome: "client", code: "tags_invalid" });
    expect(states()).toEqual([]);
  });

  it.each<[string, Partial<ExternalObject>, string]>([
    ["an empty value", { value: "" }, "value_empty"],
    ["65 537 bytes", { value: `${"é".repeat(32_768)}x` }, "value_too_large"],
    ["a name with a slash", { name: "a/b" }, "name_invalid"],
    ["a name of 256 characters", { name: "n".repeat(256) }, "name_invalid"],
    ["a tag key that begins with a digit", { tags: { "1st": "" } }, "tags_invalid"],
  ])("refuses %s without a call", async (_what, changed, code) => {
    expect(await put(wanted(changed))).toMatchObject({ outcome: "client", code });
    expect(double.requests()).toEqual([]);
  });
});

describe("a push repeated after a lost answer", () => {
  it("to the create ends with one version of the value", async () => {
    double.fault({ fault: "apply-then-drop", operation: "CreateSecret" });
    expect(await put(wanted())).toMatchObject({ outcome: "unknown", code: "network_error" });
    await pushed(wanted());
    expect(states()).toEqual(["1 ENABLED"]);
    expect(secret()?.labels).toEqual(marker);
  });

  it("to the first version ends with that value as the newest", async () => {
    double.fault({ fault: "apply-then-drop", operation: "AddSecretVersion" });
    expect(await put(wanted())).toMatchObject({ outcome: "unknown" });
    await pushed(wanted({ unsureSince: Date.now() }));
    expect(secret()?.value).toBe("hunter2-hunter2");
    expect(states()).toEqual(["1 DESTROYED", "2 ENABLED"]);
  });

  it("to a later version still destroys the version of the last successful push", async () => {
    const first = await pushed(wanted());
    double.fault({ fault: "apply-then-drop", operation: "AddSecretVersion" });
    expect(await put(again(first))).toMatchObject({ outcome: "unknown" });
    await pushed(again(first, { unsureSince: Date.now() }));
    expect(secret()?.value).toBe("two");
    expect(states()).toEqual(["1 DESTROYED", "2 DESTROYED", "3 ENABLED"]);
  });

  it("treats a provider failure at the version as possibly applied", async () => {
    for (const status of ["INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED"] as const) {
      double.fault({ fault: "error", status, operation: "AddSecretVersion" });
      expect(await put(wanted()), status).toMatchObject({ outcome: "external", unsure: true });
    }
    double.fault({ fault: "error", status: "RESOURCE_EXHAUSTED", operation: "AddSecretVersion" });
    expect(await put(wanted())).not.toHaveProperty("unsure");
  });

  it("destroys no version from before the lost push, on one page or many", async () => {
    const start = Date.now() - 60 * 60_000;
    let now = start;
    await using own = await startCloudC({ now: () => now });
    const at = [connectionOf(own), contextOf(own)] as const;
    const add = () =>
      own.call({
        operation: "AddSecretVersion",
        secretId: "app-db",
        body: { payload: { data: "b25l", dataCrc32c: "714388201" } },
      });
    own.call(creation());
    for (let version = 0; version < 3; version++) add();
    now = start + 30 * 60_000;
    for (let version = 0; version < 110; version++) {
      // The limit of versions of a secret per minute.
      now += 1_000;
      add();
    }
    now = Date.now();
    expect(await cloudCSm.put(wanted({ unsureSince: start + 30 * 60_000 }), ...at)).toMatchObject({ outcome: "ok" });
    const after = own.secrets()[0]?.versions ?? [];
    expect(after.filter(({ state }) => state === "ENABLED").map(({ number }) => number)).toEqual([1, 2, 3, 114]);
    expect(operations(own).filter((one) => one === "ListSecretVersions")).toHaveLength(2);
  });

  it("destroys no version that another writer adds later", async () => {
    double.fault({ fault: "apply-then-drop", operation: "AddSecretVersion" });
    await put(wanted());
    const context = contextOf(double);
    const send: typeof context.send = (request) => {
      if (request[0].includes("/versions?")) addAsSomebodyElse();
      return context.send(request);
    };
    const done = await cloudCSm.put(wanted({ unsureSince: Date.now() }), connectionOf(double), { ...context, send });
    expect(done).toMatchObject({ outcome: "ok" });
    expect(states()).toEqual(["1 DESTROYED", "2 ENABLED", "3 ENABLED"]);
  });

  it("records versions that it may not list, and destroys them once it may", async () => {
    const first = await pushed(wanted());
    double.fault({ fault: "apply-then-drop", operation: "AddSecretVersion" });
    await put(again(first));
    double.change({ deny: ["secretmanager.versions.list"] });
    const third = await pushed(again(first, { unsureSince: Date.now() }));
    const fourth = await pushed(again(third));
    expect(states()).toEqual(["1 DESTROYED", "2 ENABLED", "3 DESTROYED", "4 ENABLED"]);
    expect(await inspect(fourth)).toMatchObject({ state: "unchanged" });
    double.change({ deny: [] });
    const fifth = await pushed(again(fourth));
    expect(states()).toEqual(["1 DESTROYED", "2 DESTROYED", "3 DESTROYED", "4 DESTROYED", "5 ENABLED"]);
    await pushed(again(fifth));
    expect(operations(double).filter((one) => one === "ListSecretVersions")).toHaveLength(3);
  });

  it("to the labels adds no version before they are right", async () => {
    create({ foreign: "x" });
    double.fault({ fault: "apply-then-drop", operation: "UpdateSecret" });
    expect(await put(wanted())).toMatchObject({ outcome: "unknown" });
    expect(states()).toEqual([]);
    await pushed(wanted());
    expect(secret()).toMatchObject({ labels: { ...marker, foreign: "x" }, versions: { length: 1 } });
  });

  it("to the destruction is unaffected, and the next push has nothing left to destroy", async () => {
    const first = await pushed(wanted());
    double.fault({ fault: "apply-then-drop", operation: "DestroySecretVersion" });
    const third = await pushed(again(await pushed(again(first))));
    expect(states()).toEqual(["1 DESTROYED", "2 DESTROYED", "3 ENABLED"]);
    expect(JSON.parse(third)).toHaveLength(1);
  });
});

describe("if-not-exists", () => {
  const policy = { updatePolicy: "if-not-exists" } as const;

  it("creates an absent secret, and writes nothing afterwards", async () => {
    const reference = await pushed(wanted(policy));
    expect(await put(again(reference, policy))).toEqual({ outcome: "ok", left: true });
    expect(secret()).toMatchObject({ value: "hunter2-hunter2", versions: { length: 1 } });
  });

  it("leaves a foreign secret, with or without a value", async () => {
    create();
    expect(await put(wanted(policy))).toEqual({ outcome: "ok", left: true });
    addAsSomebodyElse();
    expect(await put(wanted(policy))).toEqual({ outcome: "ok", left: true });
    expect(secret()).toMatchObject({ value: "one", labels: {}, versions: { length: 1 } });
  });

  it("adds a value to the empty secret of an interrupted push", async () => {
    double.fault({ fault: "drop", operation: "AddSecretVersion" });
    expect(await put(wanted(policy))).toMatchObject({ outcome: "unknown" });
    expect(states()).toEqual([]);
    await pushed(wanted(policy));
    expect(secret()?.value).toBe("hunter2-hunter2");
  });

  it("recognises its own push after a lost answer, and not another one", async () => {
    double.fault({ fault: "apply-then-drop", operation: "AddSecretVersion" });
    expect(await put(wanted(policy))).toMatchObject({ outcome: "unknown" });
    const reference = await pushed(wanted(policy));
    expect(await inspect(reference)).toMatchObject({ state: "unchanged" });
    expect(await put(wanted({ ...policy, idempotencyToken: "intent-2" }))).toEqual({ outcome: "ok", left: true });
    expect(states()).toEqual(["1 ENABLED"]);
    addAsSomebodyElse();
    expect(await put(wanted(policy))).toEqual({ outcome: "ok", left: true });
  });
});

describe("owned-only", () => {
  const policy = { updatePolicy: "owned-only" } as const;

  it("creates an absent secret and writes one with our label", async () => {
    const first = await pushed(wanted(policy));
    await pushed(again(first, policy));
    expect(secret()?.value).toBe("two");
    expect(states()).toEqual(["1 DESTROYED", "2 ENABLED"]);
  });

  it("leaves a secret without our label, even if it was ours before", async () => {
    const first = await pushed(wanted(policy));
    relabelAsSomebodyElse({ team: "theirs" });
    expect(await put(again(first, policy))).toMatchObject({ outcome: "client", code: "not_owned" });
    expect(secret()).toMatchObject({ value: "hunter2-hunter2", labels: { team: "theirs" } });
  });
});

describe("remove", () => {
  it("deletes the secret, and succeeds for an absent one", async () => {
    await pushed(wanted());
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(double.secrets()).toEqual([]);
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(await remove(true)).toEqual({ outcome: "ok" });
    await pushed(wanted());
    double.change({ emptyDeletes: true });
    expect(await remove(), "answered 204").toEqual({ outcome: "ok" });
    expect(double.secrets()).toEqual([]);
  });

  it("with ownedOnly deletes owned secrets and leaves foreign ones", async () => {
    create();
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(double.secrets()).toHaveLength(1);
    relabelAsSomebodyElse(marker);
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(double.secrets()).toEqual([]);
  });

  it("with ownedOnly reads again when the secret changed since its read, and leaves it when it is no longer ours", async () => {
    create(marker);
    const meanwhile = (labels: Record<string, string>) =>
      double.fault({ fault: "meanwhile", calls: [relabelling(labels)], operation: "DeleteSecret" });
    meanwhile({});
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(double.secrets()).toHaveLength(1);
    relabelAsSomebodyElse(marker);
    meanwhile({ ...marker, other: "" });
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(double.secrets()).toEqual([]);
  });

  it("with ownedOnly returns an error when an unchanged secret cannot be deleted", async () => {
    create(marker);
    double.fault({ fault: "error", status: "ABORTED", operation: "DeleteSecret", count: 9 });
    expect(await remove(true)).toMatchObject({ outcome: "external", code: "contended" });
  });

  it("does not treat another server's 404 as an absent secret", async () => {
    double.fault({ fault: "raw", status: 404, body: "<html>no such site</html>" });
    expect(await remove()).toMatchObject({ outcome: "client", code: "refused" });
  });
});

describe("inspect", () => {
  it("distinguishes absent, present, unchanged and changed, and reads no value", async () => {
    expect(await inspect()).toEqual({ outcome: "ok", state: "absent", owned: null });
    const reference = await pushed(wanted());
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "unchanged", owned: true });
    expect(await inspect()).toEqual({ outcome: "ok", state: "present", owned: true });
    addAsSomebodyElse();
    relabelAsSomebodyElse({});
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: false });
    expect(operations(double)).not.toContain("AccessSecretVersion");
  });

  it("detects a disabled or destroyed version and a recreated secret", async () => {
    const reference = await pushed(wanted());
    double.call({ operation: "DisableSecretVersion", secretId: "app-db", version: "1" });
    expect(await inspect(reference)).toMatchObject({ state: "changed" });
    double.call({ operation: "DeleteSecret", secretId: "app-db" });
    create();
    expect(await inspect(reference)).toMatchObject({ state: "changed" });
    addAsSomebodyElse();
    expect(await inspect(reference)).toMatchObject({ state: "changed" });
    expect(await inspect("from another time")).toMatchObject({ state: "present" });
  });
});
