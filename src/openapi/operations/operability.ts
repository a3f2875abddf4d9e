import * as z from "zod";
import { CONDITIONS, PARTS } from "../../monitoring/health.ts";
import { texts } from "../../wire/shapes.ts";
import { type Answers, data, group, type Operation, plain, text, word } from "../operation.ts";

const labelled = { Name: z.string(), Labels: texts };
const Metrics = z
  .object({
    Timestamp: z.string(),
    Gauges: z.array(z.object({ ...labelled, Value: z.number() })),
    Points: z.array(z.never()),
    Counters: z.array(z.object({ ...labelled, Count: z.number(), Sum: z.number() })),
    Samples: z.array(
      z.object({
        ...labelled,
        Count: z.number(),
        Sum: z.number(),
        Mean: z.number(),
        Buckets: z.array(z.object({ le: z.number().nullable(), count: z.number() })),
      }),
    ),
  })
  .meta({ id: "Metrics" });

const metrics: Omit<Operation, "id"> = {
  summary: "Read metrics",
  description: "As Prometheus text, as OpenMetrics or as JSON, by `format` or `Accept` (docs/operate/metrics.md).",
  query: { format: "The form; otherwise `Accept` says it." },
  answers: {
    200: {
      kind: "json",
      description: "All series.",
      schema: Metrics,
      texts: ["text/plain", "application/openmetrics-text"],
    },
  },
};

const Hashed = z.object({
  hash: z.string().describe("Under the newest key."),
  hashes: texts.describe("Under each key that lines may still be written under."),
});
const hash: Omit<Operation, "id"> = {
  summary: "Hash a value as in the audit log",
  answers: data("The hashes.", Hashed, { flat: true }),
  errors: [404],
};

const FoundLines = z.object({
  source: z
    .enum(["bucket", "isolate"])
    .describe("`bucket`: all lines that it keeps. `isolate`: the last 1,000 of the isolate that answers."),
  lines: z.array(
    z.looseObject({ kind: z.enum(["request", "answer", "action"]), time: z.string() }).meta({ id: "AuditLine" }),
  ),
  searched: z.int().describe("Number of lines that were read."),
  next: z.string().describe("The next call's `cursor`; empty when everything was searched."),
});

const agentHealth = z.object({ server: z.object({ ok: z.boolean(), message: z.string() }) });

const page = (type: string, description: string): Answers => ({
  200: { kind: "text", description, type },
  304: { kind: "empty", description: "Not modified since `If-None-Match`." },
});

const agentMember = z
  .object({
    Name: z.string(),
    Addr: z.string(),
    Port: z.int(),
    Status: z.string(),
    Tags: z.record(z.string(), z.string()).describe("`build` is the version that clients compare."),
    ProtocolMin: z.int(),
    ProtocolMax: z.int(),
    ProtocolCur: z.int(),
    DelegateMin: z.int(),
    DelegateMax: z.int(),
    DelegateCur: z.int(),
  })
  .meta({ id: "AgentMember", description: "A server in upstream's form." });

const agentSelf = z.object({
  config: z.record(z.string(), z.unknown()),
  member: agentMember,
  stats: z.record(z.string(), z.record(z.string(), z.string())),
});

