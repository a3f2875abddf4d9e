import { operationError } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import { CallFailure, errorOf } from "./failure.ts";

it.each([Number.NaN, -1, 1.5, 17, 1e300])("status %d of a plugin is UNKNOWN in the result", (code) => {
  const error = errorOf(new CallFailure("p", "DeleteVolume", code, "no", true), true, false);
  expect(error).toMatchObject({ kind: "plugin", outcome: "failed", call: { code: 2 } });
  expect(operationError.safeParse(error).success).toBe(true);
});
