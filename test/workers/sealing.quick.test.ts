import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DataKeys } from "../../src/platform/crypto/data-keys.ts";
import { masterKey } from "../../src/platform/crypto/master-key.ts";
import { del, get, list, mountKv, patch, put } from "./client.ts";
import { deployWithMasterKey, dump, FIRST_KEY, inEveryObject, inStore, key, spellings } from "./sealing-helpers.ts";

/** Invariant 7: secrets are sealed at rest, bound to their place, and nothing works without the right key. */

let kv: { accessor: string; uuid: string };
beforeEach(async () => {
  kv = await mountKv();
});
afterEach(async () => {
  await deployWithMasterKey(FIRST_KEY);
});

describe("at rest", () => {
  it("no table of any object contains a secret, a token or a credential in any encoding", async () => {
    const canary = "canary-Zq8vT2mXw5Rk7Lp3";
    await put("/v1/kv/data/a", { data: { password: canary, nested: { again: [canary] } } });
    await put("/v1/kv/data/a", { data: { password: `${canary}-2` } });
    await patch("/v1/kv/data/a", { data: { more: canary } });
    await put("/v1/kv/delete/a", { versions: [1] });
    await put("/v1/sys/sync/destinations/cloud-a-sm/d", {
      access_key_id: canary,
      secret_access_key: canary,
      region: "eu-west-1",
    });
    await put("/v1/sys/sync/destinations/in-mem/m", {});
    await put("/v1/sys/sync/destinations/in-mem/m/associations/set", { mount: "kv", secret_name: "a" });
    const token = (await put("/v1/auth/token/create", { policies: ["default"] })).body.auth.client_token;
    expect((await get("/v1/sys/sync/destinations/in-mem/m/objects")).text).toContain(canary);

    const kinds: string[] = [];
    await inEveryObject((object, state) => {
      kinds.push(object.constructor.name);
      const disk = dump(state);
      for (const secret of [canary, token, "root-token-of-nobody"]) {
        for (const spelling of spellings(secret)) {
          expect(disk.includes(spelling), `${object.constructor.name} holds ${spelling}`).toBe(false);
        }
      }
    });
    expect(new Set(kinds)).toEqual(new Set(["AccessControl", "KvStore", "SyncDestination", "SyncControl", "EventLog"]));
  });

  it("the search of this test finds an unsealed value", async () => {
    await put("/v1/kv/metadata/a", { custom_metadata: { open: "canary-lies-open" } });
    expect(await inStore(kv.uuid, (_store, state) => dump(state))).toContain("canary-lies-open");
    for (const [at, spelling] of spellings("canary-lies-open").entries()) {
      if (at >= 3) expect(Buffer.from(`${"x".repeat(at - 3)}canary-lies-open`).toString("base64")).toContain(spelling);
    }
  });

  it("destroying a version, and deleting a path, delete all of its data", async () => {
    const blobs = () =>
      inStore(
        kv.uuid,
        (_store, state) =>
          state.storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM versions WHERE sealed IS NOT NULL").one().n,
      );
    for (const path of ["a", "b"]) await put(`/v1/kv/data/${path}`, { data: { k: 1 } });
    expect(await blobs()).toBe(2);
    await put("/v1/kv/destroy/a", { versions: [1] });
    expect(await blobs()).toBe(1);
    await del("/v1/kv/metadata/b");
    expect(await blobs()).toBe(0);
  });

  it("the same value is sealed differently each time", async () => {
    await put("/v1/kv/data/a", { data: { k: "same" } });
    await put("/v1/kv/data/a", { data: { k: "same" } });
    const sealed = await inStore(kv.uuid, (_store, state) =>
      state.storage.sql
        .exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM versions")
        .toArray()
        .map((row) => Buffer.from(row.sealed).toString("hex")),
    );
    expect(new Set(sealed).size).toBe(2);
  });
});

