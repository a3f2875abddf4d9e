import type { Examples } from "../../openapi/example.ts";

const SETTINGS = "max_versions cas_required delete_version_after metadata_cas_required";
const SPELLINGS = "kv-metadata › accepts every field in a command line's spelling";
const settings = { max_versions: 5, cas_required: false, delete_version_after: "720h", metadata_cas_required: false };
const metadata = {
  body: { ...settings, custom_metadata: { team: "a" }, metadata_cas: 0 },
  effects: {
    [`${SETTINGS} custom_metadata`]: SPELLINGS,
    metadata_cas: "kv-metadata › is written by its version only, where that is required",
  },
};

const write = {
  body: { data: { user: "app", password: "…" }, options: { cas: 0 } },
  effects: {
    "data options cas": "kv-data › accepts a write only when the version matches, as number or text",
  },
};
const versions = {
  body: { versions: [1, 2] },
  effects: { versions: "kv-data › accepts one version as a plain number" },
};

export const kvExamples: Examples = {
  "GET /secret/config": { right: "read" },
  "POST /secret/config": { right: "update", body: settings, effects: { [SETTINGS]: SPELLINGS } },
  "LIST /secret/detailed-metadata": { right: "list" },
  "LIST /secret/detailed-metadata/:path+": { right: "list" },
  "GET /secret/data/:path+": { right: "read" },
  "POST /secret/data/:path+": { right: "create or update", ...write },
  "PATCH /secret/data/:path+": { right: "patch", ...write },
  "DELETE /secret/data/:path+": { right: "delete" },
  "POST /secret/delete/:path+": { right: "update", ...versions },
  "POST /secret/undelete/:path+": { right: "update", ...versions },
  "POST /secret/destroy/:path+": { right: "update", ...versions },
  "LIST /secret/metadata": { right: "list" },
  "LIST /secret/metadata/:path+": { right: "list" },
  "GET /secret/metadata/:path+": { right: "read" },
  "POST /secret/metadata/:path+": { right: "create or update", ...metadata },
  "PATCH /secret/metadata/:path+": { right: "patch", ...metadata },
  "DELETE /secret/metadata/:path+": { right: "delete" },
  "GET /secret/subkeys/:path+": { right: "read" },
  "LIST /kv-v1": { right: "list" },
  "LIST /kv-v1/:path+": { right: "list" },
  "GET /kv-v1/:path+": { right: "read" },
  "POST /kv-v1/:path+": { right: "create or update", body: { user: "app", password: "…" } },
  "DELETE /kv-v1/:path+": { right: "delete" },
};
