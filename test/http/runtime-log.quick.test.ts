import { expect, it } from "vitest";
import { isRuntimeNoise } from "../../scripts/runtime-log.ts";

it.each([
  ["NOSENTRY SQLite alarm overdue, running despite AlarmManager mismatch; scheduledTime = 1795401563.958s", true],
  ["workerd/io/worker-entrypoint.c++:912: warning: NOSENTRY IoContext dropped queued cross-context actions", true],
  ["e = rust/worker/ffi.rs:104: failed: failed to lookup address information: Name or service not known", true],
  ["stack: /srv/node_modules/@cloudflare/workerd-linux-64/bin/workerd@2b5edc0 /srv/bin/workerd@3fe4230", true],
  ["Error: x\n    at stack: worker.js:1", false],
  ['{"level":"error","event":"defect","message":"x"}', false],
  ["service core:user:sallyport: Uncaught Error: x", false],
  ["", false],
])("classifies the runtime's log line %j as noise: %s", (line, isNoise) => {
  expect(isRuntimeNoise(line)).toBe(isNoise);
});
