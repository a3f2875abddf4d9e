import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApproleStore } from "../../src/access/auth-methods/approle-store.ts";
import { accessObject } from "../workers/access.ts";
import { get, put } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { attempt, type Cut, cut } from "./crash-point.ts";

clock.moves = true;

const ROLE = "/v1/auth/approle/role/web";
let credentials = { role_id: "", secret_id: "" };
let accessor = "";
const login = () => put("/v1/auth/approle/login", credentials, { token: null });

/** Uses left of the secret id, and the number of tokens that its logins have. */
async function counts(): Promise<[number, number]> {
  const { status, body } = await put(`${ROLE}/secret-id-accessor/lookup`, { secret_id_accessor: accessor });
  const tokens = await runInDurableObject(
    accessObject(),
    (_object, { storage: { sql } }) =>
      sql.exec<{ n: number }>("SELECT count(*) AS n FROM tokens WHERE auth_mount IS NOT NULL").one().n,
  );
  return [status === 200 ? body.data.secret_id_num_uses : 0, tokens];
}

beforeEach(async () => {
  await put("/v1/sys/auth/approle", { type: "approle" });
  await put(ROLE, {});
  const { secret_id, secret_id_accessor } = (await put(`${ROLE}/secret-id`, { num_uses: 3 })).body.data;
  credentials = { role_id: (await get(`${ROLE}/role-id`)).body.data.role_id, secret_id };
  accessor = secret_id_accessor;
});

afterEach(() => void vi.restoreAllMocks());

it.each([
  [
    ["AccessControl", "approleLogin", "before"],
    [3, 0],
  ],
  [
    ["AccessControl", "approleLogin", "after"],
    [2, 1],
  ],
] as [Cut, number[]][])("counts one use per issued token when the login crashes at %j", async (where, expected) => {
  const happened = cut(where);
  expect(await attempt(login())).toBeNull();
  expect(happened()).toBe(true);
  await expect.poll(counts).toEqual(expected);
  expect((await login()).status).toBe(200);
  const [left, tokens] = expected as [number, number];
  expect(await counts()).toEqual([left - 1, tokens + 1]);
});

it("issues no token when the use cannot be counted", async () => {
  vi.spyOn(ApproleStore.prototype, "use").mockImplementationOnce(() => {
    throw new Error("disk full");
  });
  expect((await login()).status).toBeGreaterThanOrEqual(500);
  expect(await counts()).toEqual([3, 0]);
});
