import { createHash, randomBytes } from "node:crypto";
import type { JoinRequest } from "@sallyport/agent-protocol";
import type { AgentChange, AgentIdentity, AgentView, JoinTokenView, NewJoinToken } from "../contracts/node-agents.ts";
import type { Page, PageQuery } from "../contracts/rows.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { Timed } from "../platform/durable/blocking/timed.ts";

interface TokenRow extends Record<string, SqlStorageValue> {
  accessor: string;
  pool: string;
  name: string | null;
  created: number;
  expires: number;
  node_id: string | null;
}

interface AgentRow extends Record<string, SqlStorageValue> {
  node_id: string;
  public_key: string;
  service: string;
  pool: string;
  name: string;
  name_bound: number;
  created: number;
  seq: number;
  connected_since: number | null;
  seen: number | null;
  version: string | null;
}

const TOKEN_BYTES = 32;

/**
 * Owns tables `join_tokens` and `agents`: single-use join tokens, and the keys of admitted agents. Read by the agent
 * routes and by node sessions; each call is one indexed statement.
 */
export class Enrolment implements Timed {
  readonly due = "SELECT min(expires) FROM join_tokens";

  constructor(
    private readonly sql: SqlStorage,
    private readonly commit: <T>(change: () => T) => T,
  ) {}

  /** Creates a join token; inside the caller's transaction. @returns its secret, which is not stored */
  createToken({ pool, name, ttlSeconds }: NewJoinToken, now: number): { secret: string; token: JoinTokenView } {
    const secret = randomBytes(TOKEN_BYTES).toString("hex");
    const row = this.sql
      .exec<TokenRow>(
        `INSERT INTO join_tokens (accessor, hash, pool, name, created, expires) VALUES (?, ?, ?, ?, ?, ?)
         RETURNING *`,
        crypto.randomUUID(),
        hashOf(secret),
        pool,
        name,
        now,
        now + ttlSeconds * 1_000,
      )
      .one();
    return { secret, token: tokenView(row) };
  }

  /** Join tokens by accessor. */
  tokens(cut: PageQuery): Page<JoinTokenView> {
    const rows = this.#page<TokenRow>("join_tokens", "accessor", cut);
    return { rows: rows.slice(0, cut.limit).map(tokenView), next: rows[cut.limit]?.accessor ?? null };
  }

  /** @returns whether it existed */
  deleteToken(accessor: string): boolean {
    const deleted = this.sql.exec("DELETE FROM join_tokens WHERE accessor = ? RETURNING accessor", accessor);
    return deleted.toArray().length > 0;
  }

  /**
   * Admits a key with a join token; inside the caller's transaction. A retry with the same key and token returns the
   * same node, so that a lost response can be repeated.
   * @param service the audience of the agent's tokens
   * @returns the node's id
   */
  join(request: JoinRequest, service: string, now: number): Result<string> {
    const [token] = this.sql
      .exec<TokenRow>("SELECT * FROM join_tokens WHERE hash = ? AND expires > ?", hashOf(request.Token), now)
      .toArray();
    if (!token) return refuse("denied", "Token: is unknown or has expired");
    const key = canonical(request.PublicKey);
    if (token.name !== null && token.name !== request.Name)
      return refuse("denied", "Name: is not the one that this token is for");
    const known = this.#byKey(key);
    if (token.node_id !== null) {
      return known?.node_id === token.node_id
        ? ok(known.node_id)
        : refuse("denied", "Token: has been used; each admits one node");
    }
    // An agent whose first response was lost and whose first token has expired.
    const isSame = known?.pool === token.pool && known.name === request.Name;
    if (known && !isSame)
      return refuse("conflict", `PublicKey: is that of node ${known.node_id}; remove its agent, or use a new key`);
    const nodeId = known?.node_id ?? this.#admit(key, token, request.Name, service, now);
    this.sql.exec("UPDATE join_tokens SET node_id = ? WHERE accessor = ?", nodeId, token.accessor);
    return ok(nodeId);
  }

  /** Deletes expired tokens. */
  async onAlarm(now: number): Promise<void> {
    this.commit(() => this.sql.exec("DELETE FROM join_tokens WHERE expires <= ?", now));
  }

