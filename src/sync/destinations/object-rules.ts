import { createHash } from "node:crypto";
import type { Failure } from "../../contracts/failure.ts";
import { failure } from "../../providers/outcome.ts";
import { type ExternalObject, MARKER_TAG } from "./destination-type.ts";

/** Rules for objects that types share: names and sizes, the identity of a push, and the refusal of foreign objects. */

interface ObjectRules {
  /** Such as "secret"; default "variable". */
  readonly noun?: string;
  readonly name: Pick<RegExp, "test">;
  /** After "must": such as "be 1 to 255 letters, digits or _". */
  readonly rule: string;
  readonly maxBytes: number;
  /** States `maxBytes`; default "the provider takes at most" them. */
  readonly limit?: string;
  /** The provider refuses empty values. */
  readonly notEmpty?: boolean;
}

/** The refusal of a name or a value that the provider would refuse; null when it takes both. */
export function checkObject(
  { name, value }: Pick<ExternalObject, "name" | "value">,
  { noun = "variable", maxBytes, limit = `the provider takes at most ${maxBytes}`, ...rules }: ObjectRules,
): Failure | null {
  if (!rules.name.test(name)) return failure("client", "name_invalid", `The ${noun}'s name must ${rules.rule}.`);
  const bytes = Buffer.byteLength(value);
  if (bytes === 0 && rules.notEmpty) {
    return failure("client", "value_empty", `The value of ${name} is empty, which the provider refuses.`);
  }
  if (bytes <= maxBytes) return null;
  return failure("client", "value_too_large", `The value of ${name} is ${bytes} bytes; ${limit}.`);
}

/** A digest of texts: 64 hex digits. */
export const digestOf = (...parts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex");

/** Identifies a push with its value, 64 hex digits. Reveals nothing of the value: the token is secret. */
export const intentOf = ({ idempotencyToken, name, value }: ExternalObject): string =>
  digestOf(idempotencyToken, name, value);

/** The refusal of an object without our marker. @param object such as "secret NAME" */
export const notOwned = (object: string, marker = `the tag ${MARKER_TAG}`): Failure =>
  failure("client", "not_owned", `The ${object} exists and does not carry ${marker}, so it is not ours.`);
