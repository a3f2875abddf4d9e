import type { Migration } from "../../platform/durable/migrations.ts";

export const clusterMigrations: Migration[] = [
  {
    because:
      "what schedulers report: the newest of each object, rows in order of creation; body is JSON without its indexes, NULL until they are known; create_line is the outbox row that tells of the creation",
    sql: `CREATE TABLE reported (
      row INTEGER PRIMARY KEY, topic TEXT NOT NULL, namespace TEXT NOT NULL, id TEXT NOT NULL,
      job_id TEXT, node_id TEXT, terminal INTEGER NOT NULL, body TEXT NOT NULL,
      create_line INTEGER, create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  {
    because: "find one, and list by name",
    sql: "CREATE UNIQUE INDEX reported_by_name ON reported (topic, namespace, id)",
  },
  {
    because: "find what is asked for by id, or its beginning, alone",
    sql: "CREATE INDEX reported_by_id ON reported (topic, id, namespace)",
  },
  { because: "list by age", sql: "CREATE INDEX reported_by_age ON reported (topic)" },
  { because: "list one namespace by age", sql: "CREATE INDEX reported_by_namespace ON reported (topic, namespace)" },
  {
    because: "list what belongs to a job, by age",
    sql: "CREATE INDEX reported_by_job ON reported (topic, namespace, job_id) WHERE job_id IS NOT NULL",
  },
  {
    because: "list what is on a node, by age",
    sql: "CREATE INDEX reported_by_node ON reported (topic, node_id) WHERE node_id IS NOT NULL",
  },
  {
    because: "what still runs on a node, however much has ended there",
    sql: "CREATE INDEX reported_live ON reported (node_id) WHERE topic = 'Allocation' AND terminal = 0",
  },
  {
    because:
      "a report that comes again is recognised: the lines of a source's last index; idx is what each became, NULL until that is known",
    sql: `CREATE TABLE report_sources (
      source TEXT NOT NULL, line TEXT NOT NULL, source_index INTEGER NOT NULL, idx INTEGER, PRIMARY KEY (source, line)) STRICT`,
  },
  {
    because: "what a list says its index is: that of the last change of any row of it, deletions too",
    sql: "CREATE TABLE table_indexes (name TEXT PRIMARY KEY, idx INTEGER NOT NULL) STRICT",
  },
  {
    because: "identities of namespaces that were deleted: a request that was let in before creates nothing in them",
    sql: "CREATE TABLE ended_namespaces (id TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID",
  },
  {
    because:
      "summaries of jobs: tally is an allocation's task group and client status with a line feed between, or the status of a job that was made from another, which is then its job_id",
    sql: `ALTER TABLE reported ADD COLUMN tally TEXT;
      UPDATE reported SET tally = ifnull(json_extract(body, '$.TaskGroup'), '') || char(10) ||
        ifnull(json_extract(body, '$.ClientStatus'), '') WHERE topic = 'Allocation';
      UPDATE reported SET job_id = json_extract(body, '$.ParentID'), tally = ifnull(json_extract(body, '$.Status'), '')
        WHERE topic = 'Job' AND ifnull(json_extract(body, '$.ParentID'), '') <> ''`,
  },
  {
    because: "count what belongs to a job by walking one index, without reading the objects",
    sql: "CREATE INDEX reported_tallies ON reported (topic, namespace, job_id, tally) WHERE tally IS NOT NULL",
  },
];
