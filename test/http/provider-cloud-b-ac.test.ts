import { afterAll, beforeEach, describe, expect, it } from "vitest";
import type { UpdatePolicy } from "../../src/contracts/sync-tasks.ts";
import { failure, type Send, sender } from "../../src/providers/outcome.ts";
import { cloudBAc } from "../../src/sync/destinations/cloud-b-ac/adapter.ts";
import type { Listing, RemoteDestinationType } from "../../src/sync/destinations/destination-type.ts";
import { idOf, type StoreAccount } from "../doubles/cloud-b-ac/server.ts";
import { type ConfigPlace, startStandIn } from "../doubles/cloud-b-ac/stand-in.ts";
import { startSharedCloudB } from "../doubles/cloud-b-kv/shared.ts";
import type { Place, StandIn } from "../doubles/stand-in.ts";
import { driverOf } from "../support/adapter-driver.ts";
import { contract } from "../support/destination-contract/cases.ts";
import { type RemoteType, Subject } from "../support/destination-contract/subject.ts";
import { objectOf } from "./cloud-a-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts), which pushes references. */

const cloudB = await startSharedCloudB();
const standIn = await startStandIn({ cloudB: async () => cloudB });
afterAll(() => standIn.close());

let place: ConfigPlace;
let account: StoreAccount;
beforeEach(async () => {
  place = await standIn.open();
  account = place.account;
});

const at = driverOf(
  cloudBAc,
  () => cloudB.double,
  () => ({ ...place.body }),
  () => ({ CLOUD_B_LOGIN_URL: cloudB.double.url }),
);
const item = (label: string | null = null, name = at.name) => account.items.get(idOf(name, label));
const tags = { "hashicorp:vault": "" };
const secrets = () => cloudB.double.secrets(String(place.body["tenant_id"])).filter(({ state }) => state === "active");

const noApplication = { key_vault_uri: "", tenant_id: "", client_id: "", client_secret: "" };

/** A store without a vault, by its access key. */
function plainPlace(given: ConfigPlace): Place {
  const { endpoint } = given.body;
  const { id, secret } = given.account.accessKey;
  const body = { endpoint, access_key_id: id, access_key_secret: secret, allow_plaintext: true };
  return {
    ...given,
    body,
    wrongCredentials: { ...body, access_key_secret: Buffer.from("wrong").toString("base64") },
    missing: { ...body, endpoint: given.missing["endpoint"] },
    objects: () => given.objects(),
  };
}

describe("values in the store, by an access key", () => {
  const type: RemoteType = {
    ...(cloudBAc as RemoteDestinationType<unknown>),
    // With the name "a", the marker and the media type, a key-value has 10 000 bytes.
    maxValueBytes: 10_000 - "a".length - "hashicorp:vault".length - "text/plain".length,
  };
  const open = async (): Promise<Place> => plainPlace(await standIn.open());
  for (const [part, cases] of Object.entries(contract)) {
    for (const { name, unless, run } of cases) {
      if (unless?.(type)) continue;
      it(`${part}: ${name}`, async () => run(await Subject.open(type, { ...standIn, open } satisfies StandIn)));
    }
  }
});

