import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import type { Place } from "./state.ts";

/**
 * The few calls of the Cloudflare API that a first deployment makes (https://developers.cloudflare.com/api/). Reads are
 * repeated after transient failures; writes never: their outcome is read afterwards.
 */

const BASE = "https://api.cloudflare.com/client/v4";
const ATTEMPTS = 4;
const PATIENCE_MS = 60_000;
/** Items of a page where the call does not say how many it takes. */
const PAGE = 100;

const Envelope = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ code: z.number(), message: z.string() })).nullish(),
  result: z.unknown(),
  result_info: z
    .object({ total_pages: z.number().nullish(), total_count: z.number().nullish(), cursor: z.string().nullish() })
    .nullish(),
});

/** A refusal by the API, or no answer (status 0). Its text has neither the token nor a body. */
export class CloudflareError extends Error {
  readonly status: number;
  readonly codes: readonly number[];

  constructor(request: string, status: number, errors: readonly { code: number; message: string }[]) {
    const said = errors.map(({ code, message }) => `${message} (code ${code})`).join("; ") || "no reason given";
    super(`Cloudflare API: ${request}: ${status === 0 ? "no answer" : status}: ${said}`);
    this.status = status;
    this.codes = errors.map(({ code }) => code);
  }
}

export interface Found {
  readonly id: string;
  readonly name: string;
  /** Milliseconds; null where the API does not say. */
  readonly created: number | null;
}

const Named = z.object({ name: z.string() });
const Database = z.object({ uuid: z.string(), name: z.string(), created_at: z.string().nullish() });
const Queue = z.object({ queue_id: z.string(), queue_name: z.string(), created_on: z.string().nullish() });
const Bucket = Named.extend({ creation_date: z.string().nullish() });
const Stored = z.object({ id: z.string(), name: z.string(), created: z.string().nullish() });
const Script = z.object({ id: z.string(), created_on: z.string().nullish() });

export class CloudflareApi {
  readonly account: string;
  readonly #token: string;
  readonly #base: string;

  constructor(token: string, account: string, base: string | undefined) {
    this.#token = token;
    this.account = account;
    this.#base = (base || BASE).replace(/\/+$/, "");
  }

