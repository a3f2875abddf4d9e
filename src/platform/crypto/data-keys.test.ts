import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../test/memory-storage.ts";
import { DataKeys, dataKeyMigrations, SEAL_OVERHEAD } from "./data-keys.ts";
import { Sealed } from "./keyring.ts";

const masterKey = (fill: number) => Buffer.alloc(32, fill).toString("base64");

/** The data keys of one object, over a storage that a second instance may share. */
function object(masters = masterKey(1), scope = "object") {
  const storage = memoryStorage();
  for (const step of dataKeyMigrations) storage.sql.exec(step);
  let keyring = masters;
  return {
    storage,
    keys: new DataKeys(storage.sql, scope, () => keyring),
    useMasters: (next: string) => {
      keyring = next;
    },
    reopened: (name = scope) => new DataKeys(storage.sql, name, () => keyring),
  };
}

const termOf = (sealed: Uint8Array): number => Buffer.from(sealed).readUInt32BE();

describe("a sealed value", () => {
  it("opens when it is empty", () => {
    const { keys } = object();
    expect(keys.seal("", "c").length).toBe(SEAL_OVERHEAD);
    expect(keys.openText(keys.seal("", "c"), "c")).toBe("");
  });

  it("is refused as altered when it is cut short", () => {
    const { keys } = object();
    const sealed = keys.seal("value", "c");
    for (let length = 0; length < SEAL_OVERHEAD; length++)
      expect(() => keys.open(sealed.subarray(0, length), "c"), `${length} bytes`).toThrow("cut short");
  });

  it("opens under its own term when it is part of a larger buffer", () => {
    const { keys } = object();
    const first = keys.seal("first", "c");
    keys.rotate(2, 0);
    const second = keys.seal("second", "c");
    const both = new Uint8Array(Buffer.concat([first, second]));
    expect(keys.openText(both.subarray(0, first.length), "c")).toBe("first");
    expect(keys.openText(both.subarray(first.length), "c")).toBe("second");
  });
});

describe("a rotation", () => {
  it("seals under a new key at once, and opens values of every earlier term", () => {
    const { keys, storage, reopened } = object();
    const values = [1, 2, 3].map((term) => {
      keys.rotate(term, 0);
      return keys.seal(`term ${term}`, "c");
    });
    expect(values.map(termOf)).toEqual([1, 2, 3]);
    for (const each of [keys, reopened()])
      expect(values.map((value) => each.openText(value, "c"))).toEqual(["term 1", "term 2", "term 3"]);
    const wrapped = () => storage.sql.exec("SELECT term, created FROM data_keys").toArray();
    const before = wrapped();
    keys.rotate(3, 9);
    expect(wrapped(), "no new key for the current term").toEqual(before);
  });

  it("rewraps the keys of all terms, so that earlier master keys can be removed", () => {
    const { keys, useMasters, reopened } = object();
    const sealed = [keys.seal("first", "c")];
    keys.rotate(2, 0);
    sealed.push(keys.seal("second", "c"));
    useMasters(`${masterKey(2)},${masterKey(1)}`);
    keys.rotate(3, 0);
    useMasters(masterKey(2));
    expect(sealed.map((value) => reopened().openText(value, "c"))).toEqual(["first", "second"]);
  });

  it("leaves no key in memory after a rollback", () => {
    const { keys, storage } = object();
    expect(() =>
      storage.transactionSync(() => {
        keys.rotate(2, 0);
        throw new Error("rollback");
      }),
    ).toThrow("rollback");
    expect(termOf(keys.seal("value", "c"))).toBe(1);
  });
});

describe("the key of an object", () => {
  it("is created before any transaction, so that no rollback removes it", () => {
    const { keys, storage, reopened } = object();
    let sealed = new Uint8Array();
    expect(() =>
      storage.transactionSync(() => {
        sealed = new Uint8Array(keys.seal("value", "c"));
        throw new Error("rollback");
      }),
    ).toThrow("rollback");
    expect(reopened().openText(sealed, "c")).toBe("value");
  });

  it("does not open for another object or under another term", () => {
    const { keys, storage, reopened } = object();
    expect(reopened("another").sealedBecause()).toContain("does not open under master key");
    keys.rotate(2, 0);
    const [first, second] = storage.sql.exec<{ wrapped: ArrayBuffer }>("SELECT wrapped FROM data_keys").toArray();
    storage.sql.exec("UPDATE data_keys SET wrapped = ? WHERE term = 1", second?.wrapped ?? null);
    storage.sql.exec("UPDATE data_keys SET wrapped = ? WHERE term = 2", first?.wrapped ?? null);
    expect(reopened().sealedBecause()).toContain("the data key of term 1 does not open");
  });

  it("names the master key that it lacks", () => {
    const { useMasters, reopened } = object();
    useMasters(masterKey(2));
    expect(reopened().sealedBecause()).toMatch(/under master key [0-9a-f]{8}, which MASTER_KEY does not hold/);
    expect(() => reopened().seal("value", "c")).toThrow(Sealed);
  });
});
