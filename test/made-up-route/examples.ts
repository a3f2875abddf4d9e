import type { Examples } from "../../src/openapi/example.ts";

export const greetingExamples: Examples = {
  "POST /sys/greetings/:language": {
    right: "update",
    params: { language: "en" },
    body: { name: "app" },
    effects: { name: "added-route › answers, and is described with its example" },
  },
};
