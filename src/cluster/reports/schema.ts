import { TABLE_INDEXES } from "../../platform/durable/blocking/table-indexes.ts";
import { ENDED_NAMESPACES } from "../../platform/durable/ended-namespaces.ts";
import type { Migration } from "../../platform/durable/migrations.ts";

export const clusterMigrations: Migration[] = [
  // Objects reported by schedulers, the newest of each, rows in order of creation. `body` is JSON without its
  // indexes, NULL until they are known; `create_line` is the outbox row of the creation's event.
  `CREATE TABLE reported (
      row INTEGER PRIMARY KEY, topic TEXT NOT NULL, namespace TEXT NOT NULL, id TEXT NOT NULL,
      job_id TEXT, node_id TEXT, terminal INTEGER NOT NULL, body TEXT NOT NULL,
      create_line INTEGER, create_index INTEGER, modify_index INTEGER) STRICT`,
  // Find one; list by name.
  "CREATE UNIQUE INDEX reported_by_name ON reported (topic, namespace, id)",
  // Find by id or its beginning.
  "CREATE INDEX reported_by_id ON reported (topic, id, namespace)",
  // List by age.
  "CREATE INDEX reported_by_age ON reported (topic)",
  // List one namespace by age.
  "CREATE INDEX reported_by_namespace ON reported (topic, namespace)",
  // List objects of a job, by age.
  "CREATE INDEX reported_by_job ON reported (topic, namespace, job_id) WHERE job_id IS NOT NULL",
  // List objects on a node, by age.
  "CREATE INDEX reported_by_node ON reported (topic, node_id) WHERE node_id IS NOT NULL",
  // Running objects on a node, apart from the many that have ended.
  "CREATE INDEX reported_live ON reported (node_id) WHERE topic = 'Allocation' AND terminal = 0",
  // Recognizes a repeated report: the lines of a source's last index; `idx` is the index of each, NULL until
  // known.
  `CREATE TABLE report_sources (
      source TEXT NOT NULL, line TEXT NOT NULL, source_index INTEGER NOT NULL, idx INTEGER, PRIMARY KEY (source, line)) STRICT`,
  // The index of a list: that of the last change of any of its rows, including deletions.
  TABLE_INDEXES,
  // Identities of deleted namespaces: a request that was admitted before creates nothing in them.
  ENDED_NAMESPACES,
  // Summaries of jobs: `tally` of an allocation is its task group and client status, separated by a line feed. That of
  // a child job, whose `job_id` is the parent, is its status.
  `ALTER TABLE reported ADD COLUMN tally TEXT;
      UPDATE reported SET tally = ifnull(json_extract(body, '$.TaskGroup'), '') || char(10) ||
        ifnull(json_extract(body, '$.ClientStatus'), '') WHERE topic = 'Allocation';
      UPDATE reported SET job_id = json_extract(body, '$.ParentID'), tally = ifnull(json_extract(body, '$.Status'), '')
        WHERE topic = 'Job' AND ifnull(json_extract(body, '$.ParentID'), '') <> ''`,
  // Count the objects of a job by index, without reading them.
  "CREATE INDEX reported_tallies ON reported (topic, namespace, job_id, tally) WHERE tally IS NOT NULL",
  // The version of a job; of an allocation or a deployment, that of its job. NULL when unknown.
  `ALTER TABLE reported ADD COLUMN job_version INTEGER;
      UPDATE reported SET job_version = json_extract(body, CASE topic WHEN 'Job' THEN '$.Version' ELSE '$.JobVersion' END)
        WHERE topic IN ('Job', 'Allocation', 'Deployment')`,
  // Earlier versions of jobs, and those that only allocations had. `gone` = 1: the job was deleted.
  `CREATE TABLE job_versions (
      row INTEGER PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL, version INTEGER NOT NULL,
      gone INTEGER NOT NULL, body TEXT NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  "CREATE UNIQUE INDEX job_versions_by_name ON job_versions (namespace, job_id, version, gone)",
];
