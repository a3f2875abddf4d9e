import * as z from "zod";
import { data, group } from "../../openapi/operation.ts";
import { sysPolicyTestExamples } from "./examples.ts";

const Words = z.array(z.string());

const Tried = z.object({
  capabilities: z
    .record(z.string(), z.object({ before: Words, after: Words }).meta({ id: "TriedCapabilities" }))
    .describe("By path: now, and once the policy is written."),
});

export const sysPolicyTest = group(
  "Policies",
  {},
  {
    "POST /sys/policies/test": {
      id: "testPolicy",
      summary: "Test a policy before it is written",
      description:
        "Writes nothing, and refuses what a write refuses. With `name` it needs `read` on that policy, and with the " +
        "accessor of another token `update` on `sys/capabilities-accessor`.",
      body: {
        fields: {
          policy: "The policy document, in HCL or JSON.",
          name: "The stored policy that the document replaces; without it, the policy is a new one.",
          accessor:
            "A token of this namespace, judged as if it had the policy; without it, the policy alone is judged.",
          paths: "The paths, with their mounts.",
        },
      },
      answers: data("The capabilities on each path.", Tried),
    },
  },
  sysPolicyTestExamples,
);
