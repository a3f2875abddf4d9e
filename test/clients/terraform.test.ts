import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { LocalIssuer } from "./local-issuer.ts";

/** Terraform with its Vault provider: applies a configuration, plans without a difference, and destroys it. */

const BUILD_MS = 1_500_000;
const SOURCES = resolve("test/clients/terraform/provider");
/** The exit code of a plan with changes. */
const CHANGES = 2;

/** Built once for each version of its modules, outside the checkout. */
const built = join(
  process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"),
  "sallyport-clients",
  `terraform-provider-vault-${hashOf("go.sum", "main.go")}`,
);
const missing = build();
if (missing !== null) console.warn(`Terraform is not tried: ${missing}.`);

const dir = mkdtempSync(join(tmpdir(), "sallyport-terraform-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function hashOf(...files: string[]): string {
  const hash = createHash("sha256");
  for (const file of files) hash.update(readFileSync(join(SOURCES, file)));
  return hash.digest("hex").slice(0, 16);
}

/** Builds the provider unless it is built. @returns why not; null when it is there */
function build(): string | null {
  if (process.env["LONG_TESTS"] !== "1") return "npm run test:long tries it";
  if (spawnSync("terraform", ["version"]).error) return "there is no terraform";
  const program = join(built, "terraform-provider-vault");
  if (existsSync(program)) return null;
  if (spawnSync("go", ["version"]).error) return "there is no go to build its provider";
  mkdirSync(built, { recursive: true });
  const options = { cwd: SOURCES, timeout: BUILD_MS, env: { ...process.env, GOFLAGS: "-p=1" } };
  const made = spawnSync("nice", ["go", "build", "-o", program, "."], options);
  return made.status === 0 ? null : "its provider cannot be built";
}

async function terraform(...args: string[]): Promise<{ code: number; output: string }> {
  const { address, token } = inject("service");
  const child = spawn("terraform", [...args, "-no-color"], {
    cwd: dir,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOME: dir,
      TF_CLI_CONFIG_FILE: join(dir, "terraform.rc"),
      TF_VAR_public_key: await issuer.publicKey(),
      VAULT_ADDR: address,
      VAULT_TOKEN: token,
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const [code] = await once(child, "close");
  return { code: Number(code), output };
}

const issuer = new LocalIssuer("ci");

describe.runIf(missing === null)("a configuration of the Vault provider", () => {
  beforeAll(() => {
    cpSync("test/clients/terraform/main.tf", join(dir, "main.tf"));
    const overrides = `provider_installation {\n  dev_overrides {\n    "hashicorp/vault" = "${built}"\n  }\n  direct {}\n}\n`;
    writeFileSync(join(dir, "terraform.rc"), overrides);
  });

  it("is applied, shows no difference, and is destroyed", async () => {
    const applied = await terraform("apply", "-auto-approve");
    expect(applied.code, applied.output).toBe(0);
    const planned = await terraform("plan", "-detailed-exitcode");
    expect(planned.code, planned.output).not.toBe(CHANGES);
    expect(planned.code, planned.output).toBe(0);
    const shown = await terraform("output", "-raw", "user");
    expect(shown.output).toContain("app");
    const destroyed = await terraform("destroy", "-auto-approve");
    expect(destroyed.code, destroyed.output).toBe(0);
    expect(destroyed.output).toMatch(/Destroy complete! Resources: \d+ destroyed/);
  }, 300_000);
});
