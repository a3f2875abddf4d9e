import { join } from "node:path";
import * as z from "zod";
import { readIfThere, replaceFile } from "./files.ts";

/** The volumes unknown to the service, as of the last `welcome`. */

const FILE = "unknown-volumes.json";
const noted = z.object({ time: z.string(), volumes: z.array(z.string()) });

export const recordUnknown = (stateDir: string, volumes: readonly string[]): Promise<void> =>
  replaceFile(join(stateDir, FILE), `${JSON.stringify({ time: new Date().toISOString(), volumes })}\n`);

/** Undefined when never recorded or unreadable. */
export async function readUnknown(stateDir: string): Promise<ReadonlySet<string> | undefined> {
  const content = await readIfThere(join(stateDir, FILE));
  try {
    return new Set(noted.parse(JSON.parse(content ?? "")).volumes);
  } catch {
    return undefined;
  }
}
