import { randomBytes, randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";

/** The state of one Cloudflare account of the double, with the rules of its products. */

/** A refusal in the API's words. */
export class Refused extends Error {
  readonly status: number;
  readonly code: number;
  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface Worker {
  readonly created: string;
  readonly tag: string;
  metadata: Metadata;
  /** The names of uploaded modules. */
  modules: string[];
  secrets: Map<string, string>;
  schedules: string[];
  isOnWorkersDev: boolean;
  deployments: number;
}

export interface Binding {
  readonly type: string;
  readonly name: string;
  readonly [field: string]: unknown;
}

export interface Metadata {
  readonly bindings: readonly Binding[];
  readonly keep_bindings?: readonly string[];
  readonly migrations?: { readonly new_tag: string; readonly old_tag?: string; readonly steps: readonly object[] };
  readonly [field: string]: unknown;
}

interface Consumer {
  readonly consumer_id: string;
  readonly type: "worker";
  readonly script: string;
  readonly environment: string;
  dead_letter_queue?: string;
  settings: object;
}

export interface Queue {
  readonly queue_id: string;
  readonly queue_name: string;
  readonly created_on: string;
  readonly consumers: Consumer[];
  readonly jurisdiction?: string | undefined;
}

const hex = (): string => randomBytes(16).toString("hex");
const QUEUE_NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const BUCKET_NAME = /^[a-z0-9](?:[a-z0-9-]{1,61}[a-z0-9])$/;

/** The binding of a name as the version before has it. */
function inherited(name: string, was: Worker | undefined): Binding {
  const found = was?.metadata.bindings.find((each) => each.name === name);
  if (!found) throw new Refused(400, 10_021, `binding ${name}: nothing to inherit`);
  return found;
}

type Product = "d1" | "queues" | "r2" | "secrets_store" | "workers";

export class CloudflareAccount {
  readonly id = hex();
  readonly token = `cf-token-${randomUUID()}`;
  tokenStatus = "active";
  /** Null: not chosen. */
  subdomain: string | null = "double";
  /** Products that the token must not use. */
  readonly forbidden = new Set<Product>();
  /** Products that the token may read, and not change. */
  readonly readOnly = new Set<Product>();
  readonly databases = new Map<string, { name: string; created: string; body: object; sql: DatabaseSync }>();
  readonly queues = new Map<string, Queue>();
  readonly buckets = new Map<string, { created: string; jurisdiction: string; objects: number }>();
  /** The account's one store, with its secrets by name; null: none was made. */
  store: {
    readonly id: string;
    readonly secrets: Map<string, { readonly id: string; readonly value: string }>;
  } | null = null;
  readonly workers = new Map<string, Worker>();
  /** Workers by their custom domains. */
  readonly domains = new Map<string, string>();
  readonly zones = new Map<string, { readonly name: string; readonly records: string[] }>();
  /** Hashes of uploaded static assets. */
  readonly assets = new Set<string>();
  /** `METHOD path` of each call, oldest first. */
  readonly calls: string[] = [];
  /** Runs after a change was made, and before its answer. `cut` ends the connection without an answer. */
  afterWrite: (call: string) => "cut" | undefined = () => undefined;

  get writes(): string[] {
    return this.calls.filter((call) => !call.startsWith("GET "));
  }

  createDatabase(body: { readonly name: string }) {
    if ([...this.databases.values()].some(({ name }) => name === body.name))
      throw new Refused(409, 7502, `Database with name '${body.name}' already exists`);
    const uuid = randomUUID();
    const made = { name: body.name, created: new Date().toISOString(), body, sql: new DatabaseSync(":memory:") };
    this.databases.set(uuid, made);
    return uuid;
  }

  /** By id or name, as the API takes both. */
  database(idOrName: string) {
    const found = [...this.databases].find(([id, { name }]) => id === idOrName || name === idOrName);
    if (!found) throw new Refused(404, 7404, `The database ${idOrName} could not be found`);
    return { uuid: found[0], ...found[1] };
  }

  createQueue(name: string, jurisdiction?: string): Queue {
    if (!QUEUE_NAME.test(name)) throw new Refused(400, 11_003, `Invalid queue name: ${name}`);
    if (this.queueNamed(name)) throw new Refused(409, 11_009, `Queue name '${name}' is already taken.`);
    const queue = {
      queue_id: hex(),
      queue_name: name,
      created_on: new Date().toISOString(),
      consumers: [],
      jurisdiction,
    };
    this.queues.set(queue.queue_id, queue);
    return queue;
  }

  queueNamed(name: string): Queue | undefined {
    return [...this.queues.values()].find(({ queue_name }) => queue_name === name);
  }

  queue(id: string): Queue {
    const found = this.queues.get(id);
    if (!found) throw new Refused(404, 11_000, "Queue not found");
    return found;
  }

  /** One consumer a queue, and dead letters only to a queue that exists. */
  consume(
    id: string,
    body: { script_name: string; dead_letter_queue?: string | undefined; settings: object },
    was?: string,
  ) {
    const queue = this.queue(id);
    if (!this.workers.has(body.script_name))
      throw new Refused(404, 11_005, "The Worker of the consumer does not exist");
    const dead = body.dead_letter_queue;
    if (dead !== undefined && !this.queueNamed(dead))
      throw new Refused(404, 11_000, "The dead letter queue does not exist");
    const known = queue.consumers.find(({ consumer_id }) => consumer_id === was);
    if (was !== undefined && !known) throw new Refused(404, 11_006, "Consumer not found");
    if (was === undefined && queue.consumers.length > 0)
      throw new Refused(400, 11_004, "workers.api.error.consumer_exists");
    const fields = { settings: body.settings, ...(dead !== undefined && { dead_letter_queue: dead }) };
    if (known) return Object.assign(known, fields);
    const made = {
      consumer_id: hex(),
      type: "worker" as const,
      script: body.script_name,
      environment: "production",
      ...fields,
    };
    queue.consumers.push(made);
    return made;
  }

  createBucket(name: string, jurisdiction: string): { created: string } {
    if (!BUCKET_NAME.test(name)) throw new Refused(400, 10_005, "The specified bucket name is not valid.");
    if (this.buckets.has(name))
      throw new Refused(409, 10_004, "The bucket you tried to create already exists, and you own it.");
    const made = { created: new Date().toISOString(), jurisdiction, objects: 0 };
    this.buckets.set(name, made);
    return made;
  }

  bucket(name: string, jurisdiction: string) {
    const bucket = this.buckets.get(name);
    if (bucket?.jurisdiction !== jurisdiction) throw new Refused(404, 10_006, "The specified bucket does not exist.");
    return bucket;
  }

  deleteBucket(name: string, jurisdiction: string): void {
    const bucket = this.bucket(name, jurisdiction);
    if (bucket.objects > 0)
      throw new Refused(409, 10_008, `The bucket you tried to delete (${name}) is not empty (account ${this.id})`);
    this.buckets.delete(name);
  }

  createStore(): string {
    if (this.store) throw new Refused(400, 1002, "maximum_stores_exceeded");
    this.store = { id: hex(), secrets: new Map() };
    return this.store.id;
  }

  secretsOf(store: string) {
    if (this.store?.id !== store) throw new Refused(404, 1001, "store_not_found");
    return this.store.secrets;
  }

  createStoredSecret(store: string, name: string, value: string): string {
    const secrets = this.secretsOf(store);
    if (secrets.has(name)) throw new Refused(409, 1003, "secret_name_already_exists");
    secrets.set(name, { id: hex(), value });
    return secrets.get(name)?.id ?? "";
  }

  /** Refused while a Worker is bound to it: stricter than documented. */
  deleteStoredSecret(store: string, id: string): void {
    const secrets = this.secretsOf(store);
    const [name] = [...secrets].find(([, each]) => each.id === id) ?? [];
    if (name === undefined) throw new Refused(404, 1001, "secret_not_found");
    const isBound = [...this.workers.values()].some(({ metadata }) =>
      metadata.bindings.some((each) => each["secret_name"] === name),
    );
    if (isBound) throw new Refused(409, 1004, "secret_in_use");
    secrets.delete(name);
  }

  worker(name: string): Worker {
    const found = this.workers.get(name);
    if (!found) throw new Refused(404, 10_007, "This Worker does not exist on your account.");
    return found;
  }

  /** Uploads a script, by the platform's rules for bindings and for migrations of objects. */
  upload(name: string, metadata: Metadata, modules: readonly string[]): Worker {
    const was = this.workers.get(name);
    const last = was?.metadata.migrations?.new_tag;
    const { migrations } = metadata;
    if (migrations && migrations.old_tag !== last)
      throw new Refused(412, 10_079, `The migration tag is ${last ?? "none"}, not ${migrations.old_tag ?? "none"}`);
    const bindings = metadata.bindings.map((each) => (each.type === "inherit" ? inherited(each.name, was) : each));
    for (const binding of bindings) this.#refuseMissing(binding);
    // Secrets that are not named are lost; wrangler asks to keep them.
    const secrets = new Map(metadata.keep_bindings?.includes("secret_text") ? was?.secrets : []);
    for (const { type, name: secret, text } of bindings) if (type === "secret_text") secrets.set(secret, String(text));
    const made: Worker = {
      created: was?.created ?? new Date().toISOString(),
      tag: was?.tag ?? hex(),
      metadata: {
        ...metadata,
        bindings,
        ...(!migrations && was?.metadata.migrations && { migrations: was.metadata.migrations }),
      },
      modules: [...modules],
      secrets,
      schedules: was?.schedules ?? [],
      isOnWorkersDev: was?.isOnWorkersDev ?? false,
      deployments: (was?.deployments ?? 0) + 1,
    };
    this.workers.set(name, made);
    return made;
  }

  deleteWorker(name: string, isForced: boolean): void {
    const { metadata } = this.worker(name);
    const hasObjects = metadata.bindings.some(({ type }) => type === "durable_object_namespace");
    const isConsumer = [...this.queues.values()].some(({ consumers }) =>
      consumers.some(({ script }) => script === name),
    );
    if ((hasObjects || isConsumer) && !isForced)
      throw new Refused(400, 10_064, "This Worker has Durable Objects or consumes queues: delete it with force");
    this.workers.delete(name);
    for (const { consumers } of this.queues.values())
      consumers.splice(0, consumers.length, ...consumers.filter(({ script }) => script !== name));
  }

  #refuseMissing({ type, name, ...fields }: Binding): void {
    const missing = (what: string) => new Refused(400, 10_021, `binding ${name} of type ${type}: ${what} not found`);
    if (type === "d1" && !this.databases.has(String(fields["id"]))) throw missing("database");
    if (type === "queue" && !this.queueNamed(String(fields["queue_name"]))) throw missing("queue");
    if (type === "secrets_store_secret") {
      const { store_id, secret_name } = fields as Record<string, unknown>;
      if (!this.secretsOf(String(store_id)).has(String(secret_name))) throw missing("secret");
    }
    if (type === "r2_bucket") {
      const bucket = this.buckets.get(String(fields["bucket_name"]));
      if (bucket?.jurisdiction !== (fields["jurisdiction"] ?? "default")) throw missing("bucket");
    }
    if (type === "ratelimit" && !/^[1-9]\d{0,9}$/.test(String(fields["namespace_id"]))) throw missing("namespace_id");
  }
}
