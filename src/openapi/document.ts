import * as z from "zod";
import { requestHeader } from "../compat/dialect.ts";
import { engineTypes } from "../credentials/engines/index.ts";
import { type Area, areaOf } from "../platform/http/areas.ts";
import type { Verb } from "../platform/http/target.ts";
import { RELEASE } from "../platform/version.ts";
import type { AnyRoute } from "../routes/server/route.ts";
import { authRoutes, clusterRoutes, mountRoutes, mountTable, secretsRoutes } from "../routes/table.ts";
import { keys } from "../wire/shapes.ts";
import {
  ENVELOPE,
  ERRORS,
  HEADERS,
  headersOf,
  INDEX_HEADERS,
  NAMESPACE,
  PLACE,
  REFUSALS,
  REPLICA_HEADERS,
  ref,
  refusal,
} from "./components.ts";
import examples from "./examples.json" with { type: "json" };
import { GUIDE, TAGS } from "./guide.ts";
import { type Json, type JsonSchema, SchemaWriter } from "./json-schema.ts";
import {
  type Answer,
  type Answers,
  type Body,
  count,
  data,
  type EnvelopeParts,
  flag,
  type Group,
  noContent,
  nothing,
  type Operation,
  type Parameter,
  type Parameters,
  text,
} from "./operation.ts";
import { groups } from "./operations/index.ts";

/** A recorded request and response of an operation, captured by a test. */
interface Recorded {
  readonly request?: Json;
  readonly answers: Readonly<Record<string, Json>>;
}

interface Described {
  readonly route: AnyRoute;
  readonly operation: Operation;
  readonly tag: string;
  /** In OpenAPI's notation, from the root. */
  readonly path: string;
  readonly method: string;
}

/** Mount routes are described at their default mount path. */
interface Documented {
  readonly routes: readonly AnyRoute[];
  readonly mount: string;
}

/** The tables of routes, each with the path of its default mount. */
const TABLES: readonly Documented[] = [
  { routes: secretsRoutes.routes, mount: "" },
  { routes: mountRoutes.kv.routes, mount: "/secret" },
  { routes: mountRoutes["kv-v1"].routes, mount: "/kv-v1" },
  ...engineTypes.map(({ type }) => ({ routes: mountTable(type).routes, mount: `/${type}` })),
  ...Object.entries(authRoutes).map(([type, { routes }]) => ({ routes, mount: `/auth/${type}` })),
  { routes: clusterRoutes.routes, mount: "" },
];

/**
 * The API as an OpenAPI 3.1 document, built from the route table, the request schemas, and the descriptions in
 * `operations/`. Runs at build time only.
 * @throws Error for a route without description, and for a description without route
 */
export function openApiDocument(described = groups, tables = TABLES): Record<string, Json> {
  const writer = new SchemaWriter();
  const paths: Record<string, Record<string, Json>> = {};
  for (const each of allOperations(described, tables)) {
    const { path, method } = each;
    const item = paths[path] ?? {};
    if (item[method]) throw new Error(`${method} ${path} is described twice`);
    item[method] = operationObject(each, writer);
    paths[path] = item;
  }
  const responses = Object.fromEntries(
    (["secrets", "cluster"] as const).flatMap((area) =>
      Object.entries(REFUSALS).map(([status, description]) => [`${area}-${status}`, refusal(area, description)]),
    ),
  );
  return {
    openapi: "3.1.1",
    info: { title: "Sallyport", version: RELEASE, summary: GUIDE.summary, description: GUIDE.text },
    servers: [{ url: "/" }],
    tags: TAGS.map((tag) => ({ ...tag })),
    security: [{ token: [] }, { bearer: [] }],
    paths,
    components: {
      schemas: { Envelope: ENVELOPE, Errors: ERRORS, ...writer.shared() },
      responses,
      parameters: sharedParameters(paths),
      headers: HEADERS,
      securitySchemes: {
        token: { type: "apiKey", in: "header", name: requestHeader.token[0] },
        bearer: { type: "http", scheme: "bearer" },
      },
    },
  };
}