describe("put", () => {
  it("writes the reference after its secret, in each label, with secrets of their own", async () => {
    await at.put({ value: "one" });
    await at.put({ value: "two" }, { label: "prod" });
    const uris = [item(), item("prod")].map((one) => (JSON.parse(one?.value ?? "") as { uri: string }).uri);
    expect(new Set(uris).size).toBe(2);
    expect(secrets().map(({ value }) => value)).toEqual(["one", "two"]);
    expect(await at.remove({ label: "prod" })).toEqual({ outcome: "ok" });
    expect(secrets().map(({ value }) => value)).toEqual(["one"]);
  });

  it("keeps the tags of others, and removes those of earlier pushes", async () => {
    await at.put({ tags: { "hashicorp:vault": "", old: "1" } });
    account.set(at.name, null, { ...item(), tags: { ...item()?.tags, theirs: "x" } });
    const changed = { ...tags, fresh: "2" };
    await at.put({ knownToExist: true, tags: changed, previousTagKeys: ["hashicorp:vault", "old"] });
    expect(item()?.tags).toEqual({ ...changed, theirs: "x" });
  });

  it("loses no change between its read and its write", async () => {
    await at.put();
    let raced = 0;
    const racing: Send = (request) => {
      if (request[1].method === "PUT" && request[0].includes("/kv/") && raced++ === 0) {
        account.set(at.name, null, { ...item(), tags: { ...item()?.tags, theirs: "x" } });
      }
      return sender({ deadlineMs: 5000 })(request);
    };
    expect(await putBy(racing, { knownToExist: true })).toMatchObject({ outcome: "ok" });
    expect(item()?.tags).toMatchObject({ theirs: "x" });
    expect(raced).toBe(2);
  });

  it.each(["if-not-exists", "owned-only"] as const)(
    "leaves nothing of its own when another writer creates the key-value first, by %s",
    async (updatePolicy) => {
      const racing: Send = (request) => {
        if (request[1].method === "PUT" && request[0].includes("/kv/")) account.set(at.name, null, { value: "theirs" });
        return sender({ deadlineMs: 5000 })(request);
      };
      const put = await putBy(racing, { updatePolicy });
      expect(put).toMatchObject(updatePolicy === "owned-only" ? { code: "not_owned" } : { outcome: "ok", left: true });
      expect(item()?.value).toBe("theirs");
      expect(secrets()).toEqual([]);
    },
  );

  it("gives up while another writer changes the key-value each time", async () => {
    const racing: Send = (request) => {
      if (request[1].method === "PUT" && request[0].includes("/kv/")) account.set(at.name, null, { value: "theirs" });
      return sender({ deadlineMs: 5000 })(request);
    };
    expect(await putBy(racing)).toMatchObject({ outcome: "external", code: "contended" });
    expect(item()?.value).toBe("theirs");
  });

  it("reports a locked key-value and a full store as the user's to mend", async () => {
    account.set(at.name, null, { value: "theirs", locked: true });
    expect(await at.put()).toMatchObject({ outcome: "client", code: "locked" });
    expect(await at.remove()).toMatchObject({ outcome: "client", code: "locked" });
    account.items.clear();
    account.isFull = true;
    expect(await at.put()).toMatchObject({ outcome: "client", code: "quota_exceeded" });
  });

  it.each(["throttled", "unavailable"] as const)("waits as long as the store asks for when it is %s", async (fault) => {
    place.fail(fault, 1);
    expect(await at.put({}, { ...plainPlace(place).body, ...noApplication })).toMatchObject({ retryAfterMs: 787 });
  });

  it("sends the newest sync token back", async () => {
    const sent: string[] = [];
    await putBy((request) => {
      sent.push(new Headers(request[1].headers).get("sync-token") ?? "");
      return sender({ deadlineMs: 5000 })(request);
    });
    account.set(at.name, null, { ...item(), value: "x" });
    await putBy(
      async (request) => {
        if (request[0].includes("/kv/")) sent.push(new Headers(request[1].headers).get("sync-token") ?? "");
        return sender({ deadlineMs: 5000 })(request);
      },
      { knownToExist: true },
    );
    expect(sent.at(-1)).toMatch(/^zAJw6V16=[\w=]+$/);
    expect(sent.at(-2)).toBe("");
  });
});

/** Pushes through another network. */
const putBy = (send: Send, object: Parameters<typeof at.put>[0] = {}) => {
  const connection = cloudBAc.connection.parse(place.body);
  const settings = { SYNC_ALLOWED_HOSTS: "127.0.0.1", CLOUD_B_LOGIN_URL: cloudB.double.url };
  return cloudBAc.put(objectOf({ name: at.name, value: "hunter2-hunter2", tags, ...object }), connection, {
    settings,
    send,
  });
};

/** The n-th call of an operation is cut, before or after its effect. */
const cutting = (n: number, isAfter: boolean): Send => {
  let calls = 0;
  return async (request) => {
    const isCut = ++calls === n;
    if (isCut && !isAfter) return { ok: false, outcome: failure("unknown", "network_error", "Cut.") };
    const answer = await sender({ deadlineMs: 5000 })(request);
    return isCut ? { ok: false, outcome: failure("unknown", "network_error", "Cut.") } : answer;
  };
};

describe("an operation that is cut at any call", () => {
  const policies: readonly UpdatePolicy[] = ["replace", "if-not-exists", "owned-only"];
  const cuts = [1, 2, 3, 4, 5].flatMap((n) => [false, true].map((isAfter) => [n, isAfter] as const));
  it.each(policies.flatMap((policy) => cuts.map(([n, isAfter]) => [policy, n, isAfter] as const)))(
    "creates by %s, cut at call %i, after its effect: %s",
    async (updatePolicy, n, isAfter) => {
      const first = await putBy(cutting(n, isAfter), { updatePolicy });
      if (first.outcome !== "ok") {
        const unsure = first.outcome === "unknown" ? { unsureSince: Date.now() - 1000 } : {};
        expect(await putBy(sender({ deadlineMs: 5000 }), { updatePolicy, ...unsure })).toMatchObject({ outcome: "ok" });
      }
      expect([...place.objects()].map(([name, { value, owned }]) => [name, value, owned])).toEqual([
        [at.name, "hunter2-hunter2", true],
      ]);
      expect(secrets()).toHaveLength(1);
    },
  );

  it.each(cuts)("removes, cut at call %i, after its effect: %s", async (n, isAfter) => {
    await at.put({ tags });
    const connection = cloudBAc.connection.parse(place.body);
    const settings = { SYNC_ALLOWED_HOSTS: "127.0.0.1", CLOUD_B_LOGIN_URL: cloudB.double.url };
    const object = { name: at.name, reference: null, ownedOnly: true };
    let done = await cloudBAc.remove(object, connection, { settings, send: cutting(n, isAfter) });
    for (let repeats = 0; done.outcome !== "ok" && repeats < 3; repeats++) {
      done = await cloudBAc.remove(object, connection, { settings, send: sender({ deadlineMs: 5000 }) });
    }
    expect(done).toEqual({ outcome: "ok" });
    expect(account.items.size).toBe(0);
    expect(secrets()).toEqual([]);
  });
});

