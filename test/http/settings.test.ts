import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { localSettings, Refusal, WORKER_SETTINGS, workerSettings } from "../../scripts/settings.ts";

it("every setting that the Worker reads is handed on by npm start", () => {
  const read = [...readFileSync("src/env.ts", "utf8").matchAll(/^ {2}([A-Z][A-Z0-9_]+): z\./gm)].map(
    ([, name]) => name,
  );
  expect(read).toContain("DEV_ROOT_TOKEN");
  expect([...WORKER_SETTINGS].sort()).toEqual([...read, "MASTER_KEY"].sort());
});

it("a setting that is empty counts as not set", () => {
  expect(workerSettings({ PUBLIC_URL: "", ADMIN_NAMESPACE: "ops", HOME: "/root" })).toEqual({ ADMIN_NAMESPACE: "ops" });
  expect(localSettings({ PORT: "", STATE_DIR: "" })).toEqual({
    port: 8787,
    stateDir: ".sallyport",
    seed: true,
    log: false,
  });
});

it.each([
  [{ PORT: "0" }, 'PORT must be a number from 1 to 65535, not "0".'],
  [{ PORT: "65536" }, 'PORT must be a number from 1 to 65535, not "65536".'],
  [{ PORT: "80a" }, 'PORT must be a number from 1 to 65535, not "80a".'],
  [{ SEED: "no" }, 'SEED must be 0 or 1, not "no".'],
])("%j is refused in one sentence", (env, sentence) => {
  expect(() => localSettings(env)).toThrow(new Refusal(sentence));
});
