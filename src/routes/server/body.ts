import type { ParameterConstraints } from "../../contracts/policies.ts";
import { isPlainObject, parseJson, parseLossless } from "../../lib/json.ts";
import type { Area } from "../../platform/http/areas.ts";
import { badRequest, denied, invalid, RequestError, unwrap } from "../../platform/http/errors.ts";
import { readNulls } from "../../platform/http/nulls.ts";
import type { HeaderReader } from "../../platform/http/request-headers.ts";
import {
  knownFields,
  type UnknownField,
  unknownFields,
  unknownFieldsText,
} from "../../platform/http/unknown-fields.ts";
import { BodyMemory } from "../../platform/limits/body-memory.ts";
import { settings } from "../../platform/settings.ts";
import { checkParameters, constraintsFor } from "../../rights/path-rules.ts";
import { type AnyRoute, type Call, capabilityOf } from "./route.ts";

/** Maximum size of a request body, in bytes, unless its route overrides it. */
const MAX_BODY_BYTES = 1024 * 1024;

const tooLarge = (most: number) => new RequestError(413, `request body: larger than ${most} bytes`);

interface ParsedBody {
  /** As parsed by the route's schema, or as received for a `raw` route; undefined without a schema. */
  readonly body: unknown;
  /** Fields without effect. Always empty in the cluster API, which refuses such bodies. */
  readonly unknown: readonly UnknownField[];
}

/** Larger bodies wait until their caller is authorized. The runtime buffers as much of every body. */
const MAX_EARLY_BYTES = 64 * 1024;

/**
 * A small body, read while its caller is authorized. Otherwise a request under load waits for its body after the
 * judgement, and is judged twice.
 */
export class EarlyBody {
  readonly arrival: Promise<ArrayBuffer>;
  #isHere = false;

  private constructor(request: Request) {
    this.arrival = request.arrayBuffer();
    const arrived = () => {
      this.#isHere = true;
    };
    // A request that is refused reads it no further.
    this.arrival.then(arrived, () => undefined);
  }

  /** Begins to read the body; null for none, a large one, or one that the client holds back until it is told to go on. */
  static begin(request: Request, headers: HeaderReader): EarlyBody | null {
    const isSmall = Number(headers.get("content-length") ?? Number.NaN) <= MAX_EARLY_BYTES;
    if (!isSmall || request.method === "GET" || request.body === null || headers.has("expect")) return null;
    return new EarlyBody(request);
  }

  /** Whether the whole body has arrived. */
  get isHere(): boolean {
    return this.#isHere;
  }
}

/** Smaller bodies are not counted: a thousand of them fit. */
const SMALL_BYTES = 8 * 1024;
/** Bodies of callers with a token, and without one: neither delays the other. */
const MEMORIES = { token: new BodyMemory(8 * 1024 * 1024), none: new BodyMemory(4 * 1024 * 1024) } as const;

interface Received {
  readonly text: string;
  /** To be called at the end of the request. */
  readonly release: () => void;
}

const nothingHeld = (): void => undefined;

/**
 * The body of a request as text; empty for a route without one, or that reads it as a stream. A large one waits until there
 * is memory for it.
 * @param early the body, if it is being read already
 * @throws RequestError 413 beyond the size limit, 408 beyond the time limit, 400 when it is not UTF-8, 503 without memory
 */
export async function receiveBody(
  route: AnyRoute,
  {
    request,
    env,
    grant,
    token,
  }: Pick<Call, "request" | "env"> & Partial<Pick<Call, "token">> & { readonly grant: object | null },
  early: EarlyBody | null = null,
): Promise<Received> {
  const hasBody = route.body || route.verb !== "GET";
  if (route.streams || !hasBody || request.body === null) return { text: "", release: nothingHeld };
  const { REQUEST_BODY_MS: withinMs } = settings(env);
  const memory = MEMORIES[grant && token !== "" ? "token" : "none"];
  const reserve = async (bytes: number) => (bytes > SMALL_BYTES ? unwrap(await memory.reserve(bytes)) : nothingHeld);
  if (early) {
    const bytes = await (early.isHere ? early.arrival : inTime(early.arrival, withinMs));
    return decoded(bytes, await reserve(bytes.byteLength));
  }
  const most = route.maxBodyBytes ?? MAX_BODY_BYTES;
  const declared = request.headers.get("content-length");
  const size = declared === null ? most : Number(declared);
  if (size > most) throw tooLarge(most);
  const release = await reserve(size);
  try {
    // The runtime enforces the declared length, so only a body without one needs counting.
    const arrival = declared === null ? counted(request.body, most) : request.arrayBuffer();
    const bytes = await inTime<ArrayBuffer | Uint8Array>(arrival, withinMs);
    if (bytes.byteLength <= SMALL_BYTES) release();
    return decoded(bytes, release);
  } catch (failure) {
    release();
    throw failure;
  }
}

/**
 * Validates the body of a request.
 * @param text as received
 * @param constraints parameter constraints of the caller's policies, for body and query
 */
