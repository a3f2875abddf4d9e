import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { accessObject, holderOf, issue, path } from "./access.ts";
import { get, mountKv, put, send } from "./client.ts";

/* Counts of what one request costs: calls of objects, rows written, lines of the log. They depend on no machine. */

afterEach(() => {
  vi.restoreAllMocks();
});

/** Counts the rows that an object writes from now on; an index entry counts as one. */
const rowsWritten = (stub: unknown): Promise<() => number> =>
  runInDurableObject(stub as DurableObjectStub, (object) => {
    const cursors: { readonly rowsWritten: number }[] = [];
    const { sql } = object as unknown as { sql: SqlStorage };
    const exec = sql.exec.bind(sql) as SqlStorage["exec"];
    Object.defineProperty(sql, "exec", {
      configurable: true,
      value: (...given: Parameters<SqlStorage["exec"]>) => {
        const cursor = exec(...given);
        cursors.push(cursor);
        return cursor;
      },
    });
    return () => cursors.reduce((sum, cursor) => sum + cursor.rowsWritten, 0);
  });

const isQuiet = async (stub: unknown): Promise<void> => {
  const waiting = await runInDurableObject(stub as DurableObjectStub, (_object, { storage }) =>
    storage.sql.exec("SELECT seq FROM outbox").toArray(),
  );
  expect(waiting).toEqual([]);
};

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

it("a KV read writes no row and one line of the log", async () => {
  const { uuid } = await mountKv();
  await put("/v1/kv/data/x", { data: { a: "1" } });
  const { client_token: token } = await holderOf(path("kv/data/*", "read"));
  const read = async () => expect((await get("/v1/kv/data/x", { token })).status).toBe(200);
  await read();
  const rows = await Promise.all([rowsWritten(accessObject()), rowsWritten(env.KV_STORE.getByName(uuid))]);
  const lines = vi.spyOn(console, "info");
  await read();
  expect(rows.map((written) => written())).toEqual([0, 0]);
  expect(lines.mock.calls.filter(([line]) => String(line).includes('"path":"/v1/kv/data/x"'))).toHaveLength(1);
});

it("a token takes AccessControl at most 12 rows", async () => {
  const create = async () => {
    const made = await send("POST", "/v1/auth/token/create", { policies: ["default"] });
    expect(made.status).toBe(200);
    await vi.waitFor(() => isQuiet(accessObject()));
  };
  await create();
  const rows = await rowsWritten(accessObject());
  const costs: number[] = [];
  for (let time = 0; time < 5; time++) {
    const before = rows();
    await create();
    costs.push(rows() - before);
  }
  // The least of several times: an alarm may come in between.
  expect(Math.min(...costs)).toBeLessThanOrEqual(12);
});
