import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { tryParseJson } from "../../../lib/json.ts";
import { memo } from "../../../lib/memo.ts";
import { type ClientAssertion, signed } from "../../../providers/identity-token.ts";
import {
  failure,
  retryAfterMs,
  type Send,
  throttleHintMs,
  withoutEffect,
  withUnsureEffect,
} from "../../../providers/outcome.ts";
import type { Meaning, RestMethod } from "../../../providers/rest.ts";
import { TokenCache } from "../../../providers/token-cache.ts";
import type { CallContext } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import type { KvV2Connection } from "./connection.ts";

/**
 * A client of one KV v2 engine by the HTTP API of Vault and OpenBao
 * (https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2). Logs in by a given token, or by the JWT auth method.
 */

/** A failed call. `status` is null without an answer; `absent`: the path is known, and nothing is there. */
export interface Refused {
  readonly ok: false;
  readonly status: number | null;
  readonly absent: boolean;
  /** The check-and-set version, of the data or the metadata, is not the current one. */
  readonly contended: boolean;
  readonly outcome: Failure;
}

type Answer = { readonly ok: true; readonly status: number; readonly body: unknown } | Refused;

/** The metadata of a secret. */
export interface Metadata {
  /** Counts on after deletions; 0 without a version. */
  readonly current: number;
  /** The version of the metadata itself; absent at Vault. */
  readonly revision: number | undefined;
  /** When the current version was written; null when it is deleted, destroyed or gone. */
  readonly created: string | null;
  readonly tags: Readonly<Record<string, string>>;
}

export interface Version {
  readonly version: number;
  readonly created: string;
}

export type KvV2 = ReturnType<typeof kvV2>;

interface Login {
  readonly token: string;
  readonly expiresAt: number;
}

/** Sessions of the JWT auth method, with four fifths of their lease. */
const logins = new TokenCache<Login>({ marginMs: 0 });
/** Places that were checked. */
const places = new TokenCache<{ readonly expiresAt: number }>({ marginMs: 0 });
const PLACE_MS = 10 * 60_000;
/** The life of a token without a lease. */
const ENDLESS_MS = 60 * 60_000;

const schemas = memo(() => {
  const version = z.object({ created_time: z.string(), deletion_time: z.string(), destroyed: z.boolean() });
  return {
    errors: z.object({ errors: z.array(z.string()).default([]) }),
    health: z.object({ cluster_id: z.string() }),
    mount: z.object({
      data: z.object({ type: z.string(), options: z.record(z.string(), z.unknown()).nullish() }),
    }),
    login: z.object({ auth: z.object({ client_token: z.string().min(1), lease_duration: z.number().min(0) }) }),
    metadata: z.object({
      data: z.object({
        current_version: z.number(),
        current_metadata_version: z.number().optional(),
        custom_metadata: z.record(z.string(), z.string()).nullish(),
        versions: z.record(z.string(), version).nullish(),
      }),
    }),
    data: z.object({ data: z.object({ data: z.unknown() }) }),
    list: z.object({ data: z.object({ keys: z.array(z.string()) }) }),
    written: z.object({ data: z.object({ version: z.number(), created_time: z.string() }) }),
  };
});

