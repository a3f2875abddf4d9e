/**
 * A node agent of `npm start`. Its arguments arrive as a message, because `ps` shows a command line. It exits with its
 * parent, for any end of the parent.
 */
import { readConfig } from "../agent/src/config.ts";
import { Ending, EXIT } from "../agent/src/exit.ts";
import { error, textOf } from "../agent/src/log.ts";
import { start } from "../agent/src/start.ts";
import type { ToAgent } from "./agents.ts";
import { answerPings, instructions } from "./heartbeat.ts";

const stop = new AbortController();

answerPings();
void instructions<ToAgent>().then(run);
process.once("disconnect", () => stop.abort());

async function run({ config, joinToken }: ToAgent): Promise<void> {
  try {
    process.exit(await start({ config: readConfig(config), joinToken, stop: stop.signal }));
  } catch (failure) {
    error("agent_failed", { message: textOf(failure) });
    process.exit(failure instanceof Ending ? failure.code : EXIT.failed);
  }
}
