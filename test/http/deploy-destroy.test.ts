import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cli } from "./cli-program.ts";
import { World } from "./deploy-first-world.ts";
import { programOf } from "./prepared-program.ts";

/* `npm run deploy:first -- --destroy`, ended at each step, and the same program as `sallyport deploy`. */

const SLOW = { timeout: 300_000 };
const DESTROY = ["--destroy", "--yes"];

let world: World;
beforeAll(async () => {
  world = await World.open();
  await world.deployWithoutService(["--audit"]);
}, 300_000);
afterAll(() => world.close());

/** Answers the question of the program at a terminal. */
const destroyAtTerminal = (answer: string) => {
  const program = "node_modules/node/bin/node --no-warnings scripts/deploy-first.ts --destroy --dir";
  const typed = `printf '%s\\n' '${answer}' | script -qec "${program} ${world.record}" /dev/null`;
  return world.start(["sh", "-c", typed]);
};

describe("sallyport deploy", () => {
  const args = () => ["deploy", "--dir", world.record, "--address", world.address, "--dry-run", "--audit"];

  it("is npm run deploy:first of the checkout", SLOW, async () => {
    const program = [process.execPath, programOf("packages/cli/src/main.ts"), ...args()];
    const before = world.account.writes.length;
    // Without the installation before the script: other tests run in this checkout.
    const { code, out } = await world.start(program, { npm_config_ignore_scripts: "true" });
    expect([code, out]).toEqual([0, expect.stringContaining("has deployed the Worker sallyport")]);
    expect(out).toBe((await world.run(["--dry-run", "--audit"])).out);
    expect(world.account.writes.length).toBe(before);
  });

  it("names what is missing without a checkout, and refuses bad options before", async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "sallyport-elsewhere-"));
    const program = [process.execPath, resolve(programOf("packages/cli/src/main.ts"))];
    const there = await world.start(["env", "-C", elsewhere, ...program, "deploy"]);
    rmSync(elsewhere, { recursive: true });
    expect(there).toEqual({ code: 1, out: expect.stringContaining("sallyport deploy: needs a checkout of Sallyport") });
    const { code, err } = await cli(["deploy", "--dry-ran"], {});
    expect([code, err]).toEqual([2, expect.stringContaining("deploy: --dry-ran: no such option")]);
    expect((await cli(["deploy", "--name"], {})).err).toContain("--name: needs a value");
  });
});

describe("npm run deploy:first -- --destroy", () => {
  it("deletes nothing before the name of the deployment was typed", SLOW, async () => {
    const before = [world.account.writes.length, world.files()["state.json"]];
    const none = await world.run(["--destroy"]);
    expect([none.code, none.out]).toEqual([2, expect.stringContaining("there is no terminal")]);
    for (const answer of ["yes", "sallyport2"]) {
      const { code, out } = await destroyAtTerminal(answer);
      expect([code, out], answer).toEqual([1, expect.stringContaining("Nothing was deleted.")]);
    }
    expect([world.account.writes.length, world.files()["state.json"]]).toEqual(before);
  });

  const CALLS: readonly (readonly [what: string, call: RegExp, left: number])[] = [
    ["the Worker", /^DELETE .*\/scripts\/sallyport$/, 5],
    ["the database", /^DELETE .*\/d1\/database\/[^/]+$/, 4],
    ["the first queue", /^DELETE .*\/queues\/\w+$/, 3],
    ["the second queue", /^DELETE .*\/queues\/\w+$/, 2],
    ["the bucket of files", /^DELETE .*\/r2\/buckets\//, 1],
    ["the bucket of the audit log", /^DELETE .*\/r2\/buckets\//, 0],
  ];

  it("ended at the answer to each deletion, continues with the next run", SLOW, async () => {
    for (const [what, call, left] of CALLS) {
      world.killAfter(call);
      const { code, out } = await world.run(DESTROY);
      expect([what, code, world.owned().length], out).toEqual([what, null, left]);
    }
    const last = await world.run(DESTROY);
    expect([last.code, last.out]).toEqual([0, expect.stringMatching(/the R2 bucket \S+ is gone already/)]);
    expect(JSON.parse(world.files()["state.json"] ?? "")).toMatchObject({ resources: [], done: [] });
    const { databases, queues, buckets } = world.account;
    expect([databases.size, queues.size, buckets.size]).toEqual([3, 3, 3]);
  });

  it("changes nothing when all is gone", SLOW, async () => {
    const before = world.account.writes.length;
    const { code, out } = await world.run(DESTROY);
    expect([code, out]).toEqual([0, "Nothing is recorded: there is nothing to delete.\n"]);
    expect(world.account.writes.length).toBe(before);
  });

  it(
    "deploys again into new resources, and keeps one that was replaced elsewhere or cannot be deleted",
    SLOW,
    async () => {
      await world.deployWithoutService([]);
      expect(world.owned()).toHaveLength(5);
      const { account } = world;
      const [id = "", found] = [...account.databases].find(([, { name }]) => name.startsWith("sallyport")) ?? [];
      if (found === undefined) throw new Error("no database");
      account.databases.delete(id);
      account.databases.set("00000000-1111-4222-8333-444444444444", found);
      account.forbidden.add("queues");
      const { code, out } = await world.run(DESTROY);
      expect([code, out]).toEqual([1, expect.stringContaining(`${found.name} has another id than the recorded one`)]);
      expect(out).toContain("Authentication error");
      account.forbidden.clear();
      expect(world.owned().map((name) => name.replace(/-[0-9a-f]{8}$/, ""))).toEqual([
        "sallyport-listings",
        "sallyport-sync-work-dead",
        "sallyport-sync-work",
      ]);
      const again = await world.run(DESTROY);
      expect([again.code, world.owned()]).toEqual([1, [found.name]]);
    },
  );
});
