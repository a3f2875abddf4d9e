import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { Refusal } from "../settings.ts";
import { storeToken } from "./secrets.ts";

/** Waits for the deployed service, and takes its first token. */

/** A new name needs DNS, and a custom domain its certificate. */
const REACHABLE_MS = 10 * 60_000;
const REQUEST_MS = 20_000;

/** The service has its first token, and this program never received it. */
export class TokenLost extends Refusal {}

/** Resolves when the service answers at `address`. @throws Refusal */
export async function reachable(address: string, say: (line: string) => void): Promise<void> {
  let reason = "";
  for (const end = Date.now() + REACHABLE_MS; Date.now() < end; await sleep(2000)) {
    try {
      const answer = await fetch(`${address}/v1/sys/health?uninitcode=200`, {
        signal: AbortSignal.timeout(REQUEST_MS),
      });
      const health = z.object({ initialized: z.boolean(), sealed: z.boolean() }).safeParse(await answer.json());
      if (answer.status === 200 && health.data?.sealed === false) return;
      reason = health.success ? `status ${answer.status}` : "something else answers there";
    } catch (failure) {
      const { message, cause } = failure as Error;
      reason = cause instanceof Error ? cause.message : message;
    }
    if (Date.now() + REACHABLE_MS - end < 2500) say(`waits for ${address} (${reason})`);
  }
  throw new Refusal(
    `${address} does not answer after ${REACHABLE_MS / 60_000} minutes: ${reason}. Run this again later.`,
  );
}

/** Creates the first token, and stores it in `dir` before anything else happens. @throws TokenLost */
export async function takeFirstToken(dir: string, address: string, secret: string): Promise<string> {
  const answer = await fetch(`${address}/v1/acl/bootstrap`, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ BootstrapSecret: secret }),
    signal: AbortSignal.timeout(REQUEST_MS),
  }).catch((failure: unknown) => {
    const because = failure instanceof Error ? failure.message : String(failure);
    throw new Refusal(`The creation of the first token had no answer: ${because}. Run this again.`);
  });
  const said = await answer.text();
  if (answer.status === 400 && said.includes("bootstrap already done"))
    throw new TokenLost(
      "The first token was created, and its answer was lost on the way: no token is in use, and nothing can have been " +
        "stored. Run this again with --replace-worker, which deletes the Worker with its empty objects and deploys it again.",
    );
  // The answer has a token: only its status may be shown.
  if (!answer.ok) throw new Refusal(`${address}/v1/acl/bootstrap answered ${answer.status}. Run this again.`);
  const { SecretID: token } = z.object({ SecretID: z.string().min(20) }).parse(JSON.parse(said));
  storeToken(dir, token);
  return token;
}
