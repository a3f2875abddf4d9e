import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

/** One command against two servers, and what its outputs differ in. */

const COMMAND_MS = 40_000;

/** The command line that is compared, and the server of the same program that it is compared with. */
export interface CommandLine {
  /** `bao` or `vault`, also the first word of its commands. */
  readonly name: string;
  readonly path: string;
}

interface Server {
  readonly address: string;
  readonly token: string;
  /** The home and working directory of its commands. */
  readonly dir: string;
}

/** Values that no two servers share, and the words that a client's server has for itself. */
const VOLATILE: readonly (readonly [RegExp, string])[] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "UUID"],
  [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?\+0000 UTC|Z|\+00:00)?/g, "TIME"],
  [/\b(hv)?[sb]\.[\w-]{20,}(\.\w+)?/g, "TOKEN"],
  [/\b(auth_[a-z]+|[a-z]+)_[0-9a-f]{8}\b/g, "$1_ID"],
  [/\bauth_token_\w+/g, "auth_token_ID"],
  [/\b[A-Za-z0-9]{24}(\.\w+)?\b/g, "RANDOM"],
  [/(\bid +|"id": ")\w{5,6}(?="?,?$)/gm, "$1NAMESPACE"],
  [/"?\b\d{10}\b"?/g, "EPOCH"],
  [/\b\d+h\d+m\d+s|\b768h\b/g, "DURATION"],
  [/\b(59m|19m|6m|7m|20m|1h)\d*s?\b/g, "TTL"],
  [/\bv?(2\.7\.2|2\.2\.0|1\.21\.\d|0\.\d+\.\d)(\+builtin(\.bao|\.vault)?|\+ent)?\b/g, "VERSION"],
  [/^MII[\s\S]*?(?=-----END)/gm, "KEY\n"],
  [/vault-cluster-\w+/g, "CLUSTER"],
  [/[\w+/]{43}=/g, "HASH"],
  [/[ \t]+/g, " "],
  [/-{3,}/g, "---"],
  [/={3,}/g, "==="],
];

/**
 * Differences that hold for every command: Go's list of errors around one error, Go's empty values, the namespace of a
 * token, and the authors of versions.
 */
const ACCEPTED: readonly (readonly [RegExp, string])[] = [
  [/\* 1 error occurred:\n\s*\* /g, "* "],
  [/\* 2 errors occurred:\n\s*\* permission denied\n\s*\* invalid token/g, "* permission denied"],
  [/permission denied: invalid token/g, "permission denied"],
  [/<nil>|map\[\]|null/g, "[]"],
  [/^.*(namespace_path|created_by|deleted_by|last_updated_by).*\n/gm, ""],
  [/\n\s*\n+/g, "\n"],
];

const replaced = (text: string, rules: readonly (readonly [RegExp, string])[]): string =>
  rules.reduce((before, [pattern, by]) => before.replace(pattern, by), text);

async function outputOf(client: CommandLine, server: Server, command: string): Promise<string[]> {
  mkdirSync(server.dir, { recursive: true });
  const upper = client.name.toUpperCase();
  const child = spawn("bash", ["-c", command], {
    cwd: server.dir,
    timeout: COMMAND_MS,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: `${join(client.path, "..")}:${process.env["PATH"]}`,
      HOME: server.dir,
      [`${upper}_ADDR`]: server.address,
      [`${upper}_TOKEN`]: server.token,
      [`${upper}_MAX_RETRIES`]: "0",
    },
  });
  const printed = { out: "", error: "" };
  child.stdout.on("data", (bytes) => (printed.out += bytes));
  child.stderr.on("data", (bytes) => (printed.error += bytes));
  const [code] = await once(child, "close");
  const text = `exit ${code}\n${printed.out}\n${printed.error}`.replaceAll(server.address, "ADDRESS");
  return replaced(replaced(text, VOLATILE), ACCEPTED)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** The lines of `theirs` that `ours` lacks, and the reverse, each once for each surplus. */
function surplus(theirs: readonly string[], ours: readonly string[]): string[] {
  const left = [...ours];
  const lost = theirs.filter((line) => {
    const at = left.indexOf(line);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  return [...lost.map((line) => `- ${line}`), ...left.map((line) => `+ ${line}`)];
}

/** Runs a command against both. @returns the lines that only one of them prints, with `-` for the judge's */
export async function difference(
  client: CommandLine,
  judge: Server,
  tried: Server,
  command: string,
): Promise<string[]> {
  const [theirs, ours] = await Promise.all([outputOf(client, judge, command), outputOf(client, tried, command)]);
  return surplus(theirs, ours);
}
