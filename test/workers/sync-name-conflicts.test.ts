import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { syncControl } from "../../src/rpc/stubs.ts";
import { del, mountKv, patch, put } from "./client.ts";
import { openCloudA, openRepoHost, type ProviderAccount, providers } from "./sync-doubles.ts";

import { eventually, makeDestination, removeAssociation, setAssociation, viewsAt, write } from "./sync-helpers.ts";
import { pause, resume } from "./sync-limits.ts";

const statusesAt = async (destination: string) => (await viewsAt(destination)).map(({ sync_status }) => sync_status);

/** An association of a destination with one object a secret that another destination of the same place stands in the way of. */
async function expectRefused(destination: string, owner: string): Promise<void> {
  const refused = await setAssociation(destination, "app");
  expect(refused.status, refused.text).toBe(400);
  expect(refused.text).toContain(`is taken by ${owner}, which writes to the same place`);
  expect(await viewsAt(destination)).toEqual([]);
}

const onePerSecret = { granularity: "secret-path", secret_name_template: "X_{{ .SecretPath }}" };

/** Runs a statement in the storage of a destination. */
const alter = (name: string, statement: string) =>
  runInDurableObject(env.SYNC_DESTINATION.getByName(name), (_, state) => {
    state.storage.sql.exec(statement);
  });

describe.each(Object.keys(providers))("two destinations with a common target at %s", (type) => {
  let account: ProviderAccount;
  beforeEach(async () => {
    account = await (providers[type] as () => Promise<ProviderAccount>)();
    await mountKv();
    await write("app", { key: "first" });
    await makeDestination(type, "one", { ...account.body, ...onePerSecret });
    await makeDestination(type, "two", { ...account.body, ...onePerSecret });
    expect((await setAssociation(`${type}/one`, "app")).text).toContain("SYNCED");
  });

  it("returns 400 with the owner of a name, also on a dry run, and leaves its object alone", async () => {
    await expectRefused(`${type}/two`, `the destination ${type}/one`);
    const planned = await put(`/sys/sync/destinations/${type}/two/associations/set?dry_run=true`, {
      mount: "kv",
      secret_name: "app",
    });
    expect(planned.text).toContain(`the destination ${type}/one`);
    await write("app", { key: "second" });
    await eventually(async () => expect(Object.values(await account.values()).join()).toContain("second"));
    expect((await del(`/sys/sync/destinations/${type}/two?purge=true`)).status).toBe(204);
    expect(Object.values(await account.values())).toHaveLength(1);
  });

  it("frees a name with the association or the destination that has it", async () => {
    expect((await removeAssociation(`${type}/one`, "app")).status).toBe(200);
    expect((await setAssociation(`${type}/two`, "app")).text).toContain("SYNCED");
    await expectRefused(`${type}/one`, `the destination ${type}/two`);
    expect((await del(`/sys/sync/destinations/${type}/two?force_delete=true`)).status).toBe(204);
    expect((await setAssociation(`${type}/one`, "app")).text).toContain("SYNCED");
  });

  it("pushes different names, and equal names at different targets", async () => {
    await patch(`/sys/sync/destinations/${type}/two`, { secret_name_template: "Y_{{ .SecretPath }}" });
    expect((await setAssociation(`${type}/two`, "app")).text).toContain("SYNCED");
    expect(Object.values(await account.values())).toHaveLength(2);
    const other = await (providers[type] as () => Promise<ProviderAccount>)();
    // The repository host's accounts share their organisation.
    const elsewhere = type === "repo-host" ? { repository_name: "api" } : {};
    await makeDestination(type, "three", { ...other.body, ...onePerSecret, ...elsewhere });
    expect((await setAssociation(`${type}/three`, "app")).text).toContain("SYNCED");
  });
});

