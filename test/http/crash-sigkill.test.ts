import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Runtime } from "../../scripts/runtime.ts";
import { randomFrom } from "../crash/random.ts";
import { type CloudADouble, defaultKey, startCloudA } from "../doubles/cloud-a-sm/server.ts";
import { type DeployProjectDouble, startDeployProject } from "../doubles/deploy-project/api.ts";
import { amount } from "../support/long.ts";
import { prepareService } from "./prepared-service.ts";

/** Kills the whole runtime, a tree of processes on persistent state, repeatedly during writes. */
const KILLS = amount(3, 12);
const DESTINATIONS = ["cloud-a-sm/d", "deploy-project/p", "in-mem/m"];
/** The lease of a dead Worker expires after a minute; everything else takes seconds. */
const CONVERGE_MS = 90_000;
const seed = Number(process.env["CRASH_SEED"] ?? Date.now() % 1_000_000);
const random = randomFrom(seed);

const dataDir = mkdtempSync(join(tmpdir(), "sallyport-sigkill-"));
const builtDir = join(dataDir, "runtime");
let double: CloudADouble;
let project: DeployProjectDouble;
let child: Runtime | undefined;
let base = "";

async function start(): Promise<void> {
  child = new Runtime(builtDir, "ignore");
  const message = {
    dataDir,
    builtDir,
    log: false,
    bindings: {
      MASTER_KEY: Buffer.from("sigkill-tests-use-this-master-k!").toString("base64"),
      DEV_ROOT_TOKEN: "root",
      EVENT_HEARTBEAT_MS: "300",
      CLOUD_A_SM_URL: double.url,
      DEPLOY_PROJECT_URL: project.url,
    },
  };
  base = await child.serve(message, AbortSignal.timeout(120_000));
}

/** Sends SIGKILL to every process of the runtime at once, so that none shuts down cleanly. */
async function kill(): Promise<void> {
  const runtime = child;
  child = undefined;
  await runtime?.kill();
}

