import { createHash } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { get, mountKv, patch, put } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { type ProviderAccount, providers } from "./sync-doubles.ts";
import {
  association,
  cloudABody,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  viewsAt,
  write,
} from "./sync-helpers.ts";

const D = "cloud-a-sm/d";

let accessor = "";
beforeEach(async () => {
  await cloudA.begin();
  ({ accessor } = await mountKv());
});

const configure = (changes: Record<string, unknown>) => makeDestination("cloud-a-sm", "d", cloudABody(changes));
const template = (secret_name_template: string) => configure({ secret_name_template });
const keyTemplate = (secret_name_template: string) => configure({ secret_name_template, granularity: "secret-key" });
const pause = async (disabled: boolean) => expect((await patch("/sys/sync/config", { disabled })).status).toBe(200);

/** All that is at the double of cloud-a, name to value. */
const outside = async (): Promise<Record<string, string>> =>
  Object.fromEntries((await cloudA.secrets()).map(({ name, value }) => [name, String(value)]));
const becomes = (expected: Record<string, string>) => eventually(async () => expect(await outside()).toEqual(expected));
const foreign = (name: string) =>
  cloudA.call("CreateSecret", { Name: name, SecretString: "theirs", ClientRequestToken: crypto.randomUUID() });
const deletions = async () => (await cloudA.requests()).filter(({ operation }) => operation === "DeleteSecret");

const statuses = async (destination: string) =>
  Object.fromEntries(
    (await viewsAt(destination)).map((view) => [`${view.secret_name} ${view.sub_key ?? ""}`, view.sync_status]),
  );

describe("a template", () => {
  it("keeps an object under its old name while the new one belongs to another writer", async () => {
    const named = (folder: string, update_policy: string) =>
      configure({ update_policy, secret_name_template: `${folder}/{{ .SecretPath }}` });
    await named("old", "owned-only");
    await write("app", { v: 1 });
    await setAssociation(D, "app");
    await becomes({ "old/app": '{"v":1}' });
    await foreign("new/app");
    await named("new", "owned-only");
    await setAssociation(D, "app");
    await eventually(async () => expect(await association(D, "app")).toMatchObject({ error_code: "not_owned" }));
    expect(await outside()).toEqual({ "old/app": '{"v":1}', "new/app": "theirs" });
    await named("new", "replace");
    await setAssociation(D, "app");
    await becomes({ "new/app": '{"v":1}' });
  });

  it("may refer to every field", async () => {
    expect((await put("/v1/sys/namespaces/team", {})).status).toBe(200);
    const inTeam = { headers: { "X-Orch-Namespace": "team" } };
    const mount = await mountKv("apps/kv", inTeam);
    await put("/v1/apps/kv/data/path/to/secret1", { data: { foo: "1" } }, inTeam);
    const fields = [
      "DestinationType",
      "DestinationName",
      "NamespacePath",
      "NamespaceBaseName",
      "NamespaceID",
      "MountPath",
      "MountBaseName",
      "MountAccessor",
      "SecretPath",
      "SecretBaseName",
      "SecretKey",
    ];
    const body = {
      granularity: "secret-key",
      secret_name_template: fields.map((field) => `{{ .${field} }}`).join("="),
    };
    expect((await put("/sys/sync/destinations/in-mem/m", body, inTeam)).status).toBe(200);
    const at = "/sys/sync/destinations/in-mem/m/associations/set";
    expect((await put(at, { mount: "apps/kv", secret_name: "path/to/secret1" }, inTeam)).status).toBe(200);
    const { body: shown } = await get("/sys/sync/destinations/in-mem/m/objects", inTeam);
    expect(Object.keys(shown.data.objects)).toEqual([
      `in-mem=m=team=team=team=apps/kv=kv=${mount.accessor}=path/to/secret1=secret1=foo`,
    ]);
  });

  it("may apply every function, in pipes and in calls", async () => {
    const hash = (text: string) => createHash("sha256").update(text).digest("hex");
    const cases: [template: string, name: string][] = [
      ["{{ .SecretPath | uppercase }}", "APP/DB"],
      ["{{ lowercase `ABC` }}={{ .SecretPath }}", "abc=app/db"],
      ['{{ .SecretPath | replace "/" "_" }}', "app_db"],
      ['{{ replace "/" "." .SecretPath }}', "app.db"],
      ["{{ .SecretPath | truncate 4 }}", "app/"],
      ["{{ .SecretPath | sha256 }}", hash("app/db")],
      ["{{ .SecretPath | base64 }}", Buffer.from("app/db").toString("base64")],
      [
        "{{ `0123456789abcdef` | truncate_sha256 12 }}{{ .SecretPath }}",
        `0123${hash("456789abcdef").slice(0, 8)}app/db`,
      ],
      ['{{- "a" }} {{- .SecretPath -}} b', "aapp/dbb"],
    ];
    await write("app/db", { a: 1 });
    for (const [index, [text, name]] of cases.entries()) {
      await makeDestination("in-mem", `m${index}`, { secret_name_template: text });
      const set = await setAssociation(`in-mem/m${index}`, "app/db");
      expect(set.body.data.associated_secrets[`${accessor}/app/db`].external_name, text).toBe(name);
      expect(await objects(`m${index}`), text).toEqual({ [name]: '{"a":1}' });
    }
  });

  it("with an empty name for a secret returns 400 when that secret is set", async () => {
    await makeDestination("in-mem", "m", { secret_name_template: '{{ .SecretPath | replace "app" "" }}' });
    await write("app", { a: 1 });
    const refused = await setAssociation("in-mem/m", "app");
    expect([refused.status, refused.body.errors]).toEqual([400, ["its external name would be empty"]]);
  });
});

