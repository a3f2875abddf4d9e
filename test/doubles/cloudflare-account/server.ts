import * as z from "zod";
import { type Loopback, type Received, received, startLoopback } from "../loopback.ts";
import { type CloudflareAccount, type Metadata, Refused } from "./account.ts";
import { uploadedScript } from "./script-upload.ts";

/**
 * The part of the Cloudflare API that `npm run deploy:first` and wrangler's `deploy` and `d1 migrations apply` call
 * (https://developers.cloudflare.com/api/). Unknown paths, fields and query parameters are refused; lists have pages of two.
 */

const PAGE = 2;

interface Call extends Received {
  readonly account: CloudflareAccount;
  /** The variable parts of the path. */
  readonly parts: readonly string[];
}

interface Listed {
  readonly result: unknown;
  readonly result_info?: object;
}

type Handler = (call: Call) => unknown;

class List {
  readonly listed: Listed;
  constructor(listed: Listed) {
    this.listed = listed;
  }
}

function json<Schema extends z.ZodType>({ body, headers }: Received, schema: Schema): z.infer<Schema> {
  // wrangler sends some bodies without their type, which the API accepts.
  const type = headers["content-type"] ?? "";
  if (!/^(?:application\/json|text\/plain)(?:;|$)/.test(type)) throw new Refused(415, 10_415, `content type ${type}`);
  const parsed = schema.safeParse(JSON.parse(body.toString()));
  if (!parsed.success) throw new Refused(400, 10_001, z.prettifyError(parsed.error));
  return parsed.data;
}

/** A page by number. `per_page` is honoured up to the double's small size. */
function paged({ url }: Received, rows: readonly unknown[]): List {
  const page = Number(url.searchParams.get("page") ?? "1");
  const per_page = Math.min(Number(url.searchParams.get("per_page") ?? PAGE), PAGE);
  const result = rows.slice((page - 1) * per_page, page * per_page);
  const total_pages = Math.max(1, Math.ceil(rows.length / per_page));
  return new List({
    result,
    result_info: { page, per_page, count: result.length, total_count: rows.length, total_pages },
  });
}

const places = ["weur", "eeur", "apac", "oc", "wnam", "enam"] as const;
const NewDatabase = z.strictObject({
  name: z.string().min(1),
  primary_location_hint: z.enum(places).optional(),
  jurisdiction: z.enum(["eu", "us", "fedramp"]).optional(),
});
const NewBucket = z.strictObject({ name: z.string(), locationHint: z.enum(places).optional() });
const Consumer = z.strictObject({
  type: z.literal("worker"),
  script_name: z.string(),
  dead_letter_queue: z.string().optional(),
  settings: z.strictObject({
    batch_size: z.int().min(1).max(100).optional(),
    max_retries: z.int().min(0).max(100).optional(),
    max_wait_time_ms: z.int().min(0).max(60_000).optional(),
  }),
});
const NewSecrets = z.array(
  z.strictObject({
    name: z.string().regex(/^[\w-]{1,255}$/),
    value: z.string().min(1).max(65_536),
    scopes: z.array(z.enum(["workers", "ai_gateway"])).min(1),
    comment: z.string().optional(),
  }),
);
const Query = z.strictObject({ sql: z.string(), params: z.array(z.unknown()).optional() });

const databaseRow = (account: CloudflareAccount, id: string) => {
  const { uuid, name, created } = account.database(id);
  return { uuid, name, created_at: created, version: "production", num_tables: 0, file_size: 4096 };
};
const jurisdictionOf = ({ headers }: Received): string => headers["cf-r2-jurisdiction"] ?? "default";

