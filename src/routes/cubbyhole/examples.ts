import type { Examples } from "../../openapi/example.ts";

export const cubbyholeExamples: Examples = {
  "LIST /cubbyhole": { right: "list" },
  "LIST /cubbyhole/:path+": { right: "list" },
  "GET /cubbyhole/:path+": { right: "read" },
  "POST /cubbyhole/:path+": { right: "create or update", body: { color: "blue" } },
  "DELETE /cubbyhole/:path+": { right: "delete" },
};
