import { copyFileSync, cpSync } from "node:fs";
import { join } from "node:path";
import { builtFrom, type GoProgram } from "./go-program.ts";
import { NO_SOURCE, sourceCheckout } from "./source-checkout.ts";

/**
 * The file of the Vault Secrets Operator that subscribes, unmodified, with a program that reads its frames as the
 * operator does.
 */
export function operatorProgram(dir: string): GoProgram {
  const source = sourceCheckout("hashicorp/vault-secrets-operator", "9b840a5a0c3455278d580418d6336f2011cf8574");
  if (source === null) return { path: "", missing: NO_SOURCE };
  const cwd = join(dir, "operator-source");
  cpSync("test/clients/operator", cwd, { recursive: true });
  copyFileSync(join(source, "vault/websocket.go"), join(cwd, "vault/websocket.go"));
  return builtFrom(cwd, join(dir, "operator"));
}