export function kvV2(connection: KvV2Connection, context: CallContext) {
  const { address, mount, target_namespace: namespace } = connection;
  const at = (kind: "data" | "metadata", name: string) => `${mount}/${kind}/${name}`;
  const session = sessionOf(connection, context);

  async function call(
    doing: string,
    method: RestMethod,
    path: string,
    { body, type = "application/json", query = "" }: { body?: string; type?: string; query?: string } = {},
  ): Promise<Answer> {
    // A name that another writer has chosen must not lead out of the mount.
    if (!isPath(path.replace(/\/$/, ""))) return unanswered(PATH_REFUSED);
    for (let attempt = 1; ; attempt++) {
      const token = await session.token();
      if (!token.ok) return token;
      const headers = {
        "x-vault-request": "true",
        "x-vault-token": token.value,
        ...(namespace && { "x-vault-namespace": namespace }),
        ...(body !== undefined && { "content-type": type }),
      };
      const init = { method, headers, ...(body !== undefined && { body }) };
      const answer = await send(doing, [`${address}/v1/${encoded(path)}${query}`, init], context);
      if (answer.ok || answer.status !== 403) return answer;
      // A session may have been revoked before its end.
      if (session.forget() && attempt === 1) continue;
      return (await session.isValid()) ? answer : unanswered(TOKEN_REFUSED);
    }
  }

  return {
    /** The metadata of a secret, or null without any. */
    async metadata(name: string): Promise<{ ok: true; metadata: Metadata | null } | Refused> {
      const doing = `Reading the metadata of ${name}`;
      const answer = await call(doing, "GET", at("metadata", name));
      if (!answer.ok) return answer.absent ? { ok: true, metadata: null } : answer;
      const parsed = schemas().metadata.safeParse(answer.body);
      if (!parsed.success) return unreadable("external", doing);
      const { current_version: current, current_metadata_version: revision } = parsed.data.data;
      const { custom_metadata: tags, versions } = parsed.data.data;
      const newest = versions?.[String(current)];
      const isDeleted = newest && newest.deletion_time !== "" && Date.parse(newest.deletion_time) <= Date.now();
      const created = newest && !newest.destroyed && !isDeleted ? newest.created_time : null;
      return { ok: true, metadata: { current, revision, created, tags: tags ?? {} } };
    },

    /** The current version's data. */
    async data(name: string): Promise<{ ok: true; data: unknown } | Refused> {
      const doing = `Reading ${name}`;
      const answer = await call(doing, "GET", at("data", name));
      if (!answer.ok) return answer;
      const parsed = schemas().data.safeParse(answer.body);
      return parsed.success ? { ok: true, data: parsed.data.data.data } : unreadable("external", doing);
    },

    /** The names directly in a folder, folders with a slash at the end. @param folder "" or a path with one at the end */
    async list(folder: string): Promise<{ ok: true; names: readonly string[] } | Refused> {
      const doing = `Listing ${folder || "the secrets"}`;
      const answer = await call(doing, "GET", at("metadata", folder), { query: "?list=true" });
      if (!answer.ok) return answer.absent ? { ok: true, names: [] } : answer;
      const parsed = schemas().list.safeParse(answer.body);
      return parsed.success ? { ok: true, names: parsed.data.data.keys } : unreadable("external", doing);
    },

    /** Writes a version when `cas` is the current one. @param data the JSON text of an object */
    async write(name: string, data: string, cas: number): Promise<({ ok: true } & Version) | Refused> {
      const doing = `Writing ${name}`;
      // Numbers are kept as they are spelled: the data is not parsed here.
      const answer = await call(doing, "POST", at("data", name), { body: `{"options":{"cas":${cas}},"data":${data}}` });
      if (!answer.ok) return answer;
      const parsed = schemas().written.safeParse(answer.body);
      if (!parsed.success) return unreadable("unknown", doing);
      return { ok: true, version: parsed.data.data.version, created: parsed.data.data.created_time };
    },

    /** Merges into the custom metadata; null removes a key. */
    async tag(name: string, tags: Readonly<Record<string, string | null>>): Promise<{ ok: true } | Refused> {
      const type = "application/merge-patch+json";
      const patch = (version?: number) => {
        const body = JSON.stringify({ custom_metadata: tags, metadata_cas: version });
        return call(`Marking ${name}`, "PATCH", at("metadata", name), { body, type });
      };
      const answer = await patch();
      if (answer.ok || answer.outcome.code !== VERSION_REQUIRED) return answer;
      const found = await this.metadata(name);
      if (!found.ok) return found;
      return patch(found.metadata?.revision);
    },

    /**
     * Makes the metadata of a secret that has none, without a version. Metadata that another writer makes meanwhile is
     * kept by OpenBao and Sallyport, which know `metadata_cas`; Vault ignores the field and replaces its custom metadata.
     */
    async announce(name: string, tags: Readonly<Record<string, string>>): Promise<{ ok: true } | Refused> {
      const body = JSON.stringify({ custom_metadata: tags, metadata_cas: 0 });
      return call(`Marking ${name}`, "POST", at("metadata", name), { body });
    },

    /** Deletes all versions with the metadata, or the newest version. Succeeds without any. */
    async remove(name: string, mode: "metadata" | "version"): Promise<{ ok: true } | Refused> {
      const kind = mode === "version" ? "data" : "metadata";
      const answer = await call(`Deleting ${name}`, "DELETE", at(kind, name));
      return answer.ok || answer.absent ? { ok: true } : answer;
    },

    /** Refuses a mount that is not KV v2, and one of this service itself. Cached. */
    async checkPlace(): Promise<{ ok: true } | Refused> {
      return places.get<Refused>([address, namespace, mount, ...session.identity], async () => {
        const itself = await refuseItself(address, context);
        if (itself !== null) return itself;
        const doing = `Reading the mount ${mount}`;
        const answer = await call(doing, "GET", `sys/internal/ui/mounts/${mount}`);
        if (!answer.ok) return answer;
        const parsed = schemas().mount.safeParse(answer.body);
        if (!parsed.success) return unreadable("external", doing);
        const { type, options } = parsed.data.data;
        if (type !== "kv" || options?.["version"] !== "2") {
          return unanswered(failure("client", "wrong_type", `The mount ${mount} is not a KV engine of version 2.`));
        }
        return { ok: true as const, token: { expiresAt: Date.now() + PLACE_MS } };
      });
    },
  };
}

