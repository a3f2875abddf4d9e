import { JOIN_AGENT_NODES } from "../../cluster/nodes/view.ts";
import {
  type CsiInfo,
  type CsiPlugin,
  type InstancePage,
  type PluginCounts,
  type PluginPage,
  ROLES,
  type Role,
} from "../../contracts/csi-volumes.ts";
import type { NewEvent } from "../../contracts/event.ts";
import type { Node } from "../../contracts/node.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import type { RowOf } from "../../platform/durable/row-of.ts";
import { type ChangeSet, NO_CHANGES, type NodeFollower } from "../../publishing/change-set.ts";
import { csiInfo, pluginJson } from "./plugin-views.ts";

/** The table's name in index backfills, equal to its event topic. */
export const CSI_PLUGIN = "CSIPlugin";

/** Upper bound of instances per role in an event; reads show all. */
const SHOWN_IN_EVENTS = 100;
const MAX_MEMOIZED = 1_000;
const PAGE = 500;

const COLUMNS = `id, provider, version, controller_required AS controllerRequired, create_time AS createTime,
  modify_time AS modifyTime, create_index AS createIndex, modify_index AS modifyIndex`;
type PluginRow = RowOf<Omit<CsiPlugin, keyof PluginCounts>>;

interface InstanceRow extends Record<string, SqlStorageValue> {
  plugin_id: string;
  role: string;
  node_id: string;
  info: string;
}

/**
 * CSI plugins, derived from the instances that nodes report. Owns tables `csi_plugins` and `csi_plugin_instances`.
 * Read by claims, volumes and the plugin routes. Counting costs one index scan per role, so the result is memoized
 * until a change.
 */
export class CsiPlugins implements NodeFollower, IndexedRows {
  /** Every read and every claim step needs the counts, which cost time linear in nodes. */
  readonly #memo = new Map<string, CsiPlugin>();

  constructor(private readonly sql: SqlStorage) {}

