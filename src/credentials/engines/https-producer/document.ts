import * as z from "zod";
import { tryParseJson } from "../../../lib/json.ts";
import { duration } from "../../../platform/http/fields.ts";
import {
  isHeaderName,
  isHeaderValue,
  isOwnHeader,
  onlyPlaceholder,
  POINTER,
  placeholders,
} from "../../../providers/http-templates.ts";

/** The definition of a producer: its calls as templates, with JSON pointers for results. */

const NAME = /^[a-z][a-z0-9_]{0,31}$/;
const pointer = () => z.string().max(512).regex(POINTER, "must be a JSON pointer such as /data/id");
const text = (most = 2_048) => z.string().max(most, `must be at most ${most} characters`);
const map = (value: z.ZodType<string>, most = 32) =>
  z.record(z.string().max(128), value).refine((given) => Object.keys(given).length <= most, `must be at most ${most}`);
const named = (value: z.ZodType<string>) =>
  map(value).refine(
    (given) => Object.keys(given).every((name) => NAME.test(name)),
    "must have names of small letters, digits and _",
  );
const headers = () =>
  map(text(4_096).refine(isHeaderValue, "must be printable"))
    .refine((given) => Object.keys(given).every(isHeaderName), "must have names of letters, digits and -")
    .refine(
      (given) => !Object.keys(given).some(isOwnHeader),
      "must not have headers of the connection or of the service",
    );
const isRedirect = (status: number): boolean => status >= 300 && status < 400;
const statuses = () =>
  z
    .array(z.int().min(200).max(599))
    .min(1)
    .max(16)
    .refine((given) => !given.some(isRedirect), "must not be of redirects, which are not followed");

const Request = {
  path: text().regex(/^\/(?![/\\])[^#?\s]*$/, "must be a path that begins with one /, without query and fragment"),
  query: map(text()).optional(),
  headers: headers().optional(),
  json: z.json().optional(),
  form: map(text(8_192)).optional(),
  expect: statuses().optional(),
};
const method = (...methods: [string, ...string[]]) => z.enum(methods);
const writes = () => method("POST", "PUT", "PATCH", "DELETE");

const Create = z.strictObject({
  ...Request,
  method: writes().default("POST"),
  /** Statuses that say that an earlier, unanswered call has made it. */
  conflict: statuses().optional(),
  capture: named(pointer()).default({}),
});
const Find = z.strictObject({
  ...Request,
  method: method("GET", "POST").default("GET"),
  /** The list in the answer; absent: the answer is the one object. */
  items: z.union([pointer(), z.literal("")]).optional(),
  match: map(text()).default({}),
  capture: named(pointer()).default({}),
  /** Statuses that say that there is none. */
  gone: statuses().optional(),
  pages: z
    .strictObject({
      query: text(64),
      first: z.int().min(0).max(1).default(1),
      most: z.int().min(1).max(200).default(50),
    })
    .optional(),
});
const Revoke = z.strictObject({
  ...Request,
  method: writes().default("DELETE"),
  gone: statuses().default([404, 410]),
});
const Renew = z.strictObject({ ...Request, method: writes().default("PATCH") });
const Verify = z.strictObject({ ...Request, method: method("GET", "POST").default("GET") });

/** Logs in with a client secret (RFC 6749, 4.4), for a bearer token of all calls but `verify`. */
const OAuth = z.strictObject({
  type: z.literal("oauth2"),
  path: Request.path,
  client_id: text(),
  client_secret: text(),
  scope: text().optional(),
});

/** Signs a token of a minute with an RSA key (RFC 7523), which is the bearer token of all calls but `verify`. */
const SignedToken = z.strictObject({
  type: z.literal("jwt_rs256"),
  private_key: text(),
  /** May have `{{key.fingerprint}}`: base64 of SHA-256 over the public key. */
  issuer: text(),
  subject: text(),
  audience: text().optional(),
});
const Auth = z.discriminatedUnion("type", [OAuth, SignedToken]);

const Generate = z.strictObject({
  length: z.int().min(16, "must be at least 16").max(128),
  charset: z
    .string()
    .max(128)
    .regex(/^[\x21-\x7e]{10,}$/, "must be 10 or more printable characters")
    .optional(),
});

const generated = () =>
  z
    .record(z.string().regex(NAME), Generate)
    .refine((given) => Object.keys(given).length <= 4, "must be at most 4")
    .optional();

/** Replaces secrets of the engine by new ones, which are made, found and removed as credentials are. */
const Root = z.strictObject({
  generate: generated(),
  create: Create,
  find: Find,
  revoke: Revoke,
  /** Reads the ids of what the engine's secrets belong to now. Absent: what an operator has made is not removed. */
  self: z
    .strictObject({ ...Request, method: method("GET", "POST").default("GET"), capture: named(pointer()) })
    .optional(),
  /** Life of the new ones at the provider, for `ttl` and `expires_at`. */
  ttl: duration().optional(),
  /** The new values of secrets by name. */
  secrets: named(text(8_192)),
});

const Shape = z.strictObject({
  headers: headers().optional(),
  auth: Auth.optional(),
  generate: generated(),
  create: Create,
  verify: Verify.optional(),
  renew: Renew.optional(),
  revoke: Revoke.optional(),
  find: Find.optional(),
  /** `expire`: what a lost answer leaves ends at the provider by itself. */
  orphans: z.enum(["find", "expire"]).default("find"),
  /** How long the provider may not list a new object yet. */
  lag: duration().default(0),
  lease: z.strictObject({ data: named(text(8_192)) }),
  root: Root.optional(),
});

export type Definition = z.infer<typeof Shape>;
export type Root = z.infer<typeof Root>;
export type Call =
  | Definition["create"]
  | NonNullable<Definition["find" | "revoke" | "renew" | "verify"]>
  | NonNullable<Root["self"]>;

const LIFE = ["ttl", "ttl.days", "expires_at.iso", "expires_at.date", "expires_at.unix"];
const MARKER = ["marker", "marker.sql"];

/** Names that a part of the definition may use; `vars` and `secrets` by their first word. */
interface Scope {
  readonly names: readonly string[];
  readonly secrets: boolean;
}

/** Every text of a value, with its place. */
function* textsOf(value: unknown, at: string): Generator<readonly [at: string, text: string]> {
  if (typeof value === "string") yield [at, value];
  else if (typeof value === "object" && value !== null) {
    for (const [name, inside] of Object.entries(value)) yield* textsOf(inside, `${at}.${name}`);
  }
}

/** The names of members of JSON. */
function* namesIn(value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, inside] of Object.entries(value)) {
    yield name;
    yield* namesIn(inside);
  }
}

