import { createHash } from "node:crypto";
import { type AccountDouble, bearerOf, DoubleAccount, Refusal, type Reply, startTokenDouble } from "../http-double.ts";
import type { Received } from "../loopback.ts";

/**
 * Edge Function secrets of Supabase's Management API, stricter in unknown fields; judged by its published document
 * (published.test.ts).
 */

export class SupabaseAccount extends DoubleAccount {
  readonly token = `sbp_${crypto.randomUUID().replaceAll("-", "")}`;
  readonly project = "abcdefghijklmnopqrst";
  readonly secrets = new Map<string, string>();
  /** Secrets that the project has by itself. */
  readonly reserved = new Map([["SUPABASE_URL", "https://abcdefghijklmnopqrst.supabase.co"]]);
  #now = Date.parse("2026-01-01T00:00:00Z");

  time(): string {
    this.#now += 1000;
    return new Date(this.#now).toISOString();
  }
}

const refuse = (status: number, message: string) => new Refusal(status, { message });

const digest = (value: string): string => createHash("sha256").update(value).digest("hex");

function secretFrom(given: unknown): readonly [name: string, value: string] {
  const { name, value, ...rest } = Object(given) as Record<string, unknown>;
  if (Object.keys(rest).length > 0) throw refuse(400, "unknown field");
  if (typeof name !== "string" || !/^(?!SUPABASE_)[A-Za-z_]\w{0,255}$/.test(name)) throw refuse(400, "invalid name");
  if (typeof value !== "string" || value.length > 24_576) throw refuse(400, "invalid value");
  return [name, value];
}

function perform({ method, url, body, headers }: Received, account: SupabaseAccount): Reply {
  const [, project] = /^\/v1\/projects\/([a-z]{20})\/secrets$/.exec(url.pathname) ?? [];
  if (project === undefined) throw refuse(404, "Cannot find the path");
  // A foreign project and a missing one look the same.
  if (project !== account.project) throw refuse(403, "Forbidden resource");
  if (method === "GET") {
    const shown = [...account.secrets, ...account.reserved].map(([name, value]) => ({ name, value: digest(value) }));
    return { status: 200, body: shown.map((one) => ({ ...one, updated_at: account.time() })) };
  }
  if (headers["content-type"] !== "application/json") throw refuse(400, "media type");
  const given: unknown = JSON.parse(body.toString());
  if (!Array.isArray(given) || given.length === 0) throw refuse(400, "Expected an array");
  if (method === "POST") {
    const secrets = given.map(secretFrom);
    for (const [name, value] of secrets) account.secrets.set(name, value);
    return { status: 201 };
  }
  if (method !== "DELETE") throw refuse(405, "Method not allowed");
  for (const name of given) {
    if (typeof name !== "string" || account.reserved.has(name)) throw refuse(400, "invalid name");
  }
  for (const name of given) account.secrets.delete(name);
  return { status: 200 };
}

export const startFunctionSecrets = (): Promise<AccountDouble<SupabaseAccount>> =>
  startTokenDouble<SupabaseAccount>({
    newAccount: () => new SupabaseAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "Unauthorized"),
    perform,
    refusals: {
      throttled: { ...refuse(429, "Rate limit exceeded").reply, headers: { "x-ratelimit-reset": "1" } },
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "Forbidden resource").reply,
    },
  });
