import * as z from "zod";
import { type Answer, data, group, noContent, warned } from "../../openapi/operation.ts";
import { Attribution, Version } from "../../wire/kv.ts";
import { keys, keysOf, texts, time, timeOrEmpty } from "../../wire/shapes.ts";
import { kvExamples } from "./examples.ts";

const Metadata = z
  .object({
    versions: z.record(
      z.string(),
      z.object({
        created_time: time,
        deletion_time: timeOrEmpty,
        destroyed: z.boolean(),
        created_by: Attribution.optional().describe("Absent for versions of releases before 0.3.0."),
        deleted_by: Attribution.optional().describe(
          "The caller that deleted or destroyed it; absent for ends by time.",
        ),
      }),
    ),
    current_version: z.int(),
    current_metadata_version: z.int().describe("The number of writes of the metadata."),
    oldest_version: z.int(),
    created_time: time,
    updated_time: time,
    max_versions: z.int().describe("0: as the mount is configured."),
    cas_required: z.boolean(),
    metadata_cas_required: z.boolean(),
    delete_version_after: z.string().describe("A Go duration; `0s` for never."),
    custom_metadata: texts.nullable(),
  })
  .meta({ id: "SecretMetadata" });

const Detailed = keysOf({
  key_info: z.record(z.string(), z.union([Metadata, z.object({})])).describe("By name; empty for a folder."),
});

const Secret = z.object({ data: z.record(z.string(), z.unknown()).nullable(), metadata: Version });
const Subkeys = z.object({
  subkeys: z.record(z.string(), z.unknown()).nullable().describe("The secret's keys, with null as each value."),
  metadata: Version,
});

/** The answer to a read of a version 1 mount. */
const Unversioned = z.record(z.string(), z.unknown());

const gone = (schema: z.ZodType): Readonly<Record<number, Answer>> => ({
  404: {
    kind: "envelope",
    description: "Not found; for a deleted or destroyed version, with its metadata.",
    parts: { data: schema, orErrors: true },
  },
});

const settings = {
  max_versions: "How many versions are kept; 0 is the default of 10.",
  cas_required: "Every write must say which version it replaces.",
  metadata_cas_required: "Every write of metadata must say which version of it it replaces.",
  delete_version_after: "Versions delete themselves after this time.",
};
const EXCLUDE_DELETED = "Leaves out secrets whose newest version is deleted, or will be at a set time.";
const CAS = "The `current_metadata_version` that this replaces; 0 for metadata that is not there.";
const custom = {
  type: "object",
  additionalProperties: { type: "string" },
  description: "At most 64 pairs.",
};

const write = {
  fields: {
    data: { type: "object", description: "The secret: any JSON object. Numbers keep all their digits." },
    options: "`cas`: the version that this replaces; 0 for a secret that is not there.",
  },
  required: ["data"],
};
const versions = {
  fields: { versions: { type: "array", items: { type: "integer" }, description: "Numbers of versions." } },
  required: ["versions"],
};

