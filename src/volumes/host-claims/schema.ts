import type { Migration } from "../../platform/durable/migrations.ts";

export const claimMigrations: Migration[] = [
  {
    because: "a claim of a task group on a volume; alloc_id is who holds it, or held it last",
    sql: `CREATE TABLE volume_claims (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL, task_group TEXT NOT NULL, volume_id TEXT NOT NULL,
      volume_name TEXT NOT NULL, alloc_id TEXT NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  {
    because: "one claim of a group on a volume; and what claims a volume",
    sql: "CREATE UNIQUE INDEX volume_claims_of ON volume_claims (volume_id, namespace, job_id, task_group)",
  },
  { because: "list in order", sql: "CREATE INDEX volume_claims_in_order ON volume_claims (namespace, id)" },
  {
    because: "list a job's, in order",
    sql: "CREATE INDEX volume_claims_by_job ON volume_claims (job_id, namespace, id)",
  },
  {
    because: "list those of groups of a name, in order",
    sql: "CREATE INDEX volume_claims_by_group ON volume_claims (task_group, namespace, id)",
  },
  {
    because: "list those of volumes of a name, in order",
    sql: "CREATE INDEX volume_claims_by_name ON volume_claims (volume_name, namespace, id)",
  },
  {
    because:
      "what allocations that run still wait for: a sticky volume that is not there, or, while volume_name is empty, a job that says what they ask for; job_version -1 = any. Rows in the order of their reports",
    sql: `CREATE TABLE claim_asks (
      row INTEGER PRIMARY KEY, namespace TEXT NOT NULL, alloc_id TEXT NOT NULL, node_id TEXT NOT NULL, job_id TEXT NOT NULL,
      job_version INTEGER NOT NULL, task_group TEXT NOT NULL, volume_name TEXT NOT NULL) STRICT`,
  },
  {
    because: "an allocation ends",
    sql: "CREATE UNIQUE INDEX claim_asks_of ON claim_asks (namespace, alloc_id, volume_name)",
  },
  {
    because: "a volume comes",
    sql: "CREATE INDEX claim_asks_by_volume ON claim_asks (node_id, namespace, volume_name)",
  },
  {
    because: "a job comes, or goes",
    sql: "CREATE INDEX claim_asks_by_job ON claim_asks (namespace, job_id, volume_name, job_version)",
  },
];
