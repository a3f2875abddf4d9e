import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isMetric } from "../../../../src/platform/observability/metrics/catalogue.ts";
import { lastSnapshot, metricFindings, readMetrics } from "./metrics.ts";

const NOW = 1_800_000_000_000;
const RUN = "sallyport_cron_last_run_timestamp_seconds";
const AWAITED = "sallyport_cron_awaited_since_timestamp_seconds";

const findingsOf = (...lines: string[]) =>
  metricFindings(readMetrics(lines.join("\n")), NOW)
    .filter(({ status }) => status !== "ok")
    .map(({ check, status, message }) => `${status} ${check}: ${message}`);

const AGE = "sallyport_snapshot_read_age_seconds";

describe("metricFindings", () => {
  it("reads metrics that the service has", () => {
    const source = readFileSync(new URL("metrics.ts", import.meta.url), "utf8");
    const names = [...source.matchAll(/\b(?:all|sum)\(\s*"([a-z_]+)"/g)].map(([, name]) => `sallyport_${name}`);
    expect(names.length).toBeGreaterThan(10);
    expect([...names, AGE].filter((name) => !isMetric(name))).toEqual([]);
  });

  it("finds nothing in an idle service", () => {
    expect(
      findingsOf(
        `${RUN} 1799999700`,
        "sallyport_sync_queue_capacity 1000000",
        'sallyport_csi_plugin_instances{health="healthy"} 3',
      ),
    ).toEqual([]);
  });

  it.each([
    [["sync_paused 1"], "warning sync queue: syncing is paused"],
    [["sync_queue_granted 95", "sync_queue_capacity 100"], "problem sync queue: 95 of 100 places are reserved"],
    [['sync_associations{destination="gh/a",status="UNKNOWN"} 2'], "problem sync: gh/a 2 UNKNOWN"],
    [
      ['outbox_oldest_age_seconds{class="SyncControl",object="main"} 301'],
      "problem delivery: outboxes are late: SyncControl main 301 s",
    ],
    [
      ['alarm_lag_seconds{class="KvStore",object="a\\"b"} 121'],
      'warning delivery: due work is late: KvStore a\\"b 121 s',
    ],
    [['scrape_errors{class="EventLog"} 1'], "warning delivery: no answer in 2 s: EventLog"],
    [['audit_lines_lost_total{reason="full"} 2'], "problem audit lines: 2 lines did not reach a sink"],
    [['csi_plugin_instances{plugin="d",role="node",health="unhealthy"} 1'], "problem CSI plugins: d: 1 node unhealthy"],
    [['csi_claims{state="taken",health="failing"} 4'], "problem CSI plugins: 4 claims fail in taken"],
    [['leases{mount="azure/",state="irrevocable"} 1'], "problem leases: irrevocable: azure/ 1"],
    [
      ['http_requests_total{status="200"} 97', 'http_requests_total{status="429"} 3'],
      "warning rate limits: 3 of 100 requests were refused with 429",
    ],
    [
      ['http_requests_total{status="200"} 97', 'http_requests_total{status="503"} 3'],
      "warning requests: 3 of 100 requests failed with 5xx",
    ],
  ])("finds %j", (lines, finding) => {
    expect(findingsOf(`${RUN} 1799999700`, ...lines.map((line) => `sallyport_${line}`))).toEqual([finding]);
  });

  it.each([
    [[], "unknown cron: no run is recorded; a self-hosted service has no trigger"],
    [
      [`${AWAITED} 1799998500`],
      "unknown cron: no run in 25 minutes; the first one is up to 20 minutes after the deployment",
    ],
    [[`${AWAITED} 1799998440`], "problem cron: no run in 26 minutes"],
    [[`${RUN} 1799998980`], "problem cron: the last run was 17 minutes ago"],
  ])("finds of the cron trigger, with %j", (lines, finding) => {
    expect(findingsOf(...lines)).toEqual([finding]);
  });
});

describe("lastSnapshot", () => {
  it.each([
    [`${AGE} 3600`, "ok", "no bucket is bound; the last snapshot was taken 0.0 days ago"],
    [`${AGE} 259200`, "warning", "no bucket is bound; the last snapshot was taken 3.0 days ago"],
    ["", "warning", "none was ever taken, and no bucket is bound"],
  ])("judges %j", (line, status, message) => {
    expect(lastSnapshot(readMetrics(line))).toMatchObject([{ status, message }]);
  });
});
