import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { World } from "./deploy-first-world.ts";

/* `npm run deploy:first -- --secrets-store`: MASTER_KEY in the account's Secrets Store, ended at each step. */

const SLOW = { timeout: 300_000 };
const STORED = ["--secrets-store"];
let world: World;
beforeAll(async () => {
  world = await World.open();
});
afterAll(() => world.close());

/** Secrets of the Worker, the type of its key, and the stored secrets. */
const state = () => {
  const { workers, store } = world.account;
  const worker = workers.get("sallyport");
  const binding = worker?.metadata.bindings.find(({ name }) => name === "MASTER_KEY");
  return { secrets: [...(worker?.secrets.keys() ?? [])], type: binding?.type, stored: [...(store?.secrets ?? [])] };
};
const masterKey = (): string => /^MASTER_KEY=(.+)$/m.exec(world.files()["secrets.env"] ?? "")?.[1] ?? "";

describe("npm run deploy:first -- --secrets-store", () => {
  it("needs its right, and says with --dry-run what it would make", SLOW, async () => {
    world.account.forbidden.add("secrets_store");
    expect((await world.run(STORED)).out).toContain("lacks Account / Secrets Store / Edit");
    expect((await world.run(["--dry-run"])).code).toBe(0);
    world.account.forbidden.clear();
    const { code, out } = await world.run([...STORED, "--dry-run"]);
    expect([code, out]).toEqual([0, expect.stringMatching(/would make the stored secret sallyport-master-key-\w{8}/)]);
    expect(world.account.writes).toEqual([]);
  });

  const CALLS: readonly (readonly [string, RegExp, number])[] = [
    ["the answer to the new store", /^POST .*\/secrets_store\/stores$/, 0],
    ["the answer to the stored secret", /^POST .*\/secrets_store\/stores\/\w+\/secrets$/, 1],
    ["the answer to the uploaded script", /^PUT .*\/scripts\/sallyport$/, 1],
  ];
  it.each(CALLS)("killed at %s, continues with the next run", SLOW, async (_at, pattern, stored) => {
    world.killAfter(pattern);
    expect((await world.run(STORED)).code).toBeNull();
    expect(state().stored).toHaveLength(stored);
  });

  it("deploys a Worker that is bound to the stored key, and has none of its own", SLOW, async () => {
    world.serveWhenDeployed();
    // Without the option: the record has it.
    const { code, out } = await world.run();
    expect(code, out).toBe(0);
    expect(out).not.toMatch(/PROBLEM/);
    const { secrets, type, stored } = state();
    expect([secrets, type]).toEqual([["BOOTSTRAP_SECRET"], "secrets_store_secret"]);
    expect(stored.map(([name, { value }]) => [name.replace(/-\w{8}$/, ""), value])).toEqual([
      ["sallyport-master-key", masterKey()],
    ]);
    expect(masterKey()).toHaveLength(44);
    expect(Object.keys(world.files()).sort()).toEqual(["secrets.env", "state.json", "wrangler.json"]);
    for (const text of [world.printed, world.files()["state.json"], world.files()["wrangler.json"]])
      expect(text).not.toContain(masterKey());
    expect(world.account.writes.filter((call) => /secrets_store/.test(call))).toHaveLength(2);
  });

  it("upgrades without the file of secrets, and stops where the stored key was deleted", SLOW, async () => {
    rmSync(join(world.record, "secrets.env"));
    const { code, out } = await world.run(["--upgrade"]);
    expect(code, out).toBe(0);
    expect(state()).toMatchObject({ secrets: ["BOOTSTRAP_SECRET"], type: "secrets_store_secret" });
    const [[name = "", secret] = []] = state().stored;
    world.account.store?.secrets.delete(name);
    const missing = await world.run(["--upgrade"]);
    expect([missing.code, missing.out]).toEqual([1, expect.stringContaining(`The Secrets Store has no ${name}`)]);
    if (secret) world.account.store?.secrets.set(name, secret);
  });

  it(
    "deletes the stored key with --destroy after the Worker, ended there once, and leaves the store",
    SLOW,
    async () => {
      await world.stopService();
      world.killAfter(/^DELETE .*\/secrets_store\//);
      expect((await world.run(["--destroy", "--yes"])).code).toBeNull();
      expect(state()).toEqual({ secrets: [], type: undefined, stored: [] });
      const { code, out } = await world.run(["--destroy", "--yes"]);
      expect([code, out]).toEqual([0, expect.stringMatching(/the stored secret \S+ is gone already/)]);
      expect([world.owned(), world.account.store === null]).toEqual([[], false]);
    },
  );

  it("refuses to move the key of a Worker that has it", SLOW, async () => {
    await world.deployWithoutService([]);
    expect(state().secrets).toContain("MASTER_KEY");
    const { code, out } = await world.run(STORED);
    expect([code, out]).toEqual([1, expect.stringContaining("the Worker has MASTER_KEY as a secret of its own")]);
  });
});
