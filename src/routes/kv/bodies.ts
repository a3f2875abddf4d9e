import * as z from "zod";
import { isPlainObject } from "../../lib/json.ts";
import { badRequest } from "../../platform/http/errors.ts";
import { duration, flag, integer, signedDuration } from "../../platform/http/fields.ts";
import { nullMeans } from "../../platform/http/nulls.ts";

/** Schemas of the request bodies of a KV mount. They accept the JSON types and texts sent by clients of Vault's KV API. */

/** The largest `max_versions`, and the most versions in one request. */
const MAX_VERSIONS = 10_000;

export const DataBody = z.object({
  data: z.unknown().optional(),
  options: z
    .object({
      /** Null is 0, as upstream: a check that was asked for is never skipped. */
      cas: nullMeans(integer("error parsing check-and-set parameter").min(Number.MIN_SAFE_INTEGER), 0).optional(),
    })
    .nullish(),
});

/** The secret's data as JSON text, numbers as written. @throws RequestError 400 */
export function dataText({ data }: z.infer<typeof DataBody>): string {
  if (data === undefined || data === null) throw badRequest("no data provided");
  if (!isPlainObject(data)) throw badRequest("data: must be an object");
  return JSON.stringify(data);
}

export const VersionsBody = z.object({
  versions: z.preprocess(asList, z.array(integer().min(1)).max(MAX_VERSIONS).nullish()),
});

function asList(value: unknown): unknown {
  if (typeof value !== "string") return typeof value === "number" ? [value] : value;
  return value.trim() === "" ? [] : value.split(",");
}

/** The versions named by a request. @throws RequestError 400 for none */
export function versionsOf({ versions }: z.infer<typeof VersionsBody>): number[] {
  if (!versions || versions.length === 0) throw badRequest("No version number provided");
  return versions;
}

const maxVersions = () =>
  integer()
    .min(0)
    .refine((count) => count <= MAX_VERSIONS, `must be at most ${MAX_VERSIONS}`);

export const ConfigBody = z.object({
  max_versions: maxVersions().nullish(),
  cas_required: flag().nullish(),
  delete_version_after: signedDuration().nullish(),
  metadata_cas_required: flag().nullish(),
});

export const MetadataBody = z.object({
  max_versions: maxVersions().nullish(),
  cas_required: flag().nullish(),
  delete_version_after: duration("cannot provide negative value").nullish(),
  /** Validated by `readCustomMetadata`, so that one answer lists every violation. */
  custom_metadata: nullMeans(z.unknown().optional(), {}),
  metadata_cas_required: flag().nullish(),
  /** Null is 0, as upstream. */
  metadata_cas: nullMeans(integer().min(0).nullish(), 0),
});