const isVar = (field: string): boolean => /^vars\.[a-z][a-z0-9_]{0,31}(\.sql)?$/.test(field);
const isSecret = (field: string): boolean => /^secrets\.[a-z][a-z0-9_]{0,31}$/.test(field);

/** The first use of a name that a part may not use. */
function refusedNames(value: unknown, at: string, { names, secrets }: Scope): string | null {
  for (const [place, template] of textsOf(value, at)) {
    const wrong = placeholders(template).find(
      (field) => !(names.includes(field) || isVar(field) || (secrets && isSecret(field))),
    );
    if (wrong !== undefined) return `${place}: has no value for {{${wrong.slice(0, 64)}}}`;
    if (template.replaceAll(/\{\{.*?\}\}/g, "").includes("{{")) return `${place}: has an open {{`;
  }
  return null;
}

const isOpen = (name: string): boolean => !/^(generated|data)\./.test(name);

/** The refusal of a call's templates: secrets never get into URLs, because servers log them. */
function refusedCall(call: Call | undefined, at: string, names: readonly string[], isNew = false): string | null {
  if (!call) return null;
  const { path, query, headers: own, json, form } = call;
  if (json !== undefined && form !== undefined) return `${at}: json and form exclude each other`;
  const filled = [...namesIn(json), ...Object.keys(form ?? {}), ...Object.keys(query ?? {})].find((name) =>
    name.includes("{{"),
  );
  if (filled !== undefined) return `${at}: the name of a member has no placeholders: ${filled.slice(0, 64)}`;
  return (
    refusedNames({ path, query }, at, { names: names.filter(isOpen), secrets: false }) ??
    refusedNames({ headers: own, json, form }, at, { names, secrets: !isNew })
  );
}

const uses = (value: unknown, names: readonly string[]): boolean =>
  [...textsOf(value, "")].some(([, template]) => placeholders(template).some((field) => names.includes(field)));

/** Calls that make, find and remove objects of one kind. */
interface Objects extends Pick<Definition, "generate" | "create" | "find" | "revoke"> {
  readonly orphans?: Definition["orphans"];
}

/** The refusal of a definition without a search by our marker or an end at the provider. @param at begins its names */
function refusedOrphans({ create, find, revoke, orphans }: Objects, at: string): string | null {
  if (orphans === "expire") {
    if (find || revoke) return "orphans: a definition with find or revoke searches for them";
    return uses(create, LIFE) ? null : "create: must set the end at the provider from ttl or expires_at";
  }
  if (!find) return "find: required, unless orphans is expire and create sets an end at the provider";
  if (!revoke) return "revoke: required with find";
  if (!uses(create, MARKER)) return `${at}create: must have {{marker}}, by which find recognises what it makes`;
  const isByName = uses([find.path, find.query ?? {}], MARKER) && find.items === undefined;
  const isMatched = find.items !== undefined && uses(find.match, MARKER);
  return isByName || isMatched ? null : `${at}find: must have {{marker}} in match, or in its path without items`;
}

/**
 * The refusal of calls that make, find and remove objects.
 * @param at begins their names
 * @param results texts of what is made, and their place
 */
