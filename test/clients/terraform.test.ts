import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { LocalIssuer } from "./local-issuer.ts";
import { CHANGES, missing, terraform } from "./terraform-program.ts";

/** Terraform with its Vault provider: applies a configuration, plans without a difference, and destroys it. */

if (missing !== null) console.warn(`Terraform is not tried: ${missing}.`);

const dir = mkdtempSync(join(tmpdir(), "sallyport-terraform-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const issuer = new LocalIssuer("ci");

async function run(...args: string[]): Promise<{ code: number; output: string }> {
  const { address, token } = inject("service");
  const key = await issuer.publicKey();
  return terraform(dir, { VAULT_ADDR: address, VAULT_TOKEN: token, TF_VAR_public_key: key }, ...args);
}

describe.runIf(missing === null)("a configuration of the Vault provider", () => {
  beforeAll(() => cpSync("test/clients/terraform/main.tf", join(dir, "main.tf")));

  it("is applied, shows no difference, and is destroyed", async () => {
    const applied = await run("apply", "-auto-approve");
    expect(applied.code, applied.output).toBe(0);
    const planned = await run("plan", "-detailed-exitcode");
    expect(planned.code, planned.output).not.toBe(CHANGES);
    expect(planned.code, planned.output).toBe(0);
    const shown = await run("output", "-raw", "user");
    expect(shown.output).toContain("app");
    const destroyed = await run("destroy", "-auto-approve");
    expect(destroyed.code, destroyed.output).toBe(0);
    expect(destroyed.output).toMatch(/Destroy complete! Resources: \d+ destroyed/);
  }, 300_000);
});
