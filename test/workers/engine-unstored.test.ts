import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { JobOutcomes } from "../../src/credentials/jobs/job-outcome.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { issue, path, policies } from "./access.ts";
import { type AwsAccount, mountAws, openAwsAccount } from "./aws-helpers.ts";
import { del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself, engineObject, rows, skippingWaits, succeeded } from "./engine-helpers.ts";
import { evictObject } from "./evict-all.ts";
import { holdAnswer } from "./held-call.ts";

clock.moves = true;

/** Jobs without a row: those of credentials that end by themselves. */

let account: AwsAccount;
let uuid: string;

beforeEach(async () => {
  account = await openAwsAccount();
  uuid = await mountAws(account);
  const { role_arn } = account;
  succeeded(await put("/v1/aws/roles/deploy", { credential_type: "assumed_role", role_arns: role_arn }));
});

const sessions = async () => (await account.requests()).filter(({ operation }) => operation === "AssumeRole").length;
const leases = () => rows(uuid, "leases");

/** Requests a session, and does something before its Worker has the answer of the call. @returns the answer */
async function meanwhile(act: () => Promise<unknown>, options?: Parameters<typeof get>[1]) {
  const held = holdAnswer(() => true);
  const asked = get("/v1/aws/creds/deploy", options);
  await vi.waitFor(() => expect(held.isHeld()).toBe(true));
  await act();
  held.release();
  return asked;
}

describe("a session", () => {
  it("has no row before its lease", async () => {
    let during: unknown;
    const { lease_id } = succeeded(
      await meanwhile(async () => {
        during = [await rows(uuid, "jobs"), await rows(uuid, "work"), await leases()];
      }),
    ).body;
    expect(during).toEqual([[], [], []]);
    expect(await leases()).toMatchObject([{ id: lease_id.slice("aws/".length) }]);
    expect([await rows(uuid, "jobs"), await rows(uuid, "work"), await sessions()]).toEqual([[], [], 1]);
  });

  it("begins again after a restart of its object, and has one lease", async () => {
    const restart = () => runInDurableObject(engineObject(uuid), (_object, state) => state.abort("restarted"));
    succeeded(await meanwhile(() => restart().catch(() => undefined)));
    expect([(await leases()).length, await sessions()]).toEqual([1, 2]);
  });

  it("begins again as another identity that the configuration names meanwhile", async () => {
    const other = await openAwsAccount();
    const roles = { credential_type: "assumed_role", role_arns: other.role_arn };
    const { data } = succeeded(
      await meanwhile(async () => {
        succeeded(await put("/v1/aws/config/root", other.config));
        succeeded(await put("/v1/aws/roles/deploy", roles));
      }),
    ).body;
    expect(data.arn).toContain(other.account);
    expect(await leases()).toHaveLength(1);
  });

  it("has a row once a call was refused for now, and is repeated", async () => {
    await account.fault({ operation: "AssumeRole", fault: "error", code: "Throttling", status: 400 });
    succeeded(await skippingWaits(() => get("/v1/aws/creds/deploy")));
    expect([(await leases()).length, await sessions()]).toEqual([1, 2]);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
  });

  it("has a row when its call is slow, which outlives a restart of its object", async () => {
    const stored = async () => expect(await rows(uuid, "jobs")).toMatchObject([{ kind: "issue", seq: 0 }]);
    succeeded(
      await meanwhile(async () => {
        await vi.waitFor(stored, { timeout: 30_000 });
        await evictObject(engineObject(uuid));
      }),
    );
    expect([(await leases()).length, await sessions(), await rows(uuid, "jobs")]).toEqual([1, 1, []]);
  });

  it("is applied to a report that is repeated after a rollback", async () => {
    const { finishUnstored } = JobOutcomes.prototype;
    vi.spyOn(JobOutcomes.prototype, "finishUnstored").mockImplementationOnce(function (this: JobOutcomes, ...given) {
      finishUnstored.apply(this, given);
      throw new Error("the disk is full");
    });
    succeeded(await get("/v1/aws/creds/deploy"));
    expect([(await leases()).length, await sessions()]).toEqual([1, 1]);
  });

  it("is not made again when the answer of its report is lost", async () => {
    const { poll } = CredentialEngine.prototype;
    vi.spyOn(CredentialEngine.prototype, "poll").mockImplementationOnce(function (this: CredentialEngine, ...given) {
      poll.apply(this, given);
      throw new Error("the connection is lost");
    });
    expect((await get("/v1/aws/creds/deploy")).status).toBe(503);
    expect([(await leases()).length, await sessions()]).toEqual([1, 1]);
  });

  it("leaves nothing after a refusal", async () => {
    await account.fault({ operation: "AssumeRole", fault: "error", code: "AccessDenied", status: 403 });
    expect((await get("/v1/aws/creds/deploy")).status).toBe(400);
    expect([await rows(uuid, "jobs"), await rows(uuid, "work"), await leases()]).toEqual([[], [], []]);
  });

  it("of a token that is revoked during the call is not given", async () => {
    await policies({ deploy: path("aws/creds/deploy", "read") });
    const { client_token: token, accessor } = await issue({ policies: ["deploy"] });
    const revoke = () => put("/v1/auth/token/revoke-accessor", { accessor });
    expect((await meanwhile(async () => succeeded(await revoke()), { token })).status).toBe(403);
    await byItself(uuid, async () => expect(await leases()).toEqual([]));
  });

  it("of a mount that is disabled during the call is not given", async () => {
    const answer = await meanwhile(async () => succeeded(await del("/v1/sys/mounts/aws")));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(await leases()).toEqual([]);
  });
});
