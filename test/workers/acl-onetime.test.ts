import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { accessObject, dump, issue } from "./access.ts";
import { del, get, put } from "./client.ts";
import { clock } from "./clock.ts";

clock.moves = true;

const NOBODY = { token: null };
const exchange = (OneTimeSecretID: string) => put("/v1/acl/token/onetime/exchange", { OneTimeSecretID }, NOBODY);
const oneTime = async (token: string): Promise<string> => {
  const made = await put("/v1/acl/token/onetime", {}, { token });
  expect(made.status, made.text).toBe(200);
  return made.body.OneTimeToken.OneTimeSecretID;
};
const management = async () => (await put("/v1/acl/token", { Name: "m", Type: "management" })).body;
const rows = () =>
  runInDurableObject(accessObject(), (_object, { storage: { sql } }) =>
    sql.exec("SELECT accessor FROM one_time_tokens").toArray(),
  );

afterEach(() => {
  vi.useRealTimers();
});

describe("a one-time token", () => {
  it("is exchanged for the token that created it", async () => {
    const { AccessorID, SecretID } = await management();
    const made = await put("/v1/acl/token/onetime", {}, { token: SecretID });
    expect(made.body).toEqual({
      OneTimeToken: {
        OneTimeSecretID: expect.stringMatching(/^[0-9a-f-]{36}$/),
        AccessorID,
        ExpiresAt: expect.any(String),
        CreateIndex: expect.any(Number),
        ModifyIndex: expect.any(Number),
      },
      Index: Number(made.headers.get("x-nomad-index")),
    });
    const { ExpiresAt, OneTimeSecretID } = made.body.OneTimeToken;
    expect(Math.abs(Date.parse(ExpiresAt) - Date.now() - 600_000)).toBeLessThan(5_000);
    const stored = await dump();
    for (const secret of [OneTimeSecretID, SecretID]) expect(stored).not.toContain(secret);
    const { status, body } = await exchange(OneTimeSecretID);
    expect(status).toBe(200);
    expect(body).toEqual({ Token: expect.objectContaining({ AccessorID, SecretID }), Index: expect.any(Number) });
    expect((await get("/v1/acl/tokens", { token: body.Token.SecretID })).status).toBe(200);
  });

  it("is used once, also by 50 parallel requests", async () => {
    const secret = await oneTime((await management()).SecretID);
    const answers = await Promise.all(Array.from({ length: 50 }, () => exchange(secret)));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([200, ...Array.from({ length: 49 }, () => 403)]);
    expect(await rows()).toEqual([]);
  });

  it("expires after ten minutes, and its row is deleted", async () => {
    const secret = await oneTime((await management()).SecretID);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 600_001 });
    expect((await exchange(secret)).status).toBe(403);
    await runInDurableObject(accessObject(), (object) => object.alarm());
    expect(await rows()).toEqual([]);
  });

  it("is deleted with its token, and when the token creates another", async () => {
    const { AccessorID, SecretID } = await management();
    const first = await oneTime(SecretID);
    const second = await oneTime(SecretID);
    expect(await rows()).toHaveLength(1);
    expect((await exchange(first)).status).toBe(403);
    await del(`/v1/acl/token/${AccessorID}`);
    const { status, text } = await exchange(second);
    expect([status, text]).toEqual([403, expect.stringMatching(/permission denied/i)]);
    expect(await rows()).toEqual([]);
  });

  it("is not a token itself, and is not created for unknown, limited and batch tokens", async () => {
    const secret = await oneTime((await management()).SecretID);
    expect((await get("/v1/acl/token/self", { token: secret })).status).toBe(403);
    expect((await put("/v1/acl/token/onetime", {}, NOBODY)).status).toBe(403);
    for (const more of [{ num_uses: 3 }, { type: "batch", policies: ["default"], ttl: "1h" }]) {
      const { client_token: token } = await issue(more);
      const refused = await put("/v1/acl/token/onetime", {}, { token });
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("service token")]);
    }
    for (const body of [{}, { OneTimeSecretID: "" }, { OneTimeSecretID: crypto.randomUUID() }]) {
      expect((await put("/v1/acl/token/onetime/exchange", body, NOBODY)).status).toBe(403);
    }
  });
});