function refusedObjects(of: Objects, at: string, results: Readonly<Record<string, string>>, place: string) {
  const { create, find, revoke } = of;
  const random = Object.keys(of.generate ?? {}).map((name) => `generated.${name}`);
  const ids = Object.keys(find?.capture ?? {});
  const made = Object.keys(create.capture);
  const missing = ids.find((name) => !made.includes(name));
  if (missing !== undefined) return `${at}find.capture: create does not capture ${missing}`;
  if (made.length === 0 && random.length === 0) return `${at}create.capture: needs a result, or generate a value`;
  return (
    refusedOrphans(of, at) ??
    refusedCall(create, `${at}create`, [...MARKER, ...LIFE, ...random]) ??
    refusedCall(find, `${at}find`, MARKER) ??
    refusedNames(find?.match, `${at}find.match`, { names: MARKER, secrets: false }) ??
    refusedCall(revoke, `${at}revoke`, [...MARKER, ...ids]) ??
    refusedNames(results, place, { names: [...MARKER, ...made, ...random], secrets: false }) ??
    (Object.keys(results).length === 0 ? `${place}: must have a member` : null)
  );
}

/** The refusal of the replacement of secrets. @param used the secrets of the definition */
function refusedRoot(root: Definition["root"], used: readonly string[]): string | null {
  if (!root) return null;
  const { self, find, revoke, create, ttl, secrets } = root;
  const unused = Object.keys(secrets).find((name) => !used.includes(name));
  const different =
    self &&
    Object.keys({ ...self.capture, ...find.capture }).find((name) => !(name in self.capture && name in find.capture));
  return (
    refusedObjects(root, "root.", secrets, "root.secrets") ??
    refusedCall(self, "root.self", []) ??
    (unused === undefined ? null : `root.secrets: no call has {{secrets.${unused}}}`) ??
    (different === undefined ? null : `root.self.capture: must have the names of root.find.capture, as ${different}`) ??
    (self && uses(revoke, MARKER) ? "root.revoke: must name what self captures, which has no marker" : null) ??
    (uses(create, LIFE) && !ttl ? "root.ttl: required, because root.create sets an end" : null)
  );
}

function refusedAuth(auth: Definition["auth"]): string | null {
  if (!auth) return null;
  const { type, ...texts } = auth;
  const names = type === "jwt_rs256" ? ["key.fingerprint"] : [];
  const secret = auth.type === "jwt_rs256" ? auth.private_key : auth.client_secret;
  const isSecret = onlyPlaceholder(secret)?.startsWith("secrets.") ?? false;
  return (
    refusedNames(texts, "auth", { names, secrets: true }) ??
    (isSecret ? null : "auth: its key must be {{secrets.name}}")
  );
}

/** The refusal of a definition; null when it is valid. */
function refusedDefinition(of: Definition): string | null {
  const { find, renew, verify, lease, auth, root, ...calls } = of;
  const ids = Object.keys(find?.capture ?? {});
  const data = Object.keys(lease.data).map((name) => `data.${name}`);
  return (
    refusedObjects(of, "", lease.data, "lease.data") ??
    refusedNames(of.headers, "headers", { names: [], secrets: true }) ??
    refusedAuth(auth) ??
    refusedCall(renew, "renew", [...MARKER, ...ids, ...LIFE]) ??
    refusedCall(verify, "verify", data, true) ??
    refusedRoot(root, fieldsOf({ find, renew, auth, ...calls }, "secrets."))
  );
}

/** The document, or its JSON text, as command lines send it. */
export const DefinitionBody = z
  .unknown()
  .transform((value, context) => {
    const given = typeof value === "string" ? tryParseJson(value) : value;
    if (given !== undefined) return given;
    context.addIssue({ code: "custom", message: "must be JSON" });
    return z.NEVER;
  })
  .pipe(Shape)
  .superRefine((definition, context) => {
    const refused = refusedDefinition(definition);
    if (refused !== null) context.addIssue({ code: "custom", message: refused });
  });

/** The variables that a definition, or a part of it, uses. */
export const variablesOf = (part: object): string[] => [
  ...new Set(fieldsOf(part, "vars.").map((name) => name.replace(/\.sql$/, ""))),
];

/** The calls that a role has variables for. */
export const callsOfRoles = ({ root: _, ...calls }: Definition): object => calls;

/** The names of variables that a part writes as identifiers of SQL. */
export const identifiersOf = (part: object): string[] =>
  fieldsOf(part, "vars.").flatMap((name) => (name.endsWith(".sql") ? name.slice(0, -4) : []));

/** The secrets that a definition uses. */
export const secretsOf = (definition: Definition): string[] => fieldsOf(definition, "secrets.");

function fieldsOf(part: object, prefix: string): string[] {
  const fields = [...textsOf(part, "")].flatMap(([, template]) => placeholders(template));
  const named = fields.filter((field) => field.startsWith(prefix)).map((field) => field.slice(prefix.length));
  return [...new Set(named)];
}
