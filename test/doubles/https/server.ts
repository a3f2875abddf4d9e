import { Webhook } from "standardwebhooks";
import {
  type AccountDouble,
  bearerOf,
  DoubleAccount,
  fieldsOf,
  Refusal,
  type Reply,
  startTokenDouble,
} from "../http-double.ts";
import type { Received } from "../loopback.ts";

/** A key-value API of the kind that a generic destination calls: versions, ETags, optional signatures. */

export class HttpsAccount extends DoubleAccount {
  readonly token = `made-up-${crypto.randomUUID()}`;
  readonly objects = new Map<string, { value: string; version: number }>();
  /** Requests must be signed with it (standardwebhooks verifies). */
  signingSecret: string | null = null;
  /** The last request that changed something. */
  last: Received | null = null;
  version = 0;

  write(name: string, value: string): number {
    this.version++;
    this.objects.set(name, { value, version: this.version });
    return this.version;
  }
}

const refuse = (status: number) => new Refusal(status, { success: false });
const written = (version: number, status = 200): Reply => ({
  status,
  body: { success: true, version },
  headers: { etag: `"${version}"` },
});

/** Entries of a page of the list. */
const PAGE = 2;

function perform(request: Received, account: HttpsAccount): Reply {
  if (request.url.pathname === "/api/list" && request.method === "GET") {
    const all = [...account.objects].map(([name, object]) => ({ name, ...object }));
    const from = Number(request.url.searchParams.get("from") ?? 0);
    const next = new URL(`/api/list?from=${from + PAGE}`, `http://${request.headers["host"]}`);
    const more = from + PAGE < all.length && { next: String(next) };
    return { status: 200, body: { items: all.slice(from, from + PAGE), ...more } };
  }
  const path = /^\/api\/secrets(?:\/([^/]+))?$/.exec(request.url.pathname);
  if (path === null) throw refuse(404);
  if (request.method !== "GET") {
    account.last = request;
    if (account.signingSecret !== null) verify(request, account.signingSecret);
    if (request.headers["idempotency-key"] === undefined) throw refuse(400);
  }
  const name = path[1] === undefined ? undefined : decodeURIComponent(path[1]);
  if (name === undefined) {
    if (request.method === "GET") return { status: 204 };
    if (request.method !== "POST") throw refuse(405);
    const { name: of, value } = fieldsOf(request, ["name", "value"], () => refuse(422));
    return written(account.write(String(of), String(value)), 201);
  }
  const found = account.objects.get(name);
  switch (request.method) {
    case "PUT": {
      const { name: of, value } = fieldsOf(request, ["name", "value"], () => refuse(422));
      if (of !== name || typeof value !== "string") throw refuse(422);
      return written(account.write(name, value));
    }
    case "GET":
      if (found === undefined) throw refuse(404);
      return written(found.version);
    case "DELETE":
      if (!account.objects.delete(name)) throw refuse(404);
      return { status: 204 };
    default:
      throw refuse(405);
  }
}

function verify({ body, headers }: Received, secret: string): void {
  try {
    new Webhook(secret).verify(body.toString(), headers);
  } catch {
    throw refuse(401);
  }
}

export const startHttps = (): Promise<AccountDouble<HttpsAccount>> =>
  startTokenDouble<HttpsAccount>({
    newAccount: () => new HttpsAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401),
    perform,
    refusals: {
      throttled: { status: 429, body: "", headers: { "retry-after": "1" } },
      unavailable: { status: 503, body: "" },
      forbidden: { status: 403, body: "" },
    },
  });
