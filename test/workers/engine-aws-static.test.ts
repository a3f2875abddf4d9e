import { beforeEach, describe, expect, it, vi } from "vitest";
import { part } from "../support/long.ts";
import { type AwsAccount, mountAws, openAwsAccount } from "./aws-helpers.ts";
import { del, get, list, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import { byItself, rows, skippingWaits, succeeded } from "./engine-helpers.ts";

clock.moves = true;

/** Static roles of AWS: keys of users that others have made, which the engine replaces on time. */

let account: AwsAccount;
let uuid: string;

const newUser = (UserName: string) => account.call({ action: "CreateUser", parameters: { UserName } });
const newKey = (UserName: string) => account.call({ action: "CreateAccessKey", parameters: { UserName } });
const write = (name: string, body: Record<string, unknown>) => put(`/v1/aws/static-roles/${name}`, body);
/** The same, without the waits for the provider to accept a new key. */
const writeSoon = (body: Record<string, unknown>) => skippingWaits(() => write("app", body));
const creds = async (name = "app") => succeeded(await get(`/v1/aws/static-creds/${name}`)).body.data;
const keysOf = async (user = "worker") =>
  (await account.everything()).find(({ name }) => name === user)?.keys ?? "no user";
const noJobs = async () => expect(await rows(uuid, "jobs")).toEqual([]);
const BODY = { username: "worker", rotation_period: 3_600 };

beforeEach(async () => {
  account = await openAwsAccount();
  uuid = await mountAws(account);
  await newUser("worker");
});

describe("static-roles/:name", () => {
  it("answers the role of a write and of a read, and lists and deletes it with its keys, but not its user", async () => {
    const written = await write("app", BODY);
    const role = {
      name: "app",
      id: expect.stringMatching(/^AIDA/),
      username: "worker",
      rotation_period: 3_600,
      assume_role_arn: "",
      assume_role_session_name: "",
      external_id: "",
      adopt_oldest_key: false,
    };
    expect([written.status, written.body.data]).toEqual([200, role]);
    expect((await get("/v1/aws/static-roles/app")).body.data).toEqual(role);
    expect((await list("/v1/aws/static-roles")).body.data.keys).toEqual(["app"]);
    expect((await list("/v1/aws/roles")).status).toBe(404);
    expect(await keysOf()).toEqual([(await creds()).access_key]);
    expect((await del("/v1/aws/static-roles/app")).status).toBe(204);
    await byItself(uuid, noJobs);
    expect(await keysOf()).toEqual([]);
    for (const path of ["static-roles/app", "static-creds/app", "static-roles?list=true"]) {
      expect((await get(`/v1/aws/${path}`)).status, path).toBe(404);
    }
    expect((await del("/v1/aws/static-roles/app")).status).toBe(204);
  });

  it("is deleted with a warning that names its keys while they cannot be removed", async () => {
    succeeded(await write("app", BODY));
    await account.fault({ operation: "DeleteAccessKey", fault: "error", code: "AccessDenied", status: 403 });
    const deleted = await del("/v1/aws/static-roles/app");
    expect([deleted.status, deleted.body.warnings]).toEqual([
      200,
      [expect.stringMatching(/^the role is deleted; removing its keys is tried again until it succeeds: AccessDenied/)],
    ]);
    await byItself(uuid, noJobs);
    expect(await keysOf()).toEqual([]);
  });

  it("refuses a body in upstream's words, and makes no key for it", async () => {
    const arn = account.role_arn;
    const table: readonly (readonly [body: Record<string, unknown>, error: string])[] = [
      [{ rotation_period: 60 }, 'missing "username" parameter'],
      [{ username: "worker" }, 'missing "rotation_period" parameter'],
      [
        { username: "worker", rotation_period: "59s" },
        "role rotation period out of range: must be greater than 60.00 seconds",
      ],
      [{ username: "a b", rotation_period: 60 }, "username: must be the name of an IAM user"],
      [
        { ...BODY, assume_role_arn: arn },
        "assume_role_arn: must be set together with assume_role_session_name, or neither",
      ],
      [{ ...BODY, external_id: "x1" }, "external_id: needs assume_role_arn"],
      [
        { ...BODY, assume_role_arn: "moon", assume_role_session_name: "s1" },
        "assume_role_arn: must be the ARN of a role",
      ],
    ];
    for (const [body, error] of table) {
      const { status, body: answer } = await write("app", body);
      expect([status, answer.errors], error).toEqual([400, [error]]);
    }
    const missing = await write("app", { ...BODY, username: "nobody" });
    expect([missing.status, missing.body.errors?.[0]]).toEqual([
      400,
      expect.stringMatching(/^unable to validate username "nobody": NoSuchEntity: /),
    ]);
    const own = await write("app", { ...BODY, username: "sallyport" });
    expect([own.status, own.body.errors?.[0]]).toEqual([400, expect.stringContaining("engine itself acts as")]);
    expect([await keysOf(), (await get("/v1/aws/static-roles/app")).status]).toEqual([[], 404]);
    await noJobs();
  });

  it("gives a user to one role, and keeps its key when the period changes", async () => {
    succeeded(await write("app", BODY));
    const { access_key, ttl } = await creds();
    expect((await write("other", BODY)).body.errors).toEqual(['username: the static role "app" has this user']);
    succeeded(await write("app", { rotation_period: "2h" }));
    const changed = await creds();
    expect(changed).toMatchObject({ access_key, rotation_period: 7_200 });
    // Of 3 600 s and 7 200 s, on a machine that may be busy.
    expect([ttl, changed.ttl].map((seconds) => Math.ceil(seconds / 60))).toEqual([60, 120]);
  });

  it("refuses a later user of the same name", async () => {
    succeeded(await write("app", BODY));
    const { access_key } = await creds();
    await account.call({ action: "DeleteAccessKey", parameters: { UserName: "worker", AccessKeyId: access_key } });
    await account.call({ action: "DeleteUser", parameters: { UserName: "worker" } });
    await newUser("worker");
    expect((await write("app", { rotation_period: 60 })).body.errors).toEqual([
      'unable to validate username "worker": AWS GetUser returned a user, but the ID did not match',
    ]);
  });

  it("manages a user in another account by the role that it assumes", async () => {
    const role = { assume_role_arn: account.guarded_role_arn, assume_role_session_name: "keys" };
    expect((await write("app", { ...BODY, ...role })).body.errors?.[0]).toContain("AccessDenied");
    const written = succeeded(await write("app", { ...BODY, ...role, external_id: "outside" }));
    expect(written.body.data).toMatchObject({ ...role, external_id: "outside" });
    const calls = (await account.requests()).filter(({ operation }) => /AccessKey|GetUser/.test(operation));
    expect(calls.map(({ accessKeyId }) => accessKeyId.slice(0, 4))).toEqual(["ASIA", "ASIA", "ASIA"]);
    expect(await keysOf()).toEqual([(await creds()).access_key]);
    succeeded(await del("/v1/aws/static-roles/app"));
    await byItself(uuid, noJobs);
    expect(await keysOf()).toEqual([]);
  });
});

describe("the rotation of a static role", () => {
  it("answers one key to every reader, and replaces it on time; the one before works for one more period", async () => {
    succeeded(await write("app", { ...BODY, rotation_period: 600 }));
    const first = await creds();
    expect(first).toMatchObject({
      secret_key: expect.any(String),
      ttl: 600,
      rotation_period: 600,
      expiration: expect.stringMatching(/^\d{4}-.*Z$/),
      last_vault_rotation: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect((await creds()).access_key).toBe(first.access_key);
    const seen = [first.access_key];
    await byItself(
      uuid,
      async () => {
        const { access_key } = await creds();
        if (access_key !== seen.at(-1)) seen.push(access_key);
        expect((await keysOf()).length).toBeLessThanOrEqual(2);
        expect(seen.length).toBe(3);
        expect(await keysOf()).toEqual(seen.slice(1));
      },
      60_000,
    );
    expect(await rows(uuid, "leases")).toEqual([]);
  });

  it("refuses a user with two keys of others, and deletes the oldest with adopt_oldest_key", async () => {
    await newKey("worker");
    await newKey("worker");
    const [first, second] = await keysOf();
    const refused = await write("app", BODY);
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [
        `unable to validate username "worker": it has two access keys, and the static role did not make ${first} and ${second}: delete one, or set adopt_oldest_key`,
      ],
    ]);
    expect([await keysOf(), (await get("/v1/aws/static-roles/app")).status]).toEqual([[first, second], 404]);
    const written = succeeded(await write("app", { ...BODY, adopt_oldest_key: "true" }));
    expect(written.body.data.adopt_oldest_key).toBe(true);
    expect(await keysOf()).toEqual([second, (await creds()).access_key]);
    const operations = (await account.requests()).map(({ operation }) => operation);
    expect(operations.filter((each) => /AccessKey$/.test(each))).toEqual(["DeleteAccessKey", "CreateAccessKey"]);
  });

  it("fails and keeps the role's key while a key of others takes its room, and goes on when that is gone", async () => {
    succeeded(await write("app", { ...BODY, rotation_period: 60 }));
    const { access_key } = await creds();
    await newKey("worker");
    const foreign = [...(await keysOf())].find((id) => id !== access_key) ?? "";
    const warnings = vi.spyOn(console, "warn");
    const failed = () => warnings.mock.calls.some(([line]) => String(line).includes(`did not make ${foreign}:`));
    await byItself(uuid, async () => expect(failed()).toBe(true));
    expect([await keysOf(), (await creds()).access_key]).toEqual([[access_key, foreign], access_key]);
    await account.call({ action: "DeleteAccessKey", parameters: { UserName: "worker", AccessKeyId: foreign } });
    await byItself(uuid, async () => expect((await creds()).access_key).not.toBe(access_key));
  });

  it("takes the room of a key of others with adopt_oldest_key, although its own is older", async () => {
    succeeded(await write("app", { ...BODY, rotation_period: 60, adopt_oldest_key: true }));
    const { access_key } = await creds();
    await newKey("worker");
    await byItself(uuid, async () => expect((await creds()).access_key).not.toBe(access_key));
    expect(await keysOf()).toEqual([access_key, (await creds()).access_key]);
  });

  it("waits until the provider accepts the new key", async () => {
    await account.lags({ keyMs: 3_000 });
    succeeded(await write("app", BODY));
    const uses = (await account.requests()).filter(({ operation }) => operation === "GetCallerIdentity");
    const [refused, accepted] = [403, 200].map((code) => uses.filter(({ status }) => status === code).length);
    expect([accepted, refused]).toEqual([3, expect.any(Number)]);
    expect(refused).toBeGreaterThan(0);
    expect(await keysOf()).toEqual([(await creds()).access_key]);
  });

  it("is repeated after a refusal of the provider, and says so in the log and the audit log", async () => {
    const [lines, warnings] = [vi.spyOn(console, "info"), vi.spyOn(console, "warn")];
    succeeded(await write("app", { ...BODY, rotation_period: 60 }));
    const { access_key, secret_key } = await creds();
    await account.fault({ operation: "CreateAccessKey", fault: "error", code: "AccessDenied", status: 403, count: 2 });
    await byItself(uuid, async () => expect((await creds()).access_key).not.toBe(access_key));
    const texts = [...lines.mock.calls, ...warnings.mock.calls].map(([line]) => String(line));
    expect(texts.some((line) => line.includes('"role-rotated"') && line.includes("static-roles/app"))).toBe(true);
    expect(texts.some((line) => line.includes("job-failed") && line.includes("AccessDenied"))).toBe(true);
    const { secret_key: next } = await creds();
    for (const secret of [secret_key, next]) expect(texts.join("\n")).not.toContain(secret);
  });
});

describe("a static role while Workers die and answers are lost", () => {
  const oneKey = async () => {
    await noJobs();
    expect(await keysOf()).toEqual([(await creds()).access_key]);
  };

  /** Lookup, key, three uses. */
  const POLLS = 5;

  it.each(part(deaths(POLLS, 16)))("has one key after a death at poll %i (%s) of its write", async (...death) => {
    const died = dieAt(...death);
    await writeSoon(BODY);
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    await byItself(uuid, oneKey);
  });

  it.each(part(deaths(POLLS, 16)))("has its two keys after a death at poll %i (%s) of a rotation", async (...death) => {
    succeeded(await writeSoon({ ...BODY, rotation_period: 600 }));
    const { access_key } = await creds();
    const died = dieAt(...death);
    await byItself(
      uuid,
      async () => {
        const next = (await creds()).access_key;
        expect([died(), next === access_key]).toEqual([true, false]);
        expect(await keysOf()).toEqual([access_key, next]);
        await noJobs();
      },
      50_000,
    );
  });

  it.each(part(deaths(1, 1)))(
    "has no key after a death at call %i (%s the report) of its deletion",
    async (...death) => {
      succeeded(await writeSoon(BODY));
      const died = dieAt(...death);
      await del("/v1/aws/static-roles/app");
      expect(died()).toBe(true);
      vi.restoreAllMocks();
      await byItself(uuid, async () => {
        await noJobs();
        expect(await keysOf()).toEqual([]);
      });
    },
  );

  const LOST = ["GetUser", "ListAccessKeys", "CreateAccessKey"].flatMap((operation) =>
    (["drop", "apply-then-drop"] as const).map((fault) => [operation, fault] as const),
  );

  it.each(LOST)("has one key after a lost answer of %s (%s)", async (operation, fault) => {
    await account.fault({ operation, fault });
    succeeded(await writeSoon(BODY));
    await byItself(uuid, oneKey);
  });

  it("finds and removes the keys of a write that was given up after lost answers", async () => {
    await account.fault({ operation: "CreateAccessKey", fault: "apply-then-drop", count: 20 });
    expect((await writeSoon(BODY)).status).toBeGreaterThanOrEqual(400);
    expect((await write("app", BODY)).status, "the search is not over").toBe(409);
    await byItself(uuid, async () => {
      await noJobs();
      expect(await keysOf()).toEqual([]);
    });
    expect((await get("/v1/aws/static-roles/app")).status).toBe(404);
  });

  it("leaves no key of a mount that goes while a role is written", async () => {
    const died = dieAt(3, "before", 16);
    await writeSoon(BODY);
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    succeeded(await del("/v1/sys/mounts/aws"));
    await byItself(uuid, async () => expect(await keysOf()).toEqual([]));
  });
});
