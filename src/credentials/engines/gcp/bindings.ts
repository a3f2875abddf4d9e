import { type HclObject, type HclValue, parseHcl } from "../../../lib/hcl.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { resourceNamed } from "./resources.ts";

/** Roles by resource, with the resources as written. */
export type Bindings = Readonly<Record<string, readonly string[]>>;

const ROLE = /^(?:roles\/[\w.]+|(?:projects|organizations)\/[^/\s]+\/roles\/[\w.]+)$/;
const MAX_RESOURCES = 50;
const MAX_ROLES = 100;

const unreadable = (why: string) => refuse("invalid", `unable to parse bindings: ${why}`);

/**
 * Parses bindings: `resource "NAME" { roles = ["roles/viewer"] }`, or JSON of that structure, as text or as base64 of
 * it. Each resource and role is checked before anything is made for them.
 */
export function parseBindings(text: string): Result<Bindings> {
  if (text.trim() === "") return refuse("invalid", "bindings are empty");
  const parsed = parseHcl(decoded(text));
  if (!parsed.ok) return unreadable(`${parsed.message} (line ${parsed.line}, column ${parsed.column})`);
  if (parsed.document.members.some(({ name }) => name !== "resource")) return unreadable("only resources may be named");
  const bindings = new Map<string, readonly string[]>();
  for (const [resource, value] of resourcesIn(parsed.document)) {
    if (bindings.has(resource)) return unreadable("the same resource is named twice");
    const named = resourceNamed(resource);
    if ("problem" in named) return refuse("invalid", named.problem);
    const roles = rolesIn(value);
    if (!roles.ok) return roles;
    bindings.set(resource, roles.value);
  }
  if (bindings.size === 0) return refuse("invalid", "unable to parse any bindings from given bindings HCL");
  if (bindings.size > MAX_RESOURCES) return unreadable(`more than ${MAX_RESOURCES} resources`);
  return ok(Object.fromEntries(bindings));
}

/** The text itself, or what it is in base64. */
function decoded(text: string): string {
  const compact = text.replace(/\s/g, "");
  if (!/^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(compact)) return text;
  return Buffer.from(compact, "base64").toString();
}

/** Resources with their blocks: labelled blocks, or the members of one object. */
function* resourcesIn({ members }: HclObject): Generator<readonly [string, HclValue]> {
  for (const { name, label, value } of members) {
    if (name !== "resource") continue;
    if (label !== undefined) yield [label, value];
    else if (isObject(value)) for (const inner of value.members) yield [inner.name, inner.value];
  }
}

function rolesIn(value: HclValue): Result<readonly string[]> {
  if (!isObject(value)) return unreadable("a resource must have a block with roles");
  const other = value.members.find(({ name }) => name !== "roles");
  if (other) return unreadable("a resource has members other than roles");
  const listed = value.members[0]?.value;
  const roles = Array.isArray(listed) ? listed : [];
  if (roles.length === 0) return unreadable("a resource has no roles");
  if (roles.length > MAX_ROLES) return unreadable(`a resource has more than ${MAX_ROLES} roles`);
  const names = roles.map((role) => (typeof role === "string" ? role : ""));
  if (names.every((role) => ROLE.test(role))) return ok([...new Set(names)]);
  return unreadable("roles must be roles/X, projects/P/roles/X or organizations/O/roles/X");
}

const isObject = (value: HclValue): value is HclObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
