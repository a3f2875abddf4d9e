import type { Mutant } from "./mutants.ts";
import type { Reply } from "./raw-http.ts";
import { deploymentSecrets } from "./service.ts";
import { CANARY, stored, type World } from "./world.ts";

/** Rules that every answer satisfies, regardless of the request. */

interface Promised {
  readonly statuses: readonly number[];
  /** Names of routes. */
  readonly at: RegExp;
  /** Pattern that the error message matches. */
  readonly because: RegExp;
}

/** Documented 5xx responses, each with its reason; any other 5xx is a defect. */
const promised: readonly Promised[] = [
  // The caller chooses the status code (docs/operate/metrics.md, "Health").
  { statuses: [501, 503, 599, 500, 504, 507], at: / \/v1\/sys\/health$/, because: /"initialized":true/ },
  // Work at the cloud that another request has overtaken or given up (docs/guides/credentials.md).
  { statuses: [503], at: / \/v1\/cloud-b\//, because: /interrupted|given up|under way/ },
  // Nothing is scheduled here (docs/reference/compatibility.md).
  {
    statuses: [501],
    at: / \/v1\/(jobs|job|validate|allocation|operator|client)\b/,
    because: /scheduler|no Raft servers|not offered|Nomad Enterprise only/,
  },
  // Nothing changes while a consistent copy of everything is made (docs/operate/backup.md).
  { statuses: [503], at: /^/, because: /a snapshot is being taken/ },
  // A node without an agent cannot perform operations (docs/guides/host-volumes.md).
  { statuses: [503], at: / \/v1\/volume\/host\//, because: /has no agent of this service/ },
];

const isPromised = ({ kind, place, wire }: Mutant, { status, text }: Reply): boolean =>
  // The local runtime may close a connection whose announced body it does not read; the gateway reports that.
  (kind === "framing" && status === 502 && text.includes("closed the connection without an answer")) ||
  // The platform refuses verbs that it does not know before any of our code runs, the gateway CONNECT (docs/start/clients.md).
  (status === 501 && !KNOWN_METHODS.has(wire.method) && /method/i.test(text)) ||
  promised.some(({ statuses, at, because }) => statuses.includes(status) && at.test(place.name) && because.test(text));

const KNOWN_METHODS = new Set([
  "GET",
  "HEAD",
  "LIST",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "PROPFIND",
  "SEARCH",
]);

/** Errors for malformed HTTP come from the gateway or the platform, in plain text. */
const isOfTheWire = ({ kind }: Mutant, { status }: Reply): boolean =>
  status === 431 || status === 501 || kind === "framing";

/** Fields whose values are names, or words that must be one of a few. */
const NAMES = /(^|\.)(Name|Eligibility|Type|type|environment): /;

/** Signs of an unformatted error: a stack, an SQL query or a bare value. */
const UNWORDED =
  /ZodError|"code":"|\bat .*\.(ts|js):\d+|SQLITE|TypeError|ReferenceError|SyntaxError|is not a function|of undefined|of null|\[object |received (undefined|NaN)/;

/** The fault of an answer, or null. */
export function faultOf(mutant: Mutant, reply: Reply, world: World): string | null {
  const { status, headers, text, hung } = reply;
  if (hung) return "no answer in time";
  if (status === 0)
    return mutant.kind === "framing" || mutant.kind === "slow" ? null : "the connection was closed without a word";
  if (status >= 500 && !isPromised(mutant, reply)) return "an answer of 5xx that nobody has promised";
  if (mutant.refused && status < 400) return "was let through";
  if (mutant.told && status < 300 && mutant.wire.method !== "HEAD" && !mutant.told.test(text))
    return `does not tell ${mutant.told.source}`;
  const secret = secretsIn(mutant, status, world).find(([, value]) => value !== "" && text.includes(value));
  if (secret) return `tells ${secret[0]}`;
  for (const [name, value] of headers) if (value.includes(CANARY)) return `repeats what was sent in ${name}`;
  if (headers.has("x-injected")) return "a header came from what was sent";
  return formOf(mutant, reply);
}

function secretsIn(
  { kind, place, what }: Mutant,
  status: number,
  { tokens, credentials }: World,
): (readonly [string, string])[] {
  const never = [
    ...Object.entries(deploymentSecrets),
    ...Object.entries(credentials),
    ["csi", stored.csi] as const,
    ["mount flag", stored.mountFlag] as const,
    ["revoked", tokens.revoked] as const,
    ["expired", tokens.expired] as const,
  ];
  if (status < 400) return never;
  // A refusal repeats the path of a request, names of volumes, and where a policy cannot be read; tokens and secrets never.
  const isTold =
    kind === "path" ||
    kind === "query" ||
    /\/(policy|policies\/acl)\/:name\+?$/.test(place.name) ||
    NAMES.test(what) ||
    (/\/(volumes?|associations)\b/.test(place.name) && !/Secrets|MountFlags|Parameters/.test(what));
  const sent = isTold ? [] : [["what was sent", CANARY] as const];
  return [...never, ...sent, ...Object.entries(tokens), ["secret", stored.secret], ["secret", stored.deepSecret]];
}

const HARMLESS =
  /^(application\/json|text\/plain|text\/event-stream|application\/(x-ndjson|openmetrics-text|octet-stream))\b/;

/** A browser must not run an answer, and a refusal must read as its area promises. */
function formOf(mutant: Mutant, reply: Reply): string | null {
  const { status, headers, text } = reply;
  const type = headers.get("content-type") ?? "";
  const isOurs = !isOfTheWire(mutant, reply);
  if (
    text !== "" &&
    isOurs &&
    !HARMLESS.test(type) &&
    !(type.startsWith("text/html") && headers.has("content-security-policy"))
  )
    return `is of the type ${JSON.stringify(type)}`;
  if (isOurs && headers.get("x-content-type-options") !== "nosniff") return "lets browsers guess its type";
  if (status < 400 || mutant.wire.method === "HEAD") return null;
  if (mutant.kind !== "path" && UNWORDED.test(text)) return "is not in words";
  if (!isOurs || isPlainText(type, text))
    return isOurs && mutant.place.area === "secrets" && isAtHome(mutant) ? "is plain text" : null;
  return isEnvelope(type, text, status) ? null : "is neither a list of errors nor a text";
}

/** Whether the path still matches the route, whose API determines the error format. */
const isAtHome = ({ kind, wire }: Mutant): boolean =>
  kind !== "path" && wire.head === undefined && wire.method !== "CONNECT";

const isPlainText = (type: string, text: string): boolean =>
  /^text\/plain/.test(type) && !/^\s*[{[<]/.test(text) && text.trim() !== "";

function isEnvelope(type: string, text: string, status: number): boolean {
  if (type !== "application/json") return false;
  let body: { errors?: unknown; warnings?: unknown; data?: unknown };
  try {
    body = JSON.parse(text);
  } catch {
    return false;
  }
  // A deleted version, or an invalid path, returns its metadata instead.
  if (status === 404 && body.errors === undefined) return body.data !== undefined || Array.isArray(body.warnings);
  if (!Array.isArray(body.errors)) return false;
  return (
    body.errors.every((each) => typeof each === "string" && each !== "") && (status === 404 || body.errors.length > 0)
  );
}

/** The forbidden text in the log, or null. */
export function faultOfLog(log: string, { tokens, credentials }: World): string | null {
  const secrets = [
    ...Object.entries(tokens),
    ...Object.entries(credentials),
    ...Object.entries(stored),
    ...Object.entries(deploymentSecrets),
    ["what was sent", CANARY] as const,
  ];
  // The start banner prints the root token and example commands on purpose.
  const spoken = log.split("\n").filter((line) => !/^(Root token: |export )/.test(line));
  for (const [name, value] of secrets) {
    const line = value === "" ? undefined : spoken.find((each) => each.includes(value));
    if (line !== undefined) return `the log tells ${name}: ${line.slice(0, 300)}`;
  }
  const defect = spoken.find((line) => /"event":"defect"|Uncaught|unhandled/i.test(line));
  return defect === undefined ? null : `the log tells of a defect: ${defect.slice(0, 600)}`;
}