/** Replaces repeated parameters by references to shared ones. */
function sharedParameters(paths: Record<string, Record<string, Json>>): Json {
  const operations = Object.values(paths).flatMap((item) => Object.values(item)) as { parameters: NamedParameter[] }[];
  const uses = Map.groupBy(
    operations.flatMap(({ parameters }) => parameters),
    (parameter) => JSON.stringify(parameter),
  );
  const shared: Record<string, NamedParameter> = {};
  const names = new Map<string, string>();
  for (const [written, [parameter, ...others]] of uses) {
    if (!parameter || others.length < 2) continue;
    const alike = Object.values(shared).filter(({ name }) => name === parameter.name).length;
    const name = alike === 0 ? parameter.name : `${parameter.name}-${alike + 1}`;
    shared[name] = parameter;
    names.set(written, name);
  }
  for (const operation of operations) {
    operation.parameters = operation.parameters.map((parameter) => {
      const name = names.get(JSON.stringify(parameter));
      return name === undefined ? parameter : (ref("parameters", name) as NamedParameter);
    });
  }
  return shared;
}

type NamedParameter = JsonSchema & { readonly name: string };

/** One line per member of `paths` and `components`, so that diffs are readable. */
export function documentText(document: Record<string, Json>): string {
  const { paths, components, ...head } = document;
  const members = (object: Json | undefined, write: (value: Json) => string): string =>
    Object.entries(object as Record<string, Json>)
      .map(([name, value]) => `${JSON.stringify(name)}:${write(value)}`)
      .join(",\n");
  const flat = (value: Json) => JSON.stringify(value);
  const nested = (value: Json) => `{\n${members(value, flat)}}`;
  return `{${members(head, flat)},\n"paths":{\n${members(paths, nested)}},\n"components":{\n${members(components, nested)}}}\n`;
}

function allOperations(described: readonly Group[], tables: readonly Documented[]): Described[] {
  const wanted = new Map(
    described.flatMap(({ tag, operations }) =>
      Object.entries(operations).map(([key, operation]) => [key, { tag, operation }] as const),
    ),
  );
  const found = tables.flatMap(({ routes, mount }) =>
    routes
      .filter((route) => !route.refuses)
      .map((route): Described => {
        const key = `${route.verb} ${mount}${route.path}`;
        const known = wanted.get(key);
        if (!known) throw new Error(`no openapi.ts describes the route ${key}`);
        wanted.delete(key);
        return { route, ...known, ...placeOf(route.verb, `${mount}${route.path}`, known.operation) };
      }),
  );
  const [extra] = wanted.keys();
  if (extra !== undefined) throw new Error(`there is no route ${extra}, which an openapi.ts describes`);
  return found;
}

/** OpenAPI has no LIST: it is a GET with `list=true`, distinguished from the plain GET by a trailing slash. */
function placeOf(verb: Verb, routePath: string, { method }: Operation): { path: string; method: string } {
  const path = `/v1${routePath.replace(/:(\w+)\+?/g, "{$1}")}`;
  return verb === "LIST" ? { path: `${path}/`, method: "get" } : { path, method: method ?? verb.toLowerCase() };
}

function operationObject({ route, operation, tag, path }: Described, writer: SchemaWriter): Json {
  const { id, summary, description } = operation;
  const area = areaOf(path);
  const example = (examples as Readonly<Record<string, Recorded>>)[id];
  const body = bodyOf(route, operation, writer, (operation.example?.body as Json | undefined) ?? example?.request);
  const expected = answersOf(route, operation, area);
  const statuses = [...refusalsOf(route, expected), ...(operation.errors ?? [])];
  const refusals = [...new Set(statuses)].sort().map((status) => [status, ref("responses", `${area}-${status}`)]);
  const answers = Object.entries(expected).map(([status, answer]) => [
    status,
    withHeaders(answerObject(answer, writer, example?.answers[status]), {
      ...(answer.kind === "json" && answer.headers && INDEX_HEADERS),
      ...(answer.kind !== "socket" && route.access !== "none" && REPLICA_HEADERS),
    }),
  ]);
  return {
    operationId: id,
    summary,
    ...(description !== undefined && { description }),
    tags: [tag],
    ...(route.access === "none" ? { security: [] } : { "x-sallyport-right": rightOf(route, operation, path) }),
    parameters: parametersOf(route, operation, area, writer, isIndented(area, expected)),
    ...(body && { requestBody: body }),
    responses: Object.fromEntries([...answers, ...refusals]),
  };
}

/** @throws Error for a read without a described answer */
function answersOf({ verb }: AnyRoute, { id, answers }: Operation, area: Area): Answers {
  if (answers) return answers;
  if (verb === "GET") throw new Error(`${id}: its answer is not described`);
  if (verb === "LIST") return data("Their names.", keys);
  return area === "secrets" ? noContent : nothing;
}

/** Whether `pretty` counts: for operations of the cluster API whose one answer is JSON. */
function isIndented(area: Area, answers: Answers): boolean {
  const [answer, another] = Object.values(answers);
  return area === "cluster" && answer?.kind === "json" && !answer.texts && !another;
}

