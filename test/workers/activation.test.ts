import { describe, expect, it } from "vitest";
import { get, put, send } from "./client.ts";

/** docs/internals/wire/sync.md, "Activation". */

const DATA = { activated: ["secrets-sync"], unactivated: [] };
const ACTIVATE = "/v1/sys/activation-flags/secrets-sync/activate";

const tokenWith = async (...capabilities: string[]): Promise<string> => {
  const policy = `path "sys/activation-flags/*" { capabilities = ${JSON.stringify(capabilities)} }`;
  await put("/v1/sys/policies/acl/p", { policy });
  return (await put("/v1/auth/token/create", { policies: ["p"] })).body.auth.client_token;
};

describe("sys/activation-flags", () => {
  it("reports secret sync as active to any caller", async () => {
    for (const token of [null, "root", "unknown"]) {
      const answer = await get("/v1/sys/activation-flags", { token });
      expect([answer.status, answer.body.data, answer.body.mount_type]).toEqual([200, DATA, "system"]);
    }
  });

  it.each(["POST", "PUT"])("%s activates it repeatedly without an effect, with or without a body", async (method) => {
    for (const body of [undefined, {}, { ignored: true }]) {
      const answer = await send(method, ACTIVATE, body);
      expect([answer.status, answer.body.data]).toEqual([200, DATA]);
    }
  });

  it("requires update and sudo to activate", async () => {
    const as = async (...capabilities: string[]) =>
      (await send("POST", ACTIVATE, undefined, { token: await tokenWith(...capabilities) })).status;
    expect([await as("update"), await as("sudo"), await as("update", "sudo")]).toEqual([403, 403, 200]);
    expect((await send("POST", ACTIVATE, undefined, { token: null })).status).toBe(403);
  });

  it("returns errors for other flags and for deactivation", async () => {
    expect((await send("POST", "/v1/sys/activation-flags/secrets-import/activate")).status).toBe(404);
    expect((await send("DELETE", ACTIVATE)).status).toBe(405);
    expect((await get(ACTIVATE)).status).toBe(405);
  });
});
