import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { QUIET_WRANGLER } from "../runtime.ts";

/** Runs the pinned wrangler with the token of this program, and without its questions. */

/** wrangler failed. The message has the end of its output, without the values that must not be shown. */
export class WranglerError extends Error {}

const SHOWN_LINES = 30;

export interface Credentials {
  readonly token: string;
  readonly account: string;
  /** Another address of the API; undefined for Cloudflare's. */
  readonly base: string | undefined;
}

/** Resolves when the command has ended with 0. @throws WranglerError */
export async function wrangler(
  { token, account, base }: Credentials,
  args: readonly string[],
  secrets: readonly string[],
): Promise<void> {
  const child = spawn(process.execPath, ["--no-warnings", fileURLToPath(import.meta.resolve("wrangler")), ...args], {
    // Without a terminal wrangler takes the answer that a program needs: yes to migrations.
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      ...QUIET_WRANGLER,
      WRANGLER_LOG: "log",
      NO_COLOR: "1",
      CI: "1",
      CLOUDFLARE_API_TOKEN: token,
      CLOUDFLARE_ACCOUNT_ID: account,
      ...(base !== undefined && { CLOUDFLARE_API_BASE_URL: base }),
    },
  });
  // Bundles and other leavings, beside the configuration.
  const scratch = join(dirname(args[args.indexOf("-c") + 1] ?? ""), ".wrangler");
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  rmSync(scratch, { recursive: true, force: true });
  if (code === 0) return;
  const lines = redacted(`${out}${err}`, [token, ...secrets])
    .trimEnd()
    .split("\n");
  throw new WranglerError(`wrangler ${args.slice(0, 3).join(" ")} failed:\n${lines.slice(-SHOWN_LINES).join("\n")}`);
}

/** The text without the given values. */
export const redacted = (said: string, values: readonly string[]): string =>
  values.reduce((shown, value) => (value === "" ? shown : shown.replaceAll(value, "(hidden)")), said);
