import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * A stand-in for Vault as a source of imports, by its public API documentation
 * (https://developer.hashicorp.com/vault/api-docs): reads only, and strict. A request that Vault would refuse, and every
 * write, is kept in `faults`. Values are texts, which Vault returns with all digits of their numbers.
 */

export interface FakeVersion {
  /** JSON text of an object. */
  readonly value: string;
  /** RFC 3339, or empty. */
  readonly deletion_time?: string;
  readonly destroyed?: boolean;
}

export interface FakeSecret {
  /** By number; older ones were removed. */
  readonly versions: Readonly<Record<number, FakeVersion>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface FakeMount {
  readonly type: string;
  readonly options: Readonly<Record<string, string>> | null;
  readonly accessor: string;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Version 2. */
  readonly secrets?: Readonly<Record<string, FakeSecret>>;
  /** Version 1: texts. */
  readonly values?: Readonly<Record<string, string>>;
  readonly description?: string;
  readonly ttls?: { readonly default_lease_ttl: number; readonly max_lease_ttl: number };
  /** Of an engine of another type: data by path below the mount, the keys of a list by `LIST path`; null: 404. */
  readonly answers?: Readonly<Record<string, object | null>>;
}

export interface FakeDestination {
  readonly connection_details: Readonly<Record<string, unknown>>;
  readonly options: Readonly<Record<string, unknown>>;
  /** Accessor, name of secret and key. */
  readonly associations: readonly (readonly [accessor: string, secret: string, key?: string])[];
}

export interface FakeNamespace {
  readonly mounts: Readonly<Record<string, FakeMount>>;
  readonly policies: Readonly<Record<string, string>>;
  /** By type and name. */
  readonly destinations?: Readonly<Record<string, FakeDestination>>;
  readonly apps?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

interface Answer {
  readonly status: number;
  /** JSON text. */
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

type Trouble = "reset" | Answer | null;

export const TOKEN = "hvs.source";
const NONE: Answer = { status: 404, body: '{"errors":[]}' };
const DENIED: Answer = { status: 403, body: '{"errors":["1 error occurred:\\n\\t* permission denied\\n\\n"]}' };

/** As Go's encoder writes strings: `<`, `>` and `&` are escaped. */
const goJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[<>&]/g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`);

const envelope = (data: string, status = 200): Answer => ({
  status,
  body: `{"request_id":"6b9ba5c5","lease_id":"","renewable":false,"lease_duration":0,"data":${data},"wrap_info":null,"warnings":null,"auth":null}`,
});

export class FakeVault {
  /** By path without slashes around it; the root is empty. */
  readonly namespaces: Readonly<Record<string, FakeNamespace>>;
  /** Refused requests and writes. */
  readonly faults: string[] = [];
  /** Paths with this prefix are denied. */
  denied: readonly string[] = [];
  /** Called for every request. */
  trouble: (path: string) => Trouble | Promise<Trouble> = () => null;
  requests = 0;
  #running = 0;
  /** The most requests at once. */
  mostAtOnce = 0;
  #url = "";
  readonly #server = createServer((request, response) => {
    void this.#answer(request).then((answer) => {
      if (answer === null) return response.socket?.destroy();
      response.writeHead(answer.status, { "content-type": "application/json", ...answer.headers });
      response.end(answer.body);
    });
  });

  constructor(namespaces: Readonly<Record<string, FakeNamespace>>) {
    this.namespaces = namespaces;
  }

  get url(): string {
    return this.#url;
  }

  async start(): Promise<void> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    this.#url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #answer(request: IncomingMessage): Promise<Answer | null> {
    this.requests += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#running);
    try {
      const url = new URL(request.url ?? "", "http://vault");
      const trouble = await this.trouble(url.pathname);
      // Lets others arrive meanwhile.
      await sleep(1);
      if (trouble === "reset") return null;
      return trouble ?? this.#route(request, url);
    } finally {
      this.#running -= 1;
    }
  }

  #route(request: IncomingMessage, url: URL): Answer {
    const { method = "", headers } = request;
    if (headers["x-vault-token"] !== TOKEN) return DENIED;
    const isList = method === "LIST" || (method === "GET" && url.searchParams.get("list") === "true");
    const shown = `${method} ${url.pathname}`;
    if (method !== "GET" && method !== "LIST") {
      this.faults.push(shown);
      return { status: 405, body: '{"errors":["1 error occurred:\\n\\t* unsupported operation\\n\\n"]}' };
    }
    const namespace = this.namespaces[String(headers["x-vault-namespace"] ?? "").replace(/^\/|\/$/g, "")];
    const path = decodeURIComponent(url.pathname.replace(/^\/v1\//, ""));
    if (namespace === undefined) {
      this.faults.push(`namespace of ${shown}`);
      return { status: 404, body: '{"errors":["no handler for route \\"x\\". route entry not found."]}' };
    }
    if (this.denied.some((prefix) => path.startsWith(prefix))) return DENIED;
    const at = String(headers["x-vault-namespace"] ?? "").replace(/^\/|\/$/g, "");
    const answer = path.startsWith("sys/")
      ? this.#system(path.slice(4), isList, namespace, at)
      : this.#secret(path, isList, namespace, url.searchParams.get("version"));
    if (answer !== undefined) return answer;
    this.faults.push(shown);
    return {
      status: 404,
      body: `{"errors":[${JSON.stringify(`no handler for route "${path}". route entry not found.`)}]}`,
    };
  }

  #system(path: string, isList: boolean, namespace: FakeNamespace, at: string): Answer | undefined {
    const { policies, destinations = {}, apps = {} } = namespace;
    if (path === "mounts") return envelope(goJson(this.#mounts(namespace)));
    if (path === "internal/ui/mounts") return envelope(goJson({ auth: {}, secret: this.#mounts(namespace) }));
    if (path === "namespaces" && isList) return keys(this.#children(at));
    if (path === "policies/acl" && isList) return keys([...Object.keys(policies), "default", "root"]);
    const [, policy] = /^policies\/acl\/(.+)$/.exec(path) ?? [];
    if (policy !== undefined) {
      const text = policy === "default" ? "# the default policy" : policies[policy];
      return text === undefined ? NONE : envelope(goJson({ name: policy, policy: text }));
    }
    const types = [...new Set(Object.keys(destinations).map((name) => name.split("/")[0] ?? ""))];
    const namesOf = (type: string) =>
      Object.keys(destinations).flatMap((name) => (name.startsWith(`${type}/`) ? [name.slice(type.length + 1)] : []));
    if (path === "sync/destinations" && isList) return keys(types.map((type) => `${type}/`));
    if (path === "sync/github-apps" && isList) return keys(Object.keys(apps));
    const [, app] = /^sync\/github-apps\/([^/]+)$/.exec(path) ?? [];
    if (app !== undefined) return apps[app] ? envelope(goJson({ name: app, ...apps[app] })) : NONE;
    const [, type = "", name, tail] = /^sync\/destinations\/([^/]+)(?:\/([^/]+))?(\/associations)?$/.exec(path) ?? [];
    if (name === undefined) return isList ? keys(namesOf(type)) : undefined;
    const destination = destinations[`${type}/${name}`];
    if (destination === undefined) return NONE;
    const { associations, ...fields } = destination;
    if (tail === undefined) return envelope(goJson({ ...fields, name, type }));
    const secrets = associations.map(([accessor, secret_name, sub_key]) => [
      [accessor, secret_name, ...(sub_key ? [sub_key] : [])].join("/"),
      { accessor, secret_name, ...(sub_key && { sub_key }), sync_status: "SYNCED", updated_at: "2026-11-01T00:00:00Z" },
    ]);
    return envelope(goJson({ store_name: name, store_type: type, associated_secrets: Object.fromEntries(secrets) }));
  }

  #mounts({ mounts }: FakeNamespace): object {
    const shown = Object.entries(mounts).map(([path, { type, options, accessor, description, ttls }]) => [
      path,
      {
        type,
        options,
        accessor,
        description: description ?? `mount ${path}`,
        local: false,
        config: { default_lease_ttl: 0, max_lease_ttl: 0, force_no_cache: false, ...ttls },
      },
    ]);
    return { ...Object.fromEntries(shown), "sys/": { type: "system", options: null, accessor: "system_1" } };
  }

  /** Names of direct children. */
  #children(at: string): string[] {
    const below = at === "" ? "" : `${at}/`;
    return Object.keys(this.namespaces)
      .filter((path) => path !== at && path.startsWith(below) && path !== "" && !path.slice(below.length).includes("/"))
      .map((path) => `${path.slice(below.length)}/`);
  }

  #secret(path: string, isList: boolean, { mounts }: FakeNamespace, version: string | null): Answer | undefined {
    const [at, mount] = Object.entries(mounts).find(([prefix]) => `${path}/`.startsWith(prefix)) ?? [];
    if (at === undefined || mount === undefined) return undefined;
    const rest = path.slice(at.length);
    if (mount.type !== "kv") {
      const answer = mount.answers?.[isList ? `LIST ${rest.replace(/\/$/, "")}` : rest];
      return (
        (answer && (Array.isArray(answer) ? keys(answer) : envelope(goJson(answer)))) ||
        (answer === null ? NONE : undefined)
      );
    }
    if (mount.options?.["version"] !== "2") {
      if (isList) return keys(childrenIn(Object.keys(mount.values ?? {}), rest));
      const value = mount.values?.[rest];
      return value === undefined ? NONE : envelope(value);
    }
    const [, kind = "", name = ""] = /^(config|data|metadata)(?:\/(.*))?$/.exec(rest) ?? [];
    const { secrets = {} } = mount;
    if (kind === "config")
      return envelope(goJson({ cas_required: false, delete_version_after: "0s", max_versions: 0, ...mount.config }));
    if (kind === "metadata" && isList) return keys(childrenIn(Object.keys(secrets), name));
    const secret = secrets[name];
    if (kind === "" || name === "") return undefined;
    if (secret === undefined) return NONE;
    return kind === "metadata" ? metadataOf(secret) : dataOf(secret, version);
  }
}

const keys = (names: readonly string[]): Answer =>
  names.length === 0 ? NONE : envelope(goJson({ keys: [...names].sort() }));

function childrenIn(paths: readonly string[], folder: string): string[] {
  const below = folder === "" ? "" : folder.replace(/\/?$/, "/");
  const inside = paths.filter((path) => path.startsWith(below)).map((path) => path.slice(below.length));
  return [...new Set(inside.map((path) => (path.includes("/") ? path.slice(0, path.indexOf("/") + 1) : path)))];
}

const CREATED = "2026-10-01T08:00:00.123456789Z";

const stateOf = ({ deletion_time = "", destroyed = false }: FakeVersion) => ({
  created_time: CREATED,
  deletion_time,
  destroyed,
});

function metadataOf({ versions, metadata = {} }: FakeSecret): Answer {
  const numbers = Object.keys(versions).map(Number);
  const first = Math.min(...numbers);
  return envelope(
    goJson({
      cas_required: false,
      created_time: CREATED,
      custom_metadata: null,
      delete_version_after: "0s",
      max_versions: 0,
      updated_time: CREATED,
      oldest_version: first > 1 ? first : 0,
      current_version: numbers.length === 0 ? 0 : Math.max(...numbers),
      ...metadata,
      versions: Object.fromEntries(numbers.map((number) => [number, stateOf(versions[number] as FakeVersion)])),
    }),
  );
}

function dataOf({ versions }: FakeSecret, asked: string | null): Answer {
  const number = Number(asked ?? 0) || Math.max(...Object.keys(versions).map(Number));
  const version = versions[number];
  if (version === undefined) return NONE;
  const state = stateOf(version);
  const isGone = state.destroyed || (state.deletion_time !== "" && Date.parse(state.deletion_time) <= Date.now());
  const metadata = goJson({ ...state, custom_metadata: null, version: number });
  return envelope(`{"data":${isGone ? "null" : version.value},"metadata":${metadata}}`, isGone ? 404 : 200);
}
