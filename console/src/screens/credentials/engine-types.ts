/** Types of engines as forms and pages show them, made of their descriptions. */

import awsLease from "schema:POST /v1/cloud-a/config/lease";
import awsConfig from "schema:POST /v1/cloud-a/config/root";
import awsRole from "schema:POST /v1/cloud-a/roles/{name}";
import awsStatic from "schema:POST /v1/cloud-a/static-roles/{name}";
import azureConfig from "schema:POST /v1/cloud-b/config";
import azureRole from "schema:POST /v1/cloud-b/roles/{name}";
import azureStatic from "schema:POST /v1/cloud-b/static-roles/{name}";
import gcpConfig from "schema:POST /v1/cloud-c/config";
import gcpImpersonated from "schema:POST /v1/cloud-c/impersonated-account/{name}";
import gcpRoleset from "schema:POST /v1/cloud-c/roleset/{name}";
import gcpStatic from "schema:POST /v1/cloud-c/static-account/{name}";
import producerConfig from "schema:POST /v1/https-producer/config";
import producerRole from "schema:POST /v1/https-producer/roles/{name}";
import {
  type EngineDescription,
  kindsOf,
  plainName,
  prefixOf,
  type RoleKind,
} from "../../../../src/credentials/engines/description.ts";
import { engineDescriptions } from "../../../../src/credentials/engines/descriptions.ts";
import type { FieldTexts } from "../../components/schema-form.tsx";
import { type JsonSchema, labelOf } from "../../lib/schema.ts";
import type { FormValue } from "../../lib/settings.ts";

export const ENGINE_TYPES: readonly EngineDescription[] = engineDescriptions;

const SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  "cloud-a/config/root": awsConfig,
  "cloud-a/config/lease": awsLease,
  "cloud-a/roles": awsRole,
  "cloud-a/static-roles": awsStatic,
  "cloud-b/config": azureConfig,
  "cloud-b/roles": azureRole,
  "cloud-b/static-roles": azureStatic,
  "cloud-c/config": gcpConfig,
  "cloud-c/roleset": gcpRoleset,
  "cloud-c/static-account": gcpStatic,
  "cloud-c/impersonated-account": gcpImpersonated,
  "https-producer/config": producerConfig,
  "https-producer/roles": producerRole,
};

/** Stored for later releases only. */
const HIDDEN = ["rotation_policy"];

/** The arguments of `SchemaForm` for one body of an engine, and the marks of its fields. */
export interface EngineForm {
  readonly schema: JsonSchema;
  readonly texts: Readonly<Record<string, FieldTexts>>;
  readonly first: readonly string[];
  readonly advanced: readonly string[];
  readonly hidden: readonly string[];
  readonly secrets: readonly string[];
  readonly restored: readonly string[];
}

/** @param path of the body below the mount, as the description has it */
export function formFor({ type }: EngineDescription, path: string, fields: RoleKind["fields"]): EngineForm {
  const schema = SCHEMAS[`${type}${path}`] ?? {};
  const marked = (mark: "advanced" | "secret" | "restored" | "required"): string[] =>
    Object.keys(fields).filter((name) => fields[name]?.[mark]);
  return {
    schema: { ...schema, required: [...(schema.required ?? []), ...marked("required")] },
    texts: Object.fromEntries(
      Object.entries(fields).map(([name, { label, help, placeholder, rows, secret }]): [string, FieldTexts] => {
        const hint = [help?.replaceAll("`", ""), ...(secret ? ["Empty: no change."] : [])].join(" ");
        return [
          name,
          { label, hint, isSecret: secret === true, ...(placeholder && { placeholder }), ...(rows && { rows }) },
        ];
      }),
    ),
    first: Object.keys(fields),
    advanced: [...marked("advanced"), ...Object.keys(schema.properties ?? {}).filter((name) => !(name in fields))],
    hidden: HIDDEN,
    secrets: marked("secret"),
    restored: marked("restored"),
  };
}

/** A role by its stored name, which the beginning of its kind precedes: `reader`, `static-account/deploy`. */
export interface RoleAddress {
  readonly stored: string;
  readonly name: string;
  readonly kind: RoleKind;
}

export function roleAddress(type: EngineDescription, stored: string): RoleAddress {
  const [first, ...others] = kindsOf(type);
  const kind = others.find((each) => stored.startsWith(prefixOf(type, each))) ?? (first as RoleKind);
  return { stored, name: plainName(stored), kind };
}

export const kindLabel = ({ path }: RoleKind): string => labelOf(path.slice(1).replaceAll("-", "_"));

const filled = (path: string, name: string): string =>
  path.includes(":name") ? path.replace(":name", name) : `${path}/${name}`;

/** Prefixes of a role's leases, below the mount. */
export const leasePaths = ({ kind, name }: RoleAddress): string[] => kind.issue.map((path) => filled(path, name));

/**
 * The paths that issue credentials of a role, with `{name}` inside, any of which a token may use.
 * @param settings decide the path where a role has one only; null when the role cannot be read
 */
export function issuePaths(
  { kind: { issue, issueBy, reads = [] } }: RoleAddress,
  settings: FormValue | null,
): string[] {
  const path = issueBy?.paths[String(settings?.[issueBy.field])];
  return (path ? [path] : [...issue, ...reads]).map((each) => filled(each, "{name}"));
}

const NAMED = engineDescriptions
  .flatMap(kindsOf)
  .flatMap(({ issue }) => issue.filter((path) => path.includes(":name")))
  .map((path) => new RegExp(`${path.replace(":name", "([^/]+)")}/[^/]+$`));

/** The role in a lease's id: where the issuing path has it, else the folder of the lease's name. */
export function roleOf(id: string): string {
  for (const pattern of NAMED) {
    const role = pattern.exec(id)?.[1];
    if (role) return role;
  }
  return id.split("/").at(-2) ?? "";
}
