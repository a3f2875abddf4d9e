import { stat } from "node:fs/promises";
import { connect } from "node:net";

const DENIED: ReadonlySet<string> = new Set(["EACCES", "EPERM"]);

const REMEDY =
  "give the socket a group with write permission and add the agent to it (SupplementaryGroups=), or install the drop-in sallyport-agent-csi.conf";

/**
 * Connects to a plugin's socket and disconnects.
 * @returns the obstacle, for the plugin's health description; null when the socket is served
 */
export async function obstacleAt(socket: string): Promise<string | null> {
  const code = await new Promise<string | null>((resolve) => {
    const attempt = connect(socket);
    attempt.once("connect", () => {
      attempt.destroy();
      resolve(null);
    });
    attempt.once("error", (failure: NodeJS.ErrnoException) => resolve(failure.code ?? failure.message));
  });
  if (code === null) return null;
  if (DENIED.has(code)) return `the agent may not connect to ${socket} (${code})${await ownersOf(socket)}; ${REMEDY}`;
  if (code === "ENOENT") return `there is no socket at ${socket} (ENOENT)`;
  if (code === "ECONNREFUSED") return `no plugin listens on ${socket} (ECONNREFUSED)`;
  return `${socket} takes no connection (${code})`;
}

/** Connecting requires write permission on the socket; its owner, group and mode show which permission is missing. */
async function ownersOf(socket: string): Promise<string> {
  const agent = `the agent runs as uid ${process.getuid?.()}, gid ${process.getgid?.()}`;
  try {
    const { uid, gid, mode } = await stat(socket);
    return `: it belongs to uid ${uid}, gid ${gid}, mode ${(mode & 0o7777).toString(8).padStart(4, "0")}, and ${agent}`;
  } catch {
    return `: a directory above it is closed, and ${agent}`;
  }
}
