import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { localSettings, Refusal, WORKER_SETTINGS, workerSettings } from "../../scripts/settings.ts";

it("docs/reference/settings.md lists exactly the settings that are read", () => {
  const section = readFileSync("docs/reference/settings.md", "utf8");
  const named = [...section.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, names = ""]) =>
    [...names.matchAll(/`([A-Z_]+)`/g)].map(([, name]) => name),
  );
  expect(named.sort()).toEqual([...WORKER_SETTINGS, "PORT", "PLAYGROUND", "STATE_DIR", "SEED", "AGENT", "LOG"].sort());
});

it("treats an empty setting as unset", () => {
  expect(workerSettings({ PUBLIC_URL: "", ADMIN_NAMESPACE: "ops", HOME: "/root" })).toEqual({ ADMIN_NAMESPACE: "ops" });
  expect(localSettings({ PORT: "", STATE_DIR: "" })).toEqual({
    port: 8787,
    stateDir: ".sallyport",
    seed: true,
    agents: 1,
    log: false,
    playground: false,
  });
  expect(localSettings({ PLAYGROUND: "1" }).stateDir).toBe(".sallyport-playground");
});

it.each([
  [{ PORT: "0" }, 'PORT must be a number from 1 to 65535, not "0".'],
  [{ PORT: "65536" }, 'PORT must be a number from 1 to 65535, not "65536".'],
  [{ PORT: "80a" }, 'PORT must be a number from 1 to 65535, not "80a".'],
  [{ AGENT: "10" }, 'AGENT must be a number from 0 to 9, not "10".'],
  [{ SEED: "no" }, 'SEED must be 0 or 1, not "no".'],
])("refuses %j with one sentence", (env, sentence) => {
  expect(() => localSettings(env)).toThrow(new Refusal(sentence));
});

it("refuses a jurisdiction, which the local runtime does not have", () => {
  expect(workerSettings({ JURISDICTION: "none" })).toEqual({ JURISDICTION: "none" });
  expect(() => workerSettings({ JURISDICTION: "eu" })).toThrow(
    new Refusal("JURISDICTION is for deployments: the local runtime has no jurisdictions."),
  );
});

it("refuses a schedule, which nothing triggers in the local runtime", () => {
  expect(() => workerSettings({ SNAPSHOT_CRON: "0 2 * * *" })).toThrow(
    new Refusal("SNAPSHOT_CRON is for deployments: the local runtime has no triggers."),
  );
  expect(() => workerSettings({ SNAPSHOT_CRON: "daily" })).toThrow(/^SNAPSHOT_CRON is not usable: must be a cron/);
});

it("refuses an invalid setting of the Worker by name before anything starts", () => {
  expect(() => workerSettings({ EVENT_HEARTBEAT_MS: "x" })).toThrow(/^EVENT_HEARTBEAT_MS is not usable: /);
});

it("refuses a collector without https, by the rule and not by the value", () => {
  expect(() => workerSettings({ OTLP_URL: "http://otlp.example" })).toThrow(
    new Refusal("OTLP_URL is not usable: must be a URL with https, or of this machine."),
  );
  expect(() => workerSettings({ OTLP_URL: "http://localhost.example" })).toThrow(/^OTLP_URL is not usable/);
  expect(() => workerSettings({ OTLP_HEADERS: "a secret" })).toThrow(
    new Refusal("OTLP_HEADERS is not usable: must be name=value, with commas between."),
  );
  const good = { OTLP_URL: "http://127.0.0.1:4318/otlp", OTLP_HEADERS: "a=b+c%20d=,x-y=z" };
  expect(workerSettings(good)).toEqual(good);
});
