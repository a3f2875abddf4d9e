import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Api, ApiError } from "../api.ts";
import { textOf } from "../command.ts";
import { deepAgent } from "./deep-agent.ts";
import { deepReplicas } from "./deep-replicas.ts";
import { type Finding, findings } from "./finding.ts";
import { firstMessage } from "./socket.ts";
import type { DeepApi, Trial } from "./trial.ts";

/**
 * Checks that write: each kind of object, the database, the queue, an alarm, a stream and a socket do real work, with
 * objects of a random name that are removed afterwards. They cost about a hundred requests, and need a root token.
 */

type Outcome = string | Finding;
interface DeepCheck {
  readonly check: string;
  /** The classes of objects that do the work. */
  readonly objects: readonly string[];
  /** A step for the operator when it fails. */
  readonly action: string;
  run(trial: Trial): Promise<Outcome>;
}

const QUICK_MS = 15_000;
/** A queue may deliver after a minute, and an alarm may be late. */
const SLOW_MS = 90_000;

/** Resolves when `is` returns a text. @throws Error with the last state after `ms` */
export async function eventually(ms: number, what: string, is: () => Promise<string | null>): Promise<string> {
  for (const end = Date.now() + ms; ; await sleep(300)) {
    const found = await is();
    if (found !== null) return found;
    if (Date.now() > end) throw new Error(`${what} in ${ms / 1000} s`);
  }
}

const since = (start: number): string => `after ${((Date.now() - start) / 1000).toFixed(1)} s`;

const secrets: DeepCheck = {
  check: "secrets",
  objects: ["AccessControl", "KvStore"],
  action: "objects KvStore and ReadReplica: see the service's log",
  async run({ api, name, undo }) {
    undo(() => api.call("DELETE", `sys/mounts/${name}`));
    await api.write(`sys/mounts/${name}`, { type: "kv", options: { version: "2" } });
    for (const value of ["one", "two"]) {
      await api.write(`${name}/data/app`, { data: { value } });
      const read = (await api.fields(`${name}/data/app`))?.["data"]?.value;
      if (read !== value) throw new Error("a read after a write has the value before it");
    }
    return "two versions written and read at once";
  },
};

const lists: DeepCheck = {
  check: "lists",
  objects: [],
  action: "the D1 binding LISTINGS and its migrations: docs/operate/deploy.md",
  run: ({ api, name }) =>
    eventually(QUICK_MS, "the list does not have the secret", async () =>
      (await api.list(`${name}/metadata/`)).includes("app") ? "the database lists the secret" : null,
    ),
};

const replicas: DeepCheck = {
  check: "replicas",
  objects: ["ReadReplica"],
  action: "objects ReadReplica: replica-failed and invalidation-failed in the service's log",
  run: deepReplicas,
};

const pushes: DeepCheck = {
  check: "queue",
  objects: ["SyncControl", "SyncDestination"],
  action: "the queue of SYNC_WORK and its consumer: npx wrangler queues info",
  async run({ api, name, undo }) {
    const at = `sys/sync/destinations/in-mem/${name}`;
    undo(() => api.call("DELETE", at, { query: { purge: "true" } }));
    await api.write(at, {});
    await api.write(`${at}/associations/set`, { mount: name, secret_name: "app" });
    // The association is pushed by its request, the next version through the queue.
    const start = Date.now();
    await api.write(`${name}/data/app`, { data: { value: "three" } });
    return eventually(SLOW_MS, "the new version is not pushed", async () => {
      const { associated_secrets: all = {} } = (await api.fields(`${at}/associations`)) ?? {};
      const [row] = Object.values(all as Record<string, { sync_status?: string; synced_version?: number }>);
      return row?.sync_status === "SYNCED" && (row.synced_version ?? 0) >= 3
        ? `pushed a version ${since(start)}`
        : null;
    });
  },
};