  /** The token's status: `active`, or another. Tokens of an account are verified there, those of a user elsewhere. */
  async tokenStatus(): Promise<string> {
    const Verified = z.object({ status: z.string() });
    try {
      return Verified.parse((await this.#read("/user/tokens/verify")).result).status;
    } catch (failure) {
      if (!(failure instanceof CloudflareError) || failure.status === 0 || failure.status >= 500) throw failure;
      return Verified.parse((await this.#read(`/accounts/${this.account}/tokens/verify`)).result).status;
    }
  }

  /** The account's name below `workers.dev`; null when it has none. */
  async subdomain(): Promise<string | null> {
    try {
      const { result } = await this.#read(this.#at("/workers/subdomain"));
      return z.object({ subdomain: z.string() }).parse(result).subdomain;
    } catch (failure) {
      // 10007: the account has not chosen one.
      if (failure instanceof CloudflareError && failure.codes.includes(10_007)) return null;
      throw failure;
    }
  }

  async databases(): Promise<Found[]> {
    const rows = await this.#pages(this.#at("/d1/database"), { per_page: String(PAGE) });
    return z.array(Database).parse(rows).map(databaseOf);
  }

  async createDatabase(name: string, place: Place): Promise<Found> {
    const { location, jurisdiction } = place;
    const body = { name, ...(jurisdiction ? { jurisdiction } : location ? { primary_location_hint: location } : {}) };
    return databaseOf(Database.parse(await this.#write("POST", this.#at("/d1/database"), body)));
  }

  deleteDatabase(id: string): Promise<unknown> {
    return this.#write("DELETE", this.#at(`/d1/database/${id}`));
  }

  async queues(): Promise<Found[]> {
    return z
      .array(Queue)
      .parse(await this.#pages(this.#at("/queues"), {}))
      .map(queueOf);
  }

  async createQueue(name: string, { jurisdiction }: Place): Promise<Found> {
    const body = { queue_name: name, ...(jurisdiction && { jurisdiction }) };
    return queueOf(Queue.parse(await this.#write("POST", this.#at("/queues"), body)));
  }

  deleteQueue(id: string): Promise<unknown> {
    return this.#write("DELETE", this.#at(`/queues/${id}`));
  }

  /** Buckets, by pages with a cursor. */
  async buckets(jurisdiction: string | null): Promise<Found[]> {
    const found: Found[] = [];
    for (let cursor = ""; ; ) {
      const query = new URLSearchParams({ per_page: String(PAGE), ...(cursor && { cursor }) });
      const page = await this.#read(this.#at(`/r2/buckets?${query}`), placeOf(jurisdiction));
      const { buckets } = z.object({ buckets: z.array(Bucket) }).parse(page.result);
      found.push(...buckets.map(bucketOf));
      cursor = page.result_info?.cursor ?? "";
      if (cursor === "") return found;
    }
  }

  async createBucket(name: string, place: Place): Promise<Found> {
    const { location, jurisdiction } = place;
    const body = { name, ...(location && !jurisdiction ? { locationHint: location } : {}) };
    return bucketOf(Bucket.parse(await this.#write("POST", this.#at("/r2/buckets"), body, placeOf(jurisdiction))));
  }

  /** Refused by the service while the bucket has objects. */
  deleteBucket(name: string, jurisdiction: string | null): Promise<unknown> {
    return this.#write("DELETE", this.#at(`/r2/buckets/${name}`), undefined, placeOf(jurisdiction));
  }

  /** The id of the account's Secrets Store, of which there is one at most; null without one. */
  async secretsStore(): Promise<string | null> {
    const [store] = z
      .array(z.object({ id: z.string() }))
      .parse(await this.#pages(this.#at("/secrets_store/stores"), {}));
    return store?.id ?? null;
  }

  async createSecretsStore(): Promise<string> {
    const made = await this.#write("POST", this.#at("/secrets_store/stores"), { name: "default_secrets_store" });
    // One store, or a list of it: published clients differ.
    const [store] = z
      .array(z.object({ id: z.string() }))
      .min(1)
      .parse(Array.isArray(made) ? made : [made]);
    return store?.id ?? "";
  }

  /** The secrets of a store, without their values, which no call returns. */
  async storedSecrets(store: string): Promise<Found[]> {
    const rows = await this.#pages(this.#at(`/secrets_store/stores/${store}/secrets`), {});
    return z.array(Stored).parse(rows).map(storedOf);
  }

  /** Makes a secret that Workers can be bound to. */
  async createStoredSecret(store: string, name: string, value: string): Promise<Found> {
    const body = [{ name, value, scopes: ["workers"], comment: "MASTER_KEY of Sallyport" }];
    const made = await this.#write("POST", this.#at(`/secrets_store/stores/${store}/secrets`), body);
    const secret = z
      .array(Stored)
      .parse(made)
      .find((each) => each.name === name);
    if (secret === undefined) throw new CloudflareError("POST secrets", 200, [{ code: 0, message: "no such secret" }]);
    return storedOf(secret);
  }

  deleteStoredSecret(store: string, id: string): Promise<unknown> {
    return this.#write("DELETE", this.#at(`/secrets_store/stores/${store}/secrets/${id}`));
  }

  async workers(): Promise<Found[]> {
    const { result } = await this.#read(this.#at("/workers/scripts"));
    return z
      .array(Script)
      .parse(result)
      .map(({ id, created_on }) => ({ id, name: id, created: timeOf(created_on) }));
  }

  /** The ids of databases that a Worker is bound to. */
  async databasesOf(worker: string): Promise<string[]> {
    const { result } = await this.#read(this.#at(`/workers/scripts/${worker}/settings`));
    const { bindings } = z.object({ bindings: z.array(z.looseObject({ type: z.string() })) }).parse(result);
    return bindings.flatMap((each) => (each.type === "d1" ? [String(each["id"] ?? each["database_id"] ?? "")] : []));
  }

  /** The Worker that has a custom domain; null without one. */
  async workerAt(hostname: string): Promise<string | null> {
    const { result } = await this.#read(this.#at(`/workers/domains?${new URLSearchParams({ hostname })}`));
    const domains = z.array(z.object({ hostname: z.string(), service: z.string() })).parse(result ?? []);
    return domains.find((each) => each.hostname === hostname)?.service ?? null;
  }

  /** Whether a name has DNS records in its zone; null without a zone in the account. */
  async hasRecords(hostname: string): Promise<boolean | null> {
    const labels = hostname.split(".");
    for (let from = 0; from < labels.length - 1; from++) {
      const query = new URLSearchParams({ name: labels.slice(from).join("."), "account.id": this.account });
      const [zone] = z.array(z.object({ id: z.string() })).parse((await this.#read(`/zones?${query}`)).result);
      if (zone === undefined) continue;
      const records = await this.#read(`/zones/${zone.id}/dns_records?${new URLSearchParams({ name: hostname })}`);
      return z.array(z.unknown()).parse(records.result).length > 0;
    }
    return null;
  }

  /** Deletes a Worker with its objects and their data. */
  deleteWorker(name: string): Promise<unknown> {
    return this.#write("DELETE", this.#at(`/workers/scripts/${name}?force=true`));
  }

  #at(path: string): string {
    return `/accounts/${this.account}${path}`;
  }

  /** All items of a list by pages of numbers. */
  async #pages(path: string, query: Readonly<Record<string, string>>): Promise<unknown[]> {
    const items: unknown[] = [];
    for (let page = 1; ; page++) {
      const { result, result_info } = await this.#read(
        `${path}?${new URLSearchParams({ ...query, page: String(page) })}`,
      );
      const part = z.array(z.unknown()).parse(result ?? []);
      items.push(...part);
      const isLast =
        result_info?.total_pages != null
          ? page >= result_info.total_pages
          : items.length >= (result_info?.total_count ?? 0);
      if (part.length === 0 || isLast) return items;
    }
  }

  async #read(path: string, headers: Readonly<Record<string, string>> = {}) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#send("GET", path, undefined, headers);
      } catch (failure) {
        const isTransient =
          failure instanceof CloudflareError &&
          (failure.status === 0 || failure.status === 429 || failure.status >= 500);
        if (!isTransient || attempt >= ATTEMPTS) throw failure;
        await sleep(250 * 2 ** attempt);
      }
    }
  }

  async #write(
    method: "POST" | "DELETE",
    path: string,
    body?: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<unknown> {
    return (await this.#send(method, path, body, headers)).result;
  }

  async #send(method: string, path: string, body: object | undefined, headers: Readonly<Record<string, string>>) {
    const shown = `${method} ${path.replace(/\?.*/, "")}`;
    let status = 0;
    let text = "";
    try {
      const response = await fetch(`${this.#base}${path}`, {
        method,
        redirect: "error",
        signal: AbortSignal.timeout(PATIENCE_MS),
        headers: {
          Authorization: `Bearer ${this.#token}`,
          ...(body && { "Content-Type": "application/json" }),
          ...headers,
        },
        ...(body && { body: JSON.stringify(body) }),
      });
      status = response.status;
      text = await response.text();
    } catch (failure) {
      const { cause, message } = failure as Error;
      throw new CloudflareError(shown, 0, [{ code: 0, message: cause instanceof Error ? cause.message : message }]);
    }
    const parsed = Envelope.safeParse(jsonOf(text));
    if (!parsed.success) throw new CloudflareError(shown, status, [{ code: 0, message: "not an answer of the API" }]);
    if (status >= 300 || !parsed.data.success) throw new CloudflareError(shown, status, parsed.data.errors ?? []);
    return parsed.data;
  }
}

const placeOf = (jurisdiction: string | null): Record<string, string> =>
  jurisdiction ? { "cf-r2-jurisdiction": jurisdiction } : {};

const timeOf = (text: string | null | undefined): number | null => {
  const ms = Date.parse(text ?? "");
  return Number.isNaN(ms) ? null : ms;
};

const databaseOf = ({ uuid, name, created_at }: z.infer<typeof Database>): Found => ({
  id: uuid,
  name,
  created: timeOf(created_at),
});
const queueOf = ({ queue_id, queue_name, created_on }: z.infer<typeof Queue>): Found => ({
  id: queue_id,
  name: queue_name,
  created: timeOf(created_on),
});
const storedOf = ({ id, name, created }: z.infer<typeof Stored>): Found => ({ id, name, created: timeOf(created) });
const bucketOf = ({ name, creation_date }: z.infer<typeof Bucket>): Found => ({
  id: name,
  name,
  created: timeOf(creation_date),
});

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
