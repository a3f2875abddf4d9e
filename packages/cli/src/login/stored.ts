import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { Environment } from "../command.ts";

/**
 * Owns the file of logins: one token for each address, readable by the current user only. A token is sent to the
 * address that it was stored for, and to no other one.
 */

const loginSchema = z.object({ token: z.string().min(1), namespace: z.string().default("") });
export type Login = z.infer<typeof loginSchema>;

const fileSchema = z.object({ current: z.string(), logins: z.record(z.string(), loginSchema) });
type Logins = z.infer<typeof fileSchema>;

const NONE: Logins = { current: "", logins: {} };

export const loginFile = (env: Environment): string =>
  join(env["XDG_CONFIG_HOME"] || join(env["HOME"] || homedir(), ".config"), "sallyport", "logins.json");

/** No logins for a file that is missing or of another form. */
function read(env: Environment): Logins {
  try {
    return fileSchema.parse(JSON.parse(readFileSync(loginFile(env), "utf8")));
  } catch {
    return NONE;
  }
}

function write(env: Environment, logins: Logins): void {
  const file = loginFile(env);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const part = `${file}.${process.pid}`;
  try {
    writeFileSync(part, `${JSON.stringify(logins, null, 2)}\n`, { mode: 0o600, flush: true });
    chmodSync(part, 0o600);
    renameSync(part, file);
  } finally {
    rmSync(part, { force: true });
  }
}

export const loginAt = (env: Environment, address: URL): Login | null => read(env).logins[address.href] ?? null;

/** The login of commands without an address in the environment. */
export function currentLogin(env: Environment): (Login & { readonly address: string }) | null {
  const { current, logins } = read(env);
  const login = logins[current];
  return login === undefined ? null : { ...login, address: current };
}

export function storeLogin(env: Environment, address: URL, login: Login): void {
  write(env, { current: address.href, logins: { ...read(env).logins, [address.href]: login } });
}

/** Another login becomes the current one, if there is one. */
export function forgetLogin(env: Environment, address: URL): void {
  const { current, logins } = read(env);
  const { [address.href]: _ended, ...left } = logins;
  write(env, { current: current === address.href ? (Object.keys(left)[0] ?? "") : current, logins: left });
}
