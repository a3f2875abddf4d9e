import type { Migration } from "../../platform/durable/migrations.ts";

export const claimMigrations: Migration[] = [
  // Claims of task groups on volumes; `alloc_id` is the current or the last holder.
  `CREATE TABLE volume_claims (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL, task_group TEXT NOT NULL, volume_id TEXT NOT NULL,
      volume_name TEXT NOT NULL, alloc_id TEXT NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  // One claim of a group on a volume; claims of a volume.
  "CREATE UNIQUE INDEX volume_claims_of ON volume_claims (volume_id, namespace, job_id, task_group)",
  // List in order.
  "CREATE INDEX volume_claims_in_order ON volume_claims (namespace, id)",
  // List those of a job, in order.
  "CREATE INDEX volume_claims_by_job ON volume_claims (job_id, namespace, id)",
  // List those of a group's name, in order.
  "CREATE INDEX volume_claims_by_group ON volume_claims (task_group, namespace, id)",
  // List those of a volume's name, in order.
  "CREATE INDEX volume_claims_by_name ON volume_claims (volume_name, namespace, id)",
  // Running allocations that wait: for a sticky volume, or, while `volume_name` is empty, for the job that
  // says which volumes they request; `job_version` -1 = any. Rows in the order of their reports.
  `CREATE TABLE claim_asks (
      row INTEGER PRIMARY KEY, namespace TEXT NOT NULL, alloc_id TEXT NOT NULL, node_id TEXT NOT NULL, job_id TEXT NOT NULL,
      job_version INTEGER NOT NULL, task_group TEXT NOT NULL, volume_name TEXT NOT NULL) STRICT`,
  // Rows of an allocation that ends.
  "CREATE UNIQUE INDEX claim_asks_of ON claim_asks (namespace, alloc_id, volume_name)",
  // Rows that wait for a volume.
  "CREATE INDEX claim_asks_by_volume ON claim_asks (node_id, namespace, volume_name)",
  // Rows that wait for a job.
  "CREATE INDEX claim_asks_by_job ON claim_asks (namespace, job_id, volume_name, job_version)",
];