export const operability = group(
  "System",
  { output: "One of the outputs that `GET /v1/sys/audit` names." },
  {
    "GET /sys/metrics": { ...metrics, id: "readMetrics" },
    "GET /metrics": { ...metrics, id: "readClusterMetrics", right: "agent:read" },
    "GET /agent/health": {
      id: "readAgentHealth",
      summary: "Check agent health",
      answers: { ...plain("Healthy.", agentHealth), ...plain("Unhealthy, with the reason.", agentHealth, 503) },
    },
    "GET /agent/self": {
      id: "readAgentSelf",
      summary: "Read the agent's configuration",
      right: "agent:read",
      answers: plain("The service as an agent.", agentSelf),
    },
    "GET /agent/members": {
      id: "listMembers",
      summary: "List servers with versions (this service)",
      right: "node:read",
      answers: plain(
        "This service as the only member.",
        z.object({
          ServerName: z.string(),
          ServerRegion: z.string(),
          ServerDC: z.string(),
          Members: z.array(agentMember),
        }),
      ),
    },
    "GET /agent/servers": {
      id: "listServers",
      summary: "List server addresses",
      right: "agent:read",
      answers: plain("Its address.", z.array(z.string())),
    },
    "GET /agent/schedulers": {
      id: "listSchedulers",
      summary: "List schedulers (none)",
      right: "agent:read",
      answers: plain("None.", z.object({ server_id: z.string(), schedulers: z.array(z.unknown()).max(0) })),
    },
    "GET /agent/schedulers/config": {
      id: "readSchedulersConfig",
      summary: "Read the scheduler configuration (none)",
      right: "agent:read",
      answers: plain("None.", z.object({ num_schedulers: z.int(), enabled_schedulers: z.array(z.string()).max(0) })),
    },
    "GET /status/leader": {
      id: "readClusterLeader",
      summary: "Read the leader (this service)",
      answers: plain("Its address.", z.string()),
    },
    "GET /status/peers": {
      id: "listPeers",
      summary: "List servers (this service)",
      answers: plain("Its address.", z.array(z.string())),
    },
    "GET /regions": {
      id: "listRegions",
      summary: "List regions",
      answers: plain("The one region.", z.array(z.string())),
    },
    "GET /sys/audit": {
      id: "readAuditOutputs",
      summary: "List audit devices",
      answers: data(
        "Outputs by name.",
        z.record(
          z.string(),
          z.object({ type: z.string(), description: z.string(), local: z.boolean(), options: texts, path: z.string() }),
        ),
        { flat: true },
      ),
    },
    "GET /sys/audit/lines": {
      id: "searchAuditLines",
      summary: "Search the audit log",
      description:
        "Lines of the bound bucket, newest first; without one, the last lines of the isolate that answers. A call reads " +
        "at most 300 objects, so it may answer fewer lines than `limit`, or none, with a `next` to go on from.",
      query: {
        text: "Part of a line, in any case: a path, an accessor, a request's id.",
        kind: word("Only lines of this kind.", "request", "answer", "action"),
        before: text("Only lines that the bucket got before this time (RFC 3339)."),
        limit: "Lines of an answer.",
        cursor: "`next` of the call before.",
      },
      answers: data("Lines, newest first.", FoundLines),
    },
    "POST /sys/audit-hash": { ...hash, id: "hashForAudit" },
    "POST /sys/audit-hash/:output": { ...hash, id: "hashForAuditOutput" },
    "GET /openapi.json": {
      id: "readDocument",
      summary: "Read the OpenAPI document",
      answers: page("application/json", "The API in OpenAPI 3.1."),
    },
    "GET /sys/internal/specs/openapi": {
      id: "readSpecification",
      summary: "Read the OpenAPI document, at upstream's path",
      answers: page("application/json", "The API in OpenAPI 3.1."),
    },
    "GET /docs": {
      id: "readDocumentPage",
      summary: "Show the API documentation",
      answers: page("text/html", "A self-contained page."),
    },
  },
);

/** Component health in `GET /sys/health`. */
export const healthOfParts = {
  parts: z.record(z.enum(PARTS), z.enum(CONDITIONS)),
  failing: z.array(z.string()).describe("Parts without which nothing works."),
  degraded: z.array(z.string()).describe("Parts without which most works."),
  lost: z.array(z.string()).optional().describe("Kinds of objects whose storage is empty, though it held data before."),
  lost_objects: z.array(z.string()).optional().describe("Their names, with the counts."),
  agents: z
    .object({ connected: z.int(), known: z.int() })
    .nullable()
    .optional()
    .describe("With `counts=true` and the capability to read agents."),
  outbox: z.object({ rows: z.int(), oldest_seconds: z.int() }).optional(),
};