/** A JSON document is an object. */
const textual = (type: string): string => (type === "application/json" ? "object" : "string");

/** The right required from the caller. */
function rightOf(route: AnyRoute, { id, right }: Operation, path: string): string {
  if (right !== undefined) return right;
  if ("rights" in route) {
    if (route.rights === "management") return "management";
    if (route.rights === "any") return "any valid token";
    throw new Error(`${id}: its right is not described`);
  }
  if (route.access === "token") return "any valid token";
  const capability = { GET: "read", LIST: "list", POST: "update", PATCH: "patch", DELETE: "delete" }[route.verb];
  const scan = scansOf(route) ? " (scan with `scan=true`)" : "";
  const sudo = route.access === "sudo" ? " and sudo" : "";
  const create = "creates" in route && route.creates ? " (create for a new object)" : "";
  return `${capability}${scan}${sudo}${create} on ${path.replace("/v1/", "")}`;
}

function parametersOf(
  route: AnyRoute,
  operation: Operation,
  area: Area,
  writer: SchemaWriter,
  indented: boolean,
): Json {
  const { id, path: meanings = {}, headers = {} } = operation;
  const query = { ...queryOf(route, operation, writer), ...(indented && { pretty: flag("Indents the answer.") }) };
  const inPath = [...route.path.matchAll(/:(\w+)(\+?)/g)].map(([, name = "", greedy]) => {
    const description = meanings[name];
    if (description === undefined) throw new Error(`${id}: the parameter ${name} in its path is not described`);
    const more = greedy === "+" ? { "x-sallyport-slashes": true } : {};
    return { name, in: "path", required: true, description, schema: { type: "string" }, ...more };
  });
  const listed: Json[] = route.verb === "LIST" ? listParameters(scansOf(route)) : [];
  const own = route.access === "none" ? [] : area === "secrets" ? [NAMESPACE, PLACE] : [PLACE];
  return [...inPath, ...listed, ...own, ...given(query, "query"), ...given(headers, "header")];
}

/**
 * The query parameters of an operation. Those described by a text have the type of the route's schema.
 * @throws Error for a described parameter that the schema lacks, and the other way round
 */
function queryOf(route: AnyRoute, { id, query = {} }: Operation, writer: SchemaWriter): Parameters {
  const shape: Readonly<Record<string, z.ZodType>> = route.query?.shape ?? {};
  for (const name in shape) {
    if (query[name] === undefined) throw new Error(`${id}: the parameter ${name} of its query is not described`);
  }
  const all = Object.entries(query).map(([name, parameter]): [string, Parameter] => {
    if (typeof parameter !== "string") return [name, parameter];
    const field = shape[name];
    if (!field) throw new Error(`${id}: its query has no parameter ${name}`);
    const { default: _none, ...schema } = writer.input(field);
    const { success: isOptional, data: usual } = field.safeParse(undefined);
    const shown = typeof usual === "boolean" || typeof usual === "number" ? { default: usual } : {};
    return [name, { description: parameter, schema: { ...schema, ...shown }, ...(!isOptional && { required: true }) }];
  });
  return Object.fromEntries(all);
}

const scansOf = (route: AnyRoute): boolean => "scans" in route && route.scans === true;

/** The query of a LIST, and of the SCAN at the same path. */
function listParameters(scans: boolean): Json[] {
  const flag = { in: "query", schema: { type: "string", enum: ["true"] } };
  const list = { name: "list", ...flag, description: "Makes it a LIST.", ...(!scans && { required: true }) };
  const scan = { name: "scan", ...flag, description: "Instead of `list`: everything below the path." };
  const page = {
    after: text("Only names after this one."),
    limit: count("At most so many names; 0 for all."),
  };
  return [list, ...(scans ? [scan] : []), ...given(page, "query")];
}

const given = (parameters: Parameters, where: "query" | "header"): Json[] =>
  Object.entries(parameters).map(([name, { required, description, schema }]) => ({
    name,
    in: where,
    description,
    schema,
    ...(required && { required: true }),
  }));

function bodyOf(route: AnyRoute, operation: Operation, writer: SchemaWriter, example: Json | undefined): Json | null {
  const { body } = operation;
  const schema = body?.schema ?? route.body;
  if (!schema) return null;
  const written = schema instanceof z.ZodType ? writer.input(schema) : schema;
  if (route.streams) return { required: true, content: { "application/octet-stream": { schema: written } } };
  const content = { schema: withFields(written, body), ...(example !== undefined && { example }) };
  const usual = route.verb === "PATCH" ? ["application/merge-patch+json", "application/json"] : ["application/json"];
  const types = [...usual, ...(body?.types ?? [])];
  return {
    required: "rights" in route || (written["required"] as readonly Json[] | undefined)?.length !== undefined,
    content: Object.fromEntries(types.map((type, at) => [type, at === 0 ? content : { schema: content.schema }])),
  };
}