describe("inspect", () => {
  it("finds a change of the secret behind an unchanged reference", async () => {
    const put = await at.put({ tags });
    const reference = put.outcome === "ok" ? (put.reference ?? null) : null;
    expect(await at.inspect(reference)).toMatchObject({ state: "unchanged", owned: true });
    const [secret] = secrets();
    cloudB.nextSecond();
    const change = { name: secret?.name ?? "", body: { value: "theirs" } };
    cloudB.double.call("SetSecret", change, String(place.body["tenant_id"]));
    expect(await at.inspect(reference)).toMatchObject({ state: "changed", owned: true });
  });
});

describe("reading", () => {
  const settings = () => ({ SYNC_ALLOWED_HOSTS: "127.0.0.1", CLOUD_B_LOGIN_URL: cloudB.double.url });
  const context = () => ({ settings: settings(), send: sender({ deadlineMs: 5000 }) });
  const connection = (changed = {}) => cloudBAc.connection.parse({ ...place.body, ...changed });

  it("lists the keys of the label, page by page", async () => {
    for (let n = 0; n < 230; n++) account.set(`k${n}`, "prod", { value: "v" });
    account.set("other", null, { value: "v" });
    const names: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Listing | undefined = await cloudBAc.reading?.list(cursor, connection({ label: "prod" }), context());
      if (page?.outcome !== "ok") throw new Error(page?.code);
      names.push(...page.names);
      cursor = page.next;
    }
    expect(new Set(names).size).toBe(230);
    expect(await cloudBAc.reading?.list("", connection(), context())).toMatchObject({ names: ["other"], next: null });
  });

  it("refuses references to other vaults, and finds none behind one without a secret", async () => {
    const content_type = "application/vnd.microsoft.appconfig.keyvaultref+json;charset=utf-8";
    const refer = (uri: string) => account.set("k", null, { value: JSON.stringify({ uri }), content_type });
    refer("https://other.vault.azure.net/secrets/s");
    expect(await cloudBAc.reading?.read?.("k", connection(), context())).toMatchObject({ code: "foreign_vault" });
    refer(`${place.body["key_vault_uri"]}/secrets/absent`);
    expect(await cloudBAc.reading?.read?.("k", connection(), context())).toEqual({ outcome: "ok", content: null });
  });
});

describe("the connection", () => {
  const withoutVault = { key_vault_uri: "", allow_plaintext: true };
  const accessKey = { access_key_id: "id", access_key_secret: "c2VjcmV0" };
  it.each([
    [{ endpoint: "" }, "endpoint"],
    [{ endpoint: "https://a.azconfig.io/kv" }, "endpoint"],
    [{ key_vault_uri: "" }, "key_vault_uri"],
    [{ allow_plaintext: true }, "allow_plaintext"],
    [{ ...withoutVault, pin_version: true }, "pin_version"],
    [{ client_secret: "" }, "client_secret"],
    [{ tenant_id: "" }, "tenant_id"],
    [{ identity_token_audience: "api://x" }, "identity_token_audience"],
    [{ access_key_id: "id" }, "access_key_secret"],
    [{ access_key_secret: "c2VjcmV0" }, "access_key_id"],
    [{ ...withoutVault, ...accessKey }, "client_secret"],
    [{ ...accessKey, client_id: "" }, "client_id"],
    [{ label: "a*" }, "label"],
    [{ cloud: "AzureGermanCloud" }, "cloud"],
  ])("refuses %j", (changed, field) => expect(at.refused(changed)).toContain(field));

  it.each([
    [{ endpoint: "https://acme-web.azconfig.io" }, null],
    [{ endpoint: "https://acme-web.azconfig.azure.us", cloud: "AzureUSGovernmentCloud" }, null],
    [{ endpoint: "https://acme-web.azconfig.azure.us" }, "endpoint: the host must be a store of AzurePublicCloud"],
    [{ endpoint: "https://acme-web.azconfig.io.example.com" }, "endpoint: the host must be a store"],
    [{ endpoint: "http://acme.azconfig.io" }, "endpoint: must begin with https://"],
    [
      { endpoint: "https://acme-web.azconfig.io", key_vault_uri: "https://vault.example.com" },
      "key_vault_uri: the host must be a vault",
    ],
  ])("checks the hosts of %j", (changed, refusal) => {
    const cloud = "cloud" in changed ? "vault.usgovcloudapi.net" : "vault.azure.net";
    const body = { ...place.body, key_vault_uri: `https://acme.${cloud}`, ...changed };
    const refused = cloudBAc.checkSettings?.(cloudBAc.connection.parse(body), {}) ?? null;
    if (refusal === null) expect(refused).toBeNull();
    else expect(refused).toContain(refusal);
  });
});
