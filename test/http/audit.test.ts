import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { unstable_startWorker } from "wrangler";
import { withBucket } from "../../scripts/bucket.ts";
import { QUIET_WRANGLER } from "../../scripts/runtime.ts";
import { LogIntake } from "../doubles/log-intake.ts";
import { cli } from "./cli-program.ts";

/*
 * Each request runs in a context of its own. A batch with its line may be written by another request, whose caller may
 * disconnect. That happens only with real connections.
 */

const dir = mkdtempSync(join(tmpdir(), "sallyport-audit-"));
let worker: Awaited<ReturnType<typeof unstable_startWorker>>;
let base = "";

/** The configuration with a sink: the existing bucket under another binding. */
function configuration(): string {
  const sink = '[[r2_buckets]]\nbinding = "AUDIT_BUCKET"\nbucket_name = "sallyport-files"\n';
  const config = readFileSync("wrangler.toml", "utf8")
    .replace('main = "src', `main = "${resolve("src")}`)
    .replaceAll('= "./src/', `= "${resolve("src")}/`)
    .replace('directory = "build/assets"', `directory = "${resolve("build/assets")}"`);
  const path = join(dir, "wrangler.toml");
  writeFileSync(path, `${config}\n${sink}`);
  return path;
}

const intake = new LogIntake("generic", "canary-token");
const secret = (value: string) => ({ type: "secret_text", value }) as const;

beforeAll(async () => {
  Object.assign(process.env, QUIET_WRANGLER);
  await intake.start();
  worker = await unstable_startWorker({
    config: configuration(),
    bindings: {
      MASTER_KEY: secret(Buffer.from("audit-tests-use-this-master-key!").toString("base64")),
      DEV_ROOT_TOKEN: secret("root"),
      AUDIT_HTTP_URL: secret(intake.url),
      AUDIT_HTTP_TOKEN: secret("canary-token"),
    },
    dev: { server: { hostname: "127.0.0.1", port: 0 }, inspector: false, persist: dir, watch: false, logLevel: "none" },
  });
  base = (await worker.url).origin;
}, 300_000);

afterAll(async () => {
  await intake.close();
  rmSync(dir, { recursive: true, force: true });
});

const mounts = () => fetch(`${base}/v1/sys/mounts`, { headers: { "X-Orch-Token": "root" } });

it("a service over HTTP that refuses lines for a moment delays requests, and one that is down refuses them", async () => {
  intake.faults.push({ status: 503 }, { status: 429 });
  expect((await mounts()).status).toBe(200);
  expect(intake.faults).toEqual([]);
  await intake.close();
  const refused = await mounts();
  expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining("audit log cannot be written")]);
  await intake.start(Number(new URL(intake.url).port));
  expect((await mounts()).status).toBe(200);
}, 300_000);

/** @returns the id of the request, null when it got no answer */
async function ask(signal = AbortSignal.timeout(240_000)): Promise<string | null> {
  try {
    const answer = await fetch(`${base}/v1/sys/mounts`, { headers: { "X-Orch-Token": "root" }, signal });
    expect(answer.status).toBe(200);
    return ((await answer.json()) as { request_id: string }).request_id;
  } catch (failure) {
    if ((failure as Error).name === "AbortError") return null;
    throw failure;
  }
}

it("doctor --deep finds the lines of its checks in the bucket", async () => {
  const { out } = await cli(["doctor", "--deep", "--json"], { VAULT_ADDR: base, VAULT_TOKEN: "root" });
  const { findings } = JSON.parse(out) as { findings: { check: string; status: string; message: string }[] };
  expect(findings.find(({ check }) => check === "audit bucket")).toMatchObject({ status: "ok" });
}, 300_000);

it("every answered request has a line in the bucket, under concurrency and with clients that hang up", async () => {
  const staying = Array.from({ length: 200 }, () => ask());
  const leaving = Array.from({ length: 100 }, (_, at) => {
    const caller = new AbortController();
    setTimeout(() => caller.abort(), at * 5);
    return ask(caller.signal);
  });
  const [stayed, left] = await Promise.all([Promise.all(staying), Promise.all(leaving)]);
  expect(left).toContain(null);
  // Actions of the service itself are audited, too.
  const made = await fetch(`${base}/v1/auth/token/create`, {
    method: "POST",
    headers: { "X-Orch-Token": "root" },
    body: '{"ttl":"1s"}',
  });
  const { accessor } = ((await made.json()) as { auth: { accessor: string } }).auth;
  // The requests that wrote these batches are over; the next ones do not wait for them.
  const next = await Promise.all(Array.from({ length: 20 }, () => ask()));
  const wanted = [...stayed, ...left, ...next].filter((id) => id !== null);
  // Its line is an action's, which no request waits for; the lines of answers before it are stored by then, too.
  const ended = `${base}/v1/sys/audit/lines?kind=action&text=${accessor}`;
  const found = async () => (await fetch(ended, { headers: { "X-Orch-Token": "root" } })).text();
  await expect.poll(found, { interval: 500 }).toContain("token-expired");
  await worker.dispose();

  const texts = await withBucket(dir, async (bucket) => {
    const { objects } = await bucket.list();
    return Promise.all(objects.map(async ({ key }) => (await bucket.get(key))?.text() ?? ""));
  });
  const lines = texts.flatMap((text) => text.trimEnd().split("\n")).map((line) => JSON.parse(line));
  expect(lines).toContainEqual(expect.objectContaining({ kind: "action", event: "token-expired", accessor }));
  const ids = (kind: string) => new Set(lines.filter((line) => line.kind === kind).map((line) => line.requestId));
  const [requests, answers] = [ids("request"), ids("answer")];
  expect(wanted.filter((id) => !requests.has(id))).toEqual([]);
  expect(wanted.filter((id) => !answers.has(id))).toEqual([]);
  expect(texts.length).toBeLessThan(lines.length / 3);
  // Every sink has every line.
  expect(intake.refusals).toEqual([]);
  const sent = new Set(intake.lines.map((line) => `${line["kind"]} ${line["requestId"]}`));
  for (const id of wanted) expect([id, sent.has(`request ${id}`), sent.has(`answer ${id}`)]).toEqual([id, true, true]);
}, 300_000);