const streams: DeepCheck = {
  check: "event stream",
  objects: ["EventLog", "EventRelay"],
  action: "objects EventLog and EventRelay; an intermediary may buffer: docs/operate/deploy.md#to-verify",
  async run({ api, name, undo }) {
    undo(() => api.call("DELETE", `acl/policy/${name}`, { accept: [404] }));
    const line = lineWith(api, "ACLPolicy", QUICK_MS, (event) => event["Key"] === name);
    const start = Date.now();
    await sleep(500);
    await api.write(`acl/policy/${name}`, { Rules: 'agent { policy = "read" }' });
    await line;
    return `an event arrived ${since(start)}`;
  },
};

const alarms: DeepCheck = {
  check: "alarm",
  objects: ["AccessControl"],
  action: "alarms of objects: the metric sallyport_alarm_lag_seconds names the object",
  async run({ api }) {
    const { text } = await api.call("POST", "auth/token/create-orphan", {
      body: JSON.stringify({ policies: ["default"], ttl: "2s", num_uses: 1 }),
    });
    const { accessor } = JSON.parse(text).auth as { accessor: string };
    const start = Date.now();
    await lineWith(
      api,
      "ACLToken",
      SLOW_MS,
      ({ Type, Key, Payload }) => Type === "ACLTokenDeleted" && JSON.stringify([Key, Payload]).includes(accessor),
    );
    return `a token of 2 s was deleted ${since(start)}`;
  },
};

const sockets: DeepCheck = {
  check: "socket",
  objects: ["EventLog"],
  action: "an intermediary must pass WebSocket upgrades",
  async run({ api, address, token, name }) {
    const url = new URL("v1/sys/events/subscribe/kv-v2/data-write?json=true", address.href.replace(/\/?$/, "/"));
    const message = firstMessage(url, { "X-Vault-Token": token }, QUICK_MS);
    const failed = message.catch((failure: unknown) => failure);
    await sleep(1000);
    await api.write(`${name}/data/app`, { data: { value: "four" } });
    const found = await failed;
    if (typeof found !== "string") throw found;
    if (!found.includes("kv-v2/data-write")) throw new Error("the message is no event of the write");
    return "an event arrived over a WebSocket";
  },
};

const webhooks: DeepCheck = {
  check: "subscription",
  objects: ["EventSubscription"],
  action: "object EventSubscription, and the queue of SYNC_WORK",
  async run({ api, address, name, undo }) {
    const at = `event/subscription/${name}`;
    const URL = new globalThis.URL("v1/sys/health", address.href.replace(/\/?$/, "/")).href;
    const Topics = { ACLPolicy: [`${name}-hook`] };
    try {
      await api.write(at, { Topics, Target: { Type: "webhook", URL }, MaxAttempts: 2 });
    } catch (failure) {
      if (!(failure instanceof ApiError && failure.status === 400)) throw failure;
      return findings("subscription").unknown("the service does not call its own address");
    }
    undo(() => api.call("DELETE", at));
    undo(() => api.call("DELETE", `acl/policy/${name}-hook`, { accept: [404] }));
    const start = Date.now();
    await api.write(`acl/policy/${name}-hook`, { Rules: 'agent { policy = "read" }' });
    return eventually(SLOW_MS, "no delivery was attempted", async () => {
      const { Attempts, LastError } = JSON.parse((await api.call("GET", at)).text) as Record<string, unknown>;
      return Number(Attempts) > 0 || LastError ? `a delivery was attempted ${since(start)}` : null;
    });
  },
};

const engines: DeepCheck = {
  check: "engine",
  objects: ["CredentialEngine"],
  action: "object CredentialEngine: see the service's log",
  async run({ api, name, undo }) {
    undo(() => api.call("DELETE", `sys/mounts/${name}-engine`));
    await api.write(`sys/mounts/${name}-engine`, { type: "azure" });
    const { status } = await api.call("GET", `${name}-engine/roles`, { query: { list: "true" }, accept: [404] });
    return `an engine answers ${status} for its empty list of roles`;
  },
};

