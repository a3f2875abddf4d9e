import * as z from "zod";
import { keysOf } from "../../wire/shapes.ts";
import { data, group, type Operation } from "../operation.ts";

const names = keysOf({ policies: z.array(z.string()) });
const document = { fields: { policy: "The policy document, in HCL or JSON, or as base64." } };

/** Capabilities by path; for a single path also at the top level. */
const Capabilities = z.record(z.string(), z.array(z.string()));
/** A list, also as one text with commas. */
const pathList = (description: string) => ({
  anyOf: [{ type: "array", items: { type: "string" } }, { type: "string" }],
  description,
});

const about = (id: string, summary: string, required: readonly string[]): Operation => ({
  id,
  summary,
  body: {
    fields: {
      paths: pathList("The paths, with their mounts; in a text separated by commas."),
      path: pathList("The same as `paths`."),
    },
    required,
  },
  answers: data("Capabilities by path; for a single path also under `capabilities`.", Capabilities, { flat: true }),
});

export const policies = group(
  "Policies",
  { name: "The policy's name; stored in lower case." },
  {
    "LIST /sys/policies/acl": { id: "listPolicies", summary: "List the policies" },
    "GET /sys/policies/acl/:name+": {
      id: "readPolicy",
      summary: "Read a policy",
      answers: data("The policy.", z.object({ name: z.string(), policy: z.string() }), { flat: true }),
    },
    "POST /sys/policies/acl/:name+": {
      id: "writePolicy",
      summary: "Create or update a policy",
      body: document,
    },
    "DELETE /sys/policies/acl/:name+": { id: "deletePolicy", summary: "Delete a policy" },
    "GET /sys/policy": {
      id: "readPolicyNamesOld",
      summary: "List the policies (legacy path)",
      answers: data("Their names.", names, { flat: true }),
    },
    "LIST /sys/policy": {
      id: "listPoliciesOld",
      summary: "List the policies (legacy path)",
      answers: data("Their names.", names, { flat: true }),
    },
    "GET /sys/policy/:name+": {
      id: "readPolicyOld",
      summary: "Read a policy (legacy path)",
      answers: data("The policy.", z.object({ name: z.string(), rules: z.string() }), { flat: true }),
    },
    "POST /sys/policy/:name+": {
      id: "writePolicyOld",
      summary: "Create or replace a policy (legacy path)",
      body: document,
    },
    "DELETE /sys/policy/:name+": { id: "deletePolicyOld", summary: "Delete a policy (legacy path)" },
    "POST /sys/capabilities-self": about("readOwnCapabilities", "List the caller's capabilities on paths", []),
    "POST /sys/capabilities": about("readCapabilities", "List a token's capabilities on paths", ["token"]),
    "POST /sys/capabilities-accessor": about("readCapabilitiesByAccessor", "List a token's capabilities by accessor", [
      "accessor",
    ]),
  },
);
