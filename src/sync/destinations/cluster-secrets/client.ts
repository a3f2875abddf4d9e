import { isUtf8 } from "node:buffer";
import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { tryParseJson } from "../../../lib/json.ts";
import { memo } from "../../../lib/memo.ts";
import { signed } from "../../../providers/identity-token.ts";
import { failure, retryAfterMs, throttleHintMs, withoutEffect, withUnsureEffect } from "../../../providers/outcome.ts";
import type { Meaning, RestMethod } from "../../../providers/rest.ts";
import { TokenCache } from "../../../providers/token-cache.ts";
import type { CallContext } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import type { ClusterConnection } from "./connection.ts";

/**
 * A client of the Secrets of one namespace, by the Kubernetes API
 * (https://kubernetes.io/docs/reference/using-api/server-side-apply/).
 */

/** The name of this service among field managers: the same for all destinations. */
export const MANAGER = "sallyport";

/** A failed call. `kind`: the missing resource of an answer 404, "" when it is not named. */
export interface Refused {
  readonly ok: false;
  readonly status: number | null;
  readonly kind: string;
  /** The resource is another version than the call states. */
  readonly contended: boolean;
  readonly outcome: Failure;
}

type Answer = { readonly ok: true; readonly body: unknown } | Refused;

export interface Metadata {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Whether other managers own keys of its data. */
  readonly isShared: boolean;
}

/** Fields to apply: all fields of this service, as it owns those of its last call only. */
export interface Applied {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly type?: string;
  /** Base64. */
  readonly data?: Readonly<Record<string, string>>;
}

/** A Secret with its data. */
interface Found {
  readonly metadata: Metadata;
  readonly data: Map<string, string>;
  /** Whether some data is no text. */
  readonly isBinary: boolean;
}

export type ClusterSecrets = ReturnType<typeof clusterSecrets>;

const METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const JSON_ONLY = "application/json";
/** Secrets of a page. */
const PAGE = 100;

const schemas = memo(() => {
  const metadata = z.object({
    uid: z.string().min(1),
    resourceVersion: z.string().min(1),
    labels: z.record(z.string(), z.string()).nullish(),
    annotations: z.record(z.string(), z.string()).nullish(),
    managedFields: z
      .array(z.object({ manager: z.string().nullish(), fieldsV1: z.record(z.string(), z.unknown()).nullish() }))
      .nullish(),
  });
  return {
    object: z.object({ metadata }),
    list: z.object({
      metadata: z.object({ continue: z.string().nullish() }),
      items: z.array(z.object({ metadata: z.object({ name: z.string() }) })),
    }),
    secret: z.object({ metadata, data: z.record(z.string(), z.string()).nullish() }),
    review: z.object({ status: z.object({ allowed: z.boolean() }) }),
    status: z.object({
      reason: z.string().nullish().catch(null),
      message: z.string().nullish().catch(null),
      details: z
        .object({
          kind: z.string().nullish(),
          causes: z
            .array(
              z.object({ reason: z.string().nullish(), message: z.string().nullish(), field: z.string().nullish() }),
            )
            .nullish(),
        })
        .nullish()
        .catch(null),
    }),
  };
});

type Status = z.infer<ReturnType<typeof schemas>["status"]>;

/** Signed tokens are used for most of their life. */
const tokens = new TokenCache<{ readonly token: string; readonly expiresAt: number }>({ marginMs: 60_000 });