/** Field descriptions; undocumented fields are omitted: they are accepted without effect. */
function withFields(schema: JsonSchema, body: Body | undefined): JsonSchema {
  const properties = schema["properties"] as Readonly<Record<string, JsonSchema>> | undefined;
  if (!properties) return schema;
  const described = Object.entries({ ...properties, ...body?.fields }).map(([name, field]): [string, JsonSchema] => {
    const said = body?.fields?.[name] ?? {};
    return [
      name,
      {
        ...(typeof field === "string" ? properties[name] : field),
        ...(typeof said === "string" ? { description: said } : said),
      },
    ];
  });
  const needed = [...((schema["required"] as readonly string[] | undefined) ?? []), ...(body?.required ?? [])];
  return {
    ...schema,
    properties: Object.fromEntries(described.filter(([, field]) => Object.keys(field).length > 0)),
    ...(needed.length > 0 && { required: [...new Set(needed)] }),
  };
}

function withHeaders({ description, ...answer }: JsonSchema, headers: object): Json {
  return {
    description: description ?? "",
    ...(Object.keys(headers).length > 0 && { headers: headersOf(headers) }),
    ...answer,
  };
}

function answerObject(answer: Answer, writer: SchemaWriter, example: Json | undefined): JsonSchema {
  const { kind, description } = answer;
  const shown = example === undefined ? {} : { example };
  if (kind === "empty") return { description };
  if (kind === "socket") return socketObject(answer, writer);
  if (kind === "text") return { description, content: { [answer.type]: { schema: { type: textual(answer.type) } } } };
  if (kind === "envelope")
    return { description, content: { "application/json": { schema: envelope(answer.parts, writer), ...shown } } };
  const schema = writer.output(answer.schema);
  if (kind === "json") {
    const texts = (answer.texts ?? []).map((type) => [type, { schema: { type: "string" } }]);
    return {
      description,
      content: { "application/json": { schema, ...shown }, ...Object.fromEntries(texts) },
    };
  }
  const line = { ...schema, description: "One line of the body." };
  return {
    description,
    content: {
      ...(!answer.serverSent && {
        "application/json": { schema: line, "x-sallyport-framing": "application/x-ndjson", ...shown },
      }),
      "text/event-stream": { schema: line, "x-sallyport-framing": "the `data` of one event" },
    },
  };
}

function socketObject(answer: Extract<Answer, { kind: "socket" }>, writer: SchemaWriter): JsonSchema {
  const { description, protocol, sends, takes } = answer;
  const chosen = (name: string) => ({
    description: "The protocol.",
    required: true,
    schema: { type: "string", const: name },
  });
  return {
    description,
    ...(protocol !== undefined && { headers: { "Sec-WebSocket-Protocol": chosen(protocol) } }),
    "x-sallyport-frames": { sent: writer.input(sends), ...(takes && { taken: writer.input(takes) }) },
  };
}

/** The envelope as a closed schema. */
function envelope({ data, auth, flat, orErrors }: EnvelopeParts, writer: SchemaWriter): JsonSchema {
  const none: JsonSchema = { type: "null" };
  const held = data ? writer.output(data) : none;
  const beside = flat ? ((held["properties"] as Record<string, JsonSchema> | undefined) ?? {}) : {};
  const others = flat && !held["properties"] ? (held["additionalProperties"] ?? false) : false;
  const whole: JsonSchema = {
    // A reference with sibling members is not supported by every tool.
    allOf: [ref("schemas", "Envelope")],
    properties: { ...beside, data: held, auth: auth ? writer.output(auth) : none },
    ...(flat && { description: "The members of `data` are repeated at the top level for older clients." }),
    unevaluatedProperties: others,
  };
  return orErrors ? { anyOf: [whole, ref("schemas", "Errors")] } : whole;
}

/** Errors of every operation of its kind. */
function refusalsOf(route: AnyRoute, answers: Answers): number[] {
  const list = [400, 404, 429, 500, 503];
  if (route.access !== "none") list.push(403);
  if (route.body || route.raw || route.verb !== "GET") list.push(408, 413);
  if (route.verb === "PATCH") list.push(415);
  return list.filter((status) => !(status in answers));
}
