/** Labels, hints and choices of destinations' fields, from the descriptions of the types. */
import address from "forms:destinations";
import { type DestinationDescription, hasFederation } from "../../../../src/sync/destinations/description.ts";
import { descriptions } from "../../../../src/sync/destinations/descriptions.ts";
import { readFile } from "../../api/transfer.ts";
import type { FieldTexts } from "../../components/schema-form.tsx";
import { isSecretName, type JsonSchema } from "../../lib/schema.ts";
import type { FormValue } from "../../lib/settings.ts";

export interface ProviderType {
  readonly type: string;
  readonly about: string;
  readonly schema: JsonSchema;
  /** Fields that cannot change. */
  readonly fixed: readonly string[];
  readonly first: readonly string[];
  readonly advanced: readonly string[];
  /** Never part of a form: the form's own button, fields that are always refused, and older names of fields. */
  readonly hidden: readonly string[];
}

/** Fields of every type; their defaults are good. */
const POLICIES = ["granularity", "custom_tags", "update_policy", "deletion_policy", "credentials_expire_at"];
const NETWORKING = ["allowed_ipv4_addresses", "allowed_ipv6_addresses", "allowed_ports", "disable_strict_networking"];

const byType = new Map(descriptions.map((each) => [each.type, each]));

/** Names of the described fields with a mark. */
const marked = (
  fields: DestinationDescription["fields"],
  mark: "fixed" | "advanced" | "required" | "hidden",
): string[] => Object.keys(fields).filter((name) => fields[name]?.[mark]);

/** The types with their forms, whose schemas are read when a form opens. @throws ApiError */
export async function readTypes(): Promise<ProviderType[]> {
  return (await readFile<JsonSchema>(address)).anyOf?.map(typeOf) ?? [];
}

function typeOf(own: JsonSchema): ProviderType {
  const type = own.title ?? "";
  const { about = "", fields = {} } = byType.get(type) ?? {};
  const needed = marked(fields, "required");
  // Identity tokens replace the secret.
  const required = (own.required ?? []).filter(
    (name) => !(hasFederation({ fields }) && needed.includes(name) && fields[name]?.secret),
  );
  const refused = Object.entries(own.properties ?? {}).flatMap(([name, each]) =>
    Object.keys(each).length === 0 && !fields[name] ? [name] : [],
  );
  return {
    type,
    about,
    schema: { ...own, required },
    fixed: marked(fields, "fixed"),
    first: Object.keys(fields).filter((name) => !fields[name]?.advanced),
    advanced: [...marked(fields, "advanced"), ...POLICIES, ...NETWORKING],
    hidden: ["dry_run", ...marked(fields, "hidden"), ...refused],
  };
}

/** Texts of a form: those of the type's own fields, and of the fields of every type. */
export function textsOf(type: string): Readonly<Record<string, FieldTexts>> {
  const fields = Object.entries(byType.get(type)?.fields ?? {}).map(([name, field]): [string, FieldTexts] => {
    const hint = [field.help, ...(field.fixed ? ["Cannot change later."] : [])].filter(Boolean).join(" ");
    const { label, placeholder, rows, choices: names } = field;
    return [
      name,
      {
        label,
        ...(hint && { hint }),
        ...(placeholder && { placeholder }),
        ...(rows && { rows }),
        ...(names && { names }),
      },
    ];
  });
  return { ...COMMON, ...Object.fromEntries(fields) };
}

/** Texts of a new destination's form. */
export function newTexts(type: string): Readonly<Record<string, FieldTexts>> {
  const texts = textsOf(type);
  const template = texts["secret_name_template"];
  const hint = `${template?.hint} Left empty, it is called ${byType.get(type)?.sampleName}.`;
  return { ...texts, secret_name_template: { ...template, hint } };
}

const COMMON: Readonly<Record<string, FieldTexts>> = {
  allowed_ipv4_addresses: { label: "Allowed IPv4 addresses" },
  allowed_ipv6_addresses: { label: "Allowed IPv6 addresses" },
  allowed_ports: { label: "Allowed ports" },
  disable_strict_networking: { label: "Ignore the allowed addresses and ports" },
  granularity: {
    hint: "What becomes one object at the provider.",
    names: { "secret-path": "Each secret, as JSON", "secret-key": "Each key of a secret" },
  },
  secret_name_template: {
    label: "Name template",
    hint: "What objects are called there. With {{ .SecretPath }} alone, app/database is called app/database.",
  },
  custom_tags: { label: "Custom tags", hint: "Beside our own marker; AWS, Azure and Google only." },
  update_policy: {
    hint: "What happens to an object that is there already.",
    names: {
      replace: "Replace: the last write wins",
      "if-not-exists": "If not exists: it keeps its value",
      "owned-only": "Owned only: others' objects are not touched",
    },
  },
  deletion_policy: {
    hint: "What happens to the object when a secret is not synced any more.",
    names: { delete: "Delete it", retain: "Leave it there" },
  },
  credentials_expire_at: {
    label: "Credentials end",
    hint: "When the key or token ends at the provider, such as 2027-01-31. A notification rule can warn of it.",
  },
};

/** A body without values that are secrets, for a command. */
export const withoutSecrets = (body: FormValue): FormValue =>
  Object.fromEntries(
    Object.entries(body).map(([name, value]) => [name, isSecretName(name) || name === "access_key_id" ? "…" : value]),
  );
