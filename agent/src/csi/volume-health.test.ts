import { MAX_CSI_PROBLEMS, MAX_FRAME_BYTES } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import { reportable } from "./volume-health.ts";

it("the problems of one plugin leave room for the report of its node, however long they are", () => {
  const problems = (length: number) =>
    Array.from({ length: 200 }, (_, at) => ({
      ExternalID: "€".repeat(length),
      AllocID: String(at),
      Reason: "€".repeat(length),
    }));
  expect(reportable(problems(10))).toHaveLength(MAX_CSI_PROBLEMS);
  const bounded = reportable(problems(1_024));
  expect(bounded[0]?.AllocID).toBe("0");
  expect(Buffer.byteLength(JSON.stringify(bounded))).toBeLessThan(MAX_FRAME_BYTES / 8);
});
