import type { IncomingMessage, ServerResponse } from "node:http";
import * as z from "zod";
import { bodyOf, startLoopback } from "../loopback.ts";
import { ApiError, enveloped, type Fault, send } from "./envelope.ts";

/**
 * The part of the Cloudflare API about the secrets of a Worker, on loopback. Stricter than the real one: exact media
 * types, no unknown fields, and a merge patch without an effect is refused. Each account has one Worker, `shop`.
 */

export class Account {
  readonly id = crypto.randomUUID().replaceAll("-", "");
  readonly script = "shop";
  readonly token = `cf-${crypto.randomUUID()}`;
  readonly secrets = new Map<string, string>();
  /** Names of other bindings. */
  readonly bindings = new Set<string>(["DB"]);
  readonly faults: Fault[] = [];
  /** `method what` of each call, with the number of secrets of a patch. */
  readonly calls: string[] = [];
  /** Each change is a version that is deployed. */
  deployments = 0;
  /** A newer version was uploaded without a deployment. */
  hasUndeployedVersion = false;
  mayEdit = true;
  most = 128;

  get body() {
    return { account_id: this.id, script_name: this.script, api_token: this.token };
  }

  writes(): number {
    return this.calls.filter((call) => call.startsWith("PATCH")).length;
  }
}

export interface EdgeDouble {
  readonly url: string;
  open(): Account;
  close(): Promise<void>;
}

interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

const MAX_BYTES = 5 * 1024;
const Patch = z.strictObject({
  secrets: z.record(
    z.string().regex(/^[A-Za-z_$][\w$]*$/),
    z.strictObject({ name: z.string(), text: z.string(), type: z.literal("secret_text") }).nullable(),
  ),
});

export async function startEdgeWorker({ port = 0 } = {}): Promise<EdgeDouble> {
  const accounts = new Map<string, Account>();

  function answer({ method, path, headers, text }: Received): unknown {
    const token = /^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1] ?? "";
    const holder = [...accounts.values()].find((one) => one.token === token);
    if (/^\/(user|accounts\/\w+)\/tokens\/verify$/.test(path) && method === "GET") {
      if (!holder || path.startsWith("/accounts/")) throw new ApiError(401, 1000, "Invalid API Token");
      return { id: "1", status: "active" };
    }
    const [, id = "", script, what] =
      /^\/accounts\/(\w+)\/workers\/scripts\/([^/]+)\/(secrets(?:-bulk)?)$/.exec(path) ?? [];
    if (!what) throw new ApiError(404, 7003, `Could not route to ${path}`);
    if (!holder || holder.id !== id || (!holder.mayEdit && method !== "GET")) {
      throw new ApiError(403, 10_000, "Authentication error");
    }
    if (script !== holder.script) throw new ApiError(404, 10_007, "This Worker does not exist on your account.");
    if (method === "GET" && what === "secrets") {
      return [...holder.secrets.keys()].map((name) => ({ name, type: "secret_text" }));
    }
    if (method !== "PATCH" || what !== "secrets-bulk") throw new ApiError(405, 10_405, "Method not allowed");
    if (headers["content-type"] !== "application/merge-patch+json") throw new ApiError(415, 10_415, "media type");
    return change(holder, JSON.parse(text));
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await receive(incoming);
    const account = accounts.get(/^\/accounts\/(\w+)\/workers\//.exec(request.path)?.[1] ?? "");
    account?.calls.push(describe(request));
    const fault = request.method === "GET" ? undefined : account?.faults.shift();
    if (fault?.kind === "cut") return void incoming.socket.destroy();
    if (fault?.kind === "status") {
      const errors = fault.errors ?? [{ code: 10_001, message: "fault" }];
      return send(outgoing, fault.status ?? 503, { success: false, errors, messages: [], result: null }, fault.headers);
    }
    const [status, body] = enveloped(() => answer(request));
    if (fault?.kind === "lost") incoming.socket.destroy();
    else send(outgoing, status, body);
  }

  function open(): Account {
    const account = new Account();
    accounts.set(account.id, account);
    return account;
  }

  const { url, close } = await startLoopback(serve, port);
  return {
    url,
    open,
    close,
  };
}

/** Applies a merge patch as a whole, or refuses it. */
function change(account: Account, body: unknown): object {
  const parsed = Patch.safeParse(body);
  if (!parsed.success) throw new ApiError(400, 10_021, `invalid body ${JSON.stringify(body)}`);
  const entries = Object.entries(parsed.data.secrets);
  if (entries.length === 0 || entries.length > 100) throw new ApiError(400, 10_021, "1 to 100 secrets");
  if (account.hasUndeployedVersion) throw new ApiError(400, 10_215, "the latest version isn't currently deployed");
  const after = new Map(account.secrets);
  for (const [name, secret] of entries) {
    if (secret === null) {
      if (!after.delete(name)) throw new ApiError(400, 10_021, "there is no such secret");
      continue;
    }
    if (secret.name !== name) throw new ApiError(400, 10_021, "the name differs from the key");
    if (account.bindings.has(name)) throw new ApiError(400, 10_053, `Binding name '${name}' already in use`);
    if (Buffer.byteLength(secret.text) > MAX_BYTES) throw new ApiError(400, 10_054, `too large: ${secret.text}`);
    after.set(name, secret.text);
  }
  if (after.size + account.bindings.size > account.most) throw new ApiError(400, 10_055, "too many bindings");
  account.secrets.clear();
  for (const [name, text] of after) account.secrets.set(name, text);
  account.deployments++;
  return Object.fromEntries(entries.map(([name]) => [name, { name, type: "secret_text" }]));
}

function describe({ method, path, text }: Received): string {
  if (method === "GET") return `GET ${path.split("/").at(-1)}`;
  const { secrets = {} } = JSON.parse(text) as { secrets?: Record<string, unknown> };
  return `${method} ${Object.keys(secrets).length}`;
}

async function receive(incoming: IncomingMessage): Promise<Received> {
  const text = String(await bodyOf(incoming));
  return { method: incoming.method ?? "", path: incoming.url ?? "", headers: incoming.headers, text };
}
