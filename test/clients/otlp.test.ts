import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Received, startOtlpReceiver } from "../doubles/otlp-receiver.ts";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";

/** Exports of `npm start` by OpenTelemetry, parsed by the official protos of the package opentelemetry-proto. */

const PACKAGE = "opentelemetry-proto==1.45.2";
const INSTALL_MS = 240_000;
/** Counts reach the object after 15 s, and it exports a minute later. */
const METRICS_MS = 240_000;

const dir = mkdtempSync(join(tmpdir(), "sallyport-otlp-"));
const missing = process.env["LONG_TESTS"] === "1" ? install() : "npm run test:long tries it";
if (missing !== null) console.warn(`The official protos of OpenTelemetry are not tried: ${missing}.`);

function install(): string | null {
  const made = spawnSync("python3", ["-m", "venv", dir]);
  if (made.error || made.status !== 0) return "there is no python3 with venv";
  const options = { timeout: INSTALL_MS };
  const installed = spawnSync(join(dir, "bin/pip"), ["install", "--quiet", "--retries", "0", PACKAGE], options);
  return installed.status === 0 ? null : `pip cannot install ${PACKAGE}`;
}

afterAll(() => rmSync(dir, { recursive: true, force: true }));

let checkout: string;
let service: LocalService;
let collector: Awaited<ReturnType<typeof startOtlpReceiver>>;

beforeAll(async () => {
  if (missing !== null) return;
  collector = await startOtlpReceiver();
  checkout = cloneOfWorkingTree();
  service = await new LocalService(checkout, await freePort(), { OTLP_URL: collector.url }).ready();
});

afterAll(async () => {
  if (missing !== null) return;
  service.signal("SIGINT");
  await service.exit;
  await collector.close();
  remove(checkout);
});

it.runIf(missing === null)("traces and metrics of npm start are parsed by the official protos", async () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const answer = await fetch(`${service.baseUrl}/v1/sys/health`, { headers: { traceparent } });
  expect(answer.status).toBe(200);
  const received = async () =>
    (await (await fetch(`${collector.url}/_double/received`)).json()) as (Received & { problem: string | null })[];
  const paths = async () => [...new Set((await received()).map(({ path }) => path))].sort();
  await expect.poll(paths, { timeout: METRICS_MS }).toEqual(["/v1/metrics", "/v1/traces"]);
  const all = await received();
  expect(all.map(({ problem }) => problem)).toEqual(all.map(() => null));
  const files = all.map(({ path, body }, at) => {
    const file = join(dir, `request-${at}`);
    writeFileSync(file, `${path} ${JSON.stringify(body)}`);
    return file;
  });
  const args = [resolve("test/clients/otlp_parse.py"), ...files];
  const parsed = spawnSync(join(dir, "bin/python"), args, { encoding: "utf8" });
  expect(parsed.status, parsed.stderr).toBe(0);
  expect(parsed.stdout.trim().split("\n").sort()).toEqual(all.map(({ path }) => `${path} True`).sort());
});