describe("destinations of one organisation", () => {
  let account: Awaited<ReturnType<typeof openRepoHost>>;
  const body = (visibility: string) => ({
    access_token: account.account.accessToken,
    secrets_location: "organization",
    organization_name: account.account.owner,
    organization_visibility: visibility,
    secret_name_template: "X_{{ .SecretPath | uppercase }}_{{ .SecretKey | uppercase }}",
  });
  beforeEach(async () => {
    account = await openRepoHost();
    await mountKv();
    await write("app", { a: "1", b: "2" });
    await makeDestination("repo-host", "one", body("all"));
  });

  it("shows the owner in the status of each key", async () => {
    expect((await setAssociation("repo-host/one", "app")).text).toContain("SYNCED");
    const upper = { organization_name: account.account.owner.toUpperCase() };
    await makeDestination("repo-host", "two", { ...body("private"), ...upper });
    await setAssociation("repo-host/two", "app");
    for (const { sync_status, error_code, error_message } of await viewsAt("repo-host/two")) {
      expect([sync_status, error_code]).toEqual(["CLIENT_SIDE_ERROR", "name_collision"]);
      expect(error_message).toContain("is taken by the destination repo-host/one, which writes to the same place");
    }
    const pushes = (await account.requests()).filter(({ operation }) => operation === "putSecret");
    expect(pushes).toHaveLength(2);
    expect((await removeAssociation("repo-host/two", "app")).status).toBe(200);
    expect(Object.keys(await account.values())).toHaveLength(2);
  });

  it("pushes keys with free names, and freed ones with the next change", async () => {
    await setAssociation("repo-host/one", "app");
    await makeDestination("repo-host", "two", body("private"));
    await write("app", { b: "2", c: "3" });
    const names = async () => Object.keys(await account.values()).sort();
    await eventually(async () => expect(await names()).toEqual(["X_APP_B", "X_APP_C"]));
    await write("other/app", { c: "4" });
    await patch("/sys/sync/destinations/repo-host/two", {
      secret_name_template: "X_{{ .SecretBaseName | uppercase }}_{{ .SecretKey | uppercase }}",
    });
    await setAssociation("repo-host/two", "other/app");
    expect((await viewsAt("repo-host/two"))[0]?.error_code).toBe("name_collision");
    await write("app", { b: "2" });
    await eventually(async () => expect(await names()).toEqual(["X_APP_B"]));
    await write("other/app", { c: "5", d: "6" });
    await eventually(async () => expect(await statusesAt("repo-host/two")).toEqual(["SYNCED", "SYNCED"]));
  });

  it("hides the names of destinations from other namespaces, except those above", async () => {
    await put("/v1/sys/namespaces/team", {});
    expect((await put("/v1/team/sys/mounts/kv", { type: "kv", options: { version: "2" } })).status).toBe(204);
    expect((await put("/v1/team/kv/data/app", { data: { a: "1", b: "2" } })).status).toBe(200);
    const made = await put("/team/sys/sync/destinations/repo-host/theirs", body("all"));
    expect(made.status, made.text).toBe(200);
    await setAssociation("repo-host/one", "app");
    const theirs = await put("/team/sys/sync/destinations/repo-host/theirs/associations/set", {
      mount: "kv",
      secret_name: "app",
    });
    expect(theirs.text).toContain("is taken by a destination of another namespace, which");
    expect(theirs.text).not.toContain("repo-host/one");
    await removeAssociation("repo-host/one", "app");
    await put("/team/sys/sync/destinations/repo-host/theirs/associations/set", { mount: "kv", secret_name: "app" });
    expect((await setAssociation("repo-host/one", "app")).text).toContain(
      "is taken by the destination repo-host/theirs of the namespace team/, which",
    );
  });
});

it("gives a name that both associations claim and neither has pushed to the older destination", async () => {
  const account = await openCloudA();
  await mountKv();
  await write("app", { key: "first" });
  for (const name of ["old", "young"]) await makeDestination("cloud-a-sm", name, { ...account.body, ...onePerSecret });
  await alter("cloud-a-sm/old", "UPDATE destination SET created = created - 1000");
  await runInDurableObject(env.SYNC_DESTINATION.getByName("cloud-a-sm/old"), (_, state) => state.abort()).catch(
    () => undefined,
  );
  await pause();
  expect((await setAssociation("cloud-a-sm/young", "app")).text).toContain("PENDING");
  expect((await setAssociation("cloud-a-sm/old", "app")).text).toContain("PENDING");
  await resume();
  await eventually(async () => {
    expect(await statusesAt("cloud-a-sm/old")).toEqual(["SYNCED"]);
    expect((await viewsAt("cloud-a-sm/young"))[0]?.error_code).toBe("name_collision");
  });
  const pushes = (await account.requests()).filter(({ operation }) => /CreateSecret|UpdateSecret/.test(operation));
  expect(pushes).toHaveLength(1);
});