export function clusterSecrets(connection: ClusterConnection, context: CallContext) {
  const { host, namespace, token, access_client_id: accessId, access_client_secret: accessSecret = "" } = connection;
  const secrets = `/api/v1/namespaces/${namespace}/secrets`;
  const { identity } = context;
  const key = [identity?.issuer, identity?.subject, identity?.audience];

  async function bearer(): Promise<{ ok: true; value: string } | Refused> {
    if (token !== undefined) return { ok: true, value: token };
    if (!identity) return unanswered(TOKEN_REFUSED);
    const found = await tokens.get<Refused>(key, async () => {
      const jwt = await signed(identity);
      if (jwt === null) return unanswered(failure("external", "sealed", "The service is sealed and signs no tokens."));
      return { ok: true, token: { token: jwt, expiresAt: expiryOf(jwt) } };
    });
    return found.ok ? { ok: true, value: found.token.token } : found;
  }

  async function call(
    doing: string,
    method: RestMethod,
    path: string,
    { accept = JSON_ONLY, type = JSON_ONLY, body }: { accept?: string; type?: string; body?: object } = {},
  ): Promise<Answer> {
    // Checked again before the token is sent: settings may have changed since the destination was written.
    const refused = refuseListedHost("host", host, context.settings);
    if (refused !== null) return unanswered(failure("client", "host_not_allowed", `${refused}.`));
    for (let attempt = 1; ; attempt++) {
      const given = await bearer();
      if (!given.ok) return given;
      const headers = {
        accept,
        authorization: `Bearer ${given.value}`,
        ...(body && { "content-type": type }),
        ...(accessId !== undefined && { "cf-access-client-id": accessId, "cf-access-client-secret": accessSecret }),
      };
      const sent = await context.send([
        `${host}${path}`,
        { method, headers, ...(body && { body: JSON.stringify(body) }) },
      ]);
      if (!sent.ok) return unanswered(unreachable(method === "GET" ? withoutEffect(sent.outcome) : sent.outcome));
      const { response, text } = sent;
      const answer = tryParseJson(text);
      if (response.status === 401 && token === undefined && attempt === 1) {
        tokens.forget(key);
        continue;
      }
      if (!response.ok) return refusal(doing, response, answer, method !== "GET");
      if (typeof answer === "object" && answer !== null) return { ok: true, body: answer };
      return unreadable(method === "GET" ? "external" : "unknown", doing);
    }
  }

  /** Whether the namespace exists, as far as the rights show it. */
  async function proveNamespace(): Promise<{ ok: true } | Refused> {
    const doing = `Reading the namespace ${namespace}`;
    const answer = await call(doing, "GET", `/api/v1/namespaces/${namespace}`, { accept: METADATA_ONLY });
    // Few roles may read namespaces. A role that may read the Secrets of one is bound in it, so it exists.
    if (answer.ok || answer.outcome.code === "permission_denied") return { ok: true };
    return answer.status === 404 ? unanswered(noNamespace(namespace)) : answer;
  }

  async function get(name: string, accept: string): Promise<Answer> {
    const answer = await call(`Reading ${name}`, "GET", `${secrets}/${name}`, { accept });
    if (answer.ok || answer.status !== 404) return answer;
    const proven = await proveNamespace();
    return proven.ok ? { ok: true, body: null } : proven;
  }

  return {
    proveNamespace,

    async apply({ metadata, ...fields }: Applied, force: boolean): Promise<{ ok: true; metadata: Metadata } | Refused> {
      const doing = `Applying ${metadata.name}`;
      const query = new URLSearchParams({ fieldManager: MANAGER, force: String(force), fieldValidation: "Strict" });
      const body = { apiVersion: "v1", kind: "Secret", metadata, ...fields };
      const type = "application/apply-patch+yaml";
      const path = `${secrets}/${metadata.name}?${query}`;
      const answer = await call(doing, "PATCH", path, { accept: METADATA_ONLY, type, body });
      if (!answer.ok) {
        return answer.kind === "namespaces" ? { ...answer, outcome: noNamespace(namespace) } : answer;
      }
      const parsed = schemas().object.safeParse(answer.body);
      return parsed.success ? { ok: true, metadata: metadataOf(parsed.data.metadata) } : unreadable("unknown", doing);
    },

    /** The metadata of a Secret; null when it is absent, also with its whole namespace. */
    async metadata(name: string): Promise<{ ok: true; metadata: Metadata | null } | Refused> {
      const answer = await get(name, METADATA_ONLY);
      if (!answer.ok) return answer;
      if (answer.body === null) return { ok: true, metadata: null };
      const parsed = schemas().object.safeParse(answer.body);
      if (!parsed.success) return unreadable("external", `Reading ${name}`);
      return { ok: true, metadata: metadataOf(parsed.data.metadata) };
    },

    /** The decoded data with the metadata. */
    async read(name: string): Promise<{ ok: true; found: Found | null } | Refused> {
      const answer = await get(name, JSON_ONLY);
      if (!answer.ok) return answer;
      if (answer.body === null) return { ok: true, found: null };
      const parsed = schemas().secret.safeParse(answer.body);
      if (!parsed.success) return unreadable("external", `Reading ${name}`);
      const entries = Object.entries(parsed.data.data ?? {});
      const data = new Map(entries.map(([at, value]) => [at, Buffer.from(value, "base64").toString()]));
      const isBinary = entries.some(([, value]) => !isUtf8(Buffer.from(value, "base64")));
      return { ok: true, found: { metadata: metadataOf(parsed.data.metadata), data, isBinary } };
    },

    /** One page of names. @param after `next` of the page before; empty for the first */
    async list(after: string): Promise<{ ok: true; names: string[]; next: string | null } | Refused> {
      const doing = "Listing the Secrets";
      const query = new URLSearchParams({ limit: String(PAGE), ...(after && { continue: after }) });
      const answer = await call(doing, "GET", `${secrets}?${query}`, { accept: METADATA_LIST });
      if (!answer.ok) return answer;
      const parsed = schemas().list.safeParse(answer.body);
      if (!parsed.success) return unreadable("external", doing);
      const { items, metadata } = parsed.data;
      return { ok: true, names: items.map((one) => one.metadata.name), next: metadata.continue || null };
    },

    /** Deletes the Secret with this uid, and this version if it is given. Succeeds when it is absent. */
    async remove(
      name: string,
      preconditions: { uid: string; resourceVersion?: string },
    ): Promise<{ ok: true } | Refused> {
      const body = { kind: "DeleteOptions", apiVersion: "v1", preconditions };
      const answer = await call(`Deleting ${name}`, "DELETE", `${secrets}/${name}`, { body });
      return answer.ok || answer.status === 404 ? { ok: true } : answer;
    },

    /** Whether the rights include a verb on Secrets. */
    async may(verb: string): Promise<{ ok: true; allowed: boolean } | Refused> {
      const doing = "The review of the rights";
      const body = {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: { resourceAttributes: { namespace, verb, group: "", resource: "secrets" } },
      };
      const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
      const answer = await call(doing, "POST", path, { body });
      if (!answer.ok) return { ...answer, outcome: withoutEffect(answer.outcome) };
      const parsed = schemas().review.safeParse(answer.body);
      return parsed.success ? { ok: true, allowed: parsed.data.status.allowed } : unreadable("external", doing);
    },
  };
}

