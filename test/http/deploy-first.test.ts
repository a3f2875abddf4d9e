import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { part } from "../support/long.ts";
import { World } from "./deploy-first-world.ts";

const SLOW = { timeout: 300_000 };
/** For a test that runs the program five times. */
const FIVE_RUNS = { timeout: 300_000 };

/** The arguments of the commands of the page, in its order. */
const commands = [
  ...readFileSync("docs/operate/first-deployment.md", "utf8").matchAll(/^npm run deploy:first -- (.+)$/gm),
].map(([, args = ""]) => args.split(" "));

const [DRY_RUN = [], DEPLOY = [], UPGRADE = [], DESTROY = []] = commands;

it("docs/operate/first-deployment.md has the commands that are run here", () => {
  expect([DRY_RUN, DEPLOY, UPGRADE, DESTROY]).toEqual(commands);
  expect(commands.map(([option]) => option)).toEqual(["--dry-run", "--location", "--upgrade", "--destroy"]);
});

/** The token in the one line that shows it. */
const tokenIn = (out: string): string => /^Root token: {2}(\S+)$/m.exec(out)?.[1] ?? "";

describe("npm run deploy:first", () => {
  let world: World;
  let token = "";
  beforeAll(async () => {
    world = await World.open();
  });
  afterAll(() => world.close());

  it("says with --dry-run what it would do, and changes nothing", SLOW, async () => {
    const { code, out } = await world.run(DRY_RUN);
    expect([code, out]).toEqual([0, expect.stringContaining("would deploy the Worker sallyport")]);
    expect(out.match(/would make the (?:D1|queue|R2)/g)).toHaveLength(4);
    expect(out).toContain("the Worker can be bundled");
    expect(world.account.writes).toEqual([]);
    expect(world.files()).toEqual({});
  });

  it("takes an empty account to a checked deployment, and shows the root token once", SLOW, async () => {
    const { code, out } = await world.run(DEPLOY);
    expect(out).not.toMatch(/PROBLEM/);
    expect(code, out).toBe(0);
    for (const check of ["secrets", "lists", "queue", "event stream", "socket", "alarm", "agent session", "engine"])
      expect(out).toMatch(new RegExp(`OK +${check}: `));
    expect(out.trimEnd().split("\n").at(-1)).toMatch(/^total +\d+\.\d\d$/);
    token = tokenIn(out);
    expect(token).toMatch(/^[0-9a-f-]{36}$/);
    expect(out.split(token)).toHaveLength(2);
  });

  it("leaves a Worker with its migrations, secrets, schedule and consumers", () => {
    const { account } = world;
    const worker = account.worker("sallyport");
    expect([...worker.secrets.keys()].sort()).toEqual(["BOOTSTRAP_SECRET", "MASTER_KEY"]);
    expect(worker.schedules).toEqual(["*/5 * * * *"]);
    expect(worker.isOnWorkersDev).toBe(true);
    expect(worker.metadata.migrations?.steps.length).toBeGreaterThan(10);
    const consumed = [...account.queues.values()].filter(({ consumers }) => consumers.length > 0);
    expect(consumed.map(({ queue_name }) => queue_name.replace(/-[0-9a-f]{8}$/, "")).sort()).toEqual([
      "sallyport-sync-work",
      "sallyport-sync-work-dead",
    ]);
    const [database] = [...account.databases.values()].filter(({ name }) => name.startsWith("sallyport-listings-"));
    expect(database?.body).toMatchObject({ primary_location_hint: "weur" });
    const tables = database?.sql.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    expect(tables?.length).toBeGreaterThan(3);
  });

  it("keeps no token and no key in its record, and its secrets in a file for the owner alone", () => {
    const files = world.files();
    expect(Object.keys(files).sort()).toEqual(["secrets.env", "state.json", "wrangler.json"]);
    const keys = [...world.account.worker("sallyport").secrets.values()];
    for (const value of [token, world.account.token, ...keys]) {
      expect(value.length).toBeGreaterThan(20);
      expect(files["state.json"]).not.toContain(value);
      expect(files["wrangler.json"]).not.toContain(value);
      if (value !== token) expect(world.printed).not.toContain(value);
    }
    for (const name of Object.keys(files)) expect(statSync(join(world.record, name)).mode & 0o777, name).toBe(0o600);
  });

  it("changes nothing when it is run again, and does not show the token again", SLOW, async () => {
    const before = world.account.writes.length;
    const { code, out } = await world.run();
    expect([code, tokenIn(out)]).toEqual([0, ""]);
    expect(out).toContain("has the D1 database");
    expect(world.account.writes.slice(before)).toEqual([]);
  });

  it("refuses another place than that of the resources", async () => {
    const { code, out } = await world.run(["--location", "apac"]);
    expect([code, out]).toEqual([1, expect.stringContaining("--location: was weur")]);
  });

  it("deploys again with --upgrade, into the same resources", SLOW, async () => {
    const owned = world.owned();
    const { code, out } = await world.run(UPGRADE);
    expect(code, out).toBe(0);
    expect(out).toContain("does not check the deployment: SALLYPORT_TOKEN is not set");
    expect(world.owned()).toEqual(owned);
    expect(world.account.worker("sallyport").deployments).toBe(2);
  });

  it("deletes with --destroy what it has made, empties no bucket, and leaves the rest", SLOW, async () => {
    const { account } = world;
    const [name = ""] = [...account.buckets.keys()].filter((each) => each.startsWith("sallyport"));
    const bucket = account.buckets.get(name);
    if (bucket) bucket.objects = 1;
    expect((await world.run([...DESTROY, "--dry-run"])).out).toContain(`would delete the R2 bucket ${name}`);
    const refused = await world.run(DESTROY);
    expect([refused.code, world.owned().length]).toEqual([2, 5]);
    await world.stopService();
    const first = await world.run([...DESTROY, "--yes"]);
    expect([first.code, first.out]).toEqual([1, expect.stringContaining("is not empty")]);
    expect(world.owned()).toEqual([name]);
    if (bucket) bucket.objects = 0;
    expect((await world.run([...DESTROY, "--yes"])).code).toBe(0);
    expect(world.owned()).toEqual([]);
    expect([account.databases.size, account.queues.size, account.buckets.size]).toEqual([3, 3, 3]);
  });
});

