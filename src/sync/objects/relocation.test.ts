import { expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import type { AssociationListing } from "../../contracts/sync-destination.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { Associations, namedSecretOf } from "../associations/associations.ts";
import { destinationMigrations } from "../schema.ts";
import { Relocation } from "./relocation.ts";

/** A destination with `count` associations of one mount, and one of another mount. */
function destination(count: number, movedTo: () => string | null) {
  const sql = memorySql(destinationMigrations);
  const work = { setDesired: () => undefined, forget: () => undefined };
  const remoteObjects = { apply: () => undefined, forgetFingerprints: () => undefined };
  const quota = { expectRequest: () => undefined, hasRoom: () => true };
  const associations = new Associations(
    sql,
    work as never,
    quota as never,
    remoteObjects as never,
    {} as never,
    () => [],
  );
  const plan = { naming: { granularity: "secret-path", template: "" }, steps: [], place: "" } as const;
  const names = Array.from({ length: count }, (_, n) => `s${String(n).padStart(4, "0")}`);
  const add = (mount: string, secretName: string) =>
    associations.set(
      { mountUuid: mount, mountAccessor: mount, mountPath: `${mount}/`, secretName },
      plan as never,
      1_000,
      { manual: true, order: "single" },
    );
  for (const name of names) add("old", name);
  add("other", "s0000");
  const listed: AssociationListing[] = [];
  const pages: string[] = [];
  const outbox = {
    drain: async () => undefined,
    holds: () => false,
    enlist: (topic: string, _lane: string, body: never) =>
      void (topic === "associations" ? listed.push(body) : pages.push(body)),
  };
  const env = { KV_STORE: { getByName: () => ({ movedTo: async () => movedTo() }) } };
  const relocation = new Relocation({ env, outbox } as unknown as ObjectContext, associations, {
    moved: () => undefined,
  });
  /** Delivers pages until none is pending. @returns the number of pages */
  const deliver = async () => {
    let delivered = 0;
    for (let after: string | undefined = ""; after !== undefined; after = pages.shift()) {
      (await relocation.deliver("old", [{ seq: 1, body: JSON.stringify(after) }]))();
      delivered++;
    }
    return delivered;
  };
  return { associations, listed, deliver, names };
}

it("records the new path in every association of the mount, page by page", async () => {
  const { associations, listed, deliver, names } = destination(1_200, () => "new/");
  expect(await deliver()).toBe(3);
  for (const name of names) {
    const row = associations.find(`old/${name}`);
    expect(row && [row.mount_path, namedSecretOf(row).mountPath]).toEqual(["new/", "old/"]);
  }
  expect(associations.find("other/s0000")?.mount_path).toBe("other/");
  expect(new Set(listed.map(({ mount }) => mount))).toEqual(new Set(["old/", "new/"]));
  expect(listed).toHaveLength(2 * names.length);
  expect(await deliver()).toBe(1);
  expect(listed).toHaveLength(2 * names.length);
});

it("keeps the path of the first set in names through several moves, until the next set", async () => {
  let path = "second/";
  const { associations, deliver } = destination(1, () => path);
  await deliver();
  path = "third/";
  await deliver();
  const moved = associations.find("old/s0000");
  expect(moved && [moved.mount_path, namedSecretOf(moved).mountPath]).toEqual(["third/", "old/"]);
  const secret = { mountUuid: "old", mountAccessor: "old", mountPath: "third/", secretName: "s0000" };
  const naming = { granularity: "secret-path", template: "" } as const;
  associations.set(secret, { naming, steps: [], place: "" }, 2_000, { manual: true, order: "single" });
  const again = associations.find("old/s0000");
  expect(again && [again.mount_path, again.named_path, namedSecretOf(again).mountPath]).toEqual([
    "third/",
    null,
    "third/",
  ]);
});

it("changes nothing for a mount that never moved", async () => {
  const { associations, listed, deliver } = destination(2, () => null);
  await deliver();
  expect([associations.find("old/s0000")?.mount_path, listed]).toEqual(["old/", []]);
});
