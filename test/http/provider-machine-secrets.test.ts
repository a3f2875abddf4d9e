import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { machineSecrets } from "../../src/sync/destinations/machine-secrets/adapter.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { FlyAccount, startMachineSecrets } from "../doubles/machine-secrets/server.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: AccountDouble<FlyAccount>;
let account = new FlyAccount();

beforeAll(async () => {
  double = await startMachineSecrets();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  machineSecrets,
  () => double,
  () => ({ api_token: account.token, app: account.app }),
);

describe("while reads are older than the last write", () => {
  const pushed = async () => {
    account.isLagging = true;
    const put = await at.put();
    return put.outcome === "ok" ? (put.reference ?? "") : "";
  };

  it("an inspection of the last push finds its secret unchanged", async () => {
    expect(await at.inspect(await pushed())).toMatchObject({ state: "unchanged" });
  });

  it("a removal finds the secret of the last push", async () => {
    const reference = await pushed();
    expect(await at.remove({}, { reference, ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(account.secrets.size).toBe(0);
  });
});

describe("an API token", () => {
  it.each([
    ["alone", (token: string) => token],
    ["after its scheme", (token: string) => `FlyV1 ${token}`],
  ])("is accepted %s", async (_, spell) => {
    expect(await at.probe({ api_token: spell(account.token) })).toEqual({ outcome: "ok" });
  });

  it("of an older kind is a bearer token, and one with spaces is refused", async () => {
    expect(await at.probe({ api_token: "fo1_older" })).toMatchObject({ code: "auth_failed" });
    expect(at.refused({ api_token: "Bearer x y" })).toEqual(["api_token"]);
    expect(at.refused({ app: "-x" })).toEqual(["app"]);
  });
});
