import { handle } from "./http/handle.ts";
import { textOf, warn } from "./log.ts";
import { performWork } from "./sync/perform.ts";
import type { Bell } from "./work/doorbell.ts";

export { AccessControl } from "./objects/access-control.ts";
export { EventLog } from "./objects/event-log.ts";
export { KvStore } from "./objects/kv-store.ts";
export { SyncDestination } from "./objects/sync-destination.ts";

/** How long one queue message may keep a consumer busy; what is left rings again. */
const BELL_BUDGET_MS = 30_000;

export default {
  fetch: (request, env, exec) => handle(request, env, exec),

  /** Never throws: locally a throw would repeat even the messages that were acknowledged. */
  async queue(batch, env) {
    for (const message of batch.messages) {
      try {
        // Dead letters are only counted: the rows behind them are the truth, and their alarm rings again.
        if (batch.queue.endsWith("-dead")) warn("bell-dead", { destination: message.body.destination });
        else await performWork(env, message.body.destination, { budgetMs: BELL_BUDGET_MS });
        message.ack();
      } catch (failure) {
        warn("bell-failed", { destination: message.body?.destination, because: textOf(failure) });
        message.retry({ delaySeconds: 5 });
      }
    }
  },
} satisfies ExportedHandler<Env, Bell>;
