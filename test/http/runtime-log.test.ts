import { expect, it } from "vitest";
import { isRuntimeNoise } from "../../scripts/runtime-log.ts";

it.each([
  ["NOSENTRY SQLite alarm overdue, running despite AlarmManager mismatch; scheduledTime = 1795401563.958s", true],
  ["workerd/io/worker-entrypoint.c++:912: warning: NOSENTRY IoContext dropped queued cross-context actions", true],
  ['{"level":"error","event":"defect","message":"x"}', false],
  ["service core:user:sallyport: Uncaught Error: x", false],
  ["", false],
])("classifies the runtime's log line %j as noise: %s", (line, isNoise) => {
  expect(isRuntimeNoise(line)).toBe(isNoise);
});