const TOKEN_REFUSED = failure("client", "auth_failed", "The token is not accepted.");

const noNamespace = (namespace: string): Failure =>
  failure("client", "not_found", `There is no namespace ${namespace}.`);

/** The expiry of a JWT (ms since 1970); now when it cannot be read, so that it is used once. */
function expiryOf(jwt: string): number {
  const claims = tryParseJson(Buffer.from(jwt.split(".")[1] ?? "", "base64url").toString());
  const exp = typeof claims === "object" && claims !== null && "exp" in claims ? claims.exp : null;
  return typeof exp === "number" ? exp * 1000 : Date.now();
}

function metadataOf({
  uid,
  resourceVersion,
  labels,
  annotations,
  managedFields,
}: z.infer<ReturnType<typeof schemas>["object"]>["metadata"]): Metadata {
  const isShared = (managedFields ?? []).some(
    ({ manager, fieldsV1 }) =>
      manager !== MANAGER && Object.keys(fieldsV1?.["f:data"] ?? {}).some((key) => key !== "."),
  );
  return { uid, resourceVersion, labels: labels ?? {}, annotations: annotations ?? {}, isShared };
}

const unanswered = (outcome: Failure): Refused => ({ ok: false, status: null, kind: "", contended: false, outcome });

const unreadable = (outcome: "external" | "unknown", doing: string): Refused =>
  unanswered(failure(outcome, "unreadable_answer", `${doing} was answered, but not in a way that can be read.`));