describe("a sealed value that was moved or altered", () => {
  beforeEach(async () => {
    await put("/v1/kv/data/a", { data: { of: "a1" } });
    await put("/v1/kv/data/a", { data: { of: "a2" } });
    await put("/v1/kv/data/b", { data: { of: "b1" } });
  });

  const tamper = (sql: string, ...values: SqlStorageValue[]) =>
    inStore(kv.uuid, (_store, state) => state.storage.sql.exec(sql, ...values).rowsWritten);

  /** Fails closed: 503 with the reason, for reads, patches and subkeys; the neighbour still reads. */
  async function failsClosed(query = "") {
    for (const answer of [
      await get(`/v1/kv/data/a${query}`),
      await get(`/v1/kv/subkeys/a${query}`),
      ...(query === "" ? [await patch("/v1/kv/data/a", { data: { x: 1 } })] : []),
    ]) {
      expect(answer.status).toBe(503);
      expect(answer.body.errors).toEqual([expect.stringMatching(/^sealed: .*altered/)]);
      expect(answer.text).not.toMatch(/a1|a2|b1/);
    }
    expect((await get("/v1/kv/data/b")).body.data.data).toEqual({ of: "b1" });
  }

  it("from another path does not open", async () => {
    await tamper(
      "UPDATE versions SET sealed = (SELECT sealed FROM versions WHERE path = 'b') WHERE path = 'a' AND version = 2",
    );
    await failsClosed();
  });

  it("from another version of the same path does not open", async () => {
    await tamper(
      "UPDATE versions SET sealed = (SELECT sealed FROM versions WHERE path = 'a' AND version = 1) WHERE path = 'a' AND version = 2",
    );
    await failsClosed();
    expect((await get("/v1/kv/data/a?version=1")).body.data.data).toEqual({ of: "a1" });
  });

  it("under a renamed row does not open", async () => {
    await tamper("DELETE FROM versions WHERE path = 'a' AND version = 1");
    await tamper("UPDATE versions SET version = 1 WHERE path = 'a'");
    await failsClosed("?version=1");
  });

  it.each([
    ["the last bit", (blob: Buffer) => blob.writeUInt8(blob.readUInt8(blob.length - 1) ^ 1, blob.length - 1)],
    ["a bit of the nonce", (blob: Buffer) => blob.writeUInt8(blob.readUInt8(4) ^ 1, 4)],
  ])("in %s does not open", async (_name, change) => {
    await inStore(kv.uuid, (_store, state) => {
      const { sealed } = state.storage.sql
        .exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM versions WHERE path = 'a' AND version = 2")
        .one();
      const blob = Buffer.from(sealed);
      change(blob);
      state.storage.sql.exec(
        "UPDATE versions SET sealed = ? WHERE path = 'a' AND version = 2",
        new Uint8Array(blob).buffer,
      );
    });
    await failsClosed();
  });

  it.each([0, 1, 3, 4, 16, 31, 32])("to %d bytes does not open", async (bytes) => {
    await tamper("UPDATE versions SET sealed = substr(sealed, 1, ?) WHERE path = 'a' AND version = 2", bytes);
    await failsClosed();
  });

  it("with an unknown key term does not open, and the error names the term", async () => {
    await tamper(
      "UPDATE versions SET sealed = CAST(x'000000ff' || substr(sealed, 5) AS BLOB) WHERE path = 'a' AND version = 2",
    );
    const answer = await get("/v1/kv/data/a");
    expect([answer.status, answer.body.errors]).toEqual([503, ["sealed: data key of term 255 is missing"]]);
  });

  it("from another mount does not open, also with that mount's data keys", async () => {
    const other = await mountKv("other");
    await put("/v1/other/data/a", { data: { of: "other" } });
    const stolen = await inStore(other.uuid, (_store, state) => ({
      sealed: state.storage.sql.exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM versions").one().sealed,
      wrapped: state.storage.sql.exec<{ wrapped: ArrayBuffer }>("SELECT wrapped FROM data_keys").one().wrapped,
    }));
    await tamper("UPDATE versions SET sealed = ? WHERE path = 'a' AND version = 2", stolen.sealed);
    await failsClosed();
    await tamper("UPDATE data_keys SET wrapped = ?", stolen.wrapped);
    await deployWithMasterKey(FIRST_KEY);
    const answer = await get("/v1/kv/data/a");
    expect([answer.status, answer.body.errors]).toEqual([
      503,
      [expect.stringMatching(/^sealed: the data key of term 1 does not open under master key [0-9a-f]{8}$/)],
    ]);
    expect((await get("/v1/other/data/a")).body.data.data).toEqual({ of: "other" });
  });
});

