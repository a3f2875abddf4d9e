import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import { WakeUp } from "../platform/durable/wake-up.ts";
import { WorkQueue } from "../platform/durable/work-queue.ts";
import { ServiceEvents } from "../publishing/service-events.ts";
import { destinationKeyOf } from "../rpc/destination-name.ts";
import { syncControl } from "../rpc/stubs.ts";
import { Adoptions } from "./associations/adoptions.ts";
import { AnnouncementDelivery } from "./associations/announcement-delivery.ts";
import { AssociationCheck } from "./associations/association-check.ts";
import { Associations } from "./associations/associations.ts";
import { DesiredState } from "./associations/desired-state.ts";
import { Purge } from "./associations/purge.ts";
import { Configuration } from "./configuration/configuration.ts";
import { CustomApp } from "./configuration/custom-app.ts";
import { DestinationDeletion } from "./configuration/destination-deletion.ts";
import { DestinationRecord } from "./configuration/destination-record.ts";
import { Registration } from "./configuration/registration.ts";
import { Previews } from "./inspect/preview.ts";
import { Neighbours } from "./objects/neighbours.ts";
import { Relocation } from "./objects/relocation.ts";
import { RemoteObjects } from "./objects/remote-objects.ts";
import { StoredObjects } from "./objects/stored-objects.ts";
import { RuleStore } from "./rules/rule-store.ts";
import { RuleWork } from "./rules/rule-work.ts";
import { Rules } from "./rules/rules.ts";
import { Selection } from "./rules/selection.ts";
import { Breaker } from "./scheduler/breaker.ts";
import { LeaseLimits } from "./scheduler/lease-limits.ts";
import { Poll } from "./scheduler/poll.ts";
import { QueueQuota } from "./scheduler/queue-quota.ts";
import { Resync } from "./scheduler/resync.ts";
import { SyncGate } from "./scheduler/sync-gate.ts";
import { TaskCompletion } from "./scheduler/task-completion.ts";
import { TaskLeasing } from "./scheduler/task-leasing.ts";
import { TaskPlanning } from "./scheduler/task-planning.ts";
import type { AssociationRow } from "./schema.ts";
import { SecretChanges } from "./secret-changes.ts";
import { SyncEvents } from "./sync-events.ts";

/** The components of one destination, over its object. @param resumed called when a pause has ended */
export function destinationParts(object: ObjectContext, resumed: () => void) {
  const { sql, env, outbox } = object;
  const keys = new DataKeys(sql, `sync-destination ${object.name}`, () => masterKey(object.env));
  const place = async () => ({ namespace: destinationKeyOf(object.name).namespace, path: "" });
  const serviceEvents = new ServiceEvents(env, `destination ${object.name}`, () => outbox, place);
  const events = new SyncEvents(serviceEvents, object.name);
  const record = new DestinationRecord(object, keys, events);
  const work = new WorkQueue(sql, { failedLast: true });
  const remoteObjects = new RemoteObjects(sql);
  const storedObjects = new StoredObjects(sql, keys, `sync-destination ${object.name}`);
  const breaker = new Breaker(sql);
  const gate = new SyncGate(() => syncControl(env).mayRun(), resumed);
  const wakeUp = new WakeUp(env.SYNC_WORK, object.name);
  const quota = new QueueQuota(object, work, gate);
  const ruleStore = new RuleStore(sql, events);
  const origins = (row: AssociationRow) => ruleStore.originNames(row);
  const associations = new Associations(sql, work, quota, remoteObjects, events, origins);
  const resync = new Resync(object, associations, work, breaker);
  const neighbours = new Neighbours(object, record, remoteObjects, associations);
  const relocation = new Relocation(object, associations, ruleStore);
  const announcements = new AnnouncementDelivery(object, record, associations, work, ruleStore);
  const app = new CustomApp(object, record);

  const deletion = new DestinationDeletion(object, record, associations, storedObjects, resync);
  const purge = new Purge(object, associations, work, breaker, deletion);
  const registration = new Registration(object, record, purge, keys);
  const configuration = new Configuration(object, record, app, registration, resync);

  const check = new AssociationCheck(record, associations, remoteObjects, purge, neighbours);
  const takesOver = (row: AssociationRow) => ruleWork.takesOver(row);
  const desiredState = new DesiredState(object, check, associations, quota, resync, wakeUp, takesOver);
  const changes = new SecretChanges(object, associations, quota, gate, wakeUp);
  const ruleWork = new RuleWork(object, ruleStore, record, associations, desiredState, changes);

  const limits = new LeaseLimits(work, breaker);
  const leasing = new TaskLeasing(record, work, associations, remoteObjects, limits, ruleStore);
  const completion = new TaskCompletion(record, associations, storedObjects, purge, limits);

  return {
    object,
    keys,
    serviceEvents,
    record,
    work,
    associations,
    storedObjects,
    breaker,
    gate,
    wakeUp,
    quota,
    ruleStore,
    resync,
    neighbours,
    relocation,
    announcements,
    app,
    purge,
    registration,
    configuration,
    desiredState,
    ruleWork,
    rules: new Rules(object, ruleStore, ruleWork, check, associations),
    adoptions: new Adoptions(check, associations, desiredState),
    selection: new Selection(object, check, associations, desiredState),
    previews: new Previews(object, record, associations, remoteObjects, check),
    changes,
    leasing,
    poll: new Poll(object, gate, quota, leasing, completion),
    planning: new TaskPlanning(object, record, associations, remoteObjects, neighbours),
  };
}

export type DestinationParts = ReturnType<typeof destinationParts>;