/** A Worker does not learn why a connection failed; with a cluster, it is often the certificate. */
const unreachable = (outcome: Failure): Failure =>
  outcome.code === "network_error"
    ? { ...outcome, message: `${outcome.message} Its certificate may be of a CA that this service does not trust.` }
    : outcome;

/** Messages of the provider are matched and never shown: they may quote the request. */
function meaningOf(status: number, { reason, message, details }: Status): Meaning {
  const causes = details?.causes ?? [];
  const has = (text: string) => causes.some((cause) => cause.reason === text);
  const says = (text: RegExp) => [message, ...causes.map((cause) => cause.message)].some((one) => text.test(one ?? ""));
  if (status === 409 && has("FieldManagerConflict")) {
    return ["client", "not_owned", `other field managers own fields of it (${managersOf(details)})`];
  }
  if (status === 409) return ["external", "contended", "another caller changes it at the same time"];
  if (status === 401) return ["client", "auth_failed", "the token is not accepted"];
  if (status === 403 && says(/exceeded quota/)) return ["client", "quota_exceeded", "the namespace's quota is used up"];
  if (status === 403 && has("NamespaceTerminating")) {
    return ["client", "not_found", "the namespace is being deleted"];
  }
  if (status === 403) return ["client", "permission_denied", "the token lacks the permission"];
  if (status === 404) return ["client", "not_found", "there is no such resource"];
  if (status === 413 || has("FieldValueTooLong")) {
    return ["client", "value_too_large", "the value is larger than the cluster takes"];
  }
  if (status === 422 && causes.some(({ field }) => field === "type")) {
    return ["client", "wrong_type", "a Secret of another type has this name, and a type cannot change"];
  }
  if (status === 422 && says(/immutable/)) return ["client", "locked", "the Secret is immutable"];
  if (status === 429) return ["external", "throttled", "too many requests"];
  // Cloudflare's answers to a Worker for a server whose certificate it does not accept.
  if (status === 525 || status === 526)
    return ["client", "ca_untrusted", "the server's certificate is not a public one"];
  if (status >= 500 || status === 408) return ["external", "provider_unavailable", "the API server failed"];
  return ["client", "refused", `the API server does not accept the request${reason ? ` (${word(reason)})` : ""}`];
}

/** The names of other managers, as far as they are plain words. */
function managersOf(details: Status["details"]): string {
  const named = (details?.causes ?? []).flatMap(
    ({ message }) => /conflict with "([\w.-]{1,128})"/.exec(message ?? "")?.[1] ?? [],
  );
  return [...new Set(named)].slice(0, 5).join(", ") || "unnamed";
}

const word = (text: string): string => (/^[A-Za-z]{1,40}$/.test(text) ? text : "unnamed");

function refusal(doing: string, response: Response, body: unknown, isWrite: boolean): Refused {
  const { status } = response;
  const parsed = schemas().status.safeParse(body);
  const [outcome, code, text] = meaningOf(status, parsed.data ?? {});
  const wait = outcome === "client" ? null : status === 429 ? throttleHintMs(response) : retryAfterMs(response);
  const refused = failure(outcome, code, `${doing} was refused: ${text} (HTTP ${status}).`, wait);
  return {
    ok: false,
    status,
    kind: parsed.data?.details?.kind ?? "",
    contended: code === "contended",
    outcome: isWrite ? withUnsureEffect(refused, status) : refused,
  };
}