describe("a master key that is", () => {
  const MALFORMED = /^sealed: key 1 of MASTER_KEY is not base64 of 32 bytes$/;
  it.each([
    ["missing", undefined, /^sealed: MASTER_KEY is not set$/],
    ["empty", "", /^sealed: MASTER_KEY is not set$/],
    ["only commas", " , ", /^sealed: MASTER_KEY is not set$/],
    ["another", key("another"), /^sealed: .* sealed under master key [0-9a-f]{8}, which MASTER_KEY does not hold$/],
    ["too short", Buffer.from("short").toString("base64"), MALFORMED],
    ["no base64", `${FIRST_KEY.slice(0, -4)}!!!!`, MALFORMED],
    ["mistyped by a character too many", `${FIRST_KEY.slice(0, 10)}*${FIRST_KEY.slice(10)}`, MALFORMED],
    ["followed by a malformed one", `${FIRST_KEY},x`, /^sealed: key 2 of MASTER_KEY is not base64 of 32 bytes$/],
  ])(
    "%s makes every authenticated route return 503 with the reason, and health report it",
    async (_name, text, reason) => {
      await put("/v1/kv/data/a", { data: { k: "canary-value" } });
      await put("/v1/sys/sync/destinations/in-mem/m", {});
      await deployWithMasterKey(text);
      for (const answer of [
        await get("/v1/kv/data/a"),
        await get("/v1/kv/data/a", { token: "unknown" }),
        await put("/v1/kv/data/a", { data: {} }),
        await patch("/v1/kv/data/a", { data: {} }),
        await del("/v1/kv/data/a"),
        await put("/v1/kv/destroy/a", { versions: [1] }),
        await get("/v1/kv/metadata/a"),
        await del("/v1/kv/metadata/a"),
        await list("/v1/kv/metadata/"),
        await get("/v1/kv/config"),
        await get("/v1/sys/mounts"),
        await del("/v1/sys/mounts/kv"),
        await get("/v1/sys/policies/acl/default"),
        await get("/v1/sys/key-status"),
        await put("/v1/sys/rotate", {}),
        await get("/v1/auth/token/lookup-self"),
        await put("/v1/auth/token/create", {}),
        await get("/v1/sys/sync/destinations/in-mem/m"),
        await get("/v1/sys/namespaces?list=true"),
      ]) {
        expect([answer.status, answer.body.errors]).toEqual([503, [expect.stringMatching(reason)]]);
        if (text) expect(answer.text).not.toContain(text);
      }
      for (const path of ["/v1/acl/tokens", "/v1/acl/token/self", "/v1/namespaces"]) {
        const answer = await get(path);
        expect([answer.status, answer.text], path).toEqual([503, expect.stringMatching(reason)]);
      }
      const health = await get("/v1/sys/health", { token: null });
      expect([health.status, health.body.sealed, health.body.initialized]).toEqual([503, true, true]);
      expect(health.body.sealed_because).toMatch(reason);

      await deployWithMasterKey(FIRST_KEY);
      expect((await get("/v1/kv/data/a")).body.data).toMatchObject({
        data: { k: "canary-value" },
        metadata: { version: 1 },
      });
      expect((await get("/v1/sys/health", { token: null })).status).toBe(200);
    },
  );

  it("among others, in any position and with blanks around, opens everything", async () => {
    await put("/v1/kv/data/a", { data: { k: 1 } });
    await deployWithMasterKey(` ${key("new")} , ${key("newer")},${FIRST_KEY} ,`);
    expect((await get("/v1/kv/data/a")).status).toBe(200);
  });
});