export const kv = group(
  "Secrets",
  { path: "The secret's path in its mount." },
  {
    "GET /secret/config": {
      id: "readKvConfig",
      summary: "Read a KV mount's configuration",
      answers: data(
        "The configuration.",
        z.object({
          max_versions: z.int(),
          cas_required: z.boolean(),
          delete_version_after: z.string(),
          metadata_cas_required: z.boolean(),
        }),
      ),
    },
    "POST /secret/config": {
      id: "writeKvConfig",
      summary: "Configure a KV mount",
      body: { fields: settings },
      answers: noContent,
    },
    "GET /secret/data/:path+": {
      id: "readSecret",
      summary: "Read a secret",
      query: { version: "Which version; 0 is the newest." },
      answers: { ...data("The secret.", Secret), ...gone(Secret) },
    },
    "POST /secret/data/:path+": {
      id: "writeSecret",
      summary: "Write a new version of a secret",
      body: write,
      answers: data("Metadata of the new version.", Version),
    },
    "PATCH /secret/data/:path+": {
      id: "patchSecret",
      summary: "Patch a secret (new version)",
      description: "`data` is a JSON merge patch (RFC 7396) of the newest version.",
      body: write,
      answers: { ...data("Metadata of the new version.", Version), ...gone(Secret) },
    },
    "DELETE /secret/data/:path+": {
      id: "deleteSecret",
      summary: "Delete the newest version (can be undeleted)",
      answers: noContent,
    },
    "POST /secret/delete/:path+": {
      id: "deleteSecretVersions",
      summary: "Delete versions (can be undeleted)",
      body: versions,
      answers: noContent,
    },
    "POST /secret/undelete/:path+": {
      id: "undeleteSecretVersions",
      summary: "Undelete versions",
      body: versions,
      answers: noContent,
    },
    "POST /secret/destroy/:path+": {
      id: "destroySecretVersions",
      summary: "Destroy versions permanently",
      body: versions,
      answers: noContent,
    },
    "LIST /secret/metadata": {
      id: "listSecretsAtRoot",
      summary: "List secrets and folders at the root of a mount",
      query: { exclude_deleted: EXCLUDE_DELETED },
      answers: data("Names.", keys),
    },
    "LIST /secret/metadata/:path+": {
      id: "listSecrets",
      summary: "List secrets and folders in a folder",
      path: { path: "The folder." },
      query: { exclude_deleted: EXCLUDE_DELETED },
      answers: data("Names.", keys),
    },
    "LIST /secret/detailed-metadata": {
      id: "listDetailedSecretsAtRoot",
      summary: "List secrets and folders at the root of a mount, with their metadata",
      answers: data("Names, and the metadata of secrets.", Detailed),
    },
    "LIST /secret/detailed-metadata/:path+": {
      id: "listDetailedSecrets",
      summary: "List secrets and folders in a folder, with their metadata",
      description: "The caller needs no right on the secrets.",
      path: { path: "The folder." },
      answers: data("Names, and the metadata of secrets.", Detailed),
    },
    "GET /secret/metadata/:path+": {
      id: "readSecretMetadata",
      summary: "Read a secret's metadata and versions",
      answers: data("The metadata.", Metadata),
    },
    "POST /secret/metadata/:path+": {
      id: "writeSecretMetadata",
      summary: "Write a secret's metadata",
      body: { fields: { ...settings, custom_metadata: custom, metadata_cas: CAS } },
      answers: { ...noContent, ...warned("Written, with a warning.") },
    },
    "PATCH /secret/metadata/:path+": {
      id: "patchSecretMetadata",
      summary: "Patch a secret's metadata",
      body: {
        fields: {
          ...settings,
          custom_metadata: { type: "object", additionalProperties: { type: ["string", "null"] } },
          metadata_cas: CAS,
        },
      },
      answers: { ...noContent, ...warned("Written, with a warning.") },
    },
    "DELETE /secret/metadata/:path+": {
      id: "deleteSecretMetadata",
      summary: "Delete a secret and all its versions",
      answers: noContent,
    },
    "LIST /kv-v1": {
      id: "listUnversionedSecretsAtRoot",
      summary: "List secrets and folders at the root of a version 1 mount",
      answers: data("Names.", keys),
    },
    "LIST /kv-v1/:path+": {
      id: "listUnversionedSecrets",
      summary: "List secrets and folders in a folder of a version 1 mount",
      path: { path: "The folder." },
      answers: data("Names.", keys),
    },
    "GET /kv-v1/:path+": {
      id: "readUnversionedSecret",
      summary: "Read a secret of a version 1 mount",
      description:
        "`lease_duration` is the secret's field `ttl` or `lease`, or the mount's default TTL, in seconds. It is a hint for readers: there is no lease.",
      answers: data("The secret as written.", Unversioned),
    },
    "POST /kv-v1/:path+": {
      id: "writeUnversionedSecret",
      summary: "Write a secret of a version 1 mount",
      description: "The whole body is the secret: any JSON object that is not empty. It replaces the earlier one.",
      body: { fields: {} },
      answers: noContent,
    },
    "DELETE /kv-v1/:path+": {
      id: "deleteUnversionedSecret",
      summary: "Delete a secret of a version 1 mount permanently",
      answers: noContent,
    },
    "GET /secret/subkeys/:path+": {
      id: "readSecretKeys",
      summary: "Read a secret's keys without values",
      query: { version: "Which version; 0 is the newest.", depth: "How deep; 0 is all the way." },
      answers: { ...data("The keys.", Subkeys), ...gone(Subkeys) },
    },
  },
  kvExamples,
);
