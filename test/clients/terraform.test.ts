import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, inject, it } from "vitest";
import { LocalIssuer } from "./local-issuer.ts";
import { CHANGES, missing, terraform } from "./terraform-program.ts";

/** Terraform with its Vault provider: applies a configuration, plans without a difference, and destroys it. */

if (missing !== null) console.warn(`Terraform is not tried: ${missing}.`);

const dirs: string[] = [];
afterAll(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

function copyOf(configuration: string): string {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-terraform-"));
  dirs.push(dir);
  cpSync(configuration, join(dir, "main.tf"));
  return dir;
}

const issuer = new LocalIssuer("ci");

async function run(dir: string, ...args: string[]): Promise<{ code: number; output: string }> {
  const { address, token } = inject("service");
  const key = await issuer.publicKey();
  return terraform(dir, { VAULT_ADDR: address, VAULT_TOKEN: token, TF_VAR_public_key: key }, ...args);
}

describe.runIf(missing === null)("a configuration of the Vault provider", () => {
  it("is applied, shows no difference, and is destroyed", async () => {
    const dir = copyOf("test/clients/terraform/main.tf");
    const applied = await run(dir, "apply", "-auto-approve");
    expect(applied.code, applied.output).toBe(0);
    const planned = await run(dir, "plan", "-detailed-exitcode");
    expect(planned.code, planned.output).not.toBe(CHANGES);
    expect(planned.code, planned.output).toBe(0);
    const shown = await run(dir, "output", "-raw", "user");
    expect(shown.output).toContain("app");
    const destroyed = await run(dir, "destroy", "-auto-approve");
    expect(destroyed.code, destroyed.output).toBe(0);
    expect(destroyed.output).toMatch(/Destroy complete! Resources: \d+ destroyed/);
  }, 300_000);

  it("of destinations without resources, and of rules, is applied, shows changes by others, and is destroyed", async () => {
    const dir = copyOf("test/clients/terraform/sync/main.tf");
    const { address, token } = inject("service");
    const call = async (method: string, path: string, body?: object) => {
      const init = { method, headers: { "X-Vault-Token": token }, ...(body && { body: JSON.stringify(body) }) };
      return (await fetch(`${address}/v1/sys/sync/destinations/${path}`, init)).status;
    };
    const applied = await run(dir, "apply", "-auto-approve");
    expect(applied.code, applied.output).toBe(0);
    expect(applied.output).toContain("Resources: 23 added");
    const planned = await run(dir, "plan", "-detailed-exitcode");
    expect(planned.code, planned.output).toBe(0);
    // A change of a rule, and the deletion of a destination, by another hand.
    expect(await call("PUT", "in-mem/tf/rules/by-prefix", { mount: "tf-sync", path_prefix: "other" })).toBe(200);
    expect(await call("DELETE", "iac-variables/tf")).toBe(204);
    const changed = await run(dir, "plan", "-detailed-exitcode");
    expect(changed.code, changed.output).toBe(CHANGES);
    expect(changed.output).toContain("1 to add, 1 to change, 0 to destroy");
    expect((await run(dir, "apply", "-auto-approve")).code).toBe(0);
    expect((await run(dir, "plan", "-detailed-exitcode")).code).toBe(0);
    const destroyed = await run(dir, "destroy", "-auto-approve");
    expect(destroyed.code, destroyed.output).toBe(0);
    expect(await call("GET", "in-mem/tf/rules/by-prefix")).toBe(404);
    expect(await call("GET", "cloud-a-ps/tf")).toBe(404);
  }, 300_000);
});
