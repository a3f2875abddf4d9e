import { within } from "../../lib/timeout.ts";
import { textOf } from "../observability/log.ts";
import { RequestError } from "./errors.ts";

/**
 * Full disk: reads continue, writes fail. In production a single object reports its limit. Locally a failing commit
 * shows only as an internal error, so `npm start` binds LOCAL_DISK, which reports free space.
 */

const FULL = /SQLITE_FULL|database or disk is full/;
const ANSWER_MS = 2_000;
const MESSAGE = "the disk of the service is full: reads go on, and nothing can be written until there is room";

/** The answer to a request that failed because of a full disk; null for other failures. */
export async function diskRefusal(failure: unknown, env: Env): Promise<RequestError | null> {
  const isOwn = failure instanceof RequestError && failure.status !== 503;
  if (isOwn || !(FULL.test(textOf(failure)) || (await isDiskFull(env)))) return null;
  return new RequestError(507, MESSAGE);
}

export async function isDiskFull({ LOCAL_DISK }: Env): Promise<boolean> {
  if (!LOCAL_DISK) return false;
  try {
    const answer = LOCAL_DISK.fetch("http://disk/").then((response) => response.text());
    return (await within(ANSWER_MS, answer)) === "full";
  } catch {
    return false;
  }
}
