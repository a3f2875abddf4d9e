import { createHash } from "node:crypto";
import * as z from "zod";
import { MAX_REPORT_BYTES, type ReportBody, readLines, readReports } from "../cluster/reports/report-body.ts";
import { asStream } from "../cluster/reports/report-stream.ts";
import { TOPICS } from "../cluster/reports/topics/index.ts";
import { NAMESPACE_NAME } from "../contracts/namespaces.ts";
import {
  type FullList,
  type Ingested,
  REPORTED_TOPICS,
  type Report,
  type ReportLine,
  type SourceLine,
} from "../contracts/reports.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsOperator } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { namespaceOf } from "./server/cluster-reads.ts";
import { clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Ingestion of reports of external schedulers (docs/guides/reports.md). */

const SOURCE_NAME = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;

/** Maximum body size for a single RPC, whose arguments hold 32 MiB. */
const MAX_CALL_LENGTH = 4 * 1024 * 1024;

const INDEX_RULE = "must be an integer from 0 to 2^53 - 1";
const isSet = () =>
  z
    .enum(["true", "false"], "must be true or false")
    .transform((word) => word === "true")
    .default(false);

const ReportQuery = z.object({
  source: z.string().regex(SOURCE_NAME, `must match ${SOURCE_NAME.source}`).optional(),
  source_index: z
    .string()
    .regex(/^\d{1,16}$/, INDEX_RULE)
    .transform(Number)
    .refine(Number.isSafeInteger, INDEX_RULE)
    .optional(),
  full: isSet(),
  changes: isSet(),
  topic: query.text(),
});
type ReportQuery = z.output<typeof ReportQuery>;
type ReportCall = AuthorisedCall & Asked<typeof ReportQuery>;

/** Source and sequence number of a report; null when the caller omits them. */
function sourceOf(
  { source: name, source_index: index }: ReportQuery,
  lineIndex: number | null,
  reports: readonly Report[],
): SourceLine | null {
  if (name === undefined && index === undefined) return null;
  if (name === undefined) throw badRequest("source: must be given with source_index");
  if (index !== undefined) return { name, index, line: "" };
  if (lineIndex === null) throw badRequest("source_index: must be given with source");
  return { name, index: lineIndex, line: lineName(reports) };
}

/**
 * Upstream streams send several lines with one index; their subjects distinguish them, also when a repeated line orders
 * its fields differently.
 */
const lineName = (reports: readonly Report[]): string =>
  createHash("sha256")
    .update(
      JSON.stringify(
        reports.map((each) => [each.topic, each.type, each.topic === "Node" ? "" : each.namespace, each.id]),
      ),
    )
    .digest("base64url");

const LISTABLE = REPORTED_TOPICS.filter((topic) => TOPICS[topic].namespaced);

/** The scope that a body lists completely; null unless the caller declares it. */
function fullListOf(asked: ReportQuery, namespace: string, { reports, isLine }: ReportBody): FullList | null {
  if (!asked.full) return null;
  const topic = LISTABLE.find((name) => name === asked.topic);
  if (!topic) throw badRequest(`topic: must be one of ${LISTABLE.join(", ")} with full=true`);
  if (isLine) throw badRequest("full: must not be given with a line of a stream");
  const other = reports.findIndex((each) => each.topic !== topic || each.namespace !== namespace);
  if (other >= 0) throw badRequest(`event ${other + 1}: full: must be of topic ${topic} and namespace ${namespace}`);
  return { topic, namespace };
}

/** Several lines of a stream, in order. Heartbeats among them are left out. */
async function reportLines(call: ReportCall, bodies: readonly ReportBody[], size: number): Promise<Response> {
  for (const name of ["full", "changes", "source_index"] as const) {
    const given = call.asked[name];
    if (given !== undefined && given !== false) throw badRequest(`${name}: must not be given with lines of a stream`);
  }
  const lines = bodies
    .filter(({ reports }) => reports.length > 0)
    .map(({ lineIndex, reports }, at) => {
      const source = sourceOf(call.asked, lineIndex, reports);
      if (!source) throw badRequest(`line ${at + 1}: source: must be given with several lines of a stream`);
      return { source, reports };
    });
  const { index, applied } = await ingestLines(clusterRegistry(call.env), lines, size > MAX_CALL_LENGTH);
  return clusterJson(call, { Index: index, Applied: applied }, { index });
}

/** Lines of a size that one call cannot hold are stored one by one. */
async function ingestLines(
  registry: ReturnType<typeof clusterRegistry>,
  lines: readonly ReportLine[],
  isLarge: boolean,
): Promise<Ingested> {
  if (!isLarge) return unwrap(await registry.ingestLines(lines));
  let last: Ingested = { index: null, applied: false };
  for (const { source, reports } of lines) {
    const { index, applied } = unwrap(await registry.ingestStream(source, asStream(reports), {}));
    last = { index, applied: applied || last.applied };
  }
  return last;
}

async function report(call: ReportCall, text: string): Promise<Response> {
  const namespace = namespaceOf(call);
  if (!NAMESPACE_NAME.test(namespace)) throw badRequest(`namespace: must match ${NAMESPACE_NAME.source}`);
  const lines = readLines(text, namespace);
  if (lines) return reportLines(call, lines, text.length);
  const body = readReports(text, namespace);
  const { reports, lineIndex, isLine } = body;
  const full = fullListOf(call.asked, namespace, body);
  if (reports.length === 0 && !full) {
    // A heartbeat of a forwarded stream; upstream's has no index.
    if (isLine) return clusterJson(call, { Index: null, Applied: false });
    throw badRequest("request body: has no events");
  }
  const source = sourceOf(call.asked, lineIndex, reports);
  const onlyChanges = call.asked.changes;
  if (onlyChanges && source) throw badRequest("changes: must not be given with source");
  const registry = clusterRegistry(call.env);
  const large = text.length > MAX_CALL_LENGTH;
  const taken = large
    ? await registry.ingestStream(source, asStream(reports), { full, onlyChanges })
    : await registry.ingest(source, reports, { full, onlyChanges });
  const { index, applied } = unwrap(taken);
  return clusterJson(call, { Index: index, Applied: applied }, { index });
}

export const clusterObjectRoutes = [
  cluster(
    "POST /cluster/objects",
    {
      rights: (rights) => allowsOperator(rights, "write"),
      fresh: true,
      query: ReportQuery,
      raw: true,
      maxBodyBytes: MAX_REPORT_BYTES,
    },
    report,
  ),
];
