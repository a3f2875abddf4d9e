import { createHash } from "node:crypto";
import { type AccountDouble, DoubleAccount, fieldsOf, Refusal, type Reply, startTokenDouble } from "../http-double.ts";
import type { Received } from "../loopback.ts";

/**
 * Secrets of an app at Fly.io's Machines API, stricter in unknown fields and parameters; judged by its published
 * document (published.test.ts).
 */

export class FlyAccount extends DoubleAccount {
  readonly token = `fm2_${crypto.randomUUID()}`;
  readonly app = "acme-web";
  readonly secrets = new Map<string, string>();
  version = 1;
  /** Reads that name no version show the state before the last change. */
  isLagging = false;
  #before: ReadonlyMap<string, string> = new Map();

  change(values: Readonly<Record<string, string | null>>): void {
    this.#before = new Map(this.secrets);
    for (const [name, value] of Object.entries(values)) {
      if (value === null) this.secrets.delete(name);
      else this.secrets.set(name, value);
    }
    this.version++;
  }

  seen(isCurrent: boolean): ReadonlyMap<string, string> {
    return this.isLagging && !isCurrent ? this.#before : this.secrets;
  }
}

const refuse = (status: number, error: string) => new Refusal(status, { error, status: "unknown" });
const badRequest = (message: string) => refuse(400, message);

const shown = (secrets: Iterable<[string, string]>) =>
  [...secrets].map(([name, value]) => ({
    name,
    digest: createHash("sha256").update(`salt ${name} ${value}`).digest("hex").slice(0, 16),
    created_at: "2026-01-01T00:00:00Z",
    updated_at: "2026-01-01T00:00:00Z",
  }));

function changesFrom(request: Received): Record<string, string | null> {
  const { values } = fieldsOf(request, ["values"], badRequest);
  if (typeof values !== "object" || values === null || Array.isArray(values)) throw badRequest("invalid values");
  const entries = Object.entries(values as Record<string, unknown>).map(([name, value]) => {
    if (!/^[A-Za-z_]\w*$/.test(name)) throw badRequest("invalid secret name");
    if (value !== null && typeof value !== "string") throw badRequest("invalid value");
    return [name, value] as const;
  });
  if (entries.length === 0) throw badRequest("no values");
  return Object.fromEntries(entries);
}

function perform(request: Received, account: FlyAccount): Reply {
  const { method, url } = request;
  if (url.pathname !== `/v1/apps/${account.app}/secrets`) throw refuse(404, "app not found");
  if (method === "GET") {
    for (const name of url.searchParams.keys()) if (name !== "min_version") throw badRequest(`unknown ${name}`);
    const least = url.searchParams.get("min_version");
    if (least !== null && !(Number(least) >= 1 && Number(least) <= account.version))
      throw badRequest("no such version");
    return { status: 200, body: { secrets: shown(account.seen(least === `${account.version}`)) } };
  }
  if (method !== "POST") throw refuse(405, "method not allowed");
  const values = changesFrom(request);
  account.change(values);
  const { version } = account;
  const changed = [...account.secrets].filter(([name]) => name in values);
  return { status: 200, body: { secrets: shown(changed), version, Version: version } };
}

export const startMachineSecrets = (): Promise<AccountDouble<FlyAccount>> =>
  startTokenDouble<FlyAccount>({
    newAccount: () => new FlyAccount(),
    tokenOf: (headers) => /^FlyV1 (.+)$/.exec(headers["authorization"] ?? "")?.[1] ?? "",
    unauthorized: refuse(401, "unauthorized"),
    perform,
    refusals: {
      throttled: refuse(429, "rate limit exceeded").reply,
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "forbidden").reply,
    },
  });
