import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, inject, it } from "vitest";

/**
 * Prometheus' own checks of the configuration, the rules, the dashboard's queries and the metrics. Without promtool
 * (Debian's package `prometheus`), src/platform/observability/metrics/documents.test.ts still checks the names.
 */

const hasPromtool = !spawnSync("promtool", ["--version"]).error;
if (!hasPromtool) console.warn("Prometheus' rules are not checked by promtool: there is none.");

const dir = mkdtempSync(join(tmpdir(), "sallyport-prometheus-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
cpSync("examples/prometheus", dir, { recursive: true });
cpSync("docs/operate/alerts.yml", join(dir, "alerts.yml"));

function promtool(args: readonly string[], input = ""): string {
  const { status, stdout, stderr } = spawnSync("promtool", args, { cwd: dir, input, encoding: "utf8" });
  expect(status, stdout + stderr).toBe(0);
  return stdout + stderr;
}

describe.runIf(hasPromtool)("promtool", () => {
  it("accepts the configuration with its rules", () => {
    expect(promtool(["check", "config", "--syntax-only", "prometheus.yml"])).toContain("SUCCESS");
  });

  it("accepts all rules, and finds the alerts of the examples", () => {
    const rules = readFileSync("docs/operate/alerts.yml", "utf8").split("- alert: ").length - 1;
    expect(promtool(["check", "rules", "alerts.yml"])).toContain(`${rules} rules found`);
    expect(promtool(["test", "rules", "alerts.test.yml"])).toContain("SUCCESS");
  });

  it("parses every query of the dashboard", () => {
    const { panels } = JSON.parse(readFileSync("docs/operate/grafana-dashboard.json", "utf8")) as {
      readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
    };
    const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    // Grafana sets this variable to a range before it sends the query.
    const rules = queries.map((query, at) => ({
      record: `query:${at}`,
      expr: query.replaceAll("$__rate_interval", "5m"),
    }));
    const file = join(dir, "queries.yml");
    writeFileSync(file, JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
    expect(promtool(["check", "rules", file])).toContain(`${queries.length} rules found`);
  });

  it("accepts what the service answers to a scrape", async () => {
    const { address, token } = inject("service");
    const answer = await fetch(`${address}/v1/metrics`, { headers: { Authorization: `Bearer ${token}` } });
    expect(answer.status).toBe(200);
    promtool(["check", "metrics"], await answer.text());
  });
});

it("the commands of the page make a token that reads metrics, and nothing else", async () => {
  const { address, token } = inject("service");
  const page = readFileSync("docs/guides/integrations/prometheus.md", "utf8");
  const commands = /```sh\n(.*?)```/s.exec(page)?.[1] ?? "";
  const env = { PATH: process.env["PATH"], SALLYPORT_ADDR: address, SALLYPORT_TOKEN: token };
  const { status, stderr } = spawnSync("sh", ["-e", "-c", commands], { cwd: dir, env, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  const secret = readFileSync(join(dir, "sallyport-token"), "utf8").trim();
  const read = async (path: string) =>
    (await fetch(`${address}${path}`, { headers: { Authorization: `Bearer ${secret}` } })).status;
  expect([await read("/v1/metrics"), await read("/v1/nodes"), await read("/v1/secret/data/app/api")]).toEqual([
    200, 403, 403,
  ]);
});
