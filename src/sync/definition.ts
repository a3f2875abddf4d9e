import * as z from "zod";
import { stringMap } from "../http/fields.ts";
import { ok, type Result, refuse } from "../result.ts";
import { type DestinationType, destinationTypes, type Granularity } from "./destinations/index.ts";
import { checkTemplate } from "./naming.ts";

/** The literal that stands for every sensitive value, whatever its length. */
export const MASK = "*****";
/** The tag that marks every object as ours. */
export const MARKER_TAG = "hashicorp:vault";

/** Fields that all types share. */
const Common = z.object({
  granularity: z.enum(["secret-path", "secret-key"]).optional(),
  secret_name_template: z.string().optional(),
  custom_tags: stringMap().nullish(),
});

/** A destination's settings, checked: what is stored. */
export interface Definition {
  readonly granularity: Granularity;
  /** As written; empty = the type's default. */
  readonly template: string;
  readonly customTags: Readonly<Record<string, string>>;
  readonly connection: Readonly<Record<string, unknown>>;
}

export const typeOf = (name: string): DestinationType<unknown> | undefined => destinationTypes.get(name);

/** The template in force. */
export const effectiveTemplate = (
  type: DestinationType<unknown>,
  definition: Pick<Definition, "template" | "granularity">,
): string => definition.template || type.defaults.template[definition.granularity];

const isMask = (value: unknown): boolean => typeof value === "string" && /^\*+$/.test(value);

/**
 * Checks what a caller wants a destination to be. On an existing one, fields that are left out or masked keep their value.
 * @param before the stored definition, or null when the destination is new
 */
export function define(
  type: DestinationType<unknown>,
  body: Readonly<Record<string, unknown>>,
  before: Definition | null,
): Result<Definition> {
  const common = Common.safeParse(body);
  if (!common.success) return refuse("invalid", tell(common.error));
  const given = Object.entries(body).filter(([key, value]) => !(type.sensitive.includes(key) && isMask(value)));
  const parsed = type.connection.safeParse({ ...before?.connection, ...Object.fromEntries(given) });
  if (!parsed.success) return refuse("invalid", tell(parsed.error));
  const connection = parsed.data as Record<string, unknown>;
  if (before) {
    const fixed = type.immutable.find((field) => connection[field] !== before.connection[field]);
    if (fixed !== undefined) return refuse("invalid", `field ${JSON.stringify(fixed)} cannot be updated`);
    const refused = type.checkChange?.(before.connection, connection) ?? null;
    if (refused !== null) return refuse("invalid", refused);
  }
  const definition: Definition = {
    granularity: common.data.granularity ?? before?.granularity ?? type.defaults.granularity,
    template: common.data.secret_name_template ?? before?.template ?? "",
    customTags: common.data.custom_tags ?? before?.customTags ?? {},
    connection,
  };
  if (definition.granularity === "secret-key") {
    return refuse("invalid", "granularity: secret-key is not available yet; use secret-path");
  }
  const template = checkTemplate(effectiveTemplate(type, definition), definition.granularity);
  if (!template.ok) return refuse("invalid", template.message);
  const tags = type.checkTags?.(tagsOf(definition)) ?? null;
  return tags === null ? ok(definition) : refuse("invalid", tags);
}

/** All tags an object carries: the caller's and the marker, which cannot be replaced. */
export const tagsOf = (definition: Pick<Definition, "customTags">): Record<string, string> => ({
  ...definition.customTags,
  [MARKER_TAG]: "",
});

/** The connection details as a read shows them. */
export function masked(
  type: DestinationType<unknown>,
  connection: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(connection).map(([key, value]) => [key, type.sensitive.includes(key) ? MASK : value]),
  );
}

const tell = (failure: z.ZodError): string =>
  failure.issues
    .slice(0, 5)
    .map((issue) => `${issue.path.join(".")}: ${issue.message}`)
    .join("; ");
