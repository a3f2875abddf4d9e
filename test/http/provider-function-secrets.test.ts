import { createHash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { functionSecrets } from "../../src/sync/destinations/function-secrets/adapter.ts";
import { SupabaseAccount, startFunctionSecrets } from "../doubles/function-secrets/server.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: AccountDouble<SupabaseAccount>;
let account = new SupabaseAccount();

beforeAll(async () => {
  double = await startFunctionSecrets();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  functionSecrets,
  () => double,
  () => ({ access_token: account.token, project_ref: account.project }),
);
const unsureSince = Date.now();

describe("a push of unknown outcome", () => {
  it.each(["owned-only", "if-not-exists"] as const)("is recognised by its digest, by %s", async (updatePolicy) => {
    account.secrets.set(at.name, "hunter2-hunter2");
    const put = await at.put({ updatePolicy, unsureSince });
    expect(put).toMatchObject({ outcome: "ok" });
    expect(put).not.toHaveProperty("left");
  });

  it("does not make the secret of another hand ours", async () => {
    account.secrets.set(at.name, "theirs");
    expect(await at.put({ updatePolicy: "owned-only", unsureSince })).toMatchObject({ code: "not_owned" });
    expect(await at.put({ updatePolicy: "if-not-exists", unsureSince })).toMatchObject({ left: true });
    expect(account.secrets.get(at.name)).toBe("theirs");
  });
});

it("records the digest of its own value, also when another hand writes after it", async () => {
  const put = await at.put();
  account.secrets.set(at.name, "theirs");
  expect(put).toEqual({ outcome: "ok", reference: createHash("sha256").update("hunter2-hunter2").digest("hex") });
  expect(account.requests.map((request) => request.split(" ")[0])).toEqual(["POST"]);
  expect(await at.inspect(put.outcome === "ok" ? (put.reference ?? null) : null)).toMatchObject({ state: "changed" });
});

describe("names of the project's own secrets", () => {
  it("are refused without a call, spelled otherwise by templates, and not offered for import", async () => {
    expect(await at.put({ name: "SUPABASE_URL" })).toMatchObject({ code: "name_invalid" });
    expect(account.requests).toEqual([]);
    expect(functionSecrets.naming.adapt?.("SUPABASE_URL")).toBe("_SUPABASE_URL");
    expect(at.refused({ project_ref: "too-short" })).toEqual(["project_ref"]);
  });
});
