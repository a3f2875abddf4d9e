import { beforeEach, describe, expect, it } from "vitest";
import { mountKv } from "./client.ts";
import { type ProviderAccount, providers } from "./sync-doubles.ts";
import { association, eventually, makeDestination, removeAssociation, setAssociation, write } from "./sync-helpers.ts";

describe.each(Object.keys(providers))("at %s", (type) => {
  let account: ProviderAccount;
  beforeEach(async () => {
    account = await (providers[type] as () => Promise<ProviderAccount>)();
    await mountKv();
    await makeDestination(type, "d", account.body);
  });

  // Proves: B.cloud-c-sm.credentials, B.repo-host.access_token, E.auth.2.repo-host-token
  it("a secret is pushed, follows its source, and is removed", async () => {
    await write("app", { user: "u1", pass: "p1" });
    const set = await setAssociation(`${type}/d`, "app");
    expect(set.status, set.text).toBe(200);
    const statuses = Object.values(set.body.data.associated_secrets as Record<string, { sync_status: string }>);
    expect(statuses.map((entry) => entry.sync_status)).toEqual(statuses.map(() => "SYNCED"));
    const joined = async () => Object.values(await account.values()).join(" ");
    expect(await joined()).toContain("p1");
    await write("app", { user: "u1", pass: "p2" });
    await eventually(async () => expect(await joined()).toContain("p2"));
    expect(await joined()).not.toContain("p1");
    await eventually(async () => expect((await association(`${type}/d`, "app"))?.["synced_version"]).toBe(2));
    const removed = await removeAssociation(`${type}/d`, "app");
    expect(removed.body.data.sync_operation_counters).toEqual({ UNSYNCED: statuses.length });
    expect(await account.values()).toEqual({});
  });
});
