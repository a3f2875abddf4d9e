import { afterEach, describe, expect, it } from "vitest";
import { issue, path, policies } from "./access.ts";
import { mountAws, openAwsAccount } from "./aws-helpers.ts";
import { get, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { byItself, lookup, revoke, rows, succeeded } from "./engine-helpers.ts";
import { openProject } from "./gcp-helpers.ts";
import { openProducer } from "./producer-helpers.ts";

clock.moves = true;

/** Shared leases of the engines beside that of engine-shared-leases. */

let time: ShiftedClock | null = null;
const MINUTE = 60_000;
const HOUR = 3_600;

afterEach(() => {
  time?.end();
  time = null;
});

const advance = (ms: number) => {
  time ??= new ShiftedClock();
  time.advance(ms);
};

const reader = async (at: string): Promise<string> => {
  await policies({ reader: path(at, "read", "update") });
  return (await issue({ policies: ["reader"], ttl: "12h" })).client_token;
};
const read = async (token: string, at: string) => succeeded(await get(`/v1/${at}`, { token })).body;
const errorOf = async (at: string, body: object) => (await put(`/v1/${at}`, body)).body?.errors?.[0];

/** Reads until a new lease comes. @returns the minutes for which it was the same */
async function minutesShared(token: string, at: string, step: number): Promise<number> {
  const { lease_id } = await read(token, at);
  for (let minutes = step; minutes <= 240; minutes += step) {
    advance(step * MINUTE);
    if ((await read(token, at)).lease_id !== lease_id) return minutes;
  }
  return Number.POSITIVE_INFINITY;
}

describe("a shared lease of AWS", () => {
  const user = { credential_type: "iam_user", share_until: 50 };

  async function openAws() {
    const account = await openAwsAccount();
    const uuid = await mountAws(account);
    succeeded(await put("/v1/aws/config/lease", { lease: "1h", lease_max: "24h" }));
    const session = { credential_type: "assumed_role", role_arns: account.role_arn, share_until: 50 };
    return { account, uuid, session };
  }

  it("of a user is one user and key until its share has passed, and removes them", async () => {
    const { account, uuid } = await openAws();
    succeeded(await put("/v1/aws/roles/app", user));
    expect((await get("/v1/aws/roles/app")).body.data.share_until).toBe(50);
    const token = await reader("aws/creds/app");
    const first = await read(token, "aws/creds/app");
    advance(29 * MINUTE);
    const second = await read(token, "aws/creds/app");
    expect([second.lease_id, second.data, second.renewable]).toEqual([first.lease_id, first.data, true]);
    expect(await account.everything()).toHaveLength(2);
    expect(JSON.stringify(await rows(uuid, "leases"))).not.toContain(first.data.secret_key);
    advance(2 * MINUTE);
    const third = await read(token, "aws/creds/app");
    expect(third.lease_id).not.toBe(first.lease_id);
    for (const { lease_id } of [first, third]) expect((await revoke(lease_id)).status).toBe(204);
    await byItself(uuid, async () => expect(await account.everything()).toHaveLength(1));
  });

  it("of a session is one session, whose rest of life is told, and which is never renewed", async () => {
    const { account, uuid, session } = await openAws();
    succeeded(await put("/v1/aws/roles/deploy", session));
    const token = await reader("aws/creds/deploy");
    const first = await read(token, "aws/creds/deploy");
    advance(20 * MINUTE);
    const second = await read(token, "aws/creds/deploy");
    expect(second.lease_id).toBe(first.lease_id);
    expect({ ...second.data, ttl: 0 }).toEqual({ ...first.data, ttl: 0 });
    expect([second.renewable, second.lease_duration]).toEqual([false, second.data.ttl]);
    expect(Math.abs(second.data.ttl - 40 * 60)).toBeLessThan(5);
    expect((await account.requests()).filter(({ operation }) => operation === "AssumeRole")).toHaveLength(1);
    expect(JSON.stringify(await rows(uuid, "leases"))).not.toContain(first.data.session_token);
  });

  it.each([
    ["20m", 4, 12],
    ["2h", 25, 75],
  ])("of a session with a TTL of its own is shared by that TTL: %s", async (ttl, step, minutes) => {
    const { session } = await openAws();
    succeeded(await put("/v1/aws/roles/deploy", { ...session, max_sts_ttl: "4h" }));
    const token = await reader("aws/creds/deploy");
    expect(await minutesShared(token, `aws/creds/deploy?ttl=${ttl}`, step)).toBe(minutes);
  });

  it("of a session ends with its last token, and by a revocation, at once for all readers", async () => {
    const { session, uuid } = await openAws();
    succeeded(await put("/v1/aws/roles/deploy", session));
    const token = await reader("aws/creds/deploy");
    const first = await read(token, "aws/creds/deploy");
    expect((await revoke(first.lease_id)).status).toBe(204);
    const second = await read(token, "aws/creds/deploy");
    expect(second.data.session_token).not.toBe(first.data.session_token);
    await put("/v1/auth/token/revoke", { token });
    await byItself(uuid, async () => expect((await lookup(second.lease_id)).status).toBe(400));
    expect(await rows(uuid, "leases")).toEqual([]);
  });

  it("is of its parameters and its caller, and off by default", async () => {
    const { session } = await openAws();
    succeeded(await put("/v1/aws/roles/deploy", session));
    const [one, other] = [await reader("aws/creds/*"), await reader("aws/creds/*")];
    const ids = await Promise.all([
      read(one, "aws/creds/deploy"),
      read(one, "aws/creds/deploy?role_session_name=ci"),
      read(other, "aws/creds/deploy"),
    ]);
    expect(new Set(ids.map(({ lease_id }) => lease_id)).size).toBe(3);
    succeeded(await put("/v1/aws/roles/deploy", { share_until: 0 }));
    expect((await get("/v1/aws/roles/deploy")).body.data).not.toHaveProperty("share_until");
    const [first, second] = [await read(one, "aws/creds/deploy"), await read(one, "aws/creds/deploy")];
    expect(first.lease_id).not.toBe(second.lease_id);
  });

  it("has a share that is kept by writes without it, and a bad one is refused", async () => {
    await openAws();
    succeeded(await put("/v1/aws/roles/app", user));
    succeeded(await put("/v1/aws/roles/app", { iam_tags: "team=a" }));
    expect((await get("/v1/aws/roles/app")).body.data.share_until).toBe(50);
    for (const share_until of [91, -1, "soon", 0.5]) {
      expect(await errorOf("aws/roles/app", { share_until }), String(share_until)).toContain("share_until");
    }
    expect((await get("/v1/aws/roles/app")).body.data.share_until).toBe(50);
  });
});

describe("a shared lease of Google Cloud", () => {
  async function openGcp() {
    const project = await openProject();
    succeeded(await put("/v1/sys/mounts/gcp", { type: "cloud-c" }));
    succeeded(await put("/v1/gcp/config", { ...project.config, ttl: "1h", max_ttl: "24h" }));
    const key = { secret_type: "service_account_key", share_until: 50 };
    return { project, key };
  }

  it("is one key until its share has passed, of rolesets and static accounts", async () => {
    const { project, key } = await openGcp();
    succeeded(await put("/v1/gcp/roleset/build", { ...key, project: project.account, bindings: project.bindings }));
    succeeded(await put("/v1/gcp/static-account/app", { ...key, service_account_email: await project.add("app") }));
    for (const at of ["gcp/roleset/build", "gcp/static-account/app"]) {
      expect((await get(`/v1/${at}`)).body.data.share_until, at).toBe(50);
      const token = await reader(`${at}/key`);
      const first = await read(token, `${at}/key`);
      const again = await read(token, `${at}/key`);
      expect([again.lease_id, again.data], at).toEqual([first.lease_id, first.data]);
      expect(await minutesShared(token, `${at}/key?ttl=20m`, 4), at).toBe(12);
    }
  });

  it("is refused for access tokens, which have no lease", async () => {
    const { project } = await openGcp();
    const roleset = { project: project.account, bindings: project.bindings, token_scopes: "https://a.example/scope" };
    const error = "share_until: access tokens have no lease to share";
    expect(await errorOf("gcp/roleset/build", { ...roleset, share_until: 50 })).toBe(error);
    expect((await get("/v1/gcp/roleset/build")).status).toBe(404);
    expect(await errorOf("gcp/roleset/build", { ...roleset, share_until: 0 })).toBe(undefined);
    expect(await errorOf("gcp/roleset/build", { share_until: 91 })).toContain("share_until");
  });
});

describe("a shared lease of a producer", () => {
  it("is one token until its share has passed", async () => {
    const account = await openProducer("gitlab");
    succeeded(await put("/v1/sys/mounts/producer", { type: "https-producer" }));
    succeeded(await put("/v1/producer/config", account.config));
    succeeded(await put("/v1/producer/roles/app", { ttl: HOUR, max_ttl: 24 * HOUR, share_until: 50 }));
    expect((await get("/v1/producer/roles/app")).body.data.share_until).toBe(50);
    const token = await reader("producer/creds/app");
    expect(await minutesShared(token, "producer/creds/app", 8)).toBe(32);
    expect(await errorOf("producer/roles/app", { share_until: 91 })).toContain("share_until");
  });
});