function query({ account, parts: [id = ""], ...call }: Call): unknown {
  const { sql: database } = account.database(id);
  const { sql, params = [] } = json(call as Received, Query);
  // Like D1: one statement with parameters, or several without.
  if (params.length > 0 || /^\s*(?:select|pragma|insert)\b[^;]*;?\s*$/i.test(sql))
    return [{ success: true, results: database.prepare(sql).all(...(params as string[])), meta: { duration: 1 } }];
  database.exec(sql);
  return [{ success: true, results: [], meta: { duration: 1 } }];
}

const service = (account: CloudflareAccount, name: string) => {
  const { tag, metadata, deployments } = account.worker(name);
  const script = { tag, tags: null, migration_tag: metadata.migrations?.new_tag, last_deployed_from: "wrangler" };
  return { id: name, default_environment: { environment: "production", script: { id: name, ...script } }, deployments };
};

const bindingsOf = ({ bindings }: Metadata) =>
  bindings.map((each) => (each.type === "secret_text" ? { type: each.type, name: each.name } : each));

const ROUTES: readonly (readonly [method: string, path: RegExp, handle: Handler])[] = [
  [
    "GET",
    /^\/workers\/domains$/,
    ({ account, url }) =>
      [...account.domains]
        .filter(([hostname]) => hostname === url.searchParams.get("hostname"))
        .map(([hostname, service]) => ({ id: hostname, hostname, service })),
  ],
  [
    "POST",
    /^\/workers\/scripts\/([\w-]+)\/domains\/changeset$/,
    (call) => {
      const added = json(call, z.array(z.strictObject({ hostname: z.string() })));
      return { added, removed: [], updated: [], conflicting: [] };
    },
  ],
  [
    "PUT",
    /^\/workers\/scripts\/([\w-]+)\/domains\/records$/,
    (call) => {
      const flags = {
        override_scope: z.boolean(),
        override_existing_origin: z.boolean(),
        override_existing_dns_record: z.boolean(),
      };
      const { origins } = json(
        call,
        z.strictObject({ ...flags, origins: z.array(z.strictObject({ hostname: z.string() })) }),
      );
      for (const { hostname } of origins) {
        call.account.domains.set(hostname, call.parts[0] ?? "");
        for (const zone of call.account.zones.values())
          if (hostname.endsWith(`.${zone.name}`)) zone.records.push(hostname);
      }
      return origins;
    },
  ],
  [
    "GET",
    /^\/workers\/subdomain$/,
    ({ account: { subdomain } }) => {
      if (subdomain === null) throw new Refused(404, 10_007, "workers.api.error.subdomain_not_found");
      return { subdomain };
    },
  ],
  [
    "GET",
    /^\/d1\/database$/,
    (call) =>
      paged(
        call,
        [...call.account.databases.keys()].map((id) => databaseRow(call.account, id)),
      ),
  ],
  [
    "POST",
    /^\/d1\/database$/,
    (call) => databaseRow(call.account, call.account.createDatabase(json(call, NewDatabase))),
  ],
  ["GET", /^\/d1\/database\/([^/]+)$/, ({ account, parts: [id = ""] }) => databaseRow(account, id)],
  [
    "DELETE",
    /^\/d1\/database\/([0-9a-f-]{36})$/,
    ({ account, parts: [id = ""] }) => {
      account.databases.delete(account.database(id).uuid);
      return null;
    },
  ],
  ["POST", /^\/d1\/database\/([0-9a-f-]{36})\/query$/, query],
  [
    "GET",
    /^\/queues$/,
    (call) => {
      const names = call.url.searchParams.getAll("name");
      return paged(
        call,
        [...call.account.queues.values()].filter(({ queue_name }) => names.length === 0 || names.includes(queue_name)),
      );
    },
  ],
  [
    "POST",
    /^\/queues$/,
    (call) => {
      const shape = { queue_name: z.string(), jurisdiction: z.enum(["eu", "us", "fedramp"]).optional() };
      const { queue_name, jurisdiction } = json(call, z.strictObject(shape));
      return { ...call.account.createQueue(queue_name, jurisdiction) };
    },
  ],
  [
    "DELETE",
    /^\/queues\/(\w+)$/,
    ({ account, parts: [id = ""] }) => {
      account.queues.delete(account.queue(id).queue_id);
      return null;
    },
  ],
  ["POST", /^\/queues\/(\w+)\/consumers$/, (call) => call.account.consume(call.parts[0] ?? "", json(call, Consumer))],
  [
    "PUT",
    /^\/queues\/(\w+)\/consumers\/(\w+)$/,
    (call) => call.account.consume(call.parts[0] ?? "", json(call, Consumer), call.parts[1]),
  ],
  [
    "GET",
    /^\/r2\/buckets$/,
    (call) => {
      const rows = [...call.account.buckets].filter(([, { jurisdiction }]) => jurisdiction === jurisdictionOf(call));
      const from = Number(call.url.searchParams.get("cursor")?.replace("after+", "") ?? "0");
      const buckets = rows.slice(from, from + PAGE).map(([name, { created }]) => ({ name, creation_date: created }));
      const isLast = from + PAGE >= rows.length;
      return new List({
        result: { buckets },
        result_info: { per_page: PAGE, ...(!isLast && { cursor: `after+${from + PAGE}` }) },
      });
    },
  ],
  [
    "POST",
    /^\/r2\/buckets$/,
    (call) => {
      const { name } = json(call, NewBucket);
      return { name, creation_date: call.account.createBucket(name, jurisdictionOf(call)).created };
    },
  ],
  [
    "GET",
    /^\/r2\/buckets\/([\w-]+)$/,
    (call) => {
      const [name = ""] = call.parts;
      return { name, creation_date: call.account.bucket(name, jurisdictionOf(call)).created };
    },
  ],
  [
    "DELETE",
    /^\/r2\/buckets\/([\w-]+)$/,
    (call) => call.account.deleteBucket(call.parts[0] ?? "", jurisdictionOf(call)) ?? null,
  ],
  [
    "GET",
    /^\/secrets_store\/stores$/,
    (call) => paged(call, call.account.store ? [{ id: call.account.store.id, name: "default_secrets_store" }] : []),
  ],
  [
    "POST",
    /^\/secrets_store\/stores$/,
    (call) => {
      const { name } = json(call, z.strictObject({ name: z.string().min(1) }));
      return { id: call.account.createStore(), name, created: new Date().toISOString() };
    },
  ],
  [
    "GET",
    /^\/secrets_store\/stores\/(\w+)\/secrets$/,
    (call) => {
      const secrets = [...call.account.secretsOf(call.parts[0] ?? "")];
      // As the API: no call returns a value.
      return paged(
        call,
        secrets.map(([name, { id }]) => ({ id, name, status: "active", scopes: ["workers"] })),
      );
    },
  ],
  [
    "POST",
    /^\/secrets_store\/stores\/(\w+)\/secrets$/,
    (call) =>
      json(call, NewSecrets).map(({ name, value }) => {
        const id = call.account.createStoredSecret(call.parts[0] ?? "", name, value);
        return { id, name, status: "pending", scopes: ["workers"] };
      }),
  ],
  [
    "DELETE",
    /^\/secrets_store\/stores\/(\w+)\/secrets\/(\w+)$/,
    ({ account, parts: [store = "", id = ""] }) => account.deleteStoredSecret(store, id) ?? null,
  ],
  [
    "GET",
    /^\/workers\/scripts$/,
    ({ account }) => [...account.workers].map(([id, { created }]) => ({ id, created_on: created })),
  ],
  ["GET", /^\/workers\/services\/([\w-]+)$/, ({ account, parts: [name = ""] }) => service(account, name)],
  [
    "GET",
    /^\/workers\/workers\/([\w-]+)$/,
    ({ account, parts: [name = ""] }) => ({
      id: account.worker(name).tag,
      name,
      subdomain: { enabled: account.worker(name).isOnWorkersDev, previews_enabled: false },
    }),
  ],
  [
    "GET",
    /^\/workers\/scripts\/([\w-]+)\/secrets$/,
    ({ account, parts: [name = ""] }) =>
      [...account.worker(name).secrets.keys()].map((secret) => ({ name: secret, type: "secret_text" })),
  ],
  [
    "GET",
    /^\/workers\/scripts\/([\w-]+)\/settings$/,
    ({ account, parts: [name = ""] }) => ({ bindings: bindingsOf(account.worker(name).metadata) }),
  ],
  [
    "POST",
    /^\/workers\/scripts\/([\w-]+)\/assets-upload-session$/,
    (call) => {
      const Manifest = z.strictObject({
        manifest: z.record(z.string().startsWith("/"), z.strictObject({ hash: z.string().length(32), size: z.int() })),
      });
      const hashes = Object.values(json(call, Manifest).manifest).map(({ hash }) => hash);
      const missing = hashes.filter((hash) => !call.account.assets.has(hash));
      for (const hash of missing) call.account.assets.add(hash);
      // A test of uploads is wrangler's: the double has every file that was announced once.
      return { jwt: `assets.${Buffer.from("{}").toString("base64url")}.jwt`, buckets: [] };
    },
  ],
  ["PUT", /^\/workers\/scripts\/([\w-]+)$/, async (call) => uploaded(call, await uploadedScript(call))],
  [
    "GET",
    /^\/workers\/scripts\/([\w-]+)\/deployments$/,
    ({ account, parts: [name = ""] }) => {
      const { tag } = account.worker(name);
      return { deployments: [{ id: tag, strategy: "percentage", versions: [{ version_id: tag, percentage: 100 }] }] };
    },
  ],
  [
    "POST",
    /^\/workers\/scripts\/([\w-]+)\/versions$/,
    async (call) => {
      // Like the platform: a version of a Worker that exists, without migrations of objects.
      call.account.worker(call.parts[0] ?? "");
      const script = await uploadedScript(call);
      if (script.metadata.migrations) throw new Refused(400, 10_211, "Versions with migrations cannot be uploaded");
      const { id, etag, startup_time_ms } = uploaded(call, script);
      return { id: call.account.worker(id).tag, startup_time_ms, resources: { script: { etag } } };
    },
  ],
  [
    "POST",
    /^\/workers\/scripts\/([\w-]+)\/deployments$/,
    (call) => {
      const version = z.strictObject({
        version_id: z.literal(call.account.worker(call.parts[0] ?? "").tag),
        percentage: z.literal(100),
      });
      const shape = {
        strategy: z.literal("percentage"),
        versions: z.tuple([version]),
        annotations: z.looseObject({}).optional(),
        code_update_strategy: z.looseObject({ mode: z.string() }).optional(),
      };
      return { id: json(call, z.strictObject(shape)).versions[0].version_id };
    },
  ],
  [
    "PATCH",
    /^\/workers\/scripts\/([\w-]+)\/script-settings$/,
    (call) => {
      call.account.worker(call.parts[0] ?? "");
      return json(call, z.strictObject({ observability: z.looseObject({}), tags: z.array(z.string()) }));
    },
  ],
  [
    "POST",
    /^\/workers\/scripts\/([\w-]+)\/subdomain$/,
    (call) => {
      const { enabled, previews_enabled } = json(
        call,
        z.strictObject({ enabled: z.boolean(), previews_enabled: z.boolean() }),
      );
      call.account.worker(call.parts[0] ?? "").isOnWorkersDev = enabled;
      return { enabled, previews_enabled };
    },
  ],
  [
    "PUT",
    /^\/workers\/scripts\/([\w-]+)\/schedules$/,
    (call) => {
      const schedules = json(call, z.array(z.strictObject({ cron: z.string().regex(/^(?:\S+ ){4}\S+$/) })));
      call.account.worker(call.parts[0] ?? "").schedules = schedules.map(({ cron }) => cron);
      return { schedules };
    },
  ],
  [
    "DELETE",
    /^\/workers\/scripts\/([\w-]+)$/,
    ({ account, parts: [name = ""], url }) => {
      account.deleteWorker(name, url.searchParams.get("force") === "true");
      return null;
    },
  ],
];

