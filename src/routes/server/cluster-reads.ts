import * as z from "zod";
import { allocationOf, completeAllocation, jobIn, withJobType } from "../../cluster/reports/allocation-shapes.ts";
import { HEX_PREFIX_RULE, hexRange } from "../../cluster/reports/hex-prefix.ts";
import { jobKey } from "../../cluster/reports/job-joins.ts";
import { completeJob, JOB_SUMMARY_TABLES } from "../../cluster/reports/job-shapes.ts";
import { isToken } from "../../cluster/reports/reported-order.ts";
import { type Fields, textOf } from "../../cluster/reports/topics/topic.ts";
import type { ClusterRights, NamespaceRight } from "../../contracts/cluster-rights.ts";
import type { JobCounts, JobTexts, ReportedObject, ReportedQuery, ReportedTopic } from "../../contracts/reports.ts";
import * as kind from "../../lib/bexpr/kinds.ts";
import { parseLossless } from "../../lib/json.ts";
import { textBefore } from "../../lib/text-before.ts";
import { badRequest, denied, sentence } from "../../platform/http/errors.ts";
import * as query from "../../platform/http/query-fields.ts";
import { allowsNamespace, allowsNamespaceAny } from "../../rights/cluster-rights.ts";
import { clusterRegistry } from "../../rpc/stubs.ts";
import { blocking, nothing, type Reading } from "./blocking.ts";
import { type Listing, type Page, readList } from "./listing.ts";
import { clusterJson } from "./respond.ts";
import type { AuthorisedCall } from "./route.ts";

/** Reads of reported objects, shared by the routes of all topics. */

export const ALL = "*";

export const namespaceOf = (call: Pick<AuthorisedCall, "query">): string => namespaceGiven(call) || "default";

/** The namespace in the query; empty without one. */
export const namespaceGiven = ({ query }: Pick<AuthorisedCall, "query">): string => query.get("namespace") ?? "";

/**
 * Whether the caller may request a list: over all namespaces, a right in any of them suffices, since each item is
 * authorized.
 */
export const mayList =
  (right: NamespaceRight) =>
  (rights: ClusterRights, call: Pick<AuthorisedCall, "query">): boolean =>
    namespaceOf(call) === ALL ? allowsNamespaceAny(rights, [right]) : allowsNamespace(rights, namespaceOf(call), right);

/** Whether the caller has a right in the requested namespace. */
export const inNamespace =
  (right: NamespaceRight) =>
  (rights: ClusterRights, call: Pick<AuthorisedCall, "query">): boolean =>
    allowsNamespace(rights, namespaceOf(call), right);

/** A handler that answers a read of tables of the registry; supports blocking queries. */
export const blockingRead =
  <Own extends AuthorisedCall>(tables: readonly string[], read: (call: Own) => Promise<Reading>) =>
  (call: Own): Promise<Response> =>
    blocking(
      call,
      () => read(call),
      (since, waitMs) => clusterRegistry(call.env).changed(tables, since, waitMs),
    );

/** A cut of a table that is ordered by namespace and id. */
interface NamespacedCut {
  readonly from: readonly [namespace: string, id: string];
  readonly limit: number;
  readonly reverse: boolean;
}

/** The pages of such a table; a token is `namespace.id`. */
export const byNamespace = <Row, Shown extends { readonly Namespace: string; readonly ID: string }>(
  read: (cut: NamespacedCut) => Promise<Omit<Page<Row>, "next"> & { readonly next: readonly string[] | null }>,
  shown: (row: Row) => Shown,
): Pick<Listing<Shown>, "fetch" | "token"> => ({
  fetch: async (token, limit, reverse) => {
    const namespace = textBefore(token, ".");
    const page = await read({ from: [namespace, token.slice(namespace.length + 1)], limit, reverse });
    return { rows: page.rows.map(shown), next: page.next?.join(".") ?? null, index: page.index };
  },
  token: ({ Namespace, ID }) => `${Namespace}.${ID}`,
});

export interface ReportedList extends Pick<ReportedQuery, "topic" | "job" | "node"> {
  /** The right required in an object's namespace. */
  readonly right: NamespaceRight;
  /** List view of an object; default: the whole object, allocations with their job. */
  readonly stub?: (object: Fields, counts: JobCounts) => Fields;
  /** Query parameters beside the filter. */
  readonly wanted?: (object: Fields) => boolean;
  /** Ids are hexadecimal; a prefix must contain whole bytes. */
  readonly hexPrefix?: true;
}