describe("data keys", () => {
  it("made in a transaction that is rolled back are not used afterwards", async () => {
    await inStore(kv.uuid, (_store, state) => {
      const keys = new DataKeys(state.storage.sql, kv.uuid, () => FIRST_KEY);
      expect(() =>
        state.storage.transactionSync(() => {
          keys.rotate(7, Date.now());
          throw new Error("rolled back");
        }),
      ).toThrow("rolled back");
      const sealed = keys.seal("value", "here");
      expect(new DataKeys(state.storage.sql, kv.uuid, () => FIRST_KEY).openText(sealed, "here")).toBe("value");
    });
  });

  it("are all wrapped under the newest master key by each rotation, so that the keys before it can be dropped", async () => {
    await inStore(kv.uuid, (_store, state) => {
      const { sql } = state.storage;
      let ring = FIRST_KEY;
      const keys = () => new DataKeys(sql, kv.uuid, () => ring);
      const rolledBack = new Error("rolled back");
      const rotations = () => {
        const sealed = [keys().seal("1", "here")];
        for (const [term, name] of [
          [2, "second"],
          [3, "third"],
          [3, "fourth"],
        ] as const) {
          const [before = ""] = ring.split(",");
          ring = `${key(name)},${before}`;
          keys().rotate(term, Date.now());
          ring = key(name);
          expect(sealed.map((value) => keys().openText(value, "here"))).toEqual(sealed.map((_, at) => String(at + 1)));
          sealed.push(keys().seal(String(sealed.length + 1), "here"));
        }
        const terms = sql.exec<{ term: number; master: string }>("SELECT term, master FROM data_keys ORDER BY term");
        const rows = terms.toArray();
        expect(rows.map(({ term }) => term)).toEqual([1, 2, 3]);
        expect(new Set(rows.map(({ master }) => master)).size).toBe(1);
        // The newest term seals, and an older one that comes late changes nothing.
        expect(sealed.map((value) => Buffer.from(value).readUInt32BE(0))).toEqual([1, 2, 3, 3]);
        keys().rotate(1, Date.now());
        expect(Buffer.from(keys().seal("x", "here")).readUInt32BE(0)).toBe(3);
        throw rolledBack;
      };
      expect(() => state.storage.transactionSync(rotations)).toThrow(rolledBack);
    });
  });

  it("cannot be moved to another object or another term", async () => {
    await inStore(kv.uuid, (_store, state) => {
      const { sql } = state.storage;
      const rolledBack = new Error("rolled back");
      const moves = () => {
        const moved = /does not open under master key/;
        expect(new DataKeys(sql, "another object", () => FIRST_KEY).sealedBecause()).toMatch(moved);
        sql.exec("UPDATE data_keys SET term = term + 1");
        expect(new DataKeys(sql, kv.uuid, () => FIRST_KEY).sealedBecause()).toMatch(moved);
        throw rolledBack;
      };
      expect(() => state.storage.transactionSync(moves)).toThrow(rolledBack);
    });
  });

  it("open a value only in the context it was sealed for", async () => {
    await inStore(kv.uuid, (_store, state) => {
      const keys = new DataKeys(state.storage.sql, kv.uuid, () => masterKey(env));
      const sealed = keys.seal("value", "here");
      expect(keys.openText(sealed, "here")).toBe("value");
      expect(() => keys.openText(sealed, "there")).toThrow("altered or moved");
      expect(keys.openText(keys.seal("", "here"), "here")).toBe("");
      const larger = Buffer.concat([Buffer.alloc(7, 9), sealed, Buffer.alloc(5, 9)]);
      expect(keys.openText(larger.subarray(7, 7 + sealed.length), "here")).toBe("value");
    });
  });
});