/** Whether a path has segments alone that a URL keeps. */
export const isPath = (path: string): boolean =>
  path.isWellFormed() && path.split("/").every((segment) => !["", ".", ".."].includes(segment));

const encoded = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

const PATH_REFUSED = failure("client", "name_invalid", "The name is not a path of the engine.");
const TOKEN_REFUSED = failure("client", "auth_failed", "The token is not accepted.");

interface Session {
  readonly identity: readonly unknown[];
  token(): Promise<{ ok: true; value: string } | Refused>;
  /** Drops a session that was refused. @returns whether another login may help */
  forget(): boolean;
  /** Whether the server accepts the token, which tells a refused token from a missing right. */
  isValid(): Promise<boolean>;
}

function sessionOf(connection: KvV2Connection, context: CallContext): Session {
  const { address, target_namespace: namespace, token, auth_role: role, auth_mount: mount = "jwt" } = connection;
  const { identity } = context;
  const space = namespace === undefined ? {} : { "x-vault-namespace": namespace };
  const key = [address, namespace, token, mount, role, identity?.issuer, identity?.subject, identity?.audience];

  async function login(assertion: ClientAssertion): Promise<{ ok: true; token: Login } | Refused> {
    const jwt = await signed(assertion);
    if (jwt === null) return unanswered(failure("external", "sealed", "The service is sealed and signs no tokens."));
    const doing = `The login as ${role}`;
    const init = {
      method: "POST",
      headers: { "x-vault-request": "true", "content-type": "application/json", ...space },
      body: JSON.stringify({ role, jwt }),
    };
    const answer = await send(doing, [`${address}/v1/auth/${encoded(mount)}/login`, init], context);
    if (!answer.ok) {
      const isRefusal = answer.status !== null && [400, 401, 403, 404].includes(answer.status);
      const message = `${doing} at auth/${mount} was refused (HTTP ${answer.status}).`;
      const outcome = isRefusal ? failure("client", "auth_failed", message) : withoutEffect(answer.outcome);
      return { ...answer, outcome };
    }
    const parsed = schemas().login.safeParse(answer.body);
    if (!parsed.success) return unreadable("external", doing);
    const { client_token, lease_duration: seconds } = parsed.data.auth;
    const lifeMs = seconds === 0 ? ENDLESS_MS : seconds * 800;
    return { ok: true, token: { token: client_token, expiresAt: Date.now() + lifeMs } };
  }

  return {
    identity: key,
    async token() {
      if (token !== undefined) return { ok: true, value: token };
      if (!identity) return unanswered(TOKEN_REFUSED);
      const found = await logins.get(key, () => login(identity));
      return found.ok ? { ok: true, value: found.token.token } : found;
    },
    forget() {
      logins.forget(key);
      return token === undefined;
    },
    async isValid() {
      const given = await this.token();
      if (!given.ok) return false;
      const headers = { "x-vault-request": "true", "x-vault-token": given.value, ...space };
      const answer = await send("Reading the token", [`${address}/v1/auth/token/lookup-self`, { headers }], context);
      return answer.ok || answer.status !== 403;
    },
  };
}

