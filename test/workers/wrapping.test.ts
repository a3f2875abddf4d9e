import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { itRows } from "../support/rows.ts";
import { accessObject, dump, eventsOf, holderOf, issue, path } from "./access.ts";
import { loseEverything, restore, snapshot } from "./backup-world.ts";
import { type Answer, del, get, list, mountKv, put, send } from "./client.ts";
import { creds, dynamicRole, mountEngine, openTenant, writeRole } from "./engine-helpers.ts";
import { evictObject } from "./evict-all.ts";

/** docs/guides/wrapping.md. */

const CANARY = "canary-wrapped";
const NOT_VALID = "wrapping token is not valid or does not exist";
const asked = (ttl: string | number = 60) => ({ headers: { "X-Vault-Wrap-TTL": String(ttl) } });

/** The `wrap_info` of an answer; fails the test without one. */
function infoOf({ status, text, body }: Answer): { token: string; accessor: string; [field: string]: unknown } {
  expect([status, body?.data, body?.auth], text).toEqual([200, null, null]);
  expect(text).not.toContain(CANARY);
  return body.wrap_info;
}
const wrapSecret = async (ttl: string | number = 60) => infoOf(await get("/v1/kv/data/app", asked(ttl)));
const unwrap = (token: string) => put("/v1/sys/wrapping/unwrap", {}, { token });
const refused = ({ status, body }: Answer) => [status, body.errors];

const rows = (): Promise<number[]> =>
  runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
    const count = (from: string) => sql.exec<{ n: number }>(`SELECT count(*) AS n FROM ${from}`).one().n;
    return [count("wrapped_answers"), count("tokens WHERE policies = '[\"response-wrapping\"]'")];
  });

beforeEach(async () => {
  await mountKv();
  await put("/v1/kv/data/app", `{"data":{"password":"${CANARY}","n":12345678901234567890}}`);
});

