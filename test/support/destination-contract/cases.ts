import { batchCases } from "./batches.ts";
import { connectionCases, faultCases } from "./failures.ts";
import { inspectionCases } from "./inspections.ts";
import { objectCases, tagCases } from "./objects.ts";
import type { Case } from "./subject.ts";
import { nameCases, valueCases } from "./values.ts";

/** The contract of every adapter, by part (docs/internals/destination-contract.md). */
export const contract: Readonly<Record<string, readonly Case[]>> = {
  objects: objectCases,
  names: nameCases,
  values: valueCases,
  tags: tagCases,
  faults: faultCases,
  batches: batchCases,
  connections: connectionCases,
  inspections: inspectionCases,
};
