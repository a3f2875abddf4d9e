import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { clusterSecretsDestination } from "../../src/sync/destinations/cluster-secrets/adapter.ts";
import { type Account, type ClusterDouble, startCluster } from "../doubles/cluster-secrets/server.ts";
import { AdapterCalls, referenceOf } from "../support/adapter-calls.ts";

const settings = { SYNC_ALLOWED_HOSTS: "127.0.0.1" };
let double: ClusterDouble;
let account: Account;
let at: AdapterCalls<ReturnType<typeof clusterSecretsDestination.connection.parse>>;

beforeAll(async () => {
  double = await startCluster();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
  const body = { host: double.url, namespace: account.namespace, token: account.token };
  at = new AdapterCalls(clusterSecretsDestination, body, { settings });
});

const whole = (data: Readonly<Record<string, string>>) =>
  ({ value: JSON.stringify(data), data, contentType: "application/json" }) as const;
const texts = (name = "db") => {
  const { data } = account.secrets.view(name);
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]));
};

describe("reading for an import", () => {
  const context = () => ({ settings, send: sender({ deadlineMs: 5_000 }) });
  const connect = () =>
    clusterSecretsDestination.connection.parse({
      host: double.url,
      namespace: account.namespace,
      token: account.token,
    });
  const read = (name: string) => clusterSecretsDestination.reading?.read?.(name, connect(), context());

  it("lists page by page, and reads the keys of a Secret", async () => {
    for (let each = 0; each < 130; each++) account.secrets.replace(`s${each}`, { user: "u" });
    const first = await clusterSecretsDestination.reading?.list("", connect(), context());
    if (first?.outcome !== "ok" || first.next === null) throw new Error(JSON.stringify(first));
    const second = await clusterSecretsDestination.reading?.list(first.next, connect(), context());
    expect([first.names.length, second]).toEqual([100, { outcome: "ok", names: expect.any(Array), next: null }]);
    expect(await read("s1")).toEqual({ outcome: "ok", content: { value: '{"user":"u"}', data: { user: "u" } } });
    account.secrets.replace("one", { value: '{"a":1}' });
    expect(await read("one")).toMatchObject({ content: { data: { value: '{"a":1}' } } });
  });

  it("refuses a value that is no text, and needs the right to list", async () => {
    account.secrets.replace("blob", { bytes: "x" });
    const view = account.secrets.view.bind(account.secrets);
    account.secrets.view = (name) => ({ ...view(name), data: { bytes: "/w==" } });
    expect(await read("blob")).toMatchObject({ outcome: "client", code: "value_invalid" });
    account.denied.add("list");
    const listed = await clusterSecretsDestination.reading?.list("", connect(), context());
    expect(listed).toMatchObject({ outcome: "client", code: "permission_denied" });
  });
});