describe("a request with X-Vault-Wrap-TTL", () => {
  it("returns only wrap_info, and the unwrapped answer is the original, digit by digit", async () => {
    const open = await get("/v1/kv/data/app");
    const wrapped = await get("/v1/kv/data/app", asked("5m"));
    expect(infoOf(wrapped)).toEqual({
      token: expect.stringMatching(/^hvs\.[A-Za-z0-9]{24}$/),
      accessor: expect.stringMatching(/^[A-Za-z0-9]{24}$/),
      ttl: 300,
      creation_time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      creation_path: "kv/data/app",
      wrapped_accessor: "",
    });
    expect(wrapped.body).toMatchObject({ lease_id: "", renewable: false, lease_duration: 0, warnings: null });
    const unwrapped = await unwrap(wrapped.body.wrap_info.token);
    expect(unwrapped.text).toContain('"n":12345678901234567890');
    expect({ ...unwrapped.body, request_id: "" }).toEqual({ ...open.body, request_id: "" });
    expect(unwrapped.headers.get("Cache-Control")).toBe("no-store");
    expect(await rows()).toEqual([0, 0]);
  });

  it("is understood in seconds, as a duration and under the neutral name; zero and none mean open", async () => {
    for (const [ttl, seconds] of [
      ["90", 90],
      ["1m30s", 90],
      ["500ms", 1],
      ["768h", 2_764_800],
    ] as const) {
      expect((await wrapSecret(ttl)).ttl, ttl).toBe(seconds);
    }
    expect(infoOf(await get("/v1/kv/data/app", { headers: { "X-Orch-Wrap-TTL": "60" } })).ttl).toBe(60);
    for (const ttl of ["", "0", "0s"]) expect((await get("/v1/kv/data/app", asked(ttl))).text).toContain(CANARY);
  });

  itRows(["nonsense", "-1", "-500ms", "769h", "1x"])("returns 400 for %j and does nothing", async (ttl) => {
    const before = await rows();
    for (const answer of [
      await get("/v1/kv/data/app", asked(ttl)),
      await put("/v1/kv/data/app", { data: {} }, asked(ttl)),
      await send("POST", "/v1/auth/token/create", {}, asked(ttl)),
    ]) {
      expect(refused(answer)).toEqual([400, [expect.stringContaining("X-Vault-Wrap-TTL")]]);
    }
    expect((await get("/v1/kv/data/app")).body.data.metadata.version).toBe(1);
    expect(await rows()).toEqual(before);
  });

  it("does not wrap refusals, answers without content, and public answers without an envelope", async () => {
    expect((await get("/v1/kv/data/none", asked())).status).toBe(404);
    expect((await get("/v1/kv/data/app", { token: "nobody", ...asked() })).status).toBe(403);
    const made = await put("/v1/sys/policies/acl/p", { policy: path("a", "read") }, asked());
    expect([made.status, made.text]).toEqual([204, ""]);
    for (const at of ["health", "seal-status", "leader"]) {
      const answer = await get(`/v1/sys/${at}`, asked());
      expect([answer.status, "wrap_info" in answer.body], at).toEqual([200, false]);
    }
    const listed = await get("/v1/sys/internal/ui/mounts", { token: null, ...asked() });
    expect(listed.body).toMatchObject({ wrap_info: null, data: { secret: {} } });
    expect((await send("HEAD", "/v1/kv/data/app", undefined, asked())).text).toBe("");
    expect(await rows()).toEqual([0, 0]);
  });

  it("returns 400 for an answer that is no envelope, instead of the open answer", async () => {
    const answer = await get("/v1/sys/snapshot", asked());
    expect(refused(answer)).toEqual([400, [expect.stringContaining("cannot be wrapped")]]);
  });

  it("wraps lists, writes with an answer, and warnings", async () => {
    expect(infoOf(await list("/v1/kv/metadata", asked())).creation_path).toBe("kv/metadata/");
    const { token } = infoOf(await put("/v1/kv/data/app", { data: {}, unknown_field: 1 }, asked()));
    expect((await unwrap(token)).body).toMatchObject({ data: { version: 2 }, warnings: [expect.any(String)] });
  });

  it("names the token inside the answer by its accessor, and not otherwise", async () => {
    const created = infoOf(await put("/v1/auth/token/create", { policies: ["default"] }, asked()));
    const { auth } = (await unwrap(created.token)).body;
    expect(created).toMatchObject({ wrapped_accessor: auth.accessor, creation_path: "auth/token/create" });
    expect((await get("/v1/auth/token/lookup-self", { token: auth.client_token })).status).toBe(200);
  });

  it("names a secret id inside the answer by its accessor", async () => {
    await put("/v1/sys/auth/approle", { type: "approle" });
    await put("/v1/auth/approle/role/app", {});
    const { token, wrapped_accessor } = infoOf(await put("/v1/auth/approle/role/app/secret-id", {}, asked()));
    expect((await unwrap(token)).body.data.secret_id_accessor).toBe(wrapped_accessor);
    await put("/v1/kv/data/odd", { data: { secret_id_accessor: "mine" } });
    expect(infoOf(await get("/v1/kv/data/odd", asked())).wrapped_accessor).toBe("");
  });

  it("wraps a login", async () => {
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put("/v1/auth/userpass/users/ann", { password: "p" });
    const wrapped = infoOf(await put("/v1/auth/userpass/login/ann", { password: "p" }, { token: null, ...asked() }));
    const { auth } = (await unwrap(wrapped.token)).body;
    expect(auth.accessor).toBe(wrapped["wrapped_accessor"]);
    expect((await get("/v1/auth/token/lookup-self", { token: auth.client_token })).status).toBe(200);
  });

  it("leaves the lease in a wrapped answer with the token of the caller", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    await writeRole("reader", dynamicRole(tenant));
    const rules = path("cloud-b/creds/*", "read");
    const { client_token: token } = await holderOf(rules);
    const wrapped = infoOf(await get("/v1/cloud-b/creds/reader", { token, ...asked() }));
    const { lease_id, data } = (await unwrap(wrapped.token)).body;
    expect(data.client_secret).toEqual(expect.any(String));
    expect((await put("/v1/sys/leases/lookup", { lease_id })).status).toBe(200);
    await put("/v1/auth/token/revoke", { token });
    await vi.waitFor(async () => expect((await put("/v1/sys/leases/lookup", { lease_id })).status).toBe(400));
    expect((await creds("reader")).status).toBe(200);
  });
});

