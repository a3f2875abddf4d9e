/**
 * The baseline: a Worker with the minimum that any design needs. No rights, no sealing, no versions, no durable events;
 * only the network hops that the platform requires.
 */
import { DurableObject } from "cloudflare:workers";
import { AwsClient } from "aws4fetch";
import { makeCredentials, OTHERS, type OtherKind, type Rights, removeCredentials } from "./cloud.mts";
import { type DumpPage, dump } from "./dump.mts";
import type { Sockets } from "./sockets.mts";

export { Sockets } from "./sockets.mts";

interface Env {
  ROWS: DurableObjectNamespace<Rows>;
  CAST: DurableObjectNamespace<Cast>;
  SOCKETS: DurableObjectNamespace<Sockets>;
  /** Of the stand-in for the cloud, and what credentials are given there, in JSON; of the engine's bench only. */
  CLOUD_URL?: string;
  RIGHTS?: string;
}

const LINES_A_CHUNK = 200;
const DUMPED_AT_ONCE = 1_000;

/** One SQLite row read or inserted. */
export class Rows extends DurableObject<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, path TEXT NOT NULL, value TEXT NOT NULL)",
    );
    ctx.storage.sql.exec("CREATE INDEX IF NOT EXISTS rows_by_path ON rows (path, id)");
  }

  read(path: string): string | null {
    const [row] = this.ctx.storage.sql
      .exec<{ value: string }>("SELECT value FROM rows WHERE path = ? ORDER BY id DESC LIMIT 1", path)
      .toArray();
    return row?.value ?? null;
  }

  write(path: string, value: string): number {
    return this.ctx.storage.sql
      .exec<{ id: number }>("INSERT INTO rows (path, value) VALUES (?, ?) RETURNING id", path, value)
      .one().id;
  }

  /** Several rows in one transaction. */
  writeSome(path: string, value: string, rows: number): void {
    this.ctx.storage.transactionSync(() => {
      for (let row = 0; row < rows; row++) this.write(path, value);
    });
  }

  /** All rows as lines, a page of rows to a chunk. */
  override async fetch(): Promise<Response> {
    let last = 0;
    const encoder = new TextEncoder();
    const stream = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          let text = "";
          for (const row of this.ctx.storage.sql.exec<{ id: number; value: string }>(
            "SELECT id, value FROM rows WHERE id > ? ORDER BY id LIMIT ?",
            last,
            LINES_A_CHUNK,
          )) {
            text += `${row.value}\n`;
            last = row.id;
          }
          if (text === "") controller.close();
          else controller.enqueue(encoder.encode(text));
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(stream);
  }

  dumped(after: number): DumpPage {
    const found = this.ctx.storage.sql
      .exec("SELECT id, path, value FROM rows WHERE id > ? ORDER BY id LIMIT ?", after, DUMPED_AT_ONCE)
      .raw<[number, string, string]>();
    const rows = [...found];
    return { rows, next: rows.length < DUMPED_AT_ONCE ? null : (rows.at(-1)?.[0] ?? null) };
  }

  /** Many rows at once: only what is done to them afterwards is measured. */
  fill(keys: number, value: string): void {
    for (let key = 0; key < keys; key++) this.write(`app/k${String(key).padStart(6, "0")}`, value);
  }
}

/** The same bytes to every stream: each is a cursor that pulls from one array in memory. */
export class Cast extends DurableObject<Env> {
  readonly #lines: Uint8Array[] = [];
  #news = Promise.withResolvers<void>();
  #last: { start: number; end: number; bytes: Uint8Array } | undefined;

  publish(text: string, count: number): void {
    const line = new TextEncoder().encode(`${text}\n`);
    for (let i = 0; i < count; i++) this.#lines.push(line);
    this.#last = undefined;
    const { resolve } = this.#news;
    this.#news = Promise.withResolvers<void>();
    resolve();
  }

