import { beforeEach, describe, expect, it } from "vitest";
import { issue } from "./access.ts";
import { get, list, put, send } from "./client.ts";

/** Leases of tokens: the ids under which upstream lists what logins and token requests issued. */

const keys = async (at: string, options?: Parameters<typeof list>[1]): Promise<string[] | null> => {
  const { status, body } = await list(`/v1/sys/leases/lookup/${at}`, options);
  return status === 404 ? null : body.data.keys;
};

describe("LIST sys/leases/lookup", () => {
  let ann: string;

  beforeEach(async () => {
    await put("/v1/sys/auth/people", { type: "userpass" });
    await put("/v1/auth/people/users/ann", { password: "secret" });
    ann = (await put("/v1/auth/people/login/ann", { password: "secret" }, { token: null })).body.auth.accessor;
  });

  it("lists the paths that have issued tokens with an expiry, then the tokens", async () => {
    const { accessor } = await issue({ ttl: "1h" });
    expect(await keys("")).toEqual(["auth/"]);
    expect(await keys("auth/")).toEqual(["people/", "token/"]);
    expect(await keys("auth")).toEqual(["people/", "token/"]);
    expect(await keys("auth/people")).toEqual(["login/"]);
    expect(await keys("auth/people/login/ann")).toEqual([`h${ann}`]);
    expect(await keys("auth/token/create/")).toEqual([`h${accessor}`]);
    expect(await keys("auth/none")).toBeNull();
    expect(await keys("auth/people/login/an")).toBeNull();
  });

  it("lists neither batch tokens nor those of another namespace", async () => {
    await put("/v1/sys/namespaces/ns", {});
    const inside = { headers: { "X-Vault-Namespace": "ns" } };
    await issue({ type: "batch", ttl: "1h", policies: ["default"] });
    expect(await keys("auth/token")).toBeNull();
    expect(await keys("auth", inside)).toBeNull();
    const { accessor } = await issue({ ttl: "1h" }, inside);
    expect(await keys("auth/token/create", inside)).toEqual([`h${accessor}`]);
    expect(await keys("auth/token")).toBeNull();
  });

  it("lists thousands, in order, with a namesake of a folder among them", async () => {
    const issued = await Promise.all(Array.from({ length: 40 }, () => issue({ ttl: "1h" })));
    expect(await keys("auth/token/create")).toEqual(issued.map(({ accessor }) => `h${accessor}`).sort());
  });

  it("names tokens that can be looked up and revoked, and not renewed", async () => {
    const id = `auth/people/login/ann/h${ann}`;
    const found = await put("/v1/sys/leases/lookup", { lease_id: id });
    expect(found.body.data).toEqual({
      id,
      issue_time: expect.any(String),
      expire_time: expect.any(String),
      last_renewal: null,
      renewable: true,
      ttl: expect.any(Number),
    });
    const renewed = await put("/v1/sys/leases/renew", { lease_id: id });
    expect([renewed.status, renewed.body.errors]).toEqual([400, ["tokens cannot be renewed through this endpoint"]]);
    expect((await put("/v1/sys/leases/revoke", { lease_id: id })).status).toBe(204);
    expect(await keys("auth/people")).toBeNull();
    expect((await put("/v1/auth/token/lookup-accessor", { accessor: ann })).body.errors).toEqual(["invalid accessor"]);
    expect((await put("/v1/sys/leases/lookup", { lease_id: id })).body.errors).toEqual(["invalid lease"]);
  });

  it("returns 400 for the token of another path, and needs sudo", async () => {
    const { client_token: token } = await issue({ policies: ["default"] });
    const other = await put("/v1/sys/leases/lookup", { lease_id: `auth/token/create/h${ann}` });
    expect([other.status, other.body.errors]).toEqual([400, ["invalid lease"]]);
    expect((await send("LIST", "/v1/sys/leases/lookup/auth", undefined, { token })).status).toBe(403);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(200);
  });
});
