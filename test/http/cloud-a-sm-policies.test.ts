import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { CloudAConnection } from "../../src/providers/cloud-a-aws/connection.ts";
import { failure } from "../../src/providers/outcome.ts";
import { cloudASm } from "../../src/sync/destinations/cloud-a-sm/adapter.ts";
import type { ExternalObject, Put } from "../../src/sync/destinations/destination-type.ts";
import { type CloudADouble, defaultKey, startCloudA } from "../doubles/cloud-a-sm/server.ts";
import { contextAt, keys, marker, objectOf } from "./cloud-a-driver.ts";

// Update policies, removal of owned objects, and the read-only calls inspect and probe.

const role = "arn:aws:iam::123456789012:role/sync";
let now = Date.now();
let double: CloudADouble;

beforeAll(async () => {
  const roles = [{ arn: role, externalId: "ext-1", trustedAccessKeyIds: [defaultKey.accessKeyId] }];
  double = await startCloudA({ now: () => now, nameHeldMs: 60_000, roles });
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  double.reset();
});

const name = "app/db";
const { value } = objectOf();
const put = (changed: Partial<ExternalObject>) => cloudASm.put(objectOf(changed), keys, contextAt(double.url));
const remove = (ownedOnly: boolean) =>
  cloudASm.remove({ name, reference: null, ownedOnly }, keys, contextAt(double.url));
const inspect = (reference: string | null = null) => cloudASm.inspect({ name, reference }, keys, contextAt(double.url));
const probe = (connection: CloudAConnection = keys) => cloudASm.probe(connection, contextAt(double.url));
const operations = () => double.requests().map(({ operation }) => operation);
const secret = () => double.secrets()[0];

/** Initial states of a push. `foreign` has no ownership tag, `owned` has one; `scheduled` is scheduled for deletion. */
const states = {
  absent: () => {},
  foreign: () => void createdBy("f", []),
  owned: () => void createdBy("o", [{ Key: "hashicorp:vault", Value: "" }]),
  "scheduled foreign": () => {
    states.foreign();
    double.call("DeleteSecret", { SecretId: name });
  },
  "scheduled owned": () => {
    states.owned();
    double.call("DeleteSecret", { SecretId: name });
  },
};
const createdBy = (letter: string, Tags: { Key: string; Value: string }[]) =>
  double.call("CreateSecret", { Name: name, SecretString: "theirs", ClientRequestToken: letter.repeat(32), Tags });
const denied = (operation: string, count = 1) =>
  double.fault({ fault: "error", type: "AccessDeniedException", operation, count });
const editedBySomebody = () =>
  double.call("UpdateSecret", { SecretId: name, SecretString: "edited", ClientRequestToken: "e".repeat(32) });

const written = { outcome: "ok", reference: expect.any(String) };
const left = { outcome: "ok", left: true };
const notOwned = { outcome: "client", code: "not_owned", message: expect.stringContaining("hashicorp:vault") };
const held = { outcome: "client", code: "name_held", message: expect.stringContaining("if-not-exists") };