  override async fetch(): Promise<Response> {
    let cursor = this.#lines.length;
    let greeted = false;
    const stream = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          if (!greeted) {
            greeted = true;
            // The head leaves with the first bytes.
            return controller.enqueue(new TextEncoder().encode("{}\n"));
          }
          while (cursor >= this.#lines.length) await this.#news.promise;
          const { bytes, end } = this.#from(cursor);
          cursor = end;
          controller.enqueue(bytes);
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(stream);
  }

  /** The lines after a cursor as one chunk, built once for all streams: a slow baseline would flatter the service. */
  #from(start: number): { start: number; end: number; bytes: Uint8Array } {
    if (this.#last?.start === start) return this.#last;
    const lines = this.#lines.slice(start, start + LINES_A_CHUNK);
    this.#last = { start, end: start + lines.length, bytes: Buffer.concat(lines) };
    return this.#last;
  }
}

interface Pushes {
  readonly url: string;
  /** One for each destination. */
  readonly keys: readonly { readonly accessKeyId: string; readonly secretAccessKey: string }[];
  readonly secrets: number;
  /** Calls at a time for each destination. */
  readonly atOnce: number;
  readonly value: string;
}

/** The requests that keep secrets of the service in line, signed and sent; nothing is read, decided or recorded. */
async function pushes({ url, keys, secrets, atOnce, value }: Pushes): Promise<void> {
  const all = keys.flatMap((key) => {
    const client = new AwsClient({ ...key, service: "secretsmanager", region: "eu-west-1", retries: 0 });
    const call = async (operation: string, body: unknown) => {
      const headers = { "content-type": "application/x-amz-json-1.1", "x-amz-target": `secretsmanager.${operation}` };
      const response = await client.fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
      await response.text();
    };
    let next = 0;
    const lane = async () => {
      while (next < secrets) {
        const SecretId = `vault/kv_12345678/app/k${String(next++).padStart(6, "0")}`;
        const ClientRequestToken = (crypto.randomUUID() + crypto.randomUUID()).replaceAll("-", "");
        await call("UpdateSecret", { SecretId, SecretString: value, ClientRequestToken });
      }
    };
    return Array.from({ length: atOnce }, lane);
  });
  await Promise.all(all);
}

export default {
  fetch(request, env, exec) {
    const url = new URL(request.url);
    return url.pathname.startsWith(AUDITED) ? audited(request, env, exec, url) : answer(request, env, url);
  },
} satisfies ExportedHandler<Env>;

const AUDITED = "/audited/";

/**
 * The same answer with the minimum that an audited service adds to every request: an id, work that a disconnecting
 * caller does not abort, and one line in the log with as many fields as an audit line of the service.
 */
function audited(request: Request, env: Env, exec: ExecutionContext, url: URL): Promise<Response> {
  const { method } = request;
  const time = Date.now();
  const answering = (async () => {
    const path = url.pathname;
    url.pathname = path.slice(AUDITED.length - 1);
    const response = await answer(request, env, url);
    const now = Date.now();
    console.info(auditLine(method, path, response.status, now, now - time));
    return response;
  })();
  exec.waitUntil(answering);
  return answering;
}

function auditLine(method: string, path: string, status: number, now: number, durationMs: number): string {
  return JSON.stringify({
    level: "audit",
    kind: "answer",
    time: new Date(now).toISOString(),
    requestId: crypto.randomUUID(),
    area: "secrets",
    method,
    path,
    route: "none",
    namespace: "",
    namespaceId: "root",
    mount: null,
    accessor: "accessor",
    policies: ["app"],
    token: "hmac-sha256:",
    address: null,
    bytes: null,
    status,
    durationMs,
  });
}

async function answer(request: Request, env: Env, { pathname, searchParams }: URL): Promise<Response> {
  const [, kind = "", name = ""] = pathname.split("/", 3);
  if (kind === "none") return new Response(null, { status: 204, headers: { Allow: "GET, OPTIONS" } });
  if (kind === "fill") {
    await env.ROWS.getByName(name).fill(Number(searchParams.get("keys")), await request.text());
    return json({});
  }
  if (kind === "rows") {
    const rows = env.ROWS.getByName(name);
    const path = pathname.slice(kind.length + name.length + 3);
    if (request.method === "GET") return json({ data: JSON.parse((await rows.read(path)) ?? "null") });
    return json({ id: await rows.write(path, JSON.stringify(await request.json())) });
  }
  if (kind === "changed") {
    const line = await request.text();
    await env.ROWS.getByName(name).write("policy", line);
    await env.CAST.getByName("main").publish(line, 1);
    return json({});
  }
  if (kind === "lines") {
    const { method } = request;
    for (let line = 0; line < Number(name); line++) console.info(auditLine(method, pathname, 200, Date.now(), 1));
    return json({});
  }
  if (kind === "append") {
    const { line } = await request.json<{ line: string }>();
    await env.ROWS.getByName("lines").writeSome("line", line, Number(name));
    return json({});
  }
  if (kind === "replay") {
    const { body } = await env.ROWS.getByName("backlog").fetch("https://rows/");
    return new Response(body, { headers: { "Content-Type": "application/json", "Content-Encoding": "identity" } });
  }
  if (kind === "dump") {
    const rows = env.ROWS.getByName("dump");
    return dump((after) => rows.dumped(after));
  }
  if (kind === "pushes") {
    await pushes(await request.json());
    return json({});
  }
  if (kind === "others") return json(await OTHERS[name as OtherKind](env.CLOUD_URL ?? ""));
  if (kind === "credentials") {
    const rights = JSON.parse(env.RIGHTS ?? "{}") as Rights;
    if (request.method === "GET") return json(await makeCredentials(env.CLOUD_URL ?? "", rights));
    await removeCredentials(env.CLOUD_URL ?? "", rights);
    return json({});
  }
  if (kind === "socket") return env.SOCKETS.getByName(name).fetch(request);
  if (kind === "echo") return text(await env.SOCKETS.getByName(name).echo(await request.text()));
  if (kind === "wait") return text(await env.SOCKETS.getByName("waiting").wait());
  if (kind === "release") {
    await env.SOCKETS.getByName("waiting").release(await request.text());
    return json({});
  }
  const cast = env.CAST.getByName("main");
  if (kind === "stream") {
    const { body } = await cast.fetch("https://cast/");
    return new Response(body, { headers: { "Content-Type": "application/json", "Content-Encoding": "identity" } });
  }
  await cast.publish(await request.text(), Number(searchParams.get("count")));
  return json({});
}

const json = (body: unknown): Response =>
  new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" } });

const text = (body: string): Response => new Response(body, { headers: { "Content-Type": "application/json" } });
