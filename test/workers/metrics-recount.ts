import { engineMeasures } from "../../src/credentials/measures.ts";
import { clusterMeasures } from "../../src/objects/cluster-measures.ts";
import type { Migration } from "../../src/platform/durable/migrations.ts";
import { destinationMeasures } from "../../src/sync/measures.ts";

export const MEASURES = { clusterMeasures, destinationMeasures, engineMeasures };

/** An object's counters, kept as its rows change, and the same figures counted from the rows. */
export function counts({ sql }: DurableObjectStorage, measures: readonly Migration[]) {
  let selects: string[] = [];
  for (const step of measures) {
    const [, select] = /^INSERT INTO counted (SELECT .*?) ON CONFLICT/s.exec(step) ?? [];
    const [, ended] = /DELETE FROM counted WHERE metric = ('\w+')$/.exec(step) ?? [];
    if (ended) selects = selects.filter((each) => !each.startsWith(`SELECT ${ended}`));
    if (select) selects.push(select);
  }
  const recounted = new Map<string, number>();
  for (const select of selects) {
    for (const [metric, labels, n] of sql.exec(select).raw<[string, string, number]>()) {
      const key = `${metric} ${labels}`;
      recounted.set(key, (recounted.get(key) ?? 0) + n);
    }
  }
  const counted = new Map(
    [
      ...sql
        .exec("SELECT metric, labels, n FROM counted WHERE metric NOT LIKE '%\\_total' ESCAPE '\\'")
        .raw<[string, string, number]>(),
    ].map(([metric, labels, n]) => [`${metric} ${labels}`, n]),
  );
  const sorted = (map: Map<string, number>) => Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
  return { counted: sorted(counted), recounted: sorted(recounted) };
}
