import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { Opener, Sealer } from "../../src/backup/format.ts";
import { framesOf } from "../../src/backup/frames.ts";
import type { SyncDestination } from "../../src/objects/sync-destination.ts";
import { destinationName } from "../../src/rpc/destination-name.ts";
import { get, mountKv, put } from "./client.ts";
import { FIRST_KEY, key } from "./sealing-helpers.ts";
import { makeDestination, setAssociation, write } from "./sync-helpers.ts";

/** Attacks by a writer to the disk, or by the holder of a snapshot file, without the master key. */

const inDestination = <T>(type: string, name: string, look: (sql: SqlStorage) => T): Promise<T> => {
  const object = env.SYNC_DESTINATION.getByName(destinationName({ namespace: "", type, name }));
  return runInDurableObject(object as DurableObjectStub<SyncDestination>, (_object, { storage }) => look(storage.sql));
};

/** Moves the sealed value of a row of `from` to that of `to`, together with its data key. */
async function move(type: string, [from, to]: [string, string], table: string, column: string): Promise<void> {
  const taken = await inDestination(type, from, (sql) => ({
    ...sql.exec<{ sealed: ArrayBuffer }>(`SELECT ${column} AS sealed FROM ${table}`).one(),
    ...sql.exec<{ wrapped: ArrayBuffer }>("SELECT wrapped FROM data_keys").one(),
  }));
  for (const withKey of [false, true]) {
    await inDestination(type, to, (sql) => {
      sql.exec(`UPDATE ${table} SET ${column} = ?`, taken.sealed);
      if (withKey) sql.exec("UPDATE data_keys SET wrapped = ?", taken.wrapped);
    });
    await abortAllDurableObjects();
  }
}

const AWS = { access_key_id: "AKIDEXAMPLE", secret_access_key: "secret", region: "eu-west-1" };

describe("a sealed value moved to another destination together with its data key", () => {
  it("does not open: credentials", async () => {
    for (const name of ["a", "b"]) await makeDestination("cloud-a-sm", name, AWS);
    await move("cloud-a-sm", ["a", "b"], "destination", "connection");
    const answer = await get("/v1/sys/sync/destinations/cloud-a-sm/b");
    expect([answer.status, answer.body.errors]).toEqual([503, [expect.stringMatching(/^sealed: .*does not open/)]]);
    expect((await get("/v1/sys/sync/destinations/cloud-a-sm/a")).status).toBe(200);
  });

  it("does not open: an object of kind stored", async () => {
    await mountKv();
    for (const name of ["a", "b"]) {
      await makeDestination("in-mem", name);
      await write("app", { value: `of-${name}` });
      await setAssociation(`in-mem/${name}`, "app");
    }
    await move("in-mem", ["a", "b"], "stored_objects", "value");
    const answer = await get("/v1/sys/sync/destinations/in-mem/b/objects");
    expect(answer.status).toBe(503);
    expect(answer.text).not.toContain("of-");
  });
});

describe("a snapshot file", () => {
  const rows = (table: string, ...values: string[]) =>
    ({ type: "rows", table, columns: ["c"], rows: values.map((value) => [value]) }) as const;

  /** A file of two records, and its frames. */
  function file() {
    const sealer = new Sealer("one", new Date(0), FIRST_KEY);
    const pieces = [
      sealer.begin(),
      sealer.seal(rows("t", "canary-1")),
      sealer.seal(rows("t", "canary-2")),
      sealer.end(),
    ];
    return { whole: Buffer.concat(pieces), pieces: pieces.map((piece) => Buffer.from(piece)) };
  }

  /** The tables' values in a file, or why it is refused. */
  async function opened(bytes: Uint8Array, master = FIRST_KEY): Promise<unknown[] | string> {
    const found: unknown[] = [];
    try {
      let opener: Opener | undefined;
      for await (const frame of framesOf(new Blob([bytes]).stream())) {
        if (opener === undefined) {
          opener = new Opener(frame, master);
          continue;
        }
        const record = opener.open(frame);
        if (record.type === "rows") found.push(...record.rows.flat());
      }
      if (opener === undefined) return "empty";
      opener.close();
      return found;
    } catch (failure) {
      return String(failure);
    }
  }

  it("shows no value, and opens under its own master key only", async () => {
    const { whole } = file();
    expect(whole.toString("latin1")).not.toContain("canary");
    expect(await opened(whole)).toEqual(["canary-1", "canary-2"]);
    expect(await opened(whole, `${key("newer")},${FIRST_KEY}`)).toEqual(["canary-1", "canary-2"]);
    expect(await opened(whole, key("another"))).toMatch(/which MASTER_KEY of this deployment does not hold/);
  });

  it("is refused when any bit is changed", async () => {
    const { whole } = file();
    for (let at = 0; at < whole.length; at++) {
      const altered = Buffer.from(whole);
      altered.writeUInt8(altered.readUInt8(at) ^ 1, at);
      expect(typeof (await opened(altered)), `byte ${at}`).toBe("string");
    }
  });

  it("is refused with missing, reordered, repeated or foreign frames", async () => {
    const [begin, one, two, end] = file().pieces as [Buffer, Buffer, Buffer, Buffer];
    const [otherBegin, otherOne] = file().pieces as [Buffer, Buffer];
    const wrong = [
      [begin],
      [begin, one],
      [begin, one, two],
      [begin, end],
      [begin, one, end],
      [begin, two, end],
      [begin, two, one, end],
      [begin, one, one, two, end],
      [begin, one, two, end, end],
      [begin, one, two, end, one],
      [begin, otherOne, two, end],
      [otherBegin, one, two, end],
    ];
    for (const pieces of wrong) expect(typeof (await opened(Buffer.concat(pieces)))).toBe("string");
  });
});

it("no response about keys or health contains a master key", async () => {
  const asks = ["/v1/sys/health", "/v1/sys/seal-status", "/v1/sys/key-status", "/v1/sys/audit", "/v1/metrics"];
  for (const where of asks) expect((await get(where)).text, where).not.toContain(FIRST_KEY);
  expect((await put("/v1/sys/rotate", {})).text).not.toContain(FIRST_KEY);
});
