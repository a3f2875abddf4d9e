import { env as deployment, waitUntil } from "cloudflare:workers";
import { storeDueSnapshot } from "./backup/scheduled-snapshots.ts";
import { performJobs } from "./credentials/runner/job-worker.ts";
import { performDeliveries } from "./events/subscriptions/deliver.ts";
import { loadMasterKey } from "./platform/crypto/master-key.ts";
import type { WakeUpMessage } from "./platform/durable/wake-up.ts";
import { refusedBesideGateway } from "./platform/http/gateway-key.ts";
import { writeActionsTo } from "./platform/observability/audit/actions.ts";
import { record } from "./platform/observability/audit/batch-writer.ts";
import { textOf, warn } from "./platform/observability/log.ts";
import { flushCounts, recordCronRun } from "./platform/observability/metrics/flush.ts";
import { exportMetrics } from "./platform/observability/otlp/metrics.ts";
import { setOutboundPolicy } from "./providers/outbound-url.ts";
import { usePrivateNetworks } from "./providers/private-networks.ts";
import { consoleAnswer } from "./routes/console.ts";
import { handle } from "./routes/handle.ts";
import { installAnswer } from "./routes/install.ts";
import { metrics } from "./rpc/stubs.ts";
import { performWork } from "./sync/worker/perform.ts";

export { AccessControl } from "./objects/access-control.ts";
export { AuditCollector } from "./objects/audit-collector.ts";
export { ClusterRegistry } from "./objects/cluster-registry.ts";
export { CredentialEngine } from "./objects/credential-engine.ts";
export { EventLog } from "./objects/event-log.ts";
export { EventRelay } from "./objects/event-relay.ts";
export { EventSubscription } from "./objects/event-subscription.ts";
export { IdentityIssuer } from "./objects/identity-issuer.ts";
export { KvStore } from "./objects/kv-store.ts";
export { Metrics } from "./objects/metrics.ts";
export { NodeSession } from "./objects/node-session.ts";
export { ReadReplica } from "./objects/read-replica.ts";
export { SyncControl } from "./objects/sync-control.ts";
export { SyncDestination } from "./objects/sync-destination.ts";

/** Time to start tasks for one queue message. Remaining work causes another wake-up. */
const WAKE_UP_BUDGET_MS = 10_000;
/**
 * Time to wait for a batch before it is acknowledged. Batches may be delivered one at a time. So the rest runs in the
 * background (up to 30 s), and a slow destination does not delay others.
 */
const HOLD_MS = 1_000;

setOutboundPolicy(deployment);
usePrivateNetworks(deployment);
writeActionsTo((line) => record(deployment, line, waitUntil));

export default {
  fetch(request, env, exec) {
    const url = new URL(request.url);
    const beside = refusedBesideGateway(request, env);
    if (beside) return beside;
    const serve = () =>
      consoleAnswer(request, url, env) ?? installAnswer(request, url, env) ?? handle(request, env, exec, url);
    return loadMasterKey(env)?.then(serve) ?? serve();
  },

  /** Never throws: locally a throw would repeat even the messages that were acknowledged. */
  async queue(batch, env, exec) {
    await loadMasterKey(env);
    const answered = Promise.all(batch.messages.map((message) => answerWakeUp(batch.queue, message, env)));
    exec.waitUntil(answered);
    await Promise.race([answered, scheduler.wait(HOLD_MS)]);
  },

  /**
   * The cron trigger of wrangler.toml; `SNAPSHOT_CRON` says when a snapshot is due. Metrics are exported without
   * traffic, too. The time of the run is stored, so that a trigger that does not fire is seen.
   */
  async scheduled(_controller, env) {
    await loadMasterKey(env);
    const exported = exportMetrics(env, () => flushCounts().then(() => metrics(env).read()));
    await Promise.all([storeDueSnapshot(env), exported, recordCronRun(Date.now())]);
  },
} satisfies ExportedHandler<Env, WakeUpMessage>;

async function answerWakeUp(queue: string, message: Message<WakeUpMessage>, env: Env): Promise<void> {
  const { destination, engine, subscription } = (message.body ?? {}) as Readonly<Record<string, unknown>>;
  const name = destination ?? engine ?? subscription;
  // A message without an object name is dropped. Dead letters are only counted: the work rows are kept in
  // the object, and its alarm notifies again.
  if (typeof name !== "string" || queue.endsWith("-dead")) {
    warn("wake-up-dropped", { queue, name: String(name).slice(0, 256) });
    return message.ack();
  }
  try {
    const other = engine === undefined ? performDeliveries : performJobs;
    const perform = destination === undefined ? other : performWork;
    await perform(env, name, { budgetMs: WAKE_UP_BUDGET_MS });
  } catch (failure) {
    // The object's alarm sends another message. A retry of this one would only count before `HOLD_MS`.
    warn("wake-up-failed", { name, because: textOf(failure) });
  }
  message.ack();
}
