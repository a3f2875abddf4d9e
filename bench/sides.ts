/** The two things compared, and how each is asked for the same: the service with its rights and promises, and the bare Worker. */
import { join } from "node:path";
import { startDeployment } from "./deployment.ts";
import { Server } from "./server.ts";

export interface Side {
  readonly name: "ours" | "ours without replicas" | "bare";
  readonly server: Server;
  readonly token: string;
  /** Where the keys of a set live; a key's name is appended. */
  readonly keys: (set: KeySet) => string;
  /** Requests whose cost is that of the layer around a route. */
  readonly layer: Readonly<
    Record<"noObject" | "oneObject", { readonly method: "GET" | "OPTIONS"; readonly path: string }>
  >;
  /** A faster way than the API to write the keys of a set, if there is one. */
  readonly fill?: (set: KeySet, keys: number) => Promise<void>;
  /** Calls so far by which requests reached the owners of grants and secrets; only of ours. */
  readonly ownerCalls?: () => Promise<number>;
  readonly stream: string;
  readonly publish: { readonly path: string; readonly body: string };
  /** A request that makes so many lines durable, for any path below. */
  readonly append: (lines: number) => { readonly path: string; readonly body: string };
  /** Writes the lines that are replayed, `atOnce` at a time; one in `oneIn` is for a filtered reader. */
  readonly backlog: (lines: number, oneIn: number, atOnce: number) => Promise<void>;
  readonly access: AccessRequests;
  /** Where the newest `lines` lines are read from their first on. */
  readonly replay: (lines: number, filtered: boolean) => string;
}

/** Requests that change rights, and one that writes audit lines. */
export interface AccessRequests {
  readonly token: string;
  readonly policy: Written & { readonly stream: string };
  readonly created: Written;
  readonly audit: (lines: number) => Written;
}
interface Written {
  readonly path: string;
  readonly body: string;
}

export const KEY_SETS = ["small", "middle", "large"] as const;
export type KeySet = (typeof KEY_SETS)[number];

/** The written value: a secret of ordinary size. */
export const SECRET = JSON.stringify({
  data: {
    username: "app",
    password: "0123456789abcdef0123456789abcdef",
    url: "postgres://db.internal.example:5432/app",
  },
});

const EVENT = {
  Topic: "Job",
  Type: "JobRegistered",
  Key: "web",
  Namespace: "default",
  FilterKeys: ["4f1c8c7e-8f4f-4b9c-9c53-0d7b2d0a9a11"],
  Payload: {
    Job: { ID: "web", Name: "web", Type: "service", Priority: 50, Status: "running", Datacenters: ["dc1", "dc2"] },
  },
};
/** A line as the service sends it, for the bare Worker to send as it is. */
const LINE = JSON.stringify({
  Index: 10_000,
  Events: [{ ...EVENT, Index: 10_000 }],
});

const POLICY = 'path "+/data/app/*" { capabilities = ["create", "update", "read"] }';

export async function startBare(dir: string): Promise<Side> {
  const plan = { name: "bare", config: "bench/bare/wrangler.toml", main: "bench/bare/worker.mts", vars: {} };
  const server = await Server.start(plan, join(dir, "bare"));
  return {
    name: "bare",
    server,
    token: "none",
    keys: (set) => `/rows/${set}/`,
    layer: {
      noObject: { method: "OPTIONS", path: "/none" },
      oneObject: { method: "GET", path: "/rows/small/app/k000000" },
    },
    fill: async (set, keys) => {
      const url = `http://127.0.0.1:${server.port}/fill/${set}?keys=${keys}`;
      const response = await fetch(url, { method: "POST", body: SECRET });
      if (!response.ok) throw new Error(`bare: ${response.status} ${await response.text()}`);
    },
    stream: "/stream",
    publish: { path: "/publish", body: LINE },
    append: (lines) => ({ path: `/append/${lines}/`, body: JSON.stringify({ line: LINE }) }),
    backlog: async (lines) => {
      const response = await fetch(`http://127.0.0.1:${server.port}/fill/backlog?keys=${lines}`, {
        method: "POST",
        body: LINE,
      });
      if (!response.ok) throw new Error(`bare: ${response.status} ${await response.text()}`);
    },
    access: {
      token: "none",
      policy: { path: "/changed/policies", body: LINE, stream: "/stream" },
      created: { path: "/rows/tokens/t", body: JSON.stringify({ policies: ["app"] }) },
      audit: (lines) => ({ path: `/lines/${lines}`, body: "{}" }),
    },
    replay: () => "/replay",
  };
}

/** @param replicas of each place; 0 = Workers ask the owners; @param checkout see `root` of `Plan` */
export async function startOurs(dir: string, replicas = 1, checkout?: string): Promise<Side> {
  const vars = {
    // No heartbeat among the lines that are counted.
    EVENT_HEARTBEAT_MS: "600000",
    EVENT_RELAYS: process.env["BENCH_RELAYS"] ?? "0",
    READ_REPLICAS: String(replicas),
    EVENT_BUFFER_LINES: "400000",
    EVENT_BUFFER_BYTES: "268435456",
  };
  const name = replicas === 0 ? "ours without replicas" : "ours";
  const inspector = replicas === 0 ? undefined : process.env["BENCH_INSPECTOR"];
  const { server, token: root, ask } = await startDeployment(join(dir, name), { vars, inspector, root: checkout });
  for (const set of KEY_SETS) await ask("PUT", `/v1/sys/mounts/${set}`, { type: "kv", options: { version: "2" } });
  await ask("PUT", "/v1/sys/policies/acl/app", { policy: `${POLICY}\nnamespace "default" { policy = "read" }` });
  const created = JSON.parse(await ask("PUT", "/v1/auth/token/create", { policies: ["app"] })) as {
    auth: { client_token: string };
  };
  let newest = 0;
  return {
    name,
    server,
    ownerCalls: async () => (JSON.parse(await ask("POST", "/bench/owner-calls", {})) as { count: number }).count,
    token: created.auth.client_token,
    keys: (set) => `/v1/${set}/data/`,
    layer: {
      noObject: { method: "OPTIONS", path: "/v1/sys/mounts" },
      oneObject: { method: "GET", path: "/v1/auth/token/lookup-self" },
    },
    stream: "/v1/event/stream?topic=Job&index=-1",
    publish: { path: "/bench/append", body: JSON.stringify(EVENT) },
    append: (lines) => ({ path: `/bench/append-more/${lines}/`, body: JSON.stringify(EVENT) }),
    backlog: async (lines, oneIn, atOnce) => {
      for (let done = 0; done < lines; done += atOnce) {
        const path = `/bench/append-more/${atOnce}/?rare=${oneIn}`;
        const answer = await ask("PUT", path, EVENT);
        newest = (JSON.parse(answer) as { newest: number }).newest;
      }
    },
    access: {
      token: root,
      policy: {
        path: "/v1/acl/policy/bench",
        body: JSON.stringify({ Name: "bench", Description: "of the bench", Rules: 'node { policy = "read" }' }),
        stream: "/v1/event/stream?topic=ACLPolicy&index=-1",
      },
      created: { path: "/v1/auth/token/create", body: JSON.stringify({ policies: ["app"] }) },
      audit: (lines) => ({ path: `/bench/audit/${lines}`, body: "{}" }),
    },
    replay: (lines, filtered) => `/v1/event/stream?topic=Job${filtered ? ":rare" : ""}&index=${newest - lines + 1}`,
  };
}
