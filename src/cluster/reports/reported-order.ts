import type { ReportedQuery } from "../../contracts/reports.ts";
import { upperBound } from "../../lib/text-range.ts";

/**
 * `name`: by namespace and id. `id`: by id, then namespace, so that one seek finds a prefix in all namespaces. `age`:
 * in order of creation, by row number.
 */
type Order = "name" | "id" | "age";

interface Selection {
  readonly order: Order;
  readonly where: string;
  readonly values: readonly (string | number)[];
  readonly orderBy: string;
}

/** The query of each kind of list; every kind is a walk along one index. */
export function selection(query: ReportedQuery): Selection {
  const order: Order = query.prefix ? "id" : query.topic === "Job" ? "name" : "age";
  const conditions: { readonly sql: string; readonly values: readonly (string | number)[] }[] = [];
  const add = (sql: string, ...values: (string | number)[]) => conditions.push({ sql, values });
  add("topic = ?", query.topic);
  if (query.node !== undefined) add("node_id = ?", query.node);
  else if (query.namespace !== null) add("namespace = ?", query.namespace);
  if (query.job !== undefined) add("job_id = ?", query.job);
  const beyond = query.reverse ? "<=" : ">=";
  if (order === "age") {
    if (query.from !== "") add(`row ${beyond} ?`, Number(query.from));
  } else {
    const { prefix = "", reverse = false } = query;
    const [namespace, id] = namesOf(query.from);
    // A token bounds the side where the walk begins, unless the prefix does; both bounds could cost a walk between
    // them.
    const first = query.from !== "" && (prefix === "" || (reverse ? id < upperBound(prefix) : id >= prefix));
    if (first && query.namespace !== null) add(`id ${beyond} ?`, id);
    else if (first && order === "name") add(`(namespace, id) ${beyond} (?, ?)`, namespace, id);
    else if (first) add(`(id, namespace) ${beyond} (?, ?)`, id, namespace);
    if (prefix !== "" && (!first || reverse)) add("id >= ?", prefix);
    if (prefix !== "" && (!first || !reverse)) add("id < ?", upperBound(prefix));
  }
  return {
    order,
    where: conditions.map(({ sql }) => sql).join(" AND "),
    values: conditions.flatMap(({ values }) => values),
    orderBy: columnsOf(order, query)
      .map((column) => (query.reverse ? `${column} DESC` : column))
      .join(", "),
  };
}

function columnsOf(order: Order, { namespace }: ReportedQuery): readonly string[] {
  if (order === "age") return ["row"];
  if (namespace !== null) return ["id"];
  return order === "name" ? ["namespace", "id"] : ["id", "namespace"];
}

/** The position of a row in an order. */
export const tokenOf = (
  order: Order,
  row: { readonly row: number; readonly namespace: string; readonly id: string },
) => (order === "age" ? String(row.row) : `${row.namespace}.${row.id}`);

/** Whether a token is valid for this kind of list. */
export const isToken = ({ topic, prefix }: Pick<ReportedQuery, "topic" | "prefix">, token: string): boolean =>
  token === "" || Boolean(prefix) || topic === "Job" || /^\d{1,15}$/.test(token);

/** Namespaces contain no dots. */
function namesOf(token: string): readonly [namespace: string, id: string] {
  const dot = token.indexOf(".");
  return [token.slice(0, Math.max(0, dot)), token.slice(dot + 1)];
}