export function parseBody(
  route: AnyRoute,
  { request, query, params }: Pick<Call<string>, "request" | "query" | "params">,
  text: string,
  area: Area,
  constraints: ParameterConstraints | null,
): ParsedBody {
  if (route.streams) return { body: undefined, unknown: [] };
  const applied = constraintsFor(constraints, capabilityOf[route.verb]);
  if (!route.body && applied) checkGiven(applied, withQuery(query, objectIn(text)));
  if (route.raw) return { body: text, unknown: [] };
  if (!route.body) return { body: undefined, unknown: area === "secrets" ? allUnknown(text, params) : [] };
  if (route.verb === "PATCH") checkPatchType(request);
  const given = ("rights" in route ? parseJsonObject : parseObject)(text, route.exact);
  if (applied) checkGiven(applied, withQuery(query, given));
  const keepsNulls = route.verb === "PATCH" || route.whole;
  const body = keepsNulls ? given : area === "cluster" ? withoutNulls(given) : readNulls(route.body, given);
  const parsed = route.body.safeParse(body);
  if (!parsed.success) throw invalid(parsed.error);
  const unknown = unknownFields(knownFields(route.body), body).filter(
    ({ name }) => !(area === "cluster" ? ADDRESSING.has(name.toLowerCase()) : repeats(params, name, body[name])),
  );
  if (area === "cluster" && unknown.length > 0) throw badRequest(unknownFieldsText(unknown));
  return { body: parsed.data, unknown };
}

/** A body with the fields of the query. Of a name that both have, every value is judged: either may count. */
function withQuery(query: URLSearchParams, body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const asked = formFields(query);
  const both = Object.entries(body).map(([name, value]) => [
    name,
    Object.hasOwn(asked, name) ? [asked[name], value].flat() : value,
  ]);
  return { ...asked, ...Object.fromEntries(both) };
}

/** Cluster clients put these into every body, too; only header and query count. */
const ADDRESSING: ReadonlySet<string> = new Set(["region", "namespace", "authtoken", "secretid"]);

/** Clients repeat path parameters in the body. */
const repeats = (params: Call<string>["params"], name: string, value: unknown): boolean =>
  Object.hasOwn(params, name) && String(value) === params[name];

/** Fields of a body on a route without a schema. A non-object body is ignored. */
function allUnknown(text: string, params: Call<string>["params"]): UnknownField[] {
  if (text === "") return [];
  const given = objectIn(text);
  const names = Object.keys(given).filter((name) => given[name] !== null && !repeats(params, name, given[name]));
  return unknownFields({ names: new Map(), caseless: false }, Object.fromEntries(names.map((name) => [name, ""])));
}

/** The members of a body; none if it is no object. */
function objectIn(text: string): Record<string, unknown> {
  try {
    return parseObject(text);
  } catch (failure) {
    if (failure instanceof RequestError) return {};
    throw failure;
  }
}

/** @throws RequestError 403 unless the caller's policies allow the parameters */
function checkGiven(constraints: ParameterConstraints, given: Readonly<Record<string, unknown>>): void {
  const checked = checkParameters(constraints, given);
  if (!checked.ok) throw denied(`permission denied: ${checked.message}`);
}

const MERGE_PATCH = "application/merge-patch+json";

function checkPatchType(request: Request): void {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (!type) throw badRequest(`PATCH requires Content-Type of ${MERGE_PATCH}`);
  if (type !== MERGE_PATCH && type !== "application/json") {
    throw new RequestError(415, `PATCH requires Content-Type of ${MERGE_PATCH}, provided ${type.slice(0, 100)}`);
  }
}

/** In the cluster API null is an absent field, which has the zero value of its type. */
const withoutNulls = (body: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));

function decoded(bytes: ArrayBuffer | Uint8Array, release: () => void): Received {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes), release };
  } catch {
    release();
    throw badRequest("request body: is not UTF-8");
  }
}

async function inTime<T>(arrival: Promise<T>, withinMs: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new RequestError(408, `request body: did not arrive within ${withinMs / 1000} s`)),
      withinMs,
    );
  });
  try {
    return await Promise.race([arrival, late]);
  } finally {
    clearTimeout(timer);
    // Late chunks and errors are ignored.
    arrival.catch(() => undefined);
  }
}

async function counted(body: ReadableStream<Uint8Array>, most: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  // The rest of an oversized body stays readable.
  for await (const chunk of body.values({ preventCancel: true })) {
    size += chunk.length;
    if (size > most) throw tooLarge(most);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * The body of a secrets API request as an object; empty when it is missing or `null`. Clients often omit the content
 * type, so the first character decides: JSON for `{` or `[`, else a form.
 */
export function parseObject(text: string, exact = false): Record<string, unknown> {
  const trimmed = text.trim();
  if (trimmed === "" || trimmed === "null") return {};
  if (/^[{[]/.test(trimmed)) return parseJsonObject(text, exact);
  if (/[\u0000-\u001f"]/.test(trimmed) || !trimmed.includes("="))
    throw badRequest("request body: is not a JSON object");
  return formFields(new URLSearchParams(trimmed));
}

/** A repeated field is a list. */
export function formFields(form: URLSearchParams): Record<string, unknown> {
  const names = [...new Set(form.keys())];
  const given = (name: string) => (form.getAll(name).length > 1 ? form.getAll(name) : form.get(name));
  return Object.fromEntries(names.map((name) => [name, given(name)]));
}

/** The body of a cluster API request as an object; JSON is required. */
export function parseJsonObject(text: string, exact = false): Record<string, unknown> {
  if (text.trim() === "") throw badRequest("Request body is empty");
  let value: unknown;
  try {
    value = exact ? parseLossless(text) : parseJson(text);
  } catch (failure) {
    // The runtime's message quotes the input, which may contain a secret.
    const because =
      failure instanceof SyntaxError && failure.message.startsWith("nested") ? failure.message : "is not valid JSON";
    throw badRequest(`request body: ${because}`);
  }
  if (!isPlainObject(value)) throw badRequest("request body: must be a JSON object");
  return value;
}