describe("a template that changes", () => {
  it("keeps existing objects until the secret is set again, which renames them", async () => {
    await template("old/{{ .SecretPath }}");
    await write("app", { v: 1 });
    await write("other", { v: 1 });
    await setAssociation(D, "app");
    await setAssociation(D, "other");
    await template("new/{{ .SecretPath }}");
    await write("app", { v: 2 });
    await becomes({ "old/app": '{"v":2}', "old/other": '{"v":1}' });
    expect((await association(D, "app"))?.["external_name"]).toBe("old/app");
    await setAssociation(D, "app");
    await becomes({ "new/app": '{"v":2}', "old/other": '{"v":1}' });
    await removeAssociation(D, "other");
    await becomes({ "new/app": '{"v":2}' });
  });

  it("together with the granularity moves a secret between one object and one per key", async () => {
    await template("whole/{{ .SecretPath }}");
    await write("app", { a: "1", b: "2" });
    await setAssociation(D, "app");
    await becomes({ "whole/app": '{"a":"1","b":"2"}' });
    await keyTemplate("part/{{ .SecretKey }}");
    await write("app", { a: "1", b: "3" });
    await becomes({ "whole/app": '{"a":"1","b":"3"}' });
    await setAssociation(D, "app");
    await becomes({ "part/a": "1", "part/b": "3" });
    await configure({ granularity: "secret-path", secret_name_template: "whole/{{ .SecretPath }}" });
    await setAssociation(D, "app");
    await becomes({ "whole/app": '{"a":"1","b":"3"}' });
  });

  it("back and forth while syncing is paused removes no desired object", async () => {
    await template("one/{{ .SecretPath }}");
    await write("app", { v: 1 });
    await setAssociation(D, "app");
    await pause(true);
    for (const name of ["two", "one"]) {
      await template(`${name}/{{ .SecretPath }}`);
      expect((await setAssociation(D, "app")).body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    }
    await pause(false);
    await eventually(async () => expect(await statuses(D)).toEqual({ "app ": "SYNCED" }));
    expect(await outside()).toEqual({ "one/app": '{"v":1}' });
    expect(await deletions()).toEqual([]);
  });

  it("twice while paused removes the object of the first name, but not of the second", async () => {
    await template("one/{{ .SecretPath }}");
    await write("app", { v: 1 });
    await setAssociation(D, "app");
    await foreign("two/app");
    await pause(true);
    for (const name of ["two", "three"]) {
      await template(`${name}/{{ .SecretPath }}`);
      await setAssociation(D, "app");
    }
    expect(await outside()).toEqual({ "one/app": '{"v":1}', "two/app": "theirs" });
    await pause(false);
    await becomes({ "three/app": '{"v":1}', "two/app": "theirs" });
    await eventually(async () => expect(await statuses(D)).toEqual({ "app ": "SYNCED" }));
  });

  it("after a paused set does not remove a foreign object of the name never pushed", async () => {
    await pause(true);
    await template("first/{{ .SecretPath }}");
    await write("app", { v: 1 });
    await setAssociation(D, "app");
    await foreign("first/app");
    await template("second/{{ .SecretPath }}");
    await setAssociation(D, "app");
    await pause(false);
    await becomes({ "first/app": "theirs", "second/app": '{"v":1}' });
  });

  it("after refused pushes does not remove a foreign object of that name", async () => {
    await configure({ secret_name_template: "first/{{ .SecretPath }}", secret_access_key: "wrong" });
    await write("app", { v: 1 });
    const refused = await setAssociation(D, "app");
    expect(refused.body.data.sync_operation_counters).toEqual({ CLIENT_SIDE_ERROR: 1 });
    await foreign("first/app");
    // Paused, because the repaired configuration lets the push be tried again, which may overwrite.
    await pause(true);
    await template("second/{{ .SecretPath }}");
    await setAssociation(D, "app");
    await pause(false);
    await becomes({ "first/app": "theirs", "second/app": '{"v":1}' });
    await eventually(async () => expect(await statuses(D)).toEqual({ "app ": "SYNCED" }));
    expect(await outside()).toEqual({ "first/app": "theirs", "second/app": '{"v":1}' });
  });

  it("after a push whose answer was lost removes the object of that push", async () => {
    await template("first/{{ .SecretPath }}");
    await cloudA.fault({ fault: "apply-then-drop", operation: "CreateSecret" });
    await write("app", { v: 1 });
    expect((await setAssociation(D, "app")).body.data.sync_operation_counters).toEqual({ UNKNOWN: 1 });
    await pause(true);
    await template("second/{{ .SecretPath }}");
    await setAssociation(D, "app");
    expect(await outside()).toEqual({ "first/app": '{"v":1}' });
    await pause(false);
    await becomes({ "second/app": '{"v":1}' });
  });

  it("that swaps the names of two keys swaps their values and removes no object", async () => {
    await keyTemplate("{{ .SecretKey }}");
    await write("app", { a: "value of a", b: "value of b" });
    await setAssociation(D, "app");
    await becomes({ a: "value of a", b: "value of b" });
    await keyTemplate('{{ .SecretKey | replace "a" "x" | replace "b" "a" | replace "x" "b" }}');
    await setAssociation(D, "app");
    await becomes({ b: "value of a", a: "value of b" });
    await eventually(async () => expect(await statuses(D)).toEqual({ "app a": "SYNCED", "app b": "SYNCED" }));
    expect(await deletions()).toEqual([]);
    await removeAssociation(D, "app");
    await becomes({});
  });
});

describe("names that collide", () => {
  it("of two secrets return 400 for the second, until the first is removed", async () => {
    await template("same");
    await write("one", { v: 1 });
    await write("two", { v: 2 });
    await setAssociation(D, "one");
    const refused = await setAssociation(D, "two");
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [`external name "same" is taken by the association of ${accessor}/one`],
    ]);
    expect(await association(D, "two")).toBeUndefined();
    await removeAssociation(D, "one");
    await becomes({});
    expect((await setAssociation(D, "two")).status).toBe(200);
    await becomes({ same: '{"v":2}' });
  });

  it("of two keys are an error of both until one is removed", async () => {
    await keyTemplate("{{ .SecretKey }}");
    await write("app", { "x y": "1", "x-y": "2", z: "3" });
    await setAssociation(D, "app");
    const collided = { "app x y": "CLIENT_SIDE_ERROR", "app x-y": "CLIENT_SIDE_ERROR", "app z": "SYNCED" };
    await eventually(async () => expect(await statuses(D)).toEqual(collided));
    const [first] = await viewsAt(D);
    expect(first).toMatchObject({
      error_code: "name_collision",
      error_message: 'several keys of the secret would be called "x-y"',
    });
    expect(await outside()).toEqual({ z: "3" });
    await write("app", { "x-y": "2", z: "3" });
    await becomes({ "x-y": "2", z: "3" });
    await eventually(async () => expect(await statuses(D)).toEqual({ "app x-y": "SYNCED", "app z": "SYNCED" }));
    await write("app", { "x-y": "2", "x y": "4", z: "3" });
    await eventually(async () => expect(await statuses(D)).toEqual(collided));
    await write("app", { "x y": "4", z: "3" });
    await becomes({ "x-y": "4", z: "3" });
    await removeAssociation(D, "app");
    await becomes({});
  });

  it("of two secrets' keys block the later one until the earlier one is removed", async () => {
    await keyTemplate("{{ .SecretKey }}");
    await write("one", { a: "1", b: "1" });
    await write("two", { b: "2", c: "2" });
    await setAssociation(D, "one");
    await setAssociation(D, "two");
    await eventually(async () =>
      expect(await statuses(D)).toEqual({
        "one a": "SYNCED",
        "one b": "SYNCED",
        "two b": "CLIENT_SIDE_ERROR",
        "two c": "SYNCED",
      }),
    );
    expect(await outside()).toEqual({ a: "1", b: "1", c: "2" });
    await removeAssociation(D, "one");
    await becomes({ c: "2" });
    // Its keys are the same as before: that the name is free is found out nonetheless.
    await write("two", { b: "3", c: "2" });
    await becomes({ b: "3", c: "2" });
  });

  it.each([
    ["cloud-b-kv", "App"],
    ["repo-host", "App"],
  ])("only in their letters' case meet at %s", async (type, secret) => {
    const account = await (providers[type] as () => Promise<ProviderAccount>)();
    const body = { ...account.body, granularity: "secret-path", secret_name_template: "{{ .SecretPath }}" };
    await makeDestination(type, "k", body);
    await write("app", { v: 1 });
    await write(secret, { v: 2 });
    expect((await setAssociation(`${type}/k`, "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    const refused = await setAssociation(`${type}/k`, secret);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("is taken by")]);
    await makeDestination(type, "keys", {
      ...account.body,
      granularity: "secret-key",
      secret_name_template: "k-{{ .SecretKey }}",
    });
    await write("keys", { foo: "1", FOO: "2", bar: "3" });
    await setAssociation(`${type}/keys`, "keys");
    await eventually(async () =>
      expect(await statuses(`${type}/keys`)).toEqual({
        "keys FOO": "CLIENT_SIDE_ERROR",
        "keys foo": "CLIENT_SIDE_ERROR",
        "keys bar": "SYNCED",
      }),
    );
    expect(Object.values(await account.values()).sort()).toEqual(["3", '{"v":1}']);
  });

  it("differ in case for a provider with case-sensitive names", async () => {
    await template("{{ .SecretPath }}");
    await write("app", { v: 1 });
    await write("App", { v: 2 });
    await setAssociation(D, "app");
    await setAssociation(D, "App");
    await becomes({ app: '{"v":1}', App: '{"v":2}' });
  });

  it("reserved by the repository host are refused, per secret or per key", async () => {
    const account = await (providers["repo-host"] as () => Promise<ProviderAccount>)();
    const secretPath = { granularity: "secret-path", secret_name_template: "{{ .SecretPath }}" };
    await makeDestination("repo-host", "path", { ...account.body, ...secretPath });
    await write("github_token", { v: 1 });
    const refused = await setAssociation("repo-host/path", "github_token");
    expect([refused.status, refused.body.errors]).toEqual([400, ["The name of a secret must not begin with GITHUB_."]]);
    const secretKey = { granularity: "secret-key", secret_name_template: "{{ .SecretKey }}" };
    await makeDestination("repo-host", "keys", { ...account.body, ...secretKey });
    await write("app", { github_x: "1", y: "2" });
    await setAssociation("repo-host/keys", "app");
    await eventually(async () =>
      expect(await statuses("repo-host/keys")).toEqual({ "app github_x": "CLIENT_SIDE_ERROR", "app y": "SYNCED" }),
    );
    expect((await viewsAt("repo-host/keys")).find((view) => view.sub_key === "github_x")?.error_code).toBe(
      "name_invalid",
    );
    expect(await account.values()).toEqual({ Y: "2" });
  });
});

describe.each([
  ["cloud-a-sm", "1Web/d-b.m-in", 512],
  ["cloud-b-kv", "1Web-d-b-m-in", 127],
  ["cloud-c-sm", "1Web-d-b-m-in", 255],
  ["repo-host", "_1WEB_D_B_M_IN", 255],
  ["deploy-project", "_1Web_d_b_m_in", 256],
])("at %s", (type, spelled, longest) => {
  // Proves: B.cloud-b-kv.secret_name_template, B.cloud-c-sm.secret_name_template,
  // B.deploy-project.secret_name_template, B.repo-host.secret_name_template
  it("names are normalised by the provider's rules, and long ones end in a hash", async () => {
    const account = await (providers[type] as () => Promise<ProviderAccount>)();
    const body = { ...account.body, granularity: "secret-path", secret_name_template: "1{{ .SecretPath }}" };
    await makeDestination(type, "k", body);
    await write("Web/d b.mäin".replace("ä", "%C3%A4").replace(" ", "%20"), { v: 1 });
    const set = await setAssociation(`${type}/k`, "Web/d b.mäin");
    expect(set.body.data.associated_secrets?.[`${accessor}/Web/d b.mäin`]?.external_name, set.text).toBe(spelled);
    expect(await account.values()).toEqual({ [spelled]: '{"v":1}' });
    const long = "a".repeat(600);
    await write(`${long}1`, { v: 2 });
    await write(`${long}2`, { v: 3 });
    await setAssociation(`${type}/k`, `${long}1`);
    await setAssociation(`${type}/k`, `${long}2`);
    const values = await account.values();
    expect(Object.values(values).sort()).toEqual(['{"v":1}', '{"v":2}', '{"v":3}']);
    const lengths = Object.keys(values).map((name) => name.length);
    expect(lengths.sort((a, b) => a - b)).toEqual([spelled.length, longest, longest]);
  });
});
