import { afterEach, expect, it, vi } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { issue } from "./access.ts";
import { get } from "./client.ts";

/* Counts of what one request costs. They depend on no machine; rows are in rows.test.ts. */

afterEach(() => {
  vi.restoreAllMocks();
});

it("lookup-self is one call of AccessControl", async () => {
  const { client_token: token, accessor } = await issue({ policies: ["default"] });
  const authorize = vi.spyOn(AccessControl.prototype, "authorize");
  const lookup = vi.spyOn(AccessControl.prototype, "lookupToken");
  const found = await get("/v1/auth/token/lookup-self", { token });
  expect(found.body.data).toMatchObject({ accessor, id: token });
  expect([authorize.mock.calls.length, lookup.mock.calls.length]).toEqual([1, 0]);
});

it("lookup-self shows the use that it is, and no other", async () => {
  const { client_token: token } = await issue({ policies: ["default"], num_uses: 3 });
  const uses = async () => (await get("/v1/auth/token/lookup-self", { token })).body.data.num_uses;
  expect([await uses(), await uses(), await uses()]).toEqual([2, 1, 0]);
  expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
});

it("lookup-self shows nothing to a token without the right", async () => {
  const { client_token: token } = await issue({ policies: ["none"], no_default_policy: true });
  const refused = await get("/v1/auth/token/lookup-self", { token });
  expect([refused.status, refused.body]).toEqual([403, { errors: ["permission denied"] }]);
});
