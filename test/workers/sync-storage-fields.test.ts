import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import type { SecretView } from "../doubles/cloud-c-sm/store.ts";
import { get, mountKv, put } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { openCloudC, type ProviderAccount } from "./sync-doubles.ts";
import {
  association,
  cloudABody,
  eventually,
  makeDestination,
  removeAssociation,
  setAssociation,
  write,
} from "./sync-helpers.ts";

/* Encryption keys and replicas of the objects of cloud-a-sm and cloud-c-sm. */

const AT = "/v1/sys/sync/destinations";
const refusal = async (answer: ReturnType<typeof put>) => {
  const { status, body } = await answer;
  return [status, body.errors?.[0]];
};

describe("kms_key_id and replica_regions of cloud-a-sm", () => {
  const KEY = "arn:aws:kms:eu-west-1:123456789012:key/1";
  const DE = "arn:aws:kms:eu-central-1:123456789012:key/2";
  const secret = async () => {
    const [found] = await cloudA.secrets();
    return found && { key: found.kmsKeyId, replicas: found.replicas };
  };
  /** Sets the secret, and waits for a status: a changed destination may be at work on it already. */
  const set = async (status = "SYNCED") => {
    await setAssociation("cloud-a-sm/d", "app");
    await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe(status));
  };

  beforeEach(async () => {
    await cloudA.begin();
    await mountKv();
    await write("app", { a: "1" });
  });

  it("apply to new objects, and are shown", async () => {
    const fields = { kms_key_id: KEY, replica_regions: { "eu-central-1": DE, "eu-north-1": "" } };
    const { connection_details: shown } = (await makeDestination("cloud-a-sm", "d", cloudABody(fields))).body.data;
    expect(shown).toMatchObject(fields);
    await set();
    expect(await secret()).toEqual({ key: KEY, replicas: { "eu-central-1": DE, "eu-north-1": null } });
    expect((await get(`${AT}/cloud-a-sm/d/drift`)).body.data.counters).toEqual({ in_sync: 1 });
  });

  it("follow a change of the destination with the next set, and spare replicas of others", async () => {
    await makeDestination("cloud-a-sm", "d", cloudABody({ replica_regions: ["eu-central-1="] }));
    await set();
    const [{ name = "" } = {}] = await cloudA.secrets();
    await cloudA.call("ReplicateSecretToRegions", { SecretId: name, AddReplicaRegions: [{ Region: "us-east-1" }] });
    await put(`${AT}/cloud-a-sm/d`, { kms_key_id: KEY, replica_regions: { "eu-west-3": "", "eu-north-1": "" } });
    await set();
    expect(await secret()).toEqual({
      key: KEY,
      replicas: { "us-east-1": null, "eu-west-3": null, "eu-north-1": null },
    });
    await put(`${AT}/cloud-a-sm/d`, {
      replica_regions: { "eu-west-3": "", "eu-north-1": `${DE.replace("central", "north")}` },
    });
    await set();
    expect((await secret())?.replicas["eu-north-1"]).toBe(DE.replace("central", "north"));
    await put(`${AT}/cloud-a-sm/d`, { replica_regions: {} });
    await set();
    expect((await secret())?.replicas).toEqual({ "us-east-1": null });
  });

  it("let objects be removed with their replicas, also those that others added", async () => {
    await makeDestination("cloud-a-sm", "d", cloudABody({ replica_regions: { "eu-central-1": "" } }));
    await set();
    await removeAssociation("cloud-a-sm/d", "app");
    expect(await cloudA.secrets()).toEqual([]);
    await put(`${AT}/cloud-a-sm/d`, { replica_regions: {} });
    await write("other", { a: "1" });
    await setAssociation("cloud-a-sm/d", "other");
    const [{ name = "" } = {}] = await cloudA.secrets();
    await cloudA.call("ReplicateSecretToRegions", { SecretId: name, AddReplicaRegions: [{ Region: "us-east-1" }] });
    await removeAssociation("cloud-a-sm/d", "other");
    expect(await cloudA.secrets()).toEqual([]);
  });

  it("fail the push when replicas are denied, and a later one completes them", async () => {
    await makeDestination("cloud-a-sm", "d", cloudABody());
    await set();
    await put(`${AT}/cloud-a-sm/d`, { replica_regions: { "eu-central-1": "" } });
    await cloudA.fault({
      operation: "ReplicateSecretToRegions",
      fault: "error",
      type: "AccessDeniedException",
      count: 9,
    });
    await set("CLIENT_SIDE_ERROR");
    expect((await association("cloud-a-sm/d", "app"))?.["error_code"]).toBe("permission_denied");
    await cloudA.clearFaults();
    await set();
    expect((await secret())?.replicas).toEqual({ "eu-central-1": null });
  });

  it.each([
    [{ kms_key_id: "a key" }, /kms_key_id: must be an encryption key's ARN, id or alias/],
    [{ kms_key_id: DE }, /kms_key_id: must be a key of the destination's region/],
    [{ replica_regions: { "eu-west-1": "" } }, /replica_regions: must not name the destination's own region/],
    [{ replica_regions: { paris: "" } }, /replica_regions: must name regions/],
    [{ replica_regions: { "eu-north-1": DE } }, /replica_regions: each key must be one of its own region/],
    [{ replica_regions: 5 }, /replica_regions/],
  ])("refuse %j", async (fields, rule) => {
    expect(await refusal(put(`${AT}/cloud-a-sm/d`, cloudABody(fields)))).toEqual([400, expect.stringMatching(rule)]);
  });
});

describe("encryption keys and replicas of cloud-c-sm", () => {
  const keyIn = (location: string) => `projects/acme/locations/${location}/keyRings/ring/cryptoKeys/key`;
  let account: ProviderAccount;
  beforeEach(async () => {
    account = await openCloudC();
    await mountKv();
    await write("app", { a: "1" });
  });
  const replication = async () => {
    const { project_id: project } = JSON.parse(String(account.body["credentials"]));
    const answer = await fetch(`${env.TEST_DOUBLES.cloudC}/_double/secrets?account=${project}`);
    return ((await answer.json()) as SecretView[])[0]?.replication;
  };
  const encryption = (location: string) => ({ customerManagedEncryption: { kmsKeyName: keyIn(location) } });

  it.each([
    [{}, { automatic: {} }],
    [{ kms_key_id: keyIn("global") }, { automatic: encryption("global") }],
    [{ global_kms_key: keyIn("global") }, { automatic: encryption("global") }],
    [
      { replica_regions: { "europe-west1": "", "europe-west4": "" } },
      { userManaged: { replicas: [{ location: "europe-west1" }, { location: "europe-west4" }] } },
    ],
    [
      { replica_regions: { "europe-west1": keyIn("europe-west1") } },
      { userManaged: { replicas: [{ location: "europe-west1", ...encryption("europe-west1") }] } },
    ],
    [
      { replication_locations: "europe-west1,europe-west4" },
      { userManaged: { replicas: [{ location: "europe-west1" }, { location: "europe-west4" }] } },
    ],
    [
      { replication_locations: ["europe-west1"], locational_kms_keys: { "europe-west1": keyIn("europe-west1") } },
      { userManaged: { replicas: [{ location: "europe-west1", ...encryption("europe-west1") }] } },
    ],
  ])("%j become the replication %j", async (fields, expected) => {
    await makeDestination("cloud-c-sm", "d", { ...account.body, ...fields });
    await setAssociation("cloud-c-sm/d", "app");
    expect((await association("cloud-c-sm/d", "app"))?.sync_status).toBe("SYNCED");
    expect(await replication()).toEqual(expected);
  });

  it.each([
    [{ kms_key_id: keyIn("europe-west1") }, "kms_key_id: must be a key of the location global"],
    [{ kms_key_id: "key" }, "kms_key_id: must look like projects/"],
    [
      { kms_key_id: keyIn("global"), replica_regions: { a: "" } },
      "replica_regions: cannot be set together with kms_key_id",
    ],
    [{ kms_key_id: keyIn("global"), global_kms_key: keyIn("global") }, "global_kms_key: cannot be set together"],
    [{ replica_regions: { a: "", b: keyIn("b") } }, "replica_regions: must have a key for each location, or for none"],
    [{ replica_regions: { a: keyIn("b") } }, "in its own location"],
    [{ replication_locations: ["a", "b"], locational_kms_keys: { a: keyIn("a") } }, "must have a key for each of"],
    [{ global_kms_key: keyIn("global"), replication_locations: ["a"] }, "global_kms_key: cannot be set together"],
  ])("%j is refused", async (fields, rule) => {
    const given = await refusal(put(`${AT}/cloud-c-sm/d`, { ...account.body, ...fields }));
    expect(given).toEqual([400, expect.stringContaining(rule)]);
  });

  it("cannot change, because the provider keeps the replication of a secret", async () => {
    await makeDestination("cloud-c-sm", "d", { ...account.body, replica_regions: { "europe-west1": "" } });
    const changed = await refusal(put(`${AT}/cloud-c-sm/d`, { replica_regions: { "europe-west4": "" } }));
    expect(changed).toEqual([400, 'field "replica_regions" cannot be updated']);
  });
});

describe("networking fields", () => {
  const at = `${AT}/cloud-a-sm/d`;
  const verify = async () => (await put(`${at}/verify`, {})).body.data;
  beforeEach(async () => {
    await cloudA.begin();
    await mountKv();
  });

  it("are options that merge, end with an empty value, and appear only when set", async () => {
    const none = (await makeDestination("cloud-a-sm", "d")).body.data.options;
    expect(Object.keys(none).filter((name) => /allowed|strict/.test(name))).toEqual([]);
    const fields = {
      allowed_ipv4_addresses: ["127.0.0.0/8", "127.0.0.0/8"],
      allowed_ipv6_addresses: "::1/128,2001:db8::/32",
      allowed_ports: ["443", 8200, 443],
    };
    expect((await put(at, fields)).body.data.options).toMatchObject({
      allowed_ipv4_addresses: ["127.0.0.0/8"],
      allowed_ipv6_addresses: ["::1/128", "2001:db8::/32"],
      allowed_ports: [443, 8200],
    });
    await put(at, { disable_strict_networking: "true", allowed_ports: [] });
    const { options } = (await get(at)).body.data;
    expect(options).toMatchObject({ disable_strict_networking: true, allowed_ipv4_addresses: ["127.0.0.0/8"] });
    expect(options).not.toHaveProperty("allowed_ports");
    await put(at, { disable_strict_networking: false });
    expect((await get(at)).body.data.options).not.toHaveProperty("disable_strict_networking");
  });

  it("restrict every call of the destination", async () => {
    await makeDestination("cloud-a-sm", "d", cloudABody({ allowed_ipv4_addresses: "10.0.0.0/8" }));
    const blocked = { ok: false, error_code: "network_blocked" };
    expect(await verify()).toEqual({
      ...blocked,
      message: "127.0.0.1 has the address 127.0.0.1, which allowed_ipv4_addresses does not contain.",
    });
    await write("app", { a: "1" });
    await setAssociation("cloud-a-sm/d", "app");
    expect(await association("cloud-a-sm/d", "app")).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "network_blocked",
    });
    expect(await cloudA.requests()).toEqual([]);
    await put(at, { allowed_ipv4_addresses: "127.0.0.0/8", allowed_ports: "443" });
    expect(await verify()).toMatchObject(blocked);
    await put(at, { allowed_ports: [Number(new URL(env.TEST_CLOUD_A.url).port)] });
    expect(await verify()).toMatchObject({ ok: true });
    await put(at, { allowed_ports: 443, disable_strict_networking: true });
    expect(await verify()).toMatchObject({ ok: true });
  });

  it.each([
    [{ allowed_ipv4_addresses: "10.0.0.1" }, "allowed_ipv4_addresses: invalid CIDR address: 10.0.0.1"],
    [{ allowed_ipv4_addresses: ["2001:db8::/32"] }, "allowed_ipv4_addresses: invalid CIDR address: 2001:db8::/32"],
    [{ allowed_ipv4_addresses: "10.0.0.0/33" }, "invalid CIDR address"],
    [{ allowed_ipv6_addresses: "10.0.0.0/8" }, "allowed_ipv6_addresses: invalid CIDR address: 10.0.0.0/8"],
    [{ allowed_ports: [70_000] }, "allowed_ports: invalid port"],
    [{ allowed_ports: -1 }, "allowed_ports: invalid port"],
    [{ allowed_ports: { a: 1 } }, "allowed_ports: must be a list of ports"],
    [{ disable_strict_networking: "maybe" }, "disable_strict_networking"],
  ])("%j is refused", async (fields, rule) => {
    for (const type of ["in-mem", "cloud-a-sm"]) {
      const body = type === "in-mem" ? fields : cloudABody(fields);
      expect(await refusal(put(`${AT}/${type}/d`, body))).toEqual([400, expect.stringContaining(rule)]);
    }
  });
});
