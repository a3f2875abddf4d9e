import { beforeEach, describe, expect } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf, path } from "./access.ts";
import { mountKv, put } from "./client.ts";

/* Writes of named things: `create` makes a new one and changes none, `update` changes one and makes none. */

const ROWS: readonly (readonly [at: string, body: object])[] = [
  ["auth/userpass/users", { password: "p", token_policies: "a" }],
  ["auth/approle/role", { token_policies: "a" }],
  ["auth/jwt/role", { role_type: "jwt", user_claim: "sub", bound_audiences: "a" }],
  ["auth/kubernetes/role", { bound_service_account_names: "a", bound_service_account_namespaces: "a" }],
  ["auth/token/roles", { allowed_policies: "a" }],
  ["sys/sync/destinations/in-mem", {}],
  ["kv/data", { data: { a: "1" } }],
];

beforeEach(async () => {
  await mountKv();
  for (const type of ["userpass", "approle", "jwt", "kubernetes"]) await put(`/v1/sys/auth/${type}`, { type });
  await put("/v1/auth/jwt/config", { jwks_url: "https://example.com/keys" });
  await put("/v1/auth/kubernetes/config", { kubernetes_host: "https://example.com" });
});

describe("a write", () => {
  itRows(ROWS)("of something at %s needs create for a new one, and update for one that exists", async (at, body) => {
    const [create, update] = await Promise.all(
      (["create", "update"] as const).map(async (right) => (await holderOf(path(`${at}/*`, right))).client_token),
    );
    const write = async (name: string, token: string | undefined) =>
      (await put(`/v1/${at}/${name}`, body, { token: token ?? "" })).status;
    expect(await write("new", update)).toBe(403);
    expect(await write("new", create)).toBeLessThan(300);
    expect(await write("new", create)).toBe(403);
    expect(await write("new", update)).toBeLessThan(300);
  });
});