describe("npm run deploy:first, killed at", () => {
  let world: World;
  beforeAll(async () => {
    world = await World.open();
  });
  afterAll(() => world.close());

  /** The last column is the number of resources that the account has then. */
  const CALLS: readonly (readonly [string, RegExp, number])[] = [
    ["the answer to the new database", /^POST .*\/d1\/database$/, 1],
    ["the answer to the first queue", /^POST .*\/queues$/, 2],
    ["the answer to the second queue", /^POST .*\/queues$/, 3],
    ["the answer to the bucket", /^POST .*\/r2\/buckets$/, 4],
    ["the answer to a migration", /^POST .*\/query$/, 4],
    ["the answer to the uploaded script", /^PUT .*\/scripts\/sallyport$/, 5],
    ["the answer to a consumer", /^POST .*\/consumers$/, 5],
  ];

  it.each(part(CALLS))("%s, continues with the next run", SLOW, async (_at, pattern, owned) => {
    world.killAfter(pattern);
    const { code } = await world.run();
    expect(code).toBeNull();
    expect(world.owned()).toHaveLength(owned);
  });

  it("made each resource once", () => {
    const names = world.owned().map((name) => name.replace(/-[0-9a-f]{8}$/, ""));
    const [listings, dead, work, files] = ["listings", "sync-work-dead", "sync-work", "files"].map(
      (what) => `sallyport-${what}`,
    );
    expect(names).toEqual([listings, dead, work, files, "sallyport"]);
  });

  it(
    "the answer with the first token, says that the token is lost, and replaces the empty Worker",
    FIVE_RUNS,
    async () => {
      world.serveWhenDeployed();
      world.killAtAnswerOf("/v1/acl/bootstrap");
      const killed = await world.run();
      expect(killed.code, killed.out).toBeNull();
      const { code, out } = await world.run();
      expect([code, out]).toEqual([1, expect.stringContaining("--replace-worker")]);
      await world.stopService();
      const replaced = await world.run(["--replace-worker"]);
      expect(replaced.code, replaced.out).toBe(0);
      expect(replaced.out).toContain("deleted the Worker sallyport with its empty objects");
      expect(tokenIn(replaced.out)).not.toBe("");
      expect(world.owned()).toHaveLength(5);
      expect((await world.run(["--replace-worker"])).out).toContain("the Worker may hold data, and stays");
      expect(world.account.workers.size).toBe(1);
    },
  );
});