/** Answers a list of reported objects; supports blocking queries. */
export function listReported(call: AuthorisedCall, list: ReportedList): Promise<Response> {
  const { topic, job, node, right, stub, wanted } = list;
  const given = call.query.get("prefix") ?? "";
  const prefix = list.hexPrefix ? hexPrefix(given) : given;
  const everywhere = node !== undefined || namespaceOf(call) === ALL;
  const tokens = new WeakMap<Fields, string>();
  const counts = new WeakMap<Fields, JobCounts>();
  const registry = clusterRegistry(call.env);
  const read = () =>
    readList<Fields>(call, {
      fetch: async (from, limit, reverse) => {
        if (!isToken({ topic, prefix }, from)) throw badRequest("next_token: is not one of this list");
        const query: ReportedQuery = {
          topic,
          prefix,
          from,
          limit,
          reverse,
          namespace: everywhere ? null : namespaceOf(call),
          ...(job !== undefined && { job }),
          ...(node !== undefined && { node }),
        };
        const page = await registry.reported(query, stub === undefined);
        const jobs = parsedOnce(page.jobs);
        const rows = page.rows.map((row, at) => {
          const object = joined(topic, row, jobs(row), stub === undefined);
          tokens.set(object, row.token);
          const counted = page.counts?.[at];
          if (counted) counts.set(object, counted);
          return object;
        });
        return { rows, next: page.next, index: page.index };
      },
      token: (object) => tokens.get(object) ?? "",
      stub: (object) => stub?.(object, counts.get(object) ?? NO_COUNTS) ?? object,
      fields: kind.any,
      visible: (object) =>
        (wanted?.(object) ?? true) &&
        (!everywhere || allowsNamespace(call.grant.cluster, textOf(object, "Namespace"), right)),
    });
  return blockingRead(topic === "Job" ? JOB_SUMMARY_TABLES : [topic], read)(call);
}

const NO_COUNTS: JobCounts = { groups: [], children: [], queued: null };

/** An object as returned by reads. */
function joined(topic: ReportedTopic, row: ReportedObject, job: Fields | null, whole: boolean): Fields {
  if (topic === "Allocation")
    return whole ? completeAllocation(allocationOf(row), job) : withJobType(allocationOf(row), job);
  const object = parseLossless(row.body) as Fields;
  return topic === "Job" && whole ? completeJob(object) : object;
}

/** The jobs of a page of allocations, each parsed once. */
function parsedOnce(texts: JobTexts): (row: ReportedObject) => Fields | null {
  const known = new Map<string, Fields | null>();
  return (row) => {
    const key = jobKey(row);
    const job = known.get(key) ?? jobIn(texts[key]);
    known.set(key, job);
    return job;
  };
}

/** @throws RequestError 400 */
function hexPrefix(given: string): string {
  const range = hexRange(given);
  if (range === null) throw badRequest(`prefix: ${HEX_PREFIX_RULE}`);
  return range[0];
}

interface ReportedOne {
  readonly topic: ReportedTopic;
  readonly id: string;
  /** The right required in the object's namespace. */
  readonly right: NamespaceRight;
  /** Whether ids are unique per namespace only; otherwise the namespace is just searched first. */
  readonly named?: true;
  /** Message for a missing object. */
  readonly missing: string;
  /** Adds what belongs to the object. */
  readonly extend?: (object: Fields) => Promise<Fields>;
}

/** Answers one reported object; supports blocking queries. */
export function readOne(
  call: AuthorisedCall,
  { topic, id, right, named, missing, extend }: ReportedOne,
): Promise<Response> {
  const read = async (): Promise<Reading> => {
    const { object, index, jobs } = await clusterRegistry(call.env).readReported(
      topic,
      id,
      namespaceOf(call),
      named === true,
    );
    if (!object) return nothing(missing, index);
    if (!allowsNamespace(call.grant.cluster, object.namespace, right)) throw denied();
    const { modifyIndex } = object;
    const shown = () => joined(topic, object, parsedOnce(jobs)(object), true);
    const whole = async () => (extend ? extend(shown()) : shown());
    return { index: modifyIndex, respond: async () => clusterJson(call, await whole(), { index: modifyIndex }) };
  };
  return blockingRead([topic], read)(call);
}

/** `?force`. */
export const ForceQuery = z.object({ force: query.goFlag(sentence("invalid force value")) });
