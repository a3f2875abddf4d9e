/** The registry, with a way to create many rows of each kind without reports or requests: only reads are measured. */
import { completeNode } from "../../src/cluster/nodes/node-defaults.ts";
import { NodeStore } from "../../src/cluster/nodes/node-store.ts";
import { Reported } from "../../src/cluster/reports/reported.ts";
import { ClusterRegistry as Registry } from "../../src/objects/cluster-registry.ts";
import { HostVolumeStore, hostVolumeBackfill } from "../../src/volumes/host/volume-store.ts";

/** How many of each. Row number n has n in its id, see `idOf` in bench/volumes-sides.ts. */
export interface FillCluster {
  readonly rows: number;
  /** Volumes, and allocations. */
  readonly perNode: number;
  /** One row in so many is what a filter asks for. */
  readonly oneIn: number;
}

/** So many CSI volumes, of which one in so many is claimed. Number n has n in its id, see `volumeOf` in bench/volumes-sides.ts. */
export interface FillCsi {
  readonly rows: number;
  readonly oneIn: number;
}

const FIRST = "00000000-b1b1-4b1b-8b1b-b1b1b1b1b1b1";
const INDEX = 1;

/** The numbers from 1 on. Numbers stand in the text, since bound ones are reals. */
const numbers = (rows: number): string =>
  `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows - 1})`;
/** The id that has this number. */
const id = (number: string): string => `replace('${FIRST}', '00000000-', printf('%08x-', ${number}))`;

export class ClusterRegistry extends Registry {
  /** One row of each kind as the service writes it, and then as many like it. */
  fill({ rows, perNode, oneIn }: FillCluster): void {
    this.commit(() => this.#fillNodes(rows, oneIn));
    this.commit(() => this.#fillVolumes(rows, perNode, oneIn));
    this.commit(() => this.#fillAllocations(rows, perNode, oneIn));
  }

  /** As many volumes and claims like the first, which is there and claimed. */
  fillCsi({ rows, oneIn }: FillCsi): void {
    const volume = (number: string): string => `printf('vol[%08d]', ${number})`;
    this.commit(() => {
      this.sql.exec(
        `${numbers(rows)} INSERT INTO csi_volumes (namespace, id, plugin_id, body, create_index, modify_index)
         SELECT namespace, ${volume("i")}, plugin_id, json_set(body, '$.id', ${volume("i")}, '$.externalId', 'ext-' || i,
           '$.name', 'vol-' || i || iif(i % ${oneIn} = 0, '-one-in', '')), create_index, modify_index
         FROM n, csi_volumes WHERE id = ${volume("0")}`,
      );
      this.sql.exec(
        `${numbers(rows)} INSERT INTO csi_claims (namespace, volume_id, alloc_id, node_id, plugin_id, mode, access_mode,
           attachment_mode, volume_mode, state, created, updated)
         SELECT namespace, ${volume("i")}, ${id("i")}, node_id, plugin_id, mode, access_mode, attachment_mode, volume_mode,
           state, created, updated
         FROM n, csi_claims WHERE volume_id = ${volume("0")} AND i % ${oneIn} = 0`,
      );
    });
  }

  #fillNodes(rows: number, oneIn: number): void {
    const store = new NodeStore(this.sql, []);
    const attributes = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [`unique.fact.number-${at}`, `value-${at}`]),
    );
    const given = { Name: "node-0", Datacenter: "dc0", Status: "ready" as const, Attributes: attributes };
    const node = completeNode(FIRST, given, Date.now());
    for (const backfill of store.write(1, null, node, "NodeRegistration", []).backfills)
      store.setIndex(backfill, INDEX);
    this.sql.exec(
      `${numbers(rows)} INSERT INTO nodes (id, origin, pool, status, eligibility, draining, heard, body, events, create_line,
         create_index, modify_index)
       SELECT ${id("i")}, origin, pool, status, eligibility, draining, heard,
         json_set(body, '$.ID', ${id("i")}, '$.Name', 'node-' || i, '$.Datacenter', 'dc' || (i % ${oneIn})),
         events, create_line, create_index, modify_index
       FROM n, nodes WHERE id = '${FIRST}'`,
    );
  }

  #fillVolumes(rows: number, perNode: number, oneIn: number): void {
    const store = new HostVolumeStore(this.sql);
    const now = Date.now();
    store.insert({
      id: FIRST,
      namespace: "default",
      name: "db-0",
      nodeId: FIRST,
      nodePool: "default",
      pluginId: "mkdir",
      state: "unavailable",
      made: true,
      capacityBytes: 0,
      hostPath: "/volumes/db-0",
      wanted: {
        parameters: { mode: "0750" },
        constraints: [],
        capabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
        capacityMin: 0,
        capacityMax: 0,
      },
      createTime: now,
      modifyTime: now,
    });
    store.setIndex(hostVolumeBackfill({ id: FIRST }), INDEX);
    this.sql.exec(
      `${numbers(rows)} INSERT INTO host_volumes (id, namespace, name, node_id, node_pool, plugin_id, state, made, gen, wanted,
         capacity_bytes, host_path, create_time, modify_time, create_index, modify_index)
       SELECT ${id("i")}, namespace, 'db-' || i, ${id(`i / ${perNode}`)}, node_pool, plugin_id,
         iif(i % ${oneIn} = 0, 'unavailable', 'ready'), made, gen, wanted, capacity_bytes, '/volumes/db-' || i, create_time,
         modify_time, create_index, modify_index
       FROM n, host_volumes WHERE id = '${FIRST}'`,
    );
  }

  #fillAllocations(rows: number, perNode: number, oneIn: number): void {
    const reported = new Reported(this.sql);
    const body = JSON.stringify({
      ID: FIRST,
      Namespace: "default",
      Name: "web.app[0]",
      NodeID: FIRST,
      NodeName: "node-0",
      JobID: "web",
      JobVersion: 1,
      TaskGroup: "app",
      EvalID: FIRST,
      DesiredStatus: "run",
      ClientStatus: "failed",
      CreateTime: 1.7e18,
      ModifyTime: 1.7e18,
      TaskStates: { app: { State: "running", Failed: false, Restarts: 0, StartedAt: "2026-11-01T00:00:00Z" } },
    });
    const { backfill } = reported.applyAs(
      {
        topic: "Allocation",
        type: "AllocationUpdated",
        namespace: "default",
        id: FIRST,
        filterKeys: null,
        jobId: "web",
        nodeId: FIRST,
        terminal: false,
        deleted: false,
        body,
        extra: "",
      },
      1,
    );
    reported.setIndex(backfill, INDEX);
    this.sql.exec(
      `${numbers(rows)} INSERT INTO reported (topic, namespace, id, job_id, node_id, terminal, body, create_line, create_index,
         modify_index)
       SELECT topic, namespace, ${id("i")}, job_id, ${id(`i / ${perNode}`)}, terminal,
         json_set(body, '$.ID', ${id("i")}, '$.NodeID', ${id(`i / ${perNode}`)}, '$.Name', 'web.app[' || i || ']',
           '$.ClientStatus', iif(i % ${oneIn} = 0, 'failed', 'running')),
         create_line, create_index, modify_index
       FROM n, reported WHERE topic = 'Allocation' AND namespace = 'default' AND id = '${FIRST}'`,
    );
  }
}