  identity(nodeId: string): AgentIdentity | null {
    const row = this.#row(nodeId);
    return (
      row && {
        publicKey: row.public_key,
        service: row.service,
        pool: row.pool,
        boundName: row.name_bound ? row.name : null,
      }
    );
  }

  agent(nodeId: string): AgentView | null {
    const row = this.#row(nodeId);
    return row && agentView(row);
  }

  /** Agents by node id. */
  agents(cut: PageQuery): Page<AgentView> {
    const rows = this.#page<AgentRow>("agents", "node_id", cut);
    return { rows: rows.slice(0, cut.limit).map(agentView), next: rows[cut.limit]?.node_id ?? null };
  }

  /** Deletes an agent's key; inside the caller's transaction. @returns whether it existed */
  remove(nodeId: string): boolean {
    return this.sql.exec("DELETE FROM agents WHERE node_id = ? RETURNING node_id", nodeId).toArray().length > 0;
  }

  /**
   * Records a session change; inside the caller's transaction, idempotent.
   * @returns false when it is outdated or the agent was removed
   */
  recordChange(nodeId: string, { seq, connectedSince, seen, version, report }: AgentChange): boolean {
    const recorded = this.sql.exec(
      `UPDATE agents SET seq = ?2, connected_since = ?3, seen = ?4, version = ?5, name = ifnull(?6, name)
       WHERE node_id = ?1 AND seq <= ?2 RETURNING node_id`,
      nodeId,
      seq,
      connectedSince,
      seen,
      version,
      report?.node.Name ?? null,
    );
    return recorded.toArray().length > 0;
  }

  #admit(key: string, { pool, name }: TokenRow, reported: string, service: string, now: number): string {
    const nodeId = crypto.randomUUID();
    this.sql.exec(
      `INSERT INTO agents (node_id, public_key, service, pool, name, name_bound, created) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      nodeId,
      key,
      service,
      pool,
      reported,
      name === null ? 0 : 1,
      now,
    );
    return nodeId;
  }

  #row(nodeId: string): AgentRow | null {
    return this.sql.exec<AgentRow>("SELECT * FROM agents WHERE node_id = ?", nodeId).toArray()[0] ?? null;
  }

  #byKey(key: string): AgentRow | undefined {
    return this.sql.exec<AgentRow>("SELECT * FROM agents WHERE public_key = ?", key).toArray()[0];
  }

  /** One row beyond the limit is the start of the next page. */
  #page<Row extends Record<string, SqlStorageValue>>(
    table: string,
    id: string,
    { from, limit, reverse }: PageQuery,
  ): Row[] {
    const begins = from === "" ? "?1 = ''" : `${id} ${reverse ? "<=" : ">="} ?1`;
    const order = `${id} ${reverse ? "DESC" : "ASC"}`;
    return this.sql
      .exec<Row>(`SELECT * FROM ${table} WHERE ${begins} ORDER BY ${order} LIMIT ?2`, from, limit + 1)
      .toArray();
  }
}

const hashOf = (token: string): string => createHash("sha256").update(token).digest("base64url");

/** The canonical encoding of a key: the last base64 character has unused bits. */
const canonical = (publicKey: string): string => Buffer.from(publicKey, "base64").toString("base64");

const timeOf = (ms: number): string => new Date(ms).toISOString();

const tokenView = ({ accessor, pool, name, created, expires, node_id }: TokenRow): JoinTokenView => ({
  AccessorID: accessor,
  NodePool: pool,
  Name: name ?? "",
  CreateTime: timeOf(created),
  ExpirationTime: timeOf(expires),
  NodeID: node_id ?? "",
});

const agentView = (row: AgentRow): AgentView => ({
  NodeID: row.node_id,
  Name: row.name,
  NodePool: row.pool,
  Version: row.version ?? "",
  Connected: row.connected_since !== null,
  ConnectedSince: row.connected_since === null ? null : timeOf(row.connected_since),
  LastSeen: row.connected_since !== null || row.seen === null ? null : timeOf(row.seen),
  CreateTime: timeOf(row.created),
});