const issuer: DeepCheck = {
  check: "identity",
  objects: ["IdentityIssuer"],
  action: "object IdentityIssuer: see the service's log",
  async run({ api }) {
    const { keys } = JSON.parse((await api.call("GET", ".well-known/jwks.json")).text) as { keys?: unknown[] };
    if (!Array.isArray(keys) || keys.length === 0) throw new Error("no key is published");
    return `${keys.length} keys are published`;
  },
};

const metrics: DeepCheck = {
  check: "metrics object",
  objects: ["Metrics"],
  action: "object Metrics: see the service's log",
  async run({ api }) {
    const { text } = await api.call("GET", "metrics", { query: { format: "prometheus" } });
    if (!text.includes("sallyport_http_requests_total")) throw new Error("the counters of requests are missing");
    return "counters are read";
  },
};

const auditBucket: DeepCheck = {
  check: "audit bucket",
  objects: ["AuditCollector"],
  action: "object AuditCollector, AUDIT_BUCKET: audit-collector-failed or audit-sink-failed in the service's log",
  async run({ api, name }) {
    const start = Date.now();
    const search = async () => await api.fields("sys/audit/lines", { text: name, limit: "1" });
    if ((await search())?.["source"] !== "bucket")
      return findings("audit bucket").unknown("no bucket is bound, so audit lines are in the log alone");
    return eventually(SLOW_MS, "the lines of these checks are not in the bucket", async () =>
      ((await search())?.["lines"] as unknown[] | undefined)?.length
        ? `it has the lines of these checks ${since(start)}`
        : null,
    );
  },
};

const CHECKS: readonly DeepCheck[] = [
  secrets,
  lists,
  replicas,
  pushes,
  streams,
  sockets,
  webhooks,
  engines,
  issuer,
  {
    check: "agent session",
    objects: ["ClusterRegistry", "NodeSession"],
    action: "objects ClusterRegistry and NodeSession: see the service's log",
    run: deepAgent,
  },
  metrics,
  alarms,
  auditBucket,
];

/** The classes of objects that the checks need. */
export const CHECKED_OBJECTS: readonly string[] = [...new Set(CHECKS.flatMap(({ objects }) => objects))];

/** Runs all checks one after the other, and removes what they have made. */
export async function deepChecks(service: DeepApi): Promise<Finding[]> {
  const undone: (() => Promise<unknown>)[] = [];
  const trial: Trial = {
    ...service,
    name: `doctor-${randomBytes(4).toString("hex")}`,
    undo: (work) => void undone.unshift(work),
  };
  const found: Finding[] = [];
  for (const { check, action, run } of CHECKS) {
    const { ok, problem } = findings(check);
    try {
      const outcome = await run(trial);
      found.push(typeof outcome === "string" ? ok(outcome) : outcome);
    } catch (failure) {
      found.push(problem(textOf(failure), action));
    }
  }
  const { warning } = findings("clean up");
  for (const work of undone)
    await work().catch((failure: unknown) =>
      found.push(warning(textOf(failure), `remove what has the name ${trial.name}`)),
    );
  return found;
}

type EventLine = Readonly<Record<string, unknown>>;

/** Resolves with the first event of a topic that matches. @throws Error after `ms` */
async function lineWith(api: Api, topic: string, ms: number, is: (event: EventLine) => boolean): Promise<EventLine> {
  const ended = new AbortController();
  const timer = setTimeout(() => ended.abort(new Error(`no event of ${topic} in ${ms / 1000} s`)), ms);
  try {
    for await (const line of api.lines("event/stream", [["topic", topic]], {
      accept: "application/json",
      signal: ended.signal,
    })) {
      if (line.trim() === "") continue;
      const { Events = [] } = JSON.parse(line) as { Events?: EventLine[] };
      const found = Events.find(is);
      if (found) return found;
    }
    throw new Error(`the stream of ${topic} ended`);
  } finally {
    clearTimeout(timer);
    ended.abort();
  }
}