describe("update policies", () => {
  const cases: [ExternalObject["updatePolicy"], keyof typeof states, object, string | null][] = [
    ["replace", "absent", written, value],
    ["replace", "foreign", written, value],
    ["replace", "owned", written, value],
    ["replace", "scheduled foreign", written, value],
    ["replace", "scheduled owned", written, value],
    ["if-not-exists", "absent", written, value],
    ["if-not-exists", "foreign", left, "theirs"],
    ["if-not-exists", "owned", left, "theirs"],
    ["if-not-exists", "scheduled foreign", held, "theirs"],
    ["if-not-exists", "scheduled owned", held, "theirs"],
    ["owned-only", "absent", written, value],
    ["owned-only", "foreign", notOwned, "theirs"],
    ["owned-only", "owned", written, value],
    ["owned-only", "scheduled foreign", notOwned, "theirs"],
    ["owned-only", "scheduled owned", written, value],
  ];
  const both = cases.flatMap((one) => [false, true].map((known) => [...one, known] as const));

  it.each(both)(
    "%s with a secret %s: %o, with the value %s afterwards (known to exist: %s)",
    async (updatePolicy, state, answer, left, known) => {
      states[state]();
      const before = structuredClone(secret());
      expect(await put({ updatePolicy, knownToExist: known })).toEqual(answer);
      expect(secret()?.value).toBe(left);
      if (left === "theirs") expect(secret()).toEqual(before);
      else expect(secret()).toMatchObject({ tags: marker, scheduledForDeletion: false });
    },
  );

  // If a request or its answer is lost, a repeated push has the result of an undisturbed one.
  it.each(both)("%s, %s: a repeat after a lost answer has the same result as without the loss", async (...given) => {
    const [updatePolicy, state, answer, left, knownToExist] = given;
    const push = () => put({ updatePolicy, knownToExist });
    states[state]();
    await push();
    const steps = [...new Set(operations())];
    for (const operation of steps) {
      for (const fault of ["drop", "apply-then-drop"] as const) {
        double.reset();
        states[state]();
        double.fault({ fault, operation });
        const first: Put = await push();
        // A lost read changes nothing, so its outcome is never "unknown".
        const lost = operation === "DescribeSecret" ? ["external", "ok"] : ["unknown"];
        expect(lost, `${operation}, ${fault}`).toContain(first.outcome);
        expect(await push(), `${operation}, ${fault}`).toEqual(answer);
        expect(secret()?.value).toBe(left);
        expect(double.secrets()).toHaveLength(1);
      }
    }
  });

  it("if-not-exists leaves a secret that was edited after the same push created it", async () => {
    const push = () => put({ updatePolicy: "if-not-exists", knownToExist: true });
    expect(await push()).toEqual(written);
    editedBySomebody();
    expect(await push()).toEqual(left);
    expect(secret()).toMatchObject({ value: "edited", versions: { length: 2 } });
  });

  it("if-not-exists uses the provider's answer without the permission to inspect", async () => {
    const push = () => put({ updatePolicy: "if-not-exists", knownToExist: true });
    denied("DescribeSecret", 3);
    expect(await push()).toEqual(written);
    expect(await push()).toEqual(written);
    expect(await put({ updatePolicy: "if-not-exists", idempotencyToken: "intent-2" })).toEqual(left);
    expect(secret()?.versions).toHaveLength(1);
  });

  it("if-not-exists retries later while a forced deletion blocks the name", async () => {
    states.owned();
    await remove(false);
    const waiting = { outcome: "external", code: "name_held", retryAfterMs: 10_000 };
    expect(await put({ updatePolicy: "if-not-exists" })).toMatchObject(waiting);
    expect(await put({ updatePolicy: "owned-only" })).toMatchObject(waiting);
    now += 60_001;
    expect(await put({ updatePolicy: "if-not-exists" })).toEqual(written);
  });

  it("if-not-exists retries later when the secret disappears between two reads", async () => {
    double.fault({ fault: "error", type: "ResourceExistsException", operation: "CreateSecret" });
    expect(await put({ updatePolicy: "if-not-exists" })).toMatchObject({ outcome: "external", code: "contended" });
  });

  it("owned-only inspects before every change, because the secret may have been replaced", async () => {
    states.foreign();
    expect(await put({ updatePolicy: "owned-only", knownToExist: true })).toEqual(notOwned);
    expect(operations()).toEqual(["DescribeSecret"]);
  });

  it("owned-only returns the missing permission, and still creates an absent secret", async () => {
    denied("DescribeSecret");
    expect(await put({ updatePolicy: "owned-only", knownToExist: true })).toEqual(written);
    denied("DescribeSecret", 2);
    expect(await put({ updatePolicy: "owned-only", knownToExist: true })).toMatchObject({
      outcome: "client",
      code: "permission_denied",
      message: expect.stringContaining("secretsmanager:DescribeSecret"),
    });
    expect(secret()?.versions).toHaveLength(1);
  });
});

describe("remove with ownedOnly", () => {
  it.each<[keyof typeof states, boolean]>([
    ["absent", true],
    ["foreign", false],
    ["owned", true],
    ["scheduled foreign", false],
    ["scheduled owned", true],
  ])("%s: ok, and absent afterwards: %s", async (state, gone) => {
    states[state]();
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(double.secrets()).toHaveLength(gone ? 0 : 1);
    expect(operations().includes("DeleteSecret")).toBe(gone && state !== "absent");
  });

  it("removes nothing without the permission to inspect", async () => {
    states.owned();
    denied("DescribeSecret");
    expect(await remove(true)).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(double.secrets()).toHaveLength(1);
  });
});

