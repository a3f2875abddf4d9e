/**
 * Sides of the backup bench: deployments with much data of every kind, empty ones for restores, and the bare Worker.
 */
import { randomBytes } from "node:crypto";
import { createWriteStream, openAsBlob } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Deployment, startDeployment } from "./deployment.ts";
import { Server } from "./server.ts";
import { SECRET } from "./sides.ts";

/** Deployments under one master key, and with one root token, so that each can restore what another has saved. */
export class Deployments {
  readonly #dir: string;
  readonly #root: string | undefined;
  readonly #masterKey = randomBytes(32).toString("base64");
  readonly #token = randomBytes(16).toString("hex");
  #started = 0;

  /** @param root see `Plan` */
  constructor(dir: string, root?: string) {
    this.#dir = dir;
    this.#root = root;
  }

  start(): Promise<Deployment> {
    const vars = {
      MASTER_KEY: this.#masterKey,
      DEV_ROOT_TOKEN: this.#token,
      EVENT_BUFFER_LINES: "400000",
      EVENT_BUFFER_BYTES: "268435456",
    };
    const inspector = process.env["BENCH_INSPECTOR"];
    return startDeployment(join(this.#dir, `backup-${this.#started++}`), { vars, inspector, root: this.#root });
  }
}

/** Amounts of other data beside a number of secrets. */
export const dataOf = (secrets: number) => ({
  leases: secrets / 10,
  destinations: 3,
  associations: (secrets * 3) / 10,
  lines: secrets,
  /** Nodes, volumes and allocations, each. */
  rows: secrets / 10,
  /** Mounts without secrets. */
  mounts: secrets / 200,
});

export const SECRETS = "/v1/kv/data/";
const SECRETS_AT_ONCE = 5_000;
const LEASES_AT_ONCE = 5_000;
const LINES_AT_ONCE = 1_000;
const DAY_MS = 86_400_000;
const SCOPE = "/subscriptions/11111111-2222-3333-4444-555555555555";
const EVENT = {
  Topic: "Job",
  Type: "JobRegistered",
  Key: "web",
  Namespace: "default",
  FilterKeys: ["4f1c8c7e-8f4f-4b9c-9c53-0d7b2d0a9a11"],
  Payload: { Job: { ID: "web", Name: "web", Type: "service", Priority: 50, Status: "running", Datacenters: ["dc1"] } },
};

export async function fill({ ask }: Deployment, secrets: number): Promise<void> {
  const { leases, destinations, associations, lines, rows, mounts } = dataOf(secrets);
  await ask("PUT", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
  await ask("PUT", "/v1/sys/mounts/cloud", { type: "cloud-b" });
  for (let mount = 0; mount < mounts; mount++)
    await ask("PUT", `/v1/sys/mounts/other-${mount}`, { type: "kv", options: { version: "2" } });
  const mounted = JSON.parse(await ask("GET", "/v1/sys/mounts", undefined)) as {
    data: Record<string, { uuid: string }>;
  };
  const uuidOf = (mount: string): string => mounted.data[mount]?.uuid ?? "";

  const names = Array.from({ length: destinations }, (_, number) => `memory-${number}`);
  const of = associations / destinations;
  for (let from = 0; from < secrets; from += SECRETS_AT_ONCE) {
    const to = Math.min(secrets, from + SECRETS_AT_ONCE);
    const watchers = from < of ? names.map((name) => `in-mem/${name}`) : [];
    await ask("POST", "/bench/secrets", { uuid: uuidOf("kv/"), from, to, data: secretText, watchers });
  }
  for (const name of names) {
    const path = `/v1/sys/sync/destinations/in-mem/${name}`;
    await ask("PUT", path, {});
    await ask("PUT", `${path}/associations/set`, { mount: "kv", secret_name: "app/k000000" });
    await ask("POST", "/bench/associations", { destination: `in-mem/${name}`, rows: of });
  }
  for (let from = 0; from < leases; from += LEASES_AT_ONCE) {
    const times = { firstEnd: Date.now() + DAY_MS, lastEnd: Date.now() + 2 * DAY_MS };
    const range = { from, to: Math.min(leases, from + LEASES_AT_ONCE) };
    const fixed = { uuid: uuidOf("cloud/"), prefix: "creds/app/", scope: SCOPE, group: SCOPE };
    await ask("POST", "/bench/leases", { ...fixed, ...range, ...times });
  }
  for (let line = 0; line < lines; line += LINES_AT_ONCE)
    await ask("PUT", `/bench/append-more/${LINES_AT_ONCE}/?rare=0`, EVENT);
  await ask("POST", "/bench/cluster", { rows, perNode: 100, oneIn: 5 });
}

const secretText = JSON.stringify((JSON.parse(SECRET) as { data: unknown }).data);

/** A started snapshot: the objects have resumed, and it is being read. */
export interface Reading {
  /** Milliseconds until the first byte. */
  readonly begun: number;
  /** Resolves with the number of bytes. */
  readonly read: Promise<number>;
}

/** @param file the output; null: discarded */
export async function beginSnapshot({ server, token }: Deployment, file: string | null): Promise<Reading> {
  return beginReading(server, "/v1/sys/snapshot", token, file);
}

async function beginReading(server: Server, path: string, token: string, file: string | null): Promise<Reading> {
  const began = performance.now();
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers: { "X-Orch-Token": token } });
  if (response.status !== 200 || !response.body)
    throw new Error(`${path}: ${response.status} ${await response.text()}`);
  let bytes = 0;
  const { body } = response;
  const counted = async function* () {
    for await (const piece of body) {
      bytes += piece.length;
      yield piece;
    }
  };
  const nowhere = () => new Writable({ write: (_piece, _encoding, done) => done() });
  const read = pipeline(counted, file === null ? nowhere() : createWriteStream(file)).then(() => bytes);
  return { begun: performance.now() - began, read };
}

export interface Restored {
  readonly objects: number;
  readonly rows: number;
}

export async function restore({ server, token }: Deployment, file: string): Promise<Restored> {
  const response = await fetch(`http://127.0.0.1:${server.port}/v1/sys/snapshot`, {
    method: "POST",
    headers: { "X-Orch-Token": token },
    body: await openAsBlob(file),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`restore: ${response.status} ${text}`);
  return (JSON.parse(text) as { data: Restored }).data;
}

export interface BareDump {
  readonly server: Server;
  /** Fills a separate object with rows of a size. */
  readonly fill: (rows: number, bytes: number) => Promise<void>;
  readonly begin: () => Promise<Reading>;
}

/** @param name distinguishes bare Workers of one run */
export async function startBareDump(dir: string, name: string): Promise<BareDump> {
  const plan = { name: "bare", config: "bench/bare/wrangler.toml", main: "bench/bare/worker.mts", vars: {} };
  const server = await Server.start(plan, join(dir, `backup-bare-${name}`));
  return {
    server,
    fill: async (rows, bytes) => {
      const url = `http://127.0.0.1:${server.port}/fill/dump?keys=${rows}`;
      const response = await fetch(url, { method: "POST", body: "x".repeat(bytes) });
      if (!response.ok) throw new Error(`bare: ${response.status} ${await response.text()}`);
    },
    begin: () => beginReading(server, "/dump", "none", null),
  };
}
