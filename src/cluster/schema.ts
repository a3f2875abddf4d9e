import type { Migration } from "../objects/migrations.ts";

/** Tables of what the cluster consists of. */
export const clusterMigrations: Migration[] = [
  {
    because:
      "what schedulers report: the newest of each object; body is JSON without its indexes, NULL until they are known",
    sql: `CREATE TABLE reported (
      row INTEGER PRIMARY KEY, topic TEXT NOT NULL, namespace TEXT NOT NULL, id TEXT NOT NULL,
      job_id TEXT, node_id TEXT, deployment_id TEXT, eval_id TEXT, terminal INTEGER NOT NULL DEFAULT 0,
      body TEXT NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  {
    because: "list in order, and find",
    sql: "CREATE UNIQUE INDEX reported_by_name ON reported (topic, namespace, id)",
  },
  { because: "find what is asked for by id alone", sql: "CREATE INDEX reported_by_id ON reported (topic, id)" },
  {
    because: "what belongs to a job",
    sql: "CREATE INDEX reported_by_job ON reported (topic, namespace, job_id, id) WHERE job_id IS NOT NULL",
  },
  {
    because: "what runs on a node",
    sql: "CREATE INDEX reported_by_node ON reported (topic, node_id, namespace, id) WHERE node_id IS NOT NULL",
  },
  {
    because: "a report that comes again is recognised; idx is the line it became, NULL until that is known",
    sql: "CREATE TABLE report_sources (source TEXT PRIMARY KEY, source_index INTEGER NOT NULL, idx INTEGER) STRICT",
  },
  {
    because: "what a list says its index is: that of the last change of any row of it, deletions too",
    sql: "CREATE TABLE table_indexes (name TEXT PRIMARY KEY, idx INTEGER NOT NULL) STRICT",
  },
];