describe("inspect", () => {
  it.each<[keyof typeof states, object]>([
    ["absent", { state: "absent", owned: null }],
    ["scheduled owned", { state: "absent", owned: null }],
    ["foreign", { state: "present", owned: false }],
    ["owned", { state: "present", owned: true }],
  ])("%s is %o without a reference", async (state, seen) => {
    states[state]();
    expect(await inspect()).toEqual({ outcome: "ok", ...seen });
    expect(operations()).toEqual(["DescribeSecret"]);
  });

  it("distinguishes our last push, later writes and a removed marker", async () => {
    const pushed = await put({});
    const { reference = null } = pushed.outcome === "ok" ? pushed : {};
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "unchanged", owned: true });
    double.call("UntagResource", { SecretId: name, TagKeys: ["hashicorp:vault"] });
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "unchanged", owned: false });
    editedBySomebody();
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: false });
  });

  it("reports a secret without versions as changed", async () => {
    double.call("CreateSecret", { Name: name });
    expect(await inspect("r".repeat(64))).toEqual({ outcome: "ok", state: "changed", owned: false });
  });

  it("returns the missing permission, and never 'unknown'", async () => {
    denied("DescribeSecret");
    expect(await inspect()).toMatchObject({
      outcome: "client",
      code: "permission_denied",
      message: expect.stringContaining("secretsmanager:DescribeSecret"),
    });
    double.fault({ fault: "drop" });
    expect(await inspect()).toMatchObject({ outcome: "external", code: "network_error" });
    double.fault({ fault: "raw", status: 200, body: "<html>" });
    expect(await inspect()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    double.fault({ fault: "raw", status: 200, body: '{"Tags":"none"}' });
    expect(await inspect()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
  });
});