/** Null without an answer, or with one that confirms nothing. */
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
async function call(method: string, path: string, body?: unknown): Promise<any> {
  try {
    const answer = await fetch(base + path, {
      method,
      headers: { "X-Orch-Token": "root", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return answer.ok ? (text === "" ? {} : JSON.parse(text)) : null;
  } catch {
    return null;
  }
}

async function must(method: string, path: string, body?: unknown) {
  const answer = await call(method, path, body);
  if (answer === null) throw new Error(`${method} ${path} was not answered`);
  return answer;
}

async function until(check: () => Promise<void>, ms: number): Promise<void> {
  for (const end = Date.now() + ms; ; ) {
    try {
      return await check();
    } catch (failure) {
      if (Date.now() > end) throw failure;
      await sleep(250);
    }
  }
}

/** The writes: every value that was sent, and the values that answers confirmed. */
const sent = new Map<string, Set<string>>();
const promised = new Map<string, Map<number, string>>();
const associations = new Set<string>();
/** Removals that were sent: the outcome of an unanswered one is unknown. */
const removals = { sent: new Set<string>(), promised: new Set<string>() };
const purges = { sent: new Set<string>(), promised: new Set<string>() };
const policies = { sent: new Set<string>(), promised: new Set<string>() };
let answers = 0;
let counter = 0;

async function writeSecret(secret: string): Promise<void> {
  const value = `${secret} ${++counter}`;
  const values = sent.get(secret) ?? new Set();
  sent.set(secret, values.add(value));
  const answer = await call("POST", `/v1/kv/data/${secret}`, { data: { value } });
  if (answer === null) return;
  promised.set(secret, (promised.get(secret) ?? new Map()).set(answer.data.version, value));
  answers++;
}

async function writeSecrets(secret: string, running: () => boolean): Promise<void> {
  while (running()) await writeSecret(secret);
}

/** A secret without a lease of a dead Worker: written, associated and pushed during further writes. */
async function associate(secret: string, running: () => boolean): Promise<void> {
  await writeSecret(secret);
  const sets = DESTINATIONS.map(async (destination) => {
    const body = { mount: "kv", secret_name: secret };
    const answer = await call("POST", `/sys/sync/destinations/${destination}/associations/set`, body);
    if (answer !== null) associations.add(`${destination} ${secret}`);
  });
  await Promise.all([...sets, writeSecrets(secret, running)]);
}

/** Removes an association of an earlier round at one destination. */
async function dissociate(secret: string): Promise<void> {
  const destination = DESTINATIONS[Math.floor(random() * DESTINATIONS.length)];
  const association = `${destination} ${secret}`;
  removals.sent.add(association);
  const body = { mount: "kv", secret_name: secret };
  const answer = await call("POST", `/sys/sync/destinations/${destination}/associations/remove`, body);
  if (answer !== null) removals.promised.add(association);
}

const { accessKeyId: access_key_id, secretAccessKey: secret_access_key } = defaultKey;
const cloudA = { access_key_id, secret_access_key, region: "eu-west-1" };

/** Purges a separate destination with existing secrets. */
async function fillAndPurge(name: string): Promise<void> {
  const path = `/sys/sync/destinations/cloud-a-sm/${name}`;
  await call("POST", path, { ...cloudA, secret_name_template: `${name}/{{ .SecretPath }}` });
  for (const secret of ["shared", ...sent.keys()].slice(0, 4)) {
    await call("POST", `${path}/associations/set`, { mount: "kv", secret_name: secret });
  }
  purges.sent.add(name);
  if ((await call("DELETE", `${path}?purge=true`)) !== null) purges.promised.add(name);
}

async function writePolicies(running: () => boolean): Promise<void> {
  while (running()) {
    const name = `p${++counter}`;
    policies.sent.add(name);
    const answer = await call("PUT", `/v1/sys/policies/acl/${name}`, {
      policy: 'path "x" { capabilities = ["read"] }',
    });
    if (answer === null) continue;
    policies.promised.add(name);
    answers++;
  }
}

/** Confirmed writes exist exactly once; unconfirmed ones completely or not at all. */
async function checkSecrets(): Promise<void> {
  for (const secret of sent.keys()) {
    const { data } = (await call("GET", `/v1/kv/metadata/${secret}`)) ?? { data: { versions: {}, current_version: 0 } };
    const versions = Object.keys(data.versions).map(Number);
    expect(versions, secret).toEqual(versions.map((_, position) => position + 1));
    expect(data.current_version).toBe(versions.length);
    const values = await Promise.all(
      versions.map(async (version) => (await must("GET", `/v1/kv/data/${secret}?version=${version}`)).data.data.value),
    );
    expect(new Set(values).size, `${secret} holds a write twice`).toBe(values.length);
    for (const value of values) expect(sent.get(secret)?.has(value), value).toBe(true);
    for (const [version, value] of promised.get(secret) ?? []) expect(values[version - 1]).toBe(value);
  }
}

async function readStream(): Promise<{ index: number; key: string }[]> {
  const answer = await fetch(`${base}/v1/event/stream?topic=*&index=0`, {
    headers: { "X-Orch-Token": "root" },
  });
  const seen: { index: number; key: string }[] = [];
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of answer.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    const complete = text.split("\n");
    text = complete.pop() ?? "";
    for (const line of complete) {
      const { Events: events = [] } = JSON.parse(line);
      // A heartbeat follows the backlog.
      if (events.length === 0) return seen;
      for (const event of events) seen.push({ index: event.Index, key: event.Key });
    }
  }
  return seen;
}

async function checkEvents(): Promise<void> {
  const seen = await readStream();
  expect(seen.map(({ index }) => index)).toEqual(seen.map((_, position) => position + 1));
  const keys = seen.map(({ key }) => key);
  expect(new Set(keys).size, "an event was sent twice").toBe(keys.length);
  for (const name of policies.promised) expect(keys).toContain(name);
  for (const key of keys) expect(policies.sent.has(key), key).toBe(true);
}

/** The moments sweep the write path: just after the first request, on an answer, on a provider call, and times between. */
async function momentToDie(round: number): Promise<void> {
  const answered = answers;
  const called = double.requests().length;
  const limit = Date.now() + 3_000;
  const reached = async (happened: () => boolean) => {
    while (!happened() && Date.now() < limit) await sleep(1);
  };
  if (round % 4 === 1) await reached(() => answers > answered);
  if (round % 4 === 2) await reached(() => double.requests().length > called);
  if (round % 4 === 3) await reached(() => double.requests().length > called + 3 && answers > answered + 3);
  await sleep(round % 4 === 0 ? (round / 4) * 25 + random() * 20 : random() * 15);
}

/** Remote objects match the associations: newest values, no removed one, and no orphans. */
async function checkDestinations(): Promise<void> {
  const stored = (await must("GET", "/sys/sync/destinations/in-mem/m/objects")).data.objects;
  const outside: Record<string, [string, unknown][]> = {
    "in-mem": Object.entries<{ value: string }>(stored).map(([name, { value }]) => [name, value]),
    "cloud-a-sm": double.secrets().map(({ name, value }) => [name, value]),
    "deploy-project": project.secrets().map(({ key, value }) => [key, value]),
  };
  const expected: Record<string, [string, unknown][]> = { "in-mem": [], "cloud-a-sm": [], "deploy-project": [] };
  const purged = [...purges.sent].map((name) => `cloud-a-sm/${name}`);
  for (const destination of [...DESTINATIONS, ...purged]) {
    const answer = await call("GET", `/sys/sync/destinations/${destination}/associations`);
    if (answer === null) {
      expect(purged).toContain(destination);
      continue;
    }
    expect(purges.promised.has(destination.split("/")[1] ?? ""), `${destination} is still there`).toBe(false);
    const there: Association[] = Object.values(answer.data.associated_secrets);
    const ids = there.map(({ secret_name }) => `${destination} ${secret_name}`);
    for (const id of associations) {
      if (id.startsWith(`${destination} `) && !removals.sent.has(id)) expect(ids).toContain(id);
    }
    for (const id of removals.promised) expect(ids).not.toContain(id);
    for (const { secret_name: secret, sync_status, external_name } of there) {
      expect(sync_status, `${destination} ${secret}`).toBe("SYNCED");
      const newest = JSON.stringify((await must("GET", `/v1/kv/data/${secret}`)).data.data);
      expected[destination.split("/")[0] ?? ""]?.push([external_name, newest]);
    }
  }
  for (const [type, objects] of Object.entries(outside)) {
    expect(objects.sort(), type).toEqual(expected[type]?.sort());
  }
}

interface Association {
  readonly secret_name: string;
  readonly sync_status: string;
  readonly external_name: string;
}

beforeAll(async () => {
  double = await startCloudA({ regions: ["eu-west-1"], maxVersions: 100_000 });
  project = await startDeployProject();
  await prepareService(builtDir, dataDir);
  await start();
  await must("POST", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
  await must("POST", "/v1/kv/config", { max_versions: 10_000 });
  await must("POST", "/sys/sync/destinations/cloud-a-sm/d", cloudA);
  await must("POST", "/sys/sync/destinations/deploy-project/p", {
    access_token: project.account.accessToken,
    project_id: project.account.projectId,
    deployment_environments: ["production"],
    granularity: "secret-path",
  });
  await must("POST", "/sys/sync/destinations/in-mem/m", {});
  await associate("shared", () => false);
}, 300_000);

afterAll(async () => {
  await kill();
  await Promise.all([double?.close(), project?.close()]);
  rmSync(dataDir, { recursive: true, force: true });
});

it("keeps every acknowledged write and repeats no effect when all its processes are killed repeatedly", async () => {
  for (let round = 0; round < KILLS; round++) {
    if (!child) await start();
    let running = true;
    if (random() < 0.5) double.fault({ fault: "apply-then-drop", count: 2 });
    if (random() < 0.5) double.fault({ fault: "delay", ms: Math.round(random() * 400), count: 2 });
    if (random() < 0.5) project.fault({ fault: "apply-then-drop", count: 2 });
    const going = () => running;
    const writers = [writeSecrets("shared", going), associate(`round/${round}`, going), writePolicies(going)];
    if (round > 1) writers.push(dissociate(`round/${round - 2}`));
    if (round % 3 === 0) writers.push(fillAndPurge(`purge-${round}`));
    if (round === 0) await until(async () => expect(policies.promised.size).toBeGreaterThan(0), 60_000);
    await momentToDie(round);
    running = false;
    await kill();
    await Promise.all(writers);
  }
  double.clearFaults();
  project.clearFaults();
  await start();
  await checkSecrets();
  // Without another write: alarms alone bring the events to the stream and the newest versions to the destinations.
  await until(checkEvents, 90_000);
  const killed = Date.now();
  await until(checkDestinations, CONVERGE_MS);
  await checkSecrets();
  const count = (each: Map<string, { size: number }>) => [...each.values()].reduce((sum, { size }) => sum + size, 0);
  console.info(
    `sigkill: seed ${seed}, ${KILLS} kills, ${count(sent)} secret writes sent and ${count(promised)} promised, ` +
      `${policies.sent.size} policies sent and ${policies.promised.size} promised, ` +
      `${associations.size} associations, ${removals.promised.size} removed, ${purges.promised.size} purges, ${double.requests().length} provider calls, at rest after ${((Date.now() - killed) / 1000).toFixed(0)} s`,
  );
  expect(count(promised)).toBeGreaterThan(0);
  expect(policies.promised.size).toBeGreaterThan(0);
}, 600_000);