describe("names that two destinations own from before they had a common target", () => {
  let account: ProviderAccount;
  const body = () => ({ ...account.body, ...onePerSecret });
  /** As a version of the service left them that knew of no neighbours. */
  const forget = async (name: string) => {
    await alter(name, "UPDATE copies SET claimed = NULL");
    await alter(name, "UPDATE destination SET targets = NULL");
    await alter(name, "DELETE FROM neighbours");
    await syncControl(env).useTargets(name, []);
  };
  beforeEach(async () => {
    account = await openCloudA();
    await mountKv();
    await write("app", { key: "first" });
    await makeDestination("cloud-a-sm", "old", body());
    await setAssociation("cloud-a-sm/old", "app");
    await makeDestination("cloud-a-sm", "young", { ...body(), secret_name_template: "Y_{{ .SecretPath }}" });
    await setAssociation("cloud-a-sm/young", "app");
    for (const name of ["cloud-a-sm/old", "cloud-a-sm/young"]) await forget(name);
    await alter("cloud-a-sm/young", "UPDATE copies SET external_name = 'X_app', fold = 'X_app'");
    await alter("cloud-a-sm/young", "UPDATE namings SET template = 'X_{{ .SecretPath }}'");
    await alter("cloud-a-sm/young", "UPDATE destination SET created = created + 1");
    await runInDurableObject(env.SYNC_DESTINATION.getByName("cloud-a-sm/young"), (_, state) => state.abort()).catch(
      () => undefined,
    );
    await runInDurableObject(env.SYNC_DESTINATION.getByName("cloud-a-sm/old"), (_, state) => state.abort()).catch(
      () => undefined,
    );
  });

  it("stay with the older destination, and the younger one shows an error at the next change", async () => {
    // The older one is known to others from its first change or alarm on.
    await patch("/sys/sync/destinations/cloud-a-sm/old", { external_id: "known" });
    await write("app", { key: "second" });
    await eventually(async () => expect(await statusesAt("cloud-a-sm/old")).toEqual(["SYNCED"]));
    await eventually(async () => {
      const [view] = await viewsAt("cloud-a-sm/young");
      expect([view?.sync_status, view?.error_code]).toEqual(["CLIENT_SIDE_ERROR", "name_collision"]);
    });
    await removeAssociation("cloud-a-sm/young", "app");
    expect((await account.values())["X_app"]).toContain("second");
  });

  it("are refused to the younger destination when it checks first", async () => {
    await patch("/sys/sync/destinations/cloud-a-sm/old", { external_id: "known" });
    await patch("/sys/sync/destinations/cloud-a-sm/young", { secret_name_template: "X_{{ .SecretPath }}" });
    const refused = await setAssociation("cloud-a-sm/young", "app");
    expect(refused.text).toContain("is taken by the destination cloud-a-sm/old, which");
  });

  it("are lost by the younger destination at once when the older one checks", async () => {
    await patch("/sys/sync/destinations/cloud-a-sm/young", { external_id: "known" });
    expect((await setAssociation("cloud-a-sm/old", "app")).text).toContain("SYNCED");
    await eventually(async () => expect((await viewsAt("cloud-a-sm/young"))[0]?.error_code).toBe("name_collision"));
    expect((await account.values())["X_app"]).toContain("first");
  });

  it("are not removed with the younger association", async () => {
    await setAssociation("cloud-a-sm/old", "app");
    expect((await removeAssociation("cloud-a-sm/young", "app")).status).toBe(200);
    await eventually(async () => expect(await viewsAt("cloud-a-sm/young")).toEqual([]));
    expect((await account.values())["X_app"]).toContain("first");
  });

  it("go to one destination only when both claim them at the same moment", async () => {
    for (const name of ["old", "young"]) await removeAssociation(`cloud-a-sm/${name}`, "app");
    await patch("/sys/sync/destinations/cloud-a-sm/young", { secret_name_template: "X_{{ .SecretPath }}" });
    const answers = await Promise.all(["old", "young"].map((name) => setAssociation(`cloud-a-sm/${name}`, "app")));
    await eventually(async () => {
      const statuses = [...(await statusesAt("cloud-a-sm/old")), ...(await statusesAt("cloud-a-sm/young"))];
      expect(statuses.filter((status) => status === "SYNCED")).toHaveLength(1);
      expect(statuses).not.toContain("PENDING");
    });
    expect(answers.map(({ status }) => status)).toContain(200);
  });
});