describe("a wrapping token", () => {
  it("opens the answer once: the second unwrap returns 400", async () => {
    const { token } = await wrapSecret();
    expect((await unwrap(token)).status).toBe(200);
    for (const again of [await unwrap(token), await put("/v1/sys/wrapping/unwrap", { token })]) {
      expect(refused(again)).toEqual([400, [NOT_VALID]]);
    }
  });

  it("opens the answer for exactly one of 50 parallel unwraps", async () => {
    const { token } = await wrapSecret();
    const answers = await Promise.all(Array.from({ length: 50 }, () => unwrap(token)));
    const won = answers.filter(({ status }) => status === 200);
    expect(won.map(({ body }) => body.data.data.password)).toEqual([CANARY]);
    const lost = answers.filter(({ status }) => status !== 200);
    expect(new Set(lost.map((answer) => JSON.stringify(refused(answer))))).toEqual(
      new Set([JSON.stringify([400, [NOT_VALID]])]),
    );
    expect(lost.length).toBe(49);
  });

  it("may be named in the body, with the token of another caller, with itself or with none", async () => {
    const holder = (await issue({ policies: ["default"] })).client_token;
    for (const token of [holder, null, "root"]) {
      const wrapping = (await wrapSecret()).token;
      const answer = await put("/v1/sys/wrapping/unwrap", { token: wrapping }, { token });
      expect(answer.body.data.data.password, String(token)).toBe(CANARY);
    }
    const { token } = await wrapSecret();
    expect((await put("/v1/sys/wrapping/unwrap", { token }, { token })).status).toBe(200);
  });

  it("stays unused when another caller has no right to unwrap, or is unknown", async () => {
    const { token } = await wrapSecret();
    const powerless = (await holderOf(path("none", "deny"))).client_token;
    for (const caller of [powerless, "nobody"]) {
      expect((await put("/v1/sys/wrapping/unwrap", { token }, { token: caller })).status).toBe(403);
      expect((await put("/v1/sys/wrapping/rewrap", { token }, { token: caller })).status).toBe(403);
    }
    expect((await unwrap(token)).status).toBe(200);
  });

  it("returns 400 for no token, an unknown one, and one that wraps nothing", async () => {
    const none = await put("/v1/sys/wrapping/unwrap", {}, { token: null });
    expect(refused(none)).toEqual([400, ['missing "token" value in input']]);
    for (const token of ["nobody", "root", (await issue()).client_token]) {
      expect(refused(await put("/v1/sys/wrapping/unwrap", { token }))).toEqual([400, [NOT_VALID]]);
      expect(refused(await put("/v1/sys/wrapping/lookup", { token }))).toEqual([400, [NOT_VALID]]);
      expect(refused(await put("/v1/sys/wrapping/rewrap", { token }))).toEqual([400, [NOT_VALID]]);
    }
  });

  it("as X-Vault-Token elsewhere returns 403, and is not used up", async () => {
    const { token } = await wrapSecret();
    const elsewhere = [
      await get("/v1/kv/data/app", { token }),
      await get("/v1/auth/token/lookup-self", { token }),
      await put("/v1/auth/token/renew-self", {}, { token }),
      await put("/v1/auth/token/revoke-self", {}, { token }),
      await put("/v1/auth/token/create", {}, { token }),
      await put("/v1/sys/capabilities-self", { path: "a" }, { token }),
      await put("/v1/cubbyhole/response", { a: 1 }, { token }),
      await del("/v1/cubbyhole/response", { token }),
      await list("/v1/cubbyhole", { token }),
      await put("/v1/sys/wrapping/wrap", { a: 1 }, { token }),
      await get("/v1/nodes", { token }),
      await get("/v1/acl/token/self", { token }),
    ];
    expect(elsewhere.map(({ status }) => status)).toEqual(elsewhere.map(() => 403));
    const visible = await get("/v1/sys/internal/ui/mounts", { token });
    expect(visible.body.data.secret).toEqual({});
    expect((await unwrap(token)).body.data.data.password).toBe(CANARY);
  });

  it("opens the answer after the revocation of the token that requested it", async () => {
    const caller = (await holderOf(path("kv/data/app", "read"))).client_token;
    const { token } = infoOf(await get("/v1/kv/data/app", { token: caller, ...asked() }));
    await put("/v1/auth/token/revoke", { token: caller });
    expect((await unwrap(token)).body.data.data.password).toBe(CANARY);
  });

  it("returns 400 after its expiry, and the answer is deleted", async () => {
    const { token } = await wrapSecret(1);
    const real = Date.now.bind(Date);
    const moved = vi.spyOn(Date, "now").mockImplementation(() => real() + 2_000);
    expect(refused(await unwrap(token))).toEqual([400, [NOT_VALID]]);
    expect(refused(await put("/v1/sys/wrapping/rewrap", { token }))).toEqual([400, [NOT_VALID]]);
    await runDurableObjectAlarm(accessObject());
    moved.mockRestore();
    expect(await rows()).toEqual([0, 0]);
  });

  it("can be revoked by its accessor, with the answer", async () => {
    const { token, accessor } = await wrapSecret();
    const seen = await put("/v1/auth/token/lookup-accessor", { accessor });
    expect(seen.body.data).toMatchObject({ policies: ["response-wrapping"], num_uses: 1, path: "kv/data/app" });
    expect((await put("/v1/auth/token/revoke-accessor", { accessor })).status).toBe(204);
    expect(refused(await unwrap(token))).toEqual([400, [NOT_VALID]]);
    expect(await rows()).toEqual([0, 0]);
  });

  it("reads its answer at cubbyhole/response, once and not by HEAD", async () => {
    const { token } = await wrapSecret();
    expect((await send("HEAD", "/v1/cubbyhole/response", undefined, { token })).status).toBe(405);
    const { data, warnings } = (await get("/v1/cubbyhole/response", { token })).body;
    expect(JSON.parse(data.response).data.data.password).toBe(CANARY);
    expect(warnings).toEqual([expect.stringContaining("deprecated")]);
    expect((await get("/v1/cubbyhole/response", { token })).status).toBe(403);
    expect(refused(await unwrap(token))).toEqual([400, [NOT_VALID]]);
    expect((await get("/v1/cubbyhole/response")).status).toBe(404);
  });

  it("is in no list of the cluster API and sends no event", async () => {
    const before = (await eventsOf("ACLToken")).length;
    const { token, accessor } = await wrapSecret();
    expect((await get("/v1/acl/tokens")).text).not.toContain(accessor);
    await unwrap(token);
    await put("/v1/auth/token/revoke-accessor", { accessor: (await wrapSecret()).accessor });
    expect((await eventsOf("ACLToken")).length).toBe(before);
  });
});

