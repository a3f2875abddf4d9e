import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, unstable_readConfig } from "wrangler";
import {
  BUDGET_KIB,
  type Bundle,
  bundle,
  described,
  fastestStartup,
  obstacles,
  partialAuditLog,
  STARTUP_MS,
} from "../../scripts/deploy-check.ts";
import { WORKER_SETTINGS } from "../../scripts/settings.ts";

const dir = mkdtempSync(join(tmpdir(), "sallyport-deploy-"));
const config = unstable_readConfig({ config: "wrangler.toml" });
const page = readFileSync("docs/operate/deploy.md", "utf8");
const SECRETS = { MASTER_KEY: Buffer.alloc(32, 7).toString("base64"), BOOTSTRAP_SECRET: "presented-once" };

/** The lines of the first commands below a heading of the page. */
const commandsOf = (heading: string): string[] => {
  const [, commands = ""] = /```sh\n(.*?)```/s.exec(page.split(`### ${heading}\n`)[1] ?? "") ?? [];
  return commands.trim().split("\n");
};

/** The output of the commands, run one after the other; throws at the first that fails. */
async function sh(commands: readonly string[], env: Record<string, string>): Promise<string> {
  const script = commands.join("\n");
  const { stdout } = await promisify(execFile)("bash", ["-euo", "pipefail", "-c", script], {
    env: { ...process.env, ...env },
  });
  return stdout;
}

afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe("the deployed bundle", () => {
  let built: Bundle;
  beforeAll(async () => {
    built = await bundle(dir);
  }, 120_000);

  it("is within its size budget, built without an account or network", () => {
    expect(built.gzipKib, described(built)).toBeLessThanOrEqual(BUDGET_KIB);
    expect(described(built).split("\n")).toHaveLength(11);
  });

  it("starts within the platform's limit while other suites run", { timeout: 120_000 }, async () => {
    // One second, the platform's limit; `npm run deploy:check` checks the budget on an idle machine.
    const budgetMs = 10 * STARTUP_MS;
    expect(await fastestStartup(built, budgetMs), described(built)).toBeLessThanOrEqual(budgetMs);
  });

  it("is not deployed with a database that exists only locally", () => {
    expect(obstacles([{ binding: "LISTINGS", database_id: "00000000-0000-0000-0000-000000000001" }])).toEqual([
      "wrangler.toml: the database LISTINGS needs the id that `wrangler d1 create` has printed.",
    ]);
    expect(obstacles([{ binding: "LISTINGS", database_id: "6b1f0d0e-6a8c-4d4f-9a57-1a2b3c4d5e6f" }])).toEqual([]);
    expect(obstacles([{ binding: "LISTINGS" }])).toHaveLength(1);
  });
});