describe("a whole secret", () => {
  it("is a Secret with its keys, in one call", async () => {
    const put = await at.put("db", whole({ user: "app", password: 'p"\\\n\u{1F600}', empty: "" }));
    expect(referenceOf(put)).toMatch(/^[\da-f-]{36} \d+$/);
    expect(account.calls).toEqual(["PATCH secrets"]);
    expect(texts()).toEqual({ user: "app", password: 'p"\\\n\u{1F600}', empty: "" });
    expect(account.secrets.view("db")).toMatchObject({
      type: "Opaque",
      metadata: { labels: { "app.kubernetes.io/managed-by": "sallyport" } },
    });
  });

  it("loses a key that has left the secret, and keeps the keys of other managers", async () => {
    await at.put("db", whole({ user: "app", password: "1" }));
    account.secrets.add("db", "theirs", "x");
    await at.put("db", whole({ user: "app" }));
    expect(texts()).toEqual({ user: "app", theirs: "x" });
  });

  it("keeps the version of a Secret that a repeat does not change", async () => {
    const first = await at.put("db", whole({ user: "app" }));
    expect(await at.put("db", whole({ user: "app" }))).toEqual(first);
  });

  it.each([{ "": "x" }, { "a b": "x" }, { "..": "x" }, { é: "x" }])("refuses the keys %j", async (data) => {
    expect(await at.put("db", whole(data))).toMatchObject({ outcome: "client", code: "name_invalid" });
    expect(account.calls).toEqual([]);
  });

  it("is compared with its values, whatever else has changed", async () => {
    const desired = whole({ user: "app" });
    const reference = referenceOf(await at.put("db", desired));
    account.secrets.add("db", "theirs", "x");
    expect(await at.inspect("db", { reference })).toEqual({ outcome: "ok", state: "changed", owned: true });
    expect(await at.inspect("db", { reference, desired })).toEqual({ outcome: "ok", state: "unchanged", owned: true });
    account.secrets.replace("db", { user: "other" });
    expect(await at.inspect("db", { reference, desired })).toEqual({ outcome: "ok", state: "changed", owned: false });
    account.secrets.remove("db");
    expect(await at.inspect("db", { reference, desired })).toEqual({ outcome: "ok", state: "absent", owned: null });
  });
});

describe("policies", () => {
  it("owned-only writes over other managers of our own Secret only", async () => {
    await at.put("db", { ...whole({ user: "1" }), updatePolicy: "owned-only" });
    account.secrets.add("db", "user", "theirs");
    expect(await at.put("db", { ...whole({ user: "2" }), updatePolicy: "owned-only" })).toMatchObject({
      outcome: "ok",
    });
    expect(texts()).toEqual({ user: "2" });
    account.secrets.replace("foreign", { user: "theirs" });
    expect(await at.put("foreign", { ...whole({ user: "2" }), updatePolicy: "owned-only" })).toMatchObject({
      outcome: "client",
      code: "not_owned",
    });
    expect(texts("foreign")).toEqual({ user: "theirs" });
  });

  it("names the managers of a conflict, and quotes no value", async () => {
    const causes = [
      { reason: "FieldManagerConflict", message: 'conflict with "kubectl" using v1', field: ".data.password" },
      { reason: "FieldManagerConflict", message: 'conflict with "hunter2 hunter2" using v1', field: ".data.x" },
    ];
    const body = { kind: "Status", reason: "Conflict", message: "hunter2", details: { causes } };
    account.faults.push({ kind: "status", status: 409, body });
    const put = await at.put("db", { updatePolicy: "owned-only" });
    expect(put).toMatchObject({ outcome: "client", code: "not_owned", message: expect.stringContaining("kubectl") });
    expect(JSON.stringify(put)).not.toContain("hunter2");
  });
});