describe("the policy response-wrapping", () => {
  it("can be read, but not written, deleted, listed or assigned", async () => {
    const at = "/v1/sys/policies/acl/response-wrapping";
    expect((await get(at)).body.data.policy).toContain("sys/wrapping/unwrap");
    expect((await put(at, { policy: path("*", "sudo") })).status).toBe(400);
    expect((await del(at)).status).toBe(400);
    expect((await list("/v1/sys/policies/acl")).body.data.keys).toEqual(["default", "root"]);
    const assigned = await put("/v1/auth/token/create", { policies: ["response-wrapping"] });
    expect(refused(assigned)).toEqual([400, ['cannot assign policy "response-wrapping"']]);
  });
});

describe("sys/wrapping/wrap", () => {
  it("wraps the body, for 300 s unless the header sets another TTL", async () => {
    const body = `{"secret":"${CANARY}","n":12345678901234567890,"none":null}`;
    const info = infoOf(await put("/v1/sys/wrapping/wrap", body));
    expect(info).toMatchObject({ ttl: 300, creation_path: "sys/wrapping/wrap" });
    expect((await unwrap(info.token)).text).toContain(`"data":${body}`);
    expect(infoOf(await put("/v1/sys/wrapping/wrap", { a: 1 }, asked("7s"))).ttl).toBe(7);
    const open = await put("/v1/sys/wrapping/wrap", { a: 1 }, asked("0"));
    expect(refused(open)).toEqual([400, ["endpoint requires response wrapping to be used"]]);
  });

  it("is granted by the default policy", async () => {
    const { client_token: token } = await issue({ policies: ["default"] });
    infoOf(await put("/v1/sys/wrapping/wrap", { a: 1 }, { token }));
  });

  it("is found behind the name of a namespace, and is no secret of such a name", async () => {
    await put("/v1/sys/namespaces/ns", {});
    expect(infoOf(await put("/v1/ns/sys/wrapping/wrap", { a: 1 })).ttl).toBe(300);
    const written = await put("/v1/kv/data/docs/sys/wrapping/wrap", { data: { a: 1 } });
    expect([written.status, written.body.data.version, written.body.wrap_info]).toEqual([200, 1, null]);
  });
});

