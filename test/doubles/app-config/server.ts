import { type AccountDouble, bearerOf, DoubleAccount, Refusal, type Reply, startTokenDouble } from "../http-double.ts";
import type { Received } from "../loopback.ts";

/** Config vars of Heroku's Platform API, version 3. */

export class AppAccount extends DoubleAccount {
  readonly token = `HRKU-${crypto.randomUUID()}`;
  readonly app = "acme-web";
  readonly vars = new Map<string, string>();
  /** Each change is a release. */
  releases = 0;
}

const refuse = (status: number, id: string, message = "") => new Refusal(status, { id, message });

function perform({ method, url, headers, body }: Received, account: AppAccount): Reply {
  if (headers["accept"] !== "application/vnd.heroku+json; version=3") throw refuse(404, "not_found");
  if (url.pathname !== `/apps/${account.app}/config-vars`) throw refuse(404, "not_found", "Couldn't find that app.");
  if (method === "PATCH") {
    const change = JSON.parse(body.toString()) as Record<string, unknown>;
    const next = new Map(account.vars);
    for (const [name, value] of Object.entries(change)) {
      if (!/^[A-Za-z_]\w*$/.test(name)) throw refuse(422, "invalid_params", "Config var names are invalid.");
      if (value === null) next.delete(name);
      else if (typeof value === "string") next.set(name, value);
      else throw refuse(422, "invalid_params", "Config var values must be strings.");
    }
    const bytes = [...next].reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0);
    if (bytes > 64 * 1024) throw refuse(422, "invalid_params", "Config vars exceed the size limit.");
    account.vars.clear();
    for (const [name, value] of next) account.vars.set(name, value);
    account.releases++;
  } else if (method !== "GET") throw refuse(405, "method_not_allowed");
  return { status: 200, body: Object.fromEntries(account.vars) };
}

export const startAppConfig = (): Promise<AccountDouble<AppAccount>> =>
  startTokenDouble<AppAccount>({
    newAccount: () => new AppAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "unauthorized", "Invalid credentials provided."),
    perform,
    refusals: {
      throttled: { ...refuse(429, "rate_limit").reply, headers: { "retry-after": "1", "ratelimit-remaining": "0" } },
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "forbidden").reply,
    },
  });