/** Refuses this service as its own destination, by the cluster id. Its health is readable without a token. */
async function refuseItself(address: string, context: CallContext): Promise<Refused | null> {
  const headers = { "x-vault-request": "true" };
  // Standby and sealed servers answer with other statuses and the same body.
  const sent = await sendAllowed([`${address}/v1/sys/health`, { headers }], address, context);
  if (!sent.ok) return unanswered(withoutEffect(sent.outcome));
  const health = schemas().health.safeParse(tryParseJson(sent.text));
  const own = await context.clusterId?.();
  if (!health.success || !own || health.data.cluster_id !== own) return null;
  return unanswered(failure("client", "loop", "The address is that of this service, which cannot sync into itself."));
}

/** Checks the host again before credentials are sent: settings may have changed since the destination was written. */
async function sendAllowed(request: Parameters<Send>[0], address: string, context: CallContext) {
  const refused = refuseListedHost("address", address, context.settings);
  return refused === null
    ? context.send(request)
    : { ok: false as const, outcome: failure("client", "host_not_allowed", `${refused}.`) };
}

async function send(doing: string, request: Parameters<Send>[0], context: CallContext): Promise<Answer> {
  const { method = "GET" } = request[1];
  const sent = await sendAllowed(request, new URL(request[0]).origin, context);
  if (!sent.ok) return unanswered(method === "GET" ? withoutEffect(sent.outcome) : sent.outcome);
  const { response, text } = sent;
  const body = tryParseJson(text);
  if (!response.ok) return refusal(doing, response, body, method !== "GET");
  // A deletion and a change of metadata are answered without a body.
  const isReadable = response.status === 204 ? text === "" : typeof body === "object" && body !== null;
  return isReadable
    ? { ok: true, status: response.status, body }
    : unreadable(method === "GET" ? "external" : "unknown", doing);
}

const unanswered = (outcome: Failure) =>
  ({ ok: false, status: null, absent: false, contended: false, outcome }) as const;

const unreadable = (outcome: "external" | "unknown", doing: string): Refused =>
  unanswered(failure(outcome, "unreadable_answer", `${doing} was answered, but not in a way that can be read.`));

const VERSION_REQUIRED = "metadata_cas_required";

/** Texts of a version that is not the current one: of the data, and of the metadata. */
const CONTENDED = [
  "check-and-set parameter did not match",
  "check-and-set parameter does not match",
  "metadata_cas must be 0",
];

/** The texts of errors are matched and never shown: they may quote the request. */
function meaningOf(status: number, errors: readonly string[]): Meaning {
  const says = (text: string) => errors.some((one) => one.includes(text));
  if (says("metadata check-and-set parameter required")) {
    return ["client", VERSION_REQUIRED, "the engine takes changes of metadata with their version only"];
  }
  if (CONTENDED.some(says)) {
    return ["external", "contended", "another caller changes the secret at the same time"];
  }
  if (status === 413 || says("value being too large") || says("entry too large")) {
    return ["client", "value_too_large", "the value is larger than the server's storage takes"];
  }
  if (status === 403 || status === 401) return ["client", "permission_denied", "the token lacks the permission"];
  if (status === 404) return ["client", "not_found", "there is no such mount or namespace"];
  if (status === 405) return ["client", "unsupported", "the server does not know the operation"];
  if (status === 429) return ["external", "throttled", "too many requests"];
  if (status >= 500 || [408, 412, 472, 473].includes(status)) {
    return ["external", "provider_unavailable", "the server cannot do it now"];
  }
  return ["client", "refused", "the server does not accept the request"];
}

function refusal(doing: string, response: Response, body: unknown, isWrite: boolean): Refused {
  const { status } = response;
  const errors = schemas().errors.safeParse(body).data?.errors ?? [];
  const [outcome, code, text] = meaningOf(status, errors);
  const wait = outcome === "client" ? null : status === 429 ? throttleHintMs(response) : retryAfterMs(response);
  const refused = failure(outcome, code, `${doing} was refused: ${text} (HTTP ${status}).`, wait);
  return {
    ok: false,
    status,
    // A path without an object is answered with an empty list; the data of a deleted version with its metadata.
    absent: status === 404 && isEmpty(body),
    contended: code === "contended",
    outcome: isWrite ? withUnsureEffect(refused, status) : refused,
  };
}

const isEmpty = (body: unknown): boolean =>
  typeof body === "object" &&
  body !== null &&
  ("data" in body || ("errors" in body && Array.isArray(body.errors) && body.errors.length === 0));