describe("probe", () => {
  const asRole: CloudAConnection = { ...keys, role_arn: role, external_id: "ext-1" };

  it("calls GetCallerIdentity and a secret that cannot exist, and changes nothing", async () => {
    expect(await probe()).toEqual({ outcome: "ok" });
    expect(double.requests()).toMatchObject([
      { service: "sts", operation: "GetCallerIdentity" },
      { operation: "DescribeSecret", subject: expect.stringMatching(/^sallyport\/probe\/[0-9a-f-]{36}$/) },
    ]);
    expect(double.secrets()).toEqual([]);
  });

  it("accepts write permission without read permission, tested with a secret that cannot exist", async () => {
    denied("DescribeSecret");
    expect(await cloudASm.probe(keys, contextAt(double.url), "vault/kv/app")).toEqual({ outcome: "ok" });
    expect(double.requests().slice(1)).toMatchObject([
      { operation: "DescribeSecret", subject: "vault/kv/app" },
      { operation: "UpdateSecret", subject: expect.stringMatching(/^vault\/kv\/app-[0-9a-f-]{36}$/), status: 400 },
    ]);
    expect(double.secrets()).toEqual([]);
  });

  it("fails for keys without any permission", async () => {
    for (const operation of ["DescribeSecret", "UpdateSecret"]) denied(operation);
    expect(await probe()).toEqual({
      outcome: "client",
      code: "rights_unproven",
      message: expect.stringContaining("have it only for secrets that carry the tag hashicorp:vault"),
    });
  });

  it("distinguishes a wrong clock from a wrong key, and a proxy's refusal from the service's", async () => {
    now += 30 * 60_000;
    expect(await probe()).toMatchObject({
      code: "auth_failed",
      message: expect.stringContaining("clock and ours differ"),
    });
    now = Date.now();
    const message = "Signature not yet current: 20260101T000000Z is still later than 20251231T233000Z";
    double.fault({ fault: "error", service: "sts", type: "SignatureDoesNotMatch", message, status: 403 });
    expect(await probe()).toMatchObject({
      code: "auth_failed",
      message: expect.stringContaining("clock and ours differ"),
    });
    const dated = { date: new Date(Date.now() - 10 * 60_000).toUTCString() };
    double.fault({ fault: "error", service: "sts", type: "SignatureDoesNotMatch", status: 403, headers: dated });
    expect(await probe()).toMatchObject({ message: expect.stringContaining("clock and ours differ") });
    double.fault({ fault: "error", service: "sts", type: "SignatureDoesNotMatch", status: 403 });
    expect(await probe()).toMatchObject({ message: expect.stringContaining("does not belong to the access key") });
    for (const service of ["sts", "secretsmanager"] as const) {
      double.fault({ fault: "raw", service, status: 403, body: "<html>Forbidden</html>" });
      const outcome = await probe();
      expect(outcome).toMatchObject({ outcome: "client", code: "permission_denied" });
      expect(outcome).toMatchObject({ message: expect.stringContaining("proxy or firewall") });
    }
  });

  it("assumes the role again, so that a cached session hides no error", async () => {
    expect(await probe(asRole)).toEqual({ outcome: "ok" });
    expect(await probe(asRole)).toEqual({ outcome: "ok" });
    const expected = ["AssumeRole", "GetCallerIdentity", "DescribeSecret"];
    expect(operations()).toEqual([...expected, ...expected]);
    double.fault({ fault: "error", type: "AccessDenied", status: 403, operation: "AssumeRole" });
    expect(await probe(asRole)).toMatchObject({ outcome: "client", code: "permission_denied" });
  });

  it.each<[string, CloudAConnection, string, string]>([
    ["an unknown key", { ...keys, access_key_id: "AKIANOBODY" }, "auth_failed", "access key or session is not known"],
    ["a wrong secret", { ...keys, secret_access_key: "x" }, "auth_failed", "does not belong to the access key"],
    ["another role", { ...asRole, role_arn: `${role}2` }, "permission_denied", "there is no such role"],
    ["another external id", { ...asRole, external_id: "ext-2" }, "permission_denied", "another external id"],
    ["no external id", { ...keys, role_arn: role }, "permission_denied", "another external id"],
    ["another region", { ...keys, region: "us-east-1" }, "auth_failed", ""],
    ["no keys", { region: "eu-west-1" }, "credentials_missing", "access_key_id and secret_access_key"],
    ["no region", { ...keys, region: "" }, "region_missing", "CLOUD_A_REGION"],
  ])("returns one sentence for %s", async (_what, connection, code, words) => {
    const message = expect.stringMatching(/^[^.]+\.$/);
    expect(await probe(connection)).toEqual({ outcome: "client", code, message });
    expect(await probe(connection)).toMatchObject({ message: expect.stringContaining(words) });
  });

  it("reports an unreachable service and an answer from another server", async () => {
    double.fault({ fault: "drop", service: "sts" });
    expect(await probe()).toMatchObject({ outcome: "external", code: "network_error" });
    double.fault({ fault: "raw", service: "sts", status: 200, body: "<html>captive portal</html>" });
    expect(await probe()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    double.fault({ fault: "error", service: "secretsmanager", type: "UnrecognizedClientException" });
    expect(await probe()).toMatchObject({ outcome: "client", code: "auth_failed" });
    double.fault({ fault: "error", service: "secretsmanager", type: "ThrottlingException" });
    expect(await probe()).toMatchObject({ outcome: "external", code: "throttled" });
  });
});

describe("a pause", () => {
  const paused = failure("external", "paused", "Syncing is paused.");

  it("is checked before each call, and its error is returned unchanged", async () => {
    const { settings, send } = contextAt(double.url);
    for (const updatePolicy of ["replace", "if-not-exists", "owned-only"] as const) {
      for (const state of Object.keys(states) as (keyof typeof states)[]) {
        for (let allowed = 0; ; allowed++) {
          double.reset();
          states[state]();
          let calls = 0;
          const context = {
            settings,
            send: async (request: Parameters<typeof send>[0]) =>
              calls++ < allowed ? send(request) : { ok: false as const, outcome: paused },
          };
          const outcome = await cloudASm.put(objectOf({ updatePolicy, knownToExist: true }), keys, context);
          expect(operations()).toHaveLength(Math.min(allowed, calls));
          if (calls <= allowed) break;
          expect(outcome).toEqual(paused);
        }
      }
    }
    const context = { settings, send: async () => ({ ok: false as const, outcome: paused }) };
    expect(await cloudASm.remove({ name, reference: null, ownedOnly: true }, keys, context)).toEqual(paused);
    expect(await cloudASm.inspect({ name, reference: null }, keys, context)).toEqual(paused);
    expect(await cloudASm.probe({ ...keys, role_arn: role }, context)).toEqual(paused);
  });
});
