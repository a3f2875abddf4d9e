import { beforeEach, describe, expect, it } from "vitest";
import { part } from "../support/long.ts";
import { type AwsAccount, mountAws, openAwsAccount } from "./aws-helpers.ts";
import { get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import { byItself, revoke, rows, skippingWaits, succeeded } from "./engine-helpers.ts";

clock.moves = true;

/** Users of AWS while Workers die between the calls of a batch, and while the provider loses answers or throttles. */

let account: AwsAccount;
let uuid: string;

beforeEach(async () => {
  account = await openAwsAccount();
  uuid = await mountAws(account);
  const rights = { policy_arns: [account.policy_arn], policy_document: '{"Statement":[]}', iam_groups: ["developers"] };
  succeeded(await put("/v1/aws/roles/app", { credential_type: "iam_user", ...rights }));
});

const issued = async () => (await account.everything()).filter(({ name }) => name !== "sallyport");
const nothingIsLeft = async () =>
  expect([await issued(), await rows(uuid, "jobs"), await rows(uuid, "leases")]).toEqual([[], [], []]);

/** The calls of an issue leave in one batch: a death between them is a batch that was cut short. */
const CUTS = [1, 2, 3, 4].flatMap((calls) => deaths(1, calls));

describe("an issue", () => {
  it.each(part(CUTS))(
    "leaves nothing when its Worker dies at poll %i (%s) after %i calls",
    async (nth, when, calls) => {
      const died = dieAt(nth, when, calls);
      expect((await skippingWaits(() => get("/v1/aws/creds/app"))).status).toBeGreaterThanOrEqual(500);
      expect(died()).toBe(true);
      await byItself(uuid, nothingIsLeft);
    },
  );

  const OPERATIONS = ["CreateUser", "AttachUserPolicy", "PutUserPolicy", "AddUserToGroup", "CreateAccessKey"];
  const LOST = OPERATIONS.flatMap((operation) =>
    (["drop", "apply-then-drop"] as const).map((fault) => [operation, fault] as const),
  );

  it.each(LOST)("makes one user with one key after a lost answer of %s (%s)", async (operation, fault) => {
    await account.fault({ operation, fault });
    const { lease_id, data } = succeeded(await skippingWaits(() => get("/v1/aws/creds/app"))).body;
    const [user, ...others] = await issued();
    expect([user?.keys, others]).toEqual([[data.access_key], []]);
    expect(user).toMatchObject({ attached: [account.policy_arn], inline: ["app"], groups: ["developers"] });
    await skippingWaits(() => revoke(lease_id));
    await byItself(uuid, nothingIsLeft);
  });

  it("waits while the provider throttles it, and counts a failure of the provider as unknown", async () => {
    await account.fault({ operation: "CreateUser", fault: "error", count: 2 });
    await account.fault({ operation: "CreateAccessKey", fault: "error", code: "ServiceFailure", status: 500 });
    const { lease_id } = succeeded(await skippingWaits(() => get("/v1/aws/creds/app"))).body;
    expect((await account.requests()).map(({ operation }) => operation)).toContain("ListAccessKeys");
    await skippingWaits(() => revoke(lease_id));
    await byItself(uuid, nothingIsLeft);
  });

  it("leaves a user of others alone that has the chosen name", async () => {
    succeeded(await put("/v1/aws/config/root", { username_template: "taken" }));
    await account.call({ action: "CreateUser", parameters: { UserName: "taken" } });
    expect((await get("/v1/aws/creds/app")).body.errors?.[0]).toMatch(
      /^Error creating IAM user: EntityAlreadyExists: /,
    );
    await account.fault({ operation: "CreateUser", fault: "drop" });
    expect((await skippingWaits(() => get("/v1/aws/creds/app"))).status).toBe(400);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    expect((await issued()).map(({ name }) => name)).toEqual(["taken"]);
  });
});

describe("a revocation", () => {
  const CALLS = ["DeleteAccessKey", "ListGroupsForUser", "DetachUserPolicy", "DeleteUserPolicy", "RemoveUserFromGroup"];

  it.each([...CALLS, "DeleteUser"])("removes the user after a lost answer of %s", async (operation) => {
    const { lease_id } = succeeded(await get("/v1/aws/creds/app")).body;
    await account.fault({ operation, fault: "apply-then-drop" });
    await account.fault({ operation, fault: "error" });
    await skippingWaits(() => revoke(lease_id));
    await byItself(uuid, nothingIsLeft);
  });

  it("of a user that is not known everywhere yet is repeated until it is", async () => {
    await account.lags({ userMs: 2_000 });
    const { lease_id } = succeeded(await get("/v1/aws/creds/app")).body;
    await account.fault({ operation: "DeleteUser", fault: "error", code: "NoSuchEntity", status: 404 });
    await revoke(lease_id);
    await byItself(uuid, nothingIsLeft);
  });
});