describe("a check before a deployment", () => {
  it("warns that the audit log is a sample, until it has a sink or all lines are stored", () => {
    expect(partialAuditLog(config)).toMatch(/^WARNING: THE AUDIT LOG IS A SAMPLE\..* 10 % of the requests\./);
    const bucket = [...config.r2_buckets, { binding: "AUDIT_BUCKET" }];
    const producers = [{ binding: "AUDIT_QUEUE" }];
    expect(partialAuditLog({ ...config, r2_buckets: bucket })).toBeNull();
    expect(partialAuditLog({ ...config, queues: { producers } })).toBeNull();
    expect(partialAuditLog({ ...config, vars: { AUDIT_HTTP_URL: "https://intake.example" } })).toBeNull();
    expect(partialAuditLog({ ...config, observability: { logs: { head_sampling_rate: 1 } } })).toBeNull();
    expect(partialAuditLog({ ...config, observability: {} })).toBeNull();
  });

  it("finds a bucket in the lines that wrangler.toml has as a comment", () => {
    const [, lines = ""] =
      /\n((?:# .*\n)*# binding = "AUDIT_BUCKET"\n(?:# .*\n)*)/.exec(readFileSync("wrangler.toml", "utf8")) ?? [];
    expect(
      lines
        .split("\n")
        .map((line) => line.replace(/^# /, ""))
        .slice(-4, -1),
    ).toEqual(["[[r2_buckets]]", 'binding = "AUDIT_BUCKET"', 'bucket_name = "sallyport-audit"']);
  });
});

describe("the deployed bundle, running", () => {
  // Minified as in a deployment, according to wrangler.toml, so names of classes and functions are lost.
  const harness = createTestHarness({ workers: [{ configPath: "./wrangler.toml", secrets: SECRETS }] });
  let base = "";
  let root = "";

  beforeAll(async () => {
    base = (await harness.listen()).url.origin;
    await harness.getWorker().applyD1Migrations("LISTINGS");
  });
  afterAll(() => harness.close());

  it("returns the first token and passes the smoke check, by the commands of the page", async () => {
    const firstToken = commandsOf("First token").filter((line) => !line.startsWith("export SALLYPORT_ADDR"));
    const said = await sh([...firstToken, "echo $SALLYPORT_TOKEN", ...commandsOf("Smoke check")], {
      SALLYPORT_ADDR: base,
      BOOTSTRAP_SECRET: SECRETS.BOOTSTRAP_SECRET,
    });
    root = said.split("\n", 1)[0] ?? "";
    expect(root).toMatch(/^[\w.-]{20,}$/);
    for (const part of [
      '"sealed":false',
      '"keys":["app"]',
      '"in-mem/":["smoke"]',
      '"sync_status":"SYNCED"',
      '{"Index":1,',
    ])
      expect(said).toContain(part);
  });

  it("distinguishes every refusal without class names, which minification changes", async () => {
    const refusals = [
      ["/v1/secret/data/a", 404, '{"errors":['],
      ["/v1/nodes?filter=Name%20==", 400, "filter"],
      ["/v1/nodes?filter=Name%20matches%20%22(%22", 400, "missing closing )"],
      ["/v1/event/stream?index=x", 400, "index"],
    ] as const;
    for (const [path, status, part] of refusals) {
      const answer = await fetch(`${base}${path}`, { headers: { "X-Orch-Token": root } });
      expect([path, answer.status, await answer.text()]).toEqual([path, status, expect.stringContaining(part)]);
    }
  });

  it("serves its static files", async () => {
    for (const [path, file] of [
      ["/v1/openapi.json", "docs/openapi.json"],
      ["/docs", "docs/openapi.html"],
    ] as const)
      expect(await (await fetch(`${base}${path}`)).text()).toBe(readFileSync(file, "utf8"));
  });
});

describe("docs/operate/deploy.md", () => {
  it("creates every resource that wrangler.toml binds", () => {
    const made = [...page.matchAll(/npx wrangler (?:d1|queues|r2 bucket) create ([\w-]+)/g)].map(([, name]) => name);
    const { producers = [], consumers = [] } = config.queues;
    const bound = [
      ...config.d1_databases.map(({ database_name }: { database_name?: string }) => database_name),
      ...config.r2_buckets.map(({ bucket_name }: { bucket_name?: string }) => bucket_name),
      ...[...producers, ...consumers].map(({ queue }) => queue),
      ...consumers.flatMap(({ dead_letter_queue = [] }) => dead_letter_queue),
    ];
    expect(new Set(made)).toEqual(new Set(bound));
  });

  it("creates every required secret, and names only settings that are read", () => {
    const made = commandsOf("Secrets").flatMap((line) => /"(\w+)=" \+/.exec(line)?.[1] ?? []);
    expect(made).toEqual(expect.arrayContaining([...(config.secrets?.required ?? []), "BOOTSTRAP_SECRET"]));
    const named = [...page.matchAll(/`((?:[A-Z]+_)+[A-Z]+)`/g)].map(([, name = ""]) => name);
    const others = ["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_ACCOUNT_ID"];
    expect([...made, ...named].filter((name) => ![...WORKER_SETTINGS, ...others].includes(name))).toEqual([]);
  });

  it("links only to existing documents", () => {
    const links = [...page.matchAll(/\]\(([\w./-]+\.(?:md|yml|json|toml))/g)].map(([, link = ""]) => link);
    for (const link of links) expect(() => readFileSync(join("docs/operate", link)), link).not.toThrow();
  });
});
