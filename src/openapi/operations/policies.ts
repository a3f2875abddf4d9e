import * as z from "zod";
import { data, group, noContent, type Operation } from "../operation.ts";
import { keys, keysOf } from "../shapes.ts";

const names = keysOf({ policies: z.array(z.string()) });
const document = { fields: { policy: "The policy document, in HCL or JSON, or as base64." } };

/** Capabilities by path; for a single path also at the top level. */
const Capabilities = z.record(z.string(), z.array(z.string()));
const about = (id: string, summary: string, required: readonly string[]): Operation => ({
  id,
  summary,
  body: { fields: { paths: "The paths, with their mounts.", path: "The same as `paths`." }, required },
  answers: data("Capabilities by path; of a single path under `capabilities`, too.", Capabilities, { flat: true }),
});

export const policies = group(
  "Policies",
  { name: "The policy's name; stored in lower case." },
  {
    "LIST /sys/policies/acl": {
      id: "listPolicies",
      summary: "Lists the policies",
      answers: data("Their names.", keys),
    },
    "GET /sys/policies/acl/:name": {
      id: "readPolicy",
      summary: "Reads a policy",
      answers: data("The policy.", z.object({ name: z.string(), policy: z.string() }), { flat: true }),
    },
    "POST /sys/policies/acl/:name": {
      id: "writePolicy",
      summary: "Creates or replaces a policy",
      body: document,
      answers: noContent,
    },
    "DELETE /sys/policies/acl/:name": { id: "deletePolicy", summary: "Deletes a policy", answers: noContent },
    "GET /sys/policy": {
      id: "readPolicyNamesOld",
      summary: "Lists the policies, in the older form",
      answers: data("Their names.", names, { flat: true }),
    },
    "LIST /sys/policy": {
      id: "listPoliciesOld",
      summary: "Lists the policies, in the older form",
      answers: data("Their names.", names, { flat: true }),
    },
    "GET /sys/policy/:name": {
      id: "readPolicyOld",
      summary: "Reads a policy, in the older form",
      answers: data("The policy.", z.object({ name: z.string(), rules: z.string() }), { flat: true }),
    },
    "POST /sys/policy/:name": {
      id: "writePolicyOld",
      summary: "Creates or replaces a policy, in the older form",
      body: document,
      answers: noContent,
    },
    "DELETE /sys/policy/:name": {
      id: "deletePolicyOld",
      summary: "Deletes a policy, in the older form",
      answers: noContent,
    },
    "POST /sys/capabilities-self": about("readOwnCapabilities", "Says what the caller may on paths", []),
    "POST /sys/capabilities": about("readCapabilities", "Says what a token may on paths", ["token"]),
    "POST /sys/capabilities-accessor": about(
      "readCapabilitiesByAccessor",
      "Says what a token may on paths, by its accessor",
      ["accessor"],
    ),
  },
);