describe("npm run deploy:first, before it makes anything", () => {
  let world: World;
  beforeAll(async () => {
    world = await World.open();
  });
  afterAll(() => world.close());

  const refusal = async (args: readonly string[] = [], env: Record<string, string> = {}) => {
    const { code, out } = await world.run(args, env);
    expect(code).not.toBe(0);
    expect(world.account.writes).toEqual([]);
    return out;
  };

  it("refuses a token that is unknown, disabled, or lacks a right", SLOW, async () => {
    expect(await refusal([], { CLOUDFLARE_API_TOKEN: "x".repeat(40) })).toContain("Invalid API Token");
    world.account.tokenStatus = "disabled";
    expect(await refusal()).toContain("CLOUDFLARE_API_TOKEN is disabled");
    world.account.tokenStatus = "active";
    world.account.forbidden.add("queues").add("r2");
    expect(await refusal()).toContain("lacks Account / Queues / Edit, Account / Workers R2 Storage / Edit");
    world.account.forbidden.clear();
  });

  it("refuses the name of a Worker that is not its own, and an account without a subdomain", SLOW, async () => {
    world.account.upload("sallyport", { bindings: [] }, []);
    expect(await refusal()).toContain("A Worker sallyport exists, and is not of this deployment");
    world.account.workers.clear();
    world.account.subdomain = null;
    expect(await refusal()).toContain("no name below workers.dev");
  });

  it("refuses a domain without a zone, of another Worker, or with DNS records", SLOW, async () => {
    world.account.subdomain = "double";
    const domain = ["--domain", "vault.example.com"];
    expect(await refusal(domain)).toContain("no zone of the account has vault.example.com");
    world.account.zones.set("z1", { name: "example.com", records: ["vault.example.com"] });
    expect(await refusal(domain)).toContain("vault.example.com has DNS records");
    world.account.zones.set("z1", { name: "example.com", records: [] });
    world.account.domains.set("vault.example.com", "shop");
    expect(await refusal(domain)).toContain("is the domain of the Worker shop");
    world.account.domains.clear();
  });

  it("refuses bad options, and asks for nothing without a terminal", async () => {
    expect(await refusal(["--name", "Sally"])).toContain("--name: must");
    expect(await refusal(["--location", "moon"])).toContain("--location: must be one of weur");
    expect(await refusal(["--location", "weur", "--jurisdiction", "eu"])).toContain(
      "has no effect with --jurisdiction",
    );
    expect(await refusal(["--unknown"])).toContain("--unknown");
    expect(await refusal([], { CLOUDFLARE_API_TOKEN: "" })).toContain("there is no terminal");
  });

  it("names the right that a token lacks to make a resource", SLOW, async () => {
    world.account.readOnly.add("d1");
    const { code, out } = await world.run();
    expect([code, out]).toEqual([1, expect.stringContaining("lacks Account / D1 / Edit for this account")]);
    expect(world.owned()).toEqual([]);
  });
});

describe("npm run deploy:first with a domain, a jurisdiction and an audit bucket", () => {
  let world: World;
  beforeAll(async () => {
    world = await World.open();
    world.account.subdomain = null;
    world.account.zones.set("z1", { name: "example.com", records: [] });
  });
  afterAll(() => world.close());

  it("makes every resource there, and binds it", SLOW, async () => {
    const { account } = world;
    // The local runtime has no jurisdictions.
    await world.deployWithoutService(["--domain", "vault.example.com", "--jurisdiction", "eu", "--audit"]);
    expect(account.domains.get("vault.example.com")).toBe("sallyport");
    const { bindings } = account.worker("sallyport").metadata;
    expect(bindings).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: "JURISDICTION", text: "eu" }),
        expect.objectContaining({ name: "PUBLIC_URL", text: "https://vault.example.com" }),
        expect.objectContaining({ name: "AUDIT_BUCKET", jurisdiction: "eu" }),
        expect.objectContaining({ name: "FILES", jurisdiction: "eu" }),
      ]),
    );
    const ours = (name: string) => name.startsWith("sallyport-");
    const buckets = [...account.buckets].filter(([name]) => ours(name));
    expect(buckets.map(([, { jurisdiction }]) => jurisdiction)).toEqual(["eu", "eu"]);
    const queues = [...account.queues.values()].filter(({ queue_name }) => ours(queue_name));
    expect(queues.map(({ jurisdiction }) => jurisdiction)).toEqual(["eu", "eu"]);
    const [database] = [...account.databases.values()].filter(({ name }) => ours(name));
    expect(database?.body).toMatchObject({ jurisdiction: "eu" });
    expect(account.worker("sallyport").isOnWorkersDev).toBe(false);
  });

  it(
    "keeps the domain and the audit bucket in a later run without the options, also by an older record",
    SLOW,
    async () => {
      const record = join(world.record, "state.json");
      const { domain, ...older } = JSON.parse(readFileSync(record, "utf8"));
      expect(domain).toBe("vault.example.com");
      for (const state of [
        { ...older, domain },
        { ...older, address: "https://vault.example.com" },
      ]) {
        writeFileSync(record, JSON.stringify(state));
        const { code, out } = await world.run([...UPGRADE, "--dry-run"]);
        expect(code, out).toBe(0);
        expect(out).toMatch(/has the R2 bucket sallyport-audit-\w{8}\n/);
        expect(out).toContain("the Worker sallyport to https://vault.example.com");
      }
      world.account.domains.set("vault.example.com", "shop");
      expect((await world.run([...UPGRADE, "--dry-run"])).out).toContain("is the domain of the Worker shop");
    },
  );
});
