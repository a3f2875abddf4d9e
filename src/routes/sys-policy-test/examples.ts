import type { Examples } from "../../openapi/example.ts";

const JUDGED = "policy-trial › returns the capabilities before and after";

export const sysPolicyTestExamples: Examples = {
  "POST /sys/policies/test": {
    right: "update",
    body: {
      policy: 'path "secret/data/app/*" { capabilities = ["read"] }',
      paths: ["secret/data/app/db"],
      name: "default",
      accessor: "",
    },
    effects: { "policy paths name accessor": JUDGED },
  },
};
