import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { builtFrom, type GoProgram, goProgram } from "./go-program.ts";
import { NO_SOURCE, sourceCheckout } from "./source-checkout.ts";

/** Terraform with its Vault provider: 1.9.0, which is built from its module, and 5.12, from its repository. */

/** The exit code of a plan with changes. */
export const CHANGES = 2;

export const hasTerraform = !spawnSync("terraform", ["version"]).error;

const provider = hasTerraform ? goProgram("terraform/provider", "terraform-provider-vault") : null;

/** Why Terraform is not tried; null when it and its provider are there. */
export const missing = provider === null ? "there is no terraform" : provider.missing;

/** The provider 5.12: no release after 1.9.0 is a module that can be required. */
export function currentProvider(): GoProgram {
  const absent = (why: string): GoProgram => ({ path: "", missing: why });
  if (!hasTerraform) return absent("there is no terraform");
  const source = sourceCheckout("hashicorp/terraform-provider-vault", "31447510c5c6ab0e1bd60435ff5b4a838b3f2f69");
  if (source === null) return absent(NO_SOURCE);
  const path = join(source, "terraform-provider-vault");
  if (existsSync(path)) return { path, missing: null };
  // The login of OCI, which no test uses, in the newest version that every module proxy has.
  const login = "github.com/hashicorp/vault-plugin-auth-oci";
  spawnSync("go", ["mod", "edit", "-replace", `${login}=${login}@v0.21.1`], { cwd: source });
  return builtFrom(source, path, "-mod=mod", ".");
}

/** Runs Terraform in `dir`, with the provider 1.9.0. */
export const terraform = (dir: string, env: Readonly<Record<string, string>>, ...args: string[]) =>
  terraformWith(provider?.path ?? "", dir, env, ...args);

/** Runs Terraform in `dir`, with the provider of that program. */
export async function terraformWith(
  program: string,
  dir: string,
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<{ code: number; output: string }> {
  const config = join(dir, "terraform.rc");
  const overrides = `dev_overrides {\n    "hashicorp/vault" = "${dirname(program)}"\n  }`;
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
