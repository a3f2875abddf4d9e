/** Runs two versions of the Worker on the local runtime, which share objects, database and queues. */
import {
  builtWorker,
  type DurableObjectOptions,
  type LocalWorker,
  serveWorkers,
} from "../../scripts/runtime-server.ts";
import type { ToRollout } from "./rollout.ts";

const FORMER = "former";

serveWorkers(({ builtDir, bindings, former }: ToRollout) => {
  const present = builtWorker(builtDir, bindings);
  const before = { ...builtWorker(former.builtDir, bindings), name: FORMER };
  const classOf = (each: DurableObjectOptions): string => each.className;
  const known = new Set(Object.values(before.durableObjects).map(classOf));
  const isFormer = (name: string): boolean => known.has(name) && former.classes.includes(name);

  /** The Worker's bindings to objects: those of its own classes, and of the other Worker's. */
  const joined = (worker: LocalWorker): LocalWorker => {
    const objects = Object.entries(worker.durableObjects).map(([binding, each]) => {
      const owner = isFormer(each.className) ? FORMER : present.name;
      // One directory for both versions.
      const unsafeUniqueKey = `${present.name}-${each.className}`;
      return [binding, owner === worker.name ? { ...each, unsafeUniqueKey } : { ...each, scriptName: owner }] as const;
    });
    return { ...worker, durableObjects: Object.fromEntries(objects) };
  };

  const [first, second] = former.answers ? [before, present] : [present, before];
  const { queueConsumers: _, ...other } = second;
  return [joined(first), joined(other)];
});