describe("remove", () => {
  it("gives up our keys of a Secret that others write, too", async () => {
    await at.put("db", whole({ user: "app", password: "1" }));
    account.secrets.add("db", "theirs", "x");
    expect(await at.remove("db", { ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(texts()).toEqual({ theirs: "x" });
    expect(account.secrets.view("db").metadata.labels).toEqual({});
    expect(await at.remove("db", { ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(texts()).toEqual({ theirs: "x" });
  });

  it("without the right to read namespaces takes a missing Secret as absent", async () => {
    account.readsNamespace = false;
    expect(await at.remove("db")).toEqual({ outcome: "ok" });
    expect(await at.with({ namespace: "missing" }).remove("db")).toEqual({ outcome: "ok" });
    account.readsNamespace = true;
    expect(await at.with({ namespace: "missing" }).remove("db")).toMatchObject({
      outcome: "client",
      code: "not_found",
    });
  });
});

describe("refusals", () => {
  const refusal = (status: number, reason: string, details: object, message = "x") => ({
    kind: "status" as const,
    status,
    body: { kind: "Status", status: "Failure", reason, message, details, code: status },
  });
  const immutable = {
    causes: [{ reason: "FieldValueForbidden", message: "field is immutable when `immutable` is set" }],
  };

  it.each([
    [refusal(403, "Forbidden", {}, "exceeded quota: count/secrets"), { outcome: "client", code: "quota_exceeded" }],
    [refusal(403, "Forbidden", { causes: [{ reason: "NamespaceTerminating" }] }), { code: "not_found" }],
    [refusal(404, "NotFound", { kind: "namespaces" }), { outcome: "client", code: "not_found" }],
    [refusal(422, "Invalid", immutable), { outcome: "client", code: "locked" }],
    [refusal(413, "RequestEntityTooLarge", {}), { outcome: "client", code: "value_too_large" }],
    [refusal(504, "Timeout", {}), { outcome: "external", code: "provider_unavailable", unsure: true }],
    [refusal(526, "", {}), { outcome: "client", code: "ca_untrusted" }],
    [{ kind: "cut" as const }, { outcome: "unknown", message: expect.stringContaining("certificate") }],
  ])("%j", async (fault, expected) => {
    account.faults.push(fault);
    expect(await at.put("db")).toMatchObject(expected);
  });

  it("refuses to change the type of a Secret", async () => {
    account.secrets.replace("db", { user: "x" });
    const tls = at.with({ secret_type: "kubernetes.io/tls" });
    expect(await tls.put("db", whole({ "tls.crt": "c", "tls.key": "k" }))).toMatchObject({ code: "wrong_type" });
  });

  it("says which verb the token lacks", async () => {
    account.denied.add("delete");
    expect(await at.probe()).toMatchObject({ code: "permission_denied", message: expect.stringContaining("delete") });
    account.denied.clear();
    expect(await at.probe()).toEqual({ outcome: "ok" });
  });
});

describe("identity tokens", () => {
  it("are the bearer token, signed once for many calls and again after a refusal", async () => {
    const claims = Buffer.from(JSON.stringify({ exp: Math.floor(Date.now() / 1000) + 3600 })).toString("base64url");
    let made = 0;
    const sign = async () => {
      const token = `header.${claims}.${made++}`;
      account.accepted.add(token);
      return token;
    };
    const identity = { issuer: "https://s.example.com", subject: "sync:x", audience: account.namespace, sign };
    const federated = at.with({ token: "", identity_token_audience: account.namespace }, { settings, identity });
    await federated.put("a");
    await federated.put("b");
    expect(made).toBe(1);
    account.accepted.clear();
    expect(await federated.put("c")).toMatchObject({ outcome: "ok" });
    expect(made).toBe(2);
  });
});

describe("the connection", () => {
  it.each([
    [{ ca_cert: "-----BEGIN CERTIFICATE-----" }, "public certificate"],
    [{ secret_type: "kubernetes.io/service-account-token" }, "must not be"],
    [{ token: "" }, "identity_token_audience"],
    [{ access_client_id: "a" }, "together"],
    [{ host: "https://a.example.com/path" }, "URL of a host alone"],
    [{ namespace: "-web" }, "lower-case"],
  ])("refuses %j", (changed, rule) => {
    const parsed = clusterSecretsDestination.connection.safeParse({ ...at.connection, ...changed });
    expect(JSON.stringify(parsed.error?.issues)).toContain(rule);
  });

  it("sends no token to a host that is not listed", async () => {
    expect(await at.with({}, { settings: {} }).put("db")).toMatchObject({ code: "host_not_allowed" });
    expect(account.calls).toEqual([]);
  });
});

it.each([
  ["vault-KV_1-app/db", "vault-kv-1-app-db"],
  ["-a-.-b.", "a.b"],
])("spells %s as %s", (name, expected) => {
  const { allowed, replacement, adapt } = clusterSecretsDestination.naming;
  const spelled = [...name].map((one) => (allowed.test(one) ? one : replacement)).join("");
  expect(adapt?.(spelled)).toBe(expected);
});