describe("sys/wrapping/unwrap with X-Vault-Wrap-TTL", () => {
  it("wraps the answer again, so that it is not sent in the open", async () => {
    const { token } = await wrapSecret();
    const again = infoOf(await put("/v1/sys/wrapping/unwrap", { token }, { token: null, ...asked() }));
    expect((await unwrap(again.token)).body.data.data.password).toBe(CANARY);
  });
});

describe("sys/wrapping/lookup", () => {
  it("describes the answer without a token of the caller, and does not use it up", async () => {
    const { token, creation_time } = await wrapSecret(120);
    const seen = { creation_path: "kv/data/app", creation_time, creation_ttl: 120 };
    expect((await put("/v1/sys/wrapping/lookup", { token }, { token: null })).body.data).toEqual(seen);
    expect((await put("/v1/sys/wrapping/lookup", { token }, { ...asked() })).body.data).toEqual(seen);
    expect((await put("/v1/sys/wrapping/lookup", {}, { token })).body.data).toEqual(seen);
    expect((await get("/v1/sys/wrapping/lookup", { token })).body.data).toEqual(seen);
    expect((await unwrap(token)).status).toBe(200);
  });
});

describe("sys/wrapping/rewrap", () => {
  it("moves the answer to a new token with the original TTL, and ends the old one", async () => {
    const first = infoOf(await put("/v1/auth/token/create", {}, asked(120)));
    const second = infoOf(await put("/v1/sys/wrapping/rewrap", { token: first.token }));
    const { ttl, creation_path, wrapped_accessor } = first;
    expect(second).toMatchObject({ ttl, creation_path, wrapped_accessor });
    expect(second.token).not.toBe(first.token);
    expect(refused(await unwrap(first.token))).toEqual([400, [NOT_VALID]]);
    expect((await unwrap(second.token)).body.auth.accessor).toBe(wrapped_accessor);
    const own = (await wrapSecret()).token;
    infoOf(await put("/v1/sys/wrapping/rewrap", {}, { token: own }));
  });
});

