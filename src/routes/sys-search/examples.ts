import type { Examples } from "../../openapi/example.ts";

export const sysSearchExamples: Examples = {
  "GET /sys/search": { right: "any token" },
};