function uploaded({ account, parts: [name = ""] }: Call, script: { metadata: Metadata; modules: readonly string[] }) {
  const { tag } = account.upload(name, script.metadata, script.modules);
  return { id: name, tag, etag: tag, deployment_id: tag, startup_time_ms: 42 };
}

const PRODUCTS = [
  ["d1", /^\/d1\//],
  ["queues", /^\/queues/],
  ["r2", /^\/r2\//],
  ["secrets_store", /^\/secrets_store\//],
  ["workers", /^\/workers\//],
] as const;

/** Starts the API for one account, below `/client/v4`. */
export function startCloudflareAccount(account: CloudflareAccount): Promise<Loopback> {
  return startLoopback(async (incoming, outgoing) => {
    const request = await received(incoming);
    const path = request.url.pathname.replace(/^\/client\/v4/, "");
    const call = `${request.method} ${path}`;
    account.calls.push(call);
    const [status, body] = await answerTo(account, request, path).then(
      (result) => [200, { success: true, errors: [], messages: [], ...result }] as const,
      (failure: unknown) => {
        if (!(failure instanceof Refused)) throw failure;
        const { code, message } = failure;
        return [failure.status, { success: false, errors: [{ code, message }], messages: [], result: null }] as const;
      },
    );
    if (status === 200 && request.method !== "GET" && account.afterWrite(call) === "cut") {
      incoming.socket.destroy();
      return;
    }
    outgoing.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
}

async function answerTo(account: CloudflareAccount, request: Received, path: string): Promise<Listed> {
  const isKnown = request.headers["authorization"] === `Bearer ${account.token}`;
  if (path === "/user/tokens/verify") {
    if (!isKnown) throw new Refused(401, 1000, "Invalid API Token");
    return { result: { id: "1", status: account.tokenStatus } };
  }
  if (/^\/zones(?:\/|$)/.test(path) && isKnown && request.method === "GET")
    return { result: zonesAt(account, request, path) };
  const [, id, rest = ""] = /^\/accounts\/(\w+)(\/.*)$/.exec(path) ?? [];
  if (rest === "/tokens/verify") throw new Refused(401, 1000, "Invalid API Token");
  if (!isKnown || id !== account.id) throw new Refused(403, 10_000, "Authentication error");
  const product = PRODUCTS.find(([, prefix]) => prefix.test(rest))?.[0];
  const isChange = request.method !== "GET";
  if (product && (account.forbidden.has(product) || (isChange && account.readOnly.has(product))))
    throw new Refused(403, 10_000, "Authentication error");
  for (const [method, pattern, handle] of ROUTES) {
    const match = method === request.method ? pattern.exec(rest) : null;
    if (!match) continue;
    const result = await handle({ ...request, account, parts: match.slice(1) });
    return result instanceof List ? result.listed : { result };
  }
  throw new Refused(404, 7003, `Could not route to ${request.method} ${path}`);
}

function zonesAt(account: CloudflareAccount, { url }: Received, path: string): unknown {
  const name = url.searchParams.get("name");
  const [, zone, what] = /^\/zones\/(\w+)\/(dns_records)$/.exec(path) ?? [];
  if (what === undefined)
    return [...account.zones].filter(([, each]) => each.name === name).map(([id, each]) => ({ id, name: each.name }));
  const found = account.zones.get(zone ?? "");
  if (!found) throw new Refused(403, 10_000, "Authentication error");
  return found.records.filter((record) => record === name).map((record) => ({ id: record, name: record, type: "A" }));
}
