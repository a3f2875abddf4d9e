import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { appConfig } from "../../src/sync/destinations/app-config/adapter.ts";
import type { ExternalObject } from "../../src/sync/destinations/destination-type.ts";
import { AppAccount, startAppConfig } from "../doubles/app-config/server.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { objectOf } from "./cloud-a-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: AccountDouble<AppAccount>;
let account = new AppAccount();

beforeAll(async () => {
  double = await startAppConfig();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const connection = () => ({ access_token: account.token, app: account.app });
const context = () => ({ settings: { APP_CONFIG_URL: double.url }, send: sender({ deadlineMs: 5000 }) });
const putMany = (...objects: Partial<ExternalObject>[]) =>
  appConfig.batch?.putMany(objects.map(objectOf), connection(), context());

it("writes and removes many config vars with one release each", async () => {
  account.vars.set("FOREIGN", "theirs");
  const names = ["A", "B", "C"];
  const put = await putMany(...names.map((name) => ({ name, value: `of ${name}` })));
  expect(put).toEqual(new Map(names.map((name) => [name, { outcome: "ok", reference: "written" }])));
  expect(Object.fromEntries(account.vars)).toEqual({ FOREIGN: "theirs", A: "of A", B: "of B", C: "of C" });
  const gone = [...names, "ABSENT"].map((name) => ({ name, reference: "written", ownedOnly: true }));
  await appConfig.batch?.removeMany(gone, connection(), context());
  expect([...account.vars.keys()]).toEqual(["FOREIGN"]);
  expect(account.releases).toBe(2);
});

it("leaves out the objects that a rule or a policy keeps from being written", async () => {
  account.vars.set("THEIRS", "theirs");
  const put = await putMany(
    { name: "OURS" },
    { name: "not valid" },
    { name: "THEIRS", updatePolicy: "owned-only" },
    { name: "LEFT", updatePolicy: "if-not-exists" },
  );
  expect(put).toMatchObject(
    new Map<string, object>([
      ["OURS", { outcome: "ok" }],
      ["not valid", { code: "name_invalid" }],
      ["THEIRS", { code: "not_owned" }],
      ["LEFT", { outcome: "ok" }],
    ]),
  );
  expect([...account.vars.keys()]).toEqual(["THEIRS", "OURS", "LEFT"]);
});

it("reports config vars that are too large together", async () => {
  account.vars.set("LARGE", "v".repeat(60_000));
  const refused = { outcome: "client", code: "invalid_request" };
  const large = { name: "A", value: "v".repeat(10_000) };
  expect(await putMany(large)).toMatchObject(refused);
  // The whole is refused, so that smaller batches follow.
  expect(await putMany({ name: "B" }, large, { name: "not valid" })).toMatchObject(refused);
});
