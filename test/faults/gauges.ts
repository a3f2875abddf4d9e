import { type Client, isSuccess } from "./client.ts";

/** Gauges that are 0 once the service is idle. The service keeps these counters beside the rows that they count. */
const NONE_LEFT = [
  "sallyport_sync_pending",
  "sallyport_engine_jobs",
  "sallyport_volume_operations",
  "sallyport_volume_claims",
  "sallyport_csi_claims",
  "sallyport_outbox_rows",
  "sallyport_scrape_errors",
];

/** Health values of the service that differ from those of a healthy one. */
export async function unwell(client: Client): Promise<string[]> {
  const health = await client.call("GET", "/v1/sys/health");
  if (health?.status !== 200) return [`health is ${health?.status}: ${health?.text}`];
  const { failing, degraded } = health.body;
  const scraped = await client.call("GET", "/v1/metrics?format=prometheus");
  if (!isSuccess(scraped)) return [`metrics cannot be read: ${scraped?.status}`];
  const sums = sumsOf(scraped.text);
  const [hostVolumes, csiVolumes] = await Promise.all(
    ["host", "csi"].map(async (type) => (await client.must("GET", `/v1/volumes?type=${type}&namespace=*`)).body.length),
  );
  const should = new Map<string, number>([
    ...NONE_LEFT.map((name) => [name, 0] as const),
    ["sallyport_host_volumes", hostVolumes],
    ["sallyport_csi_volumes", csiVolumes],
  ]);
  return [
    ...[...failing, ...degraded].map((part: string) => `health: ${part} is not ok`),
    ...[...should]
      .filter(([name, value]) => (sums.get(name) ?? 0) !== value)
      .map(([name, value]) => `${name} is ${sums.get(name)}, not ${value}`),
  ];
}

/** The sums over all labels. */
function sumsOf(text: string): Map<string, number> {
  const sums = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, name, value] = /^(\w+)(?:\{.*\})? (\S+)$/.exec(line) ?? [];
    if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + Number(value));
  }
  return sums;
}
