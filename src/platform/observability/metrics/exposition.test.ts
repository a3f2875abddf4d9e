import { expect, it } from "vitest";
import { BUCKETS } from "./catalogue.ts";
import { written } from "./exposition.ts";
import { bucketOf, series } from "./series.ts";

const NOW = new Date("2026-11-21T10:00:00.123Z");

it("escapes any label value", () => {
  const odd = series("sallyport_csi_volumes", 2, 'a "b"\\c\nd');
  for (const format of ["prometheus", "openmetrics"] as const) {
    expect(written(format, [odd], NOW)).toContain('sallyport_csi_volumes{plugin="a \\"b\\"\\\\c\\nd"} 2\n');
  }
});

it("groups the series of a metric behind its HELP and TYPE lines", () => {
  const mixed = [
    series("sallyport_nodes", 1, "ready"),
    series("sallyport_sealed", 0),
    series("sallyport_nodes", 2, "down"),
  ];
  expect(
    written("prometheus", mixed, NOW)
      .split("\n")
      .filter((line) => !line.startsWith("# HELP")),
  ).toEqual([
    "# TYPE sallyport_sealed gauge",
    "sallyport_sealed 0",
    "# TYPE sallyport_nodes gauge",
    'sallyport_nodes{status="ready"} 1',
    'sallyport_nodes{status="down"} 2',
    "",
  ]);
});

it("cumulates histogram buckets; an observation at a bound counts below it", () => {
  const buckets = new Array<number>(BUCKETS.length + 1).fill(0);
  for (const seconds of [0.001, 0.005, 0.006, 7, 1_000])
    buckets[bucketOf(seconds)] = (buckets[bucketOf(seconds)] ?? 0) + 1;
  const text = written(
    "prometheus",
    [series("sallyport_http_request_duration_seconds", { buckets, sum: 1_007.012 }, "sync")],
    NOW,
  );
  const line = (le: string) =>
    new RegExp(`_bucket\\{area="sync",le="${le.replace(/[.+]/g, "\\$&")}"\\} (\\d+)`).exec(text)?.[1];
  expect([line("0.005"), line("0.01"), line("5.0"), line("10.0"), line("30.0"), line("+Inf")]).toEqual([
    "2",
    "3",
    "3",
    "4",
    "4",
    "5",
  ]);
  expect(text).toContain('_sum{area="sync"} 1007.012\n');
  expect(text).toContain('_count{area="sync"} 5\n');
});

it("JSON output has only finite numbers, also without observations", () => {
  const buckets = new Array<number>(BUCKETS.length + 1).fill(0);
  const empty = series("sallyport_http_request_duration_seconds", { buckets, sum: 0 }, "sync");
  expect(JSON.parse(written("json", [empty], NOW))).toMatchObject({
    Timestamp: "2026-11-21 10:00:00 +0000 UTC",
    Samples: [{ Count: 0, Mean: 0, Labels: { area: "sync" } }],
  });
});
