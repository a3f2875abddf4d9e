import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { goProgram } from "./go-program.ts";

/** Terraform with its Vault provider, which is built from its module. */

/** The exit code of a plan with changes. */
export const CHANGES = 2;

export const hasTerraform = !spawnSync("terraform", ["version"]).error;

const provider = hasTerraform ? goProgram("terraform/provider", "terraform-provider-vault") : null;

/** Why Terraform is not tried; null when it and its provider are there. */
export const missing = provider === null ? "there is no terraform" : provider.missing;

/** Runs Terraform in `dir`, with the provider as built. */
export async function terraform(
  dir: string,
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<{ code: number; output: string }> {
  const config = join(dir, "terraform.rc");
  const overrides = `dev_overrides {\n    "hashicorp/vault" = "${dirname(provider?.path ?? "")}"\n  }`;
  writeFileSync(config, `provider_installation {\n  ${overrides}\n  direct {}\n}\n`);
  const child = spawn("terraform", [...args, "-no-color"], {
    cwd: dir,
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"], HOME: dir, TF_CLI_CONFIG_FILE: config, ...env },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const [code] = await once(child, "close");
  return { code: Number(code), output };
}