describe("a wrapped answer", () => {
  it("is sealed, survives a restart and a rotation, and is carried by a snapshot", async () => {
    const [first, second] = [await wrapSecret(), await wrapSecret()];
    const stored = await dump();
    for (const secret of [CANARY, first.token]) expect(stored).not.toContain(secret);
    await put("/v1/sys/rotate", {});
    await evictObject(accessObject());
    expect((await unwrap(first.token)).body.data.data.password).toBe(CANARY);
    const file = await snapshot();
    await loseEverything();
    await restore(file);
    // Restored objects restart behind the answer.
    const unwrapped = async () => (await unwrap(second.token)).body.data?.data.password;
    await expect.poll(unwrapped).toBe(CANARY);
  });

  it("does not open under another token", async () => {
    const [first, second] = [await wrapSecret(), await wrapSecret()];
    await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      const body = "(SELECT body FROM wrapped_answers WHERE token = ?)";
      sql.exec(`UPDATE wrapped_answers SET body = ${body} WHERE token = ?`, first.accessor, second.accessor);
    });
    expect((await unwrap(second.token)).status).toBe(503);
  });

  it("that cannot be stored is not returned in the open", async () => {
    for (const failure of [
      () =>
        vi.spyOn(AccessControl.prototype, "wrap").mockImplementation(() => {
          throw new Error("disk");
        }),
      () =>
        vi.spyOn(AccessControl.prototype, "wrap").mockReturnValue({ ok: false, reason: "exhausted", message: "full" }),
    ]) {
      const spy = failure();
      for (const answer of [
        await get("/v1/kv/data/app", asked()),
        await put("/v1/auth/token/create", { meta: { by: "canary" } }, asked()),
      ]) {
        expect(answer.status).toBeGreaterThanOrEqual(500);
        expect(answer.text).not.toMatch(/canary|wrap_info|hvs\./);
      }
      spy.mockRestore();
    }
  });

  it("leaves nothing readable after a crash between store and answer", async () => {
    const { wrap } = AccessControl.prototype;
    const spy = vi.spyOn(AccessControl.prototype, "wrap").mockImplementationOnce(function (
      this: AccessControl,
      request,
    ) {
      wrap.call(this, request);
      throw new Error("the isolate died");
    });
    const answer = await get("/v1/kv/data/app", asked());
    spy.mockRestore();
    expect([answer.status, answer.text.includes(CANARY)]).toEqual([500, false]);
    expect(await rows()).toEqual([1, 1]);
    expect(await dump()).not.toContain(CANARY);
  });

  it("belongs to its namespace, is opened from anywhere, and ends with the namespace", async () => {
    await put("/v1/sys/namespaces/ns", {});
    const inside = { "X-Vault-Namespace": "ns" };
    await mountKv("kv", { headers: inside });
    await put("/v1/ns/kv/data/app", { data: { password: CANARY } });
    const wrap = async () => infoOf(await get("/v1/kv/data/app", { headers: { ...inside, "X-Vault-Wrap-TTL": "60" } }));
    const first = await wrap();
    expect(first["creation_path"]).toBe("kv/data/app");
    expect((await unwrap(first.token)).status).toBe(200);
    const second = await wrap();
    expect((await put("/v1/ns/sys/wrapping/lookup", { token: second.token }, { token: null })).status).toBe(200);
    expect((await put("/v1/ns/sys/wrapping/unwrap", {}, { token: second.token })).status).toBe(200);
    const third = await wrap();
    await del("/v1/sys/mounts/kv", { headers: inside });
    expect((await del("/v1/sys/namespaces/ns")).status).toBe(204);
    expect(refused(await unwrap(third.token))).toEqual([400, [NOT_VALID]]);
    expect(await rows()).toEqual([0, 0]);
  });

  it("is recorded by accessor, and neither secret nor wrapping token is in any line", async () => {
    const lines: string[] = [];
    for (const method of ["log", "info", "warn", "error"] as const) {
      vi.spyOn(console, method).mockImplementation(
        (...words: unknown[]) => void lines.push(words.map(String).join(" ")),
      );
    }
    const { token, accessor } = await wrapSecret();
    await put("/v1/sys/wrapping/lookup", { token }, { token: null });
    await unwrap(token);
    await unwrap(token);
    await put("/v1/sys/wrapping/wrap", { secret: CANARY });
    const actions = lines.filter((line) => line.includes('"kind":"action"')).map((line) => JSON.parse(line));
    const of = actions.filter((line) => line.accessor === accessor).map(({ event }) => event);
    expect(of).toEqual(["answer-wrapped", "answer-unwrapped"]);
    expect(lines.filter((line) => line.includes(CANARY) || line.includes(token))).toEqual([]);
    vi.restoreAllMocks();
  });

  it("is refused with 507 while 5000 of the same token wait, rewrapped ones too, and not for another", async () => {
    const { accessor } = (await get("/v1/auth/token/lookup-self")).body.data;
    const { token: first } = infoOf(await get("/v1/kv/data/app", asked()));
    infoOf(await put("/v1/sys/wrapping/rewrap", { token: first }));
    await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)
         INSERT INTO wrapped_answers (token, bytes, wrapped, body, asker) SELECT 't' || i, 1, '', x'00', ? FROM n`,
        accessor,
      );
    });
    const full = await get("/v1/kv/data/app", asked());
    expect([full.status, full.body.errors[0]]).toEqual([507, expect.stringContaining("at most 5000 of one token")]);
    expect(full.text).not.toContain(CANARY);
    const { client_token: token } = await holderOf(path("kv/data/app", "read"));
    infoOf(await get("/v1/kv/data/app", { token, ...asked() }));
  });

  it("of more than 1800000 bytes is refused with 400", async () => {
    const long = "x".repeat(3_900);
    const write = (_: unknown, n: number) => put(`/v1/kv/data/${n}${long}`, { data: {} });
    await Promise.all(Array.from({ length: 480 }, write));
    const answer = await list("/v1/kv/metadata", asked());
    expect(refused(answer)).toEqual([400, [expect.stringContaining("larger than 1800000 bytes")]]);
    expect((await list("/v1/kv/metadata")).status).toBe(200);
  });
});