  find(id: string): CsiPlugin | null {
    const plugin = this.#memo.get(id) ?? this.#counted(id);
    if (this.#memo.size >= MAX_MEMOIZED) this.forget();
    if (plugin) this.#memo.set(id, plugin);
    return plugin;
  }

  /** Invalidates the memo. */
  forget(): void {
    this.#memo.clear();
  }

  /** Plugins whose ids begin with a prefix, by id. */
  page(prefix: string, from: string): PluginPage {
    const rows = this.sql
      .exec<PluginRow>(
        `SELECT ${COLUMNS} FROM csi_plugins WHERE id >= ? AND substr(id, 1, ?) = ? ORDER BY id LIMIT ?`,
        from > prefix ? from : prefix,
        [...prefix].length,
        prefix,
        PAGE + 1,
      )
      .toArray();
    return { plugins: rows.slice(0, PAGE).map((row) => this.#pluginOf(row)), next: rows[PAGE]?.id ?? null };
  }

  /** The reported instances of a plugin, by node id. */
  instances(id: string, role: Role, from: string, limit = PAGE): InstancePage {
    const rows = this.sql
      .exec<InstanceRow>(
        "SELECT * FROM csi_plugin_instances WHERE plugin_id = ? AND role = ? AND node_id >= ? ORDER BY node_id LIMIT ?",
        id,
        role,
        from,
        limit + 1,
      )
      .toArray();
    return {
      instances: rows.slice(0, limit).map((row) => [row.node_id, infoOf(row)] as const),
      next: rows[limit]?.node_id ?? null,
    };
  }

  /** Healthy controllers on nodes with an agent of this service, by node id. */
  controllers(id: string, limit: number, onNode: string | null = null): (readonly [nodeId: string, info: CsiInfo])[] {
    return this.sql
      .exec<InstanceRow>(
        `SELECT csi_plugin_instances.* FROM csi_plugin_instances ${JOIN_AGENT_NODES}
         WHERE plugin_id = ?1 AND role = 'controller' AND healthy = 1 AND node_id = ifnull(?3, node_id)
         ORDER BY node_id LIMIT ?2`,
        id,
        limit,
        onNode,
      )
      .toArray()
      .map((row) => [row.node_id, infoOf(row)] as const);
  }

  /** The node service of the plugin on a node. */
  nodeInstance(id: string, nodeId: string): CsiInfo | null {
    return this.#instance(id, "node", nodeId);
  }

  /** Whether a node declares a controller of the plugin, healthy or not. */
  runsController(id: string, nodeId: string): boolean {
    return this.#instance(id, "controller", nodeId) !== null;
  }

  #instance(id: string, role: Role, nodeId: string): CsiInfo | null {
    const { instances } = this.instances(id, role, nodeId, 1);
    const [found] = instances;
    return found?.[0] === nodeId ? found[1] : null;
  }

  /** The plugin's id for a node; empty when unknown. */
  externalNodeId(id: string, nodeId: string): string {
    const externalId = this.nodeInstance(id, nodeId)?.NodeInfo?.["ID"];
    return typeof externalId === "string" ? externalId : "";
  }

  /** Whether its controllers attach volumes to nodes; true while no controller is known. */
  mayAttach(id: string): boolean {
    const { instances } = this.instances(id, "controller", "", SHOWN_IN_EVENTS);
    return (
      instances.length === 0 || instances.some(([, { ControllerInfo }]) => ControllerInfo?.["SupportsAttachDetach"])
    );
  }

  /** @returns the plugin events for the node's event line */
  nodeChanged(nodeId: string, before: Node | null, after: Node | null, type: string): ChangeSet {
    if (before && after && pluginFields(before) === pluginFields(after)) return NO_CHANGES;
    const was = new Map(this.#on(nodeId).map((row) => [keyOf(row), row]));
    const is = new Map(instancesOf(after).map((row) => [keyOf(row), row]));
    const touched = new Set<string>();
    for (const [key, { plugin_id, role, info }] of is) {
      const known = was.get(key);
      if (known?.info === info) continue;
      const { Healthy } = JSON.parse(info) as CsiInfo;
      this.sql.exec(
        `INSERT INTO csi_plugin_instances VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (plugin_id, role, node_id) DO UPDATE SET healthy = excluded.healthy, info = excluded.info`,
        plugin_id,
        role,
        nodeId,
        Healthy ? 1 : 0,
        info,
      );
      if (!known || notable(known.info) !== notable(info)) touched.add(plugin_id);
    }
    for (const [key, { plugin_id, role }] of was) {
      if (is.has(key)) continue;
      this.sql.exec(
        "DELETE FROM csi_plugin_instances WHERE plugin_id = ? AND role = ? AND node_id = ?",
        plugin_id,
        role,
        nodeId,
      );
      touched.add(plugin_id);
    }
    const events = [...touched].flatMap((id) => this.#updatePlugin(id, type) ?? []);
    this.forget();
    return { events, backfills: events.map(({ Key }) => ({ table: CSI_PLUGIN, row: [Key] })) };
  }

  setIndex({ row: [id = ""] }: IndexBackfill, index: number): void {
    this.forget();
    this.sql.exec(
      "UPDATE csi_plugins SET create_index = ifnull(create_index, ?1), modify_index = ?1 WHERE id = ?2",
      index,
      id,
    );
  }

  /** Updates a plugin's row from its instances. @returns the event, unless the plugin was never visible */
  #updatePlugin(id: string, type: string): NewEvent | null {
    const known = this.#counted(id);
    const now = Date.now();
    const [first] = this.sql
      .exec<InstanceRow>("SELECT * FROM csi_plugin_instances WHERE plugin_id = ? ORDER BY healthy DESC LIMIT 1", id)
      .toArray();
    if (!first) {
      if (!known) return null;
      this.sql.exec("DELETE FROM csi_plugins WHERE id = ?", id);
      return pluginEvent(type, { ...known, ...this.#counts(id), modifyTime: now }, [], []);
    }
    const info = infoOf(first);
    if (!known && !info.Healthy) return null;
    this.sql.exec(
      `INSERT INTO csi_plugins (id, provider, version, controller_required, create_time, modify_time)
       VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (id) DO UPDATE SET provider = excluded.provider,
         version = excluded.version, controller_required = excluded.controller_required, modify_time = excluded.modify_time`,
      id,
      info.Provider,
      info.ProviderVersion,
      info.RequiresControllerPlugin ? 1 : 0,
      now,
    );
    const [controllers, nodes] = ROLES.map((role) => this.instances(id, role, "", SHOWN_IN_EVENTS).instances);
    const plugin = this.#counted(id);
    return plugin && pluginEvent(type, plugin, controllers ?? [], nodes ?? []);
  }

  #counted(id: string): CsiPlugin | null {
    const [row] = this.sql.exec<PluginRow>(`SELECT ${COLUMNS} FROM csi_plugins WHERE id = ?`, id).toArray();
    return row ? this.#pluginOf(row) : null;
  }

  #on(nodeId: string): InstanceRow[] {
    return this.sql.exec<InstanceRow>("SELECT * FROM csi_plugin_instances WHERE node_id = ?", nodeId).toArray();
  }

  #counts(id: string): PluginCounts {
    const count = (role: Role, more: string) =>
      this.sql
        .exec<{ n: number }>(
          `SELECT count(*) AS n FROM csi_plugin_instances WHERE plugin_id = ? AND role = ? ${more}`,
          id,
          role,
        )
        .one().n;
    return {
      controllersHealthy: count("controller", "AND healthy = 1"),
      controllersExpected: count("controller", ""),
      nodesHealthy: count("node", "AND healthy = 1"),
      nodesExpected: count("node", ""),
    };
  }

  #pluginOf(row: PluginRow): CsiPlugin {
    return { ...row, controllerRequired: row.controllerRequired === 1, ...this.#counts(row.id) };
  }
}

const infoOf = ({ info }: InstanceRow): CsiInfo => JSON.parse(info) as CsiInfo;
const keyOf = ({ plugin_id, role }: Pick<InstanceRow, "plugin_id" | "role">): string => `${role} ${plugin_id}`;

/** A node that is down or removed has no instances. */
function instancesOf(node: Node | null): Pick<InstanceRow, "plugin_id" | "role" | "info">[] {
  if (!node || node.Status === "down") return [];
  return ROLES.flatMap((role) =>
    Object.entries((role === "controller" ? node.CSIControllerPlugins : node.CSINodePlugins) ?? {}).map(
      ([plugin_id, given]) => ({
        plugin_id,
        role,
        info: JSON.stringify(csiInfo(plugin_id, role, given, node.Status === "ready")),
      }),
    ),
  );
}

/** The node fields that determine its plugins. */
const pluginFields = ({ Status, CSIControllerPlugins, CSINodePlugins }: Node): string =>
  JSON.stringify([Status, CSIControllerPlugins, CSINodePlugins]);

/** The instance fields whose change is an event; the time of the last check is not among them. */
function notable(info: string): string {
  const {
    UpdateTime: _time,
    HealthDescription: _text,
    AvailableCapacity: _bytes,
    ...rest
  } = JSON.parse(info) as CsiInfo;
  return JSON.stringify(rest);
}

function pluginEvent(
  type: string,
  plugin: CsiPlugin,
  controllers: InstancePage["instances"],
  nodes: InstancePage["instances"],
): NewEvent {
  const shown = pluginJson(plugin, {
    controller: Object.fromEntries(controllers),
    node: Object.fromEntries(nodes),
  });
  return {
    Topic: CSI_PLUGIN,
    Type: type,
    Key: plugin.id,
    Namespace: "",
    FilterKeys: [plugin.id],
    Payload: { Plugin: { ...shown, CreateIndex: plugin.createIndex, ModifyIndex: null } },
  };
}
