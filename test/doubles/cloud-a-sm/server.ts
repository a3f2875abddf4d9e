import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { type KnownKey, type Received, type Verdict, verifySignature } from "../cloud-a-sts/signature.ts";
import { callSts, errorXml, type Role } from "../cloud-a-sts/sts.ts";
import { assumeWithWebIdentity, type WebIdentityRole } from "../cloud-a-sts/web-identity.ts";
import { type CallFault, takeFault } from "../faults.ts";
import { received, startLoopback } from "../loopback.ts";
import { operationNames, ServiceError } from "./parameters.ts";
import { RateQuota } from "./quota.ts";
import { SecretsStore, type SecretView } from "./secrets.ts";

export interface CloudAOptions {
  /** 0, the default: any free port. */
  port?: number;
  keys?: readonly KnownKey[];
  roles?: readonly Role[];
  /** The regions whose scope is accepted; the first appears in ARNs. */
  regions?: readonly string[];
  now?: () => number;
  maxVersions?: number;
  nameHeldMs?: number;
  /** The quota of each group of writing operations (50 with the real service); no limit when it is not given. */
  writesPerSecond?: number;
  /** Verify against the host in `x-original-host`, for tests that reroute the Worker's outbound requests here. */
  trustOriginalHost?: boolean;
}

/** A fault of `service` and `subject` (both optional); `error` is refused as `type`, with status 400 by default. */
export type Fault = CallFault<{ type: string; status?: number }> & { service?: Service; subject?: string };

/** One request as the log keeps it: no value, no key, no text of an error. */
export interface LoggedRequest {
  service: Service;
  operation: string;
  /** The secret's name or the role's ARN. */
  subject: string | null;
  accessKeyId: string | null;
  clientRequestToken: string | null;
  valueBytes: number | null;
  /** Null when the connection was dropped before it was performed. */
  status: number | null;
  errorType: string | null;
}

export interface CloudADouble {
  /** The base URL of both services, without a trailing slash: for CLOUD_A_SM_URL and CLOUD_A_STS_URL. */
  url: string;
  /** A separate account; its access key id names it to the functions below, which else apply to the first one. */
  openAccount(): KnownKey;
  secrets(keyId?: string): SecretView[];
  requests(keyId?: string): LoggedRequest[];
  fault(fault: Fault, keyId?: string): void;
  /** Forgets the faults that have not happened. */
  clearFaults(): void;
  /** Makes a change as another writer: not signed, not logged, no faults. Throws `ServiceError`. */
  call(operation: string, parameters: Record<string, unknown>, keyId?: string): Record<string, unknown> | null;
  /** Every assumed role ends now. */
  expireSessions(): void;
  /** Forgets secrets, sessions, faults and log. */
  reset(): void;
  close(): Promise<void>;
}

type Service = "secretsmanager" | "sts";

/** The state of one account. Accounts are isolated from each other. */
interface Account {
  store: SecretsStore;
  quota: RateQuota;
  log: LoggedRequest[];
  faults: Fault[];
}

interface Answer {
  status: number;
  contentType: string;
  body: string;
  headers?: Record<string, string>;
  errorType?: string;
}

const maxBodyBytes = 256 * 1024;

/** The key that a double without options knows. */
export const defaultKey: KnownKey = { accessKeyId: "AKIADOUBLE0000000001", secretAccessKey: "double/secret+key=1" };

/**
 * AWS Secrets Manager and STS (AssumeRole, AssumeRoleWithWebIdentity, GetCallerIdentity) on loopback, stricter than the real services: every signature is checked
 * with the vendor's signer, every parameter against the reference, unknown ones are refused.
 *
 * Tests inside the Workers runtime drive it over HTTP, unsigned: `GET /_double/secrets`, `GET /_double/requests`,
 * `POST /_double/faults` (one Fault), `POST /_double/clear-faults`, `POST /_double/call` (`{operation, parameters}`),
 * `POST /_double/trust` (one WebIdentityRole), `POST /_double/expire-sessions`, `POST /_double/reset`. `POST /_double/accounts` opens a separate account and returns
 * its key; with `?key=<access key id>` the others apply to that account, so that concurrent tests do not interfere.
 */
export async function startCloudA(options: CloudAOptions = {}): Promise<CloudADouble> {
  const { keys = [defaultKey], roles = [], regions = ["eu-west-1"], now = Date.now } = options;
  const newAccount = (): Account => ({
    store: new SecretsStore({
      region: regions[0] ?? "eu-west-1",
      accountId: "123456789012",
      now,
      maxVersions: options.maxVersions ?? 100,
      nameHeldMs: options.nameHeldMs ?? 0,
    }),
    quota: new RateQuota({ now, perSecond: options.writesPerSecond ?? Number.POSITIVE_INFINITY }),
    log: [],
    faults: [],
  });
  const main = newAccount();
  /** By access key id, for accounts opened while running and for sessions of their roles. */
  const opened = new Map<string, { account: Account; key?: KnownKey }>();
  const sessions = new Map<string, KnownKey>();
  /** Roles for identity tokens, with the account that a session of each acts in. */
  const trusting: { role: WebIdentityRole; account: Account }[] = [];

  async function assume(request: Received, entry: LoggedRequest): Promise<Answer> {
    const given = { form: request.body.toString(), signed: request.headers["authorization"] !== undefined };
    checkEnvelope(request, "sts");
    const { xml, session } = await assumeWithWebIdentity(
      given,
      trusting.map(({ role }) => role),
      now(),
    );
    sessions.set(session.accessKeyId, session);
    opened.set(session.accessKeyId, { account: accountOfRole(entry.subject) });
    return { status: 200, contentType: "text/xml", body: xml };
  }

  const accountOf = (keyId: string | null | undefined) => opened.get(keyId ?? "")?.account ?? main;
  const accountOfRole = (arn: string | null) => trusting.find(({ role }) => role.arn === arn)?.account ?? main;

  async function perform(request: Received, entry: LoggedRequest, account: Account): Promise<Answer> {
    const { service } = entry;
    try {
      if (entry.operation === "AssumeRoleWithWebIdentity") return await assume(request, entry);
      const { host, ["x-original-host"]: original = host } = request.headers;
      const seen = options.trustOriginalHost
        ? { ...request, headers: { ...request.headers, host: original ?? "" } }
        : request;
      const verdict: Verdict = await verifySignature(seen, {
        service,
        regions,
        now: now(),
        find: (id) => keys.find(({ accessKeyId }) => accessKeyId === id) ?? sessions.get(id) ?? opened.get(id)?.key,
      });
      if (!verdict.ok) throw new ServiceError(verdict.type, verdict.message, service === "sts" ? 403 : 400);
      entry.accessKeyId = verdict.key.accessKeyId;
      checkEnvelope(request, service);
      if (service === "sts") {
        const { xml, session } = callSts(request.body.toString(), verdict.key, roles, now());
        if (session !== undefined) {
          sessions.set(session.accessKeyId, session);
          opened.set(session.accessKeyId, { account });
        }
        return { status: 200, contentType: "text/xml", body: xml };
      }
      account.quota.take(entry.operation);
      const answer = account.store.call(entry.operation, parseJson(request.body));
      return {
        status: 200,
        contentType: "application/x-amz-json-1.1",
        body: answer === null ? "" : JSON.stringify(answer),
      };
    } catch (problem) {
      if (problem instanceof ServiceError) return errorAnswer(service, problem.type, problem.message, problem.status);
      throw problem;
    }
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await received(incoming, maxBodyBytes);
    if (request.target.startsWith("/_double/")) {
      send(outgoing, inspect(request));
      return;
    }
    const entry = describeRequest(request);
    const signer = /Credential=([^/,\s]+)/.exec(request.headers["authorization"] ?? "")?.[1] ?? "";
    const account = opened.get(signer)?.account ?? accountOfRole(entry.subject);
    account.log.push(entry);
    const { service, operation, subject } = entry;
    const isOfEntry = (of: Fault) => (of.service ?? service) === service && (of.subject ?? subject) === subject;
    const fault = takeFault(account.faults, operation, isOfEntry);
    if (fault?.fault === "drop") {
      incoming.socket.destroy();
      return;
    }
    if (fault?.fault === "delay") await wait(fault.ms, undefined, { ref: false });
    const answer =
      fault?.fault === "error"
        ? {
            ...errorAnswer(entry.service, fault.type, fault.message ?? "", fault.status ?? 400),
            headers: fault.headers ?? {},
          }
        : fault?.fault === "raw"
          ? { status: fault.status, contentType: "text/plain", body: fault.body, headers: fault.headers ?? {} }
          : await perform(request, entry, account);
    entry.status = answer.status;
    entry.errorType = answer.errorType ?? null;
    if (fault?.fault === "apply-then-drop") incoming.socket.destroy();
    else send(outgoing, answer);
  }

  function inspect(request: Received): Answer {
    const { pathname, searchParams } = new URL(request.target, "http://double");
    const account = accountOf(searchParams.get("key"));
    const call = `${request.method} ${pathname}`;
    switch (call) {
      case "GET /_double/secrets":
        return json(account.store.view());
      case "GET /_double/requests":
        return json(account.log);
      case "POST /_double/faults":
        account.faults.push(parseJson(request.body) as Fault);
        return json(null);
      case "POST /_double/trust":
        trusting.push({ role: parseJson(request.body) as WebIdentityRole, account });
        return json(null);
      case "POST /_double/clear-faults":
        account.faults.length = 0;
        return json(null);
      case "POST /_double/accounts":
        return json(double.openAccount());
      case "POST /_double/expire-sessions":
        double.expireSessions();
        return json(null);
      case "POST /_double/reset":
        double.reset();
        return json(null);
      case "POST /_double/call":
        return callUnsigned(account, parseJson(request.body) as { operation: string; parameters: unknown });
      default:
        return { status: 404, contentType: "text/plain", body: `no ${call} here` };
    }
  }

  function callUnsigned(
    { store }: Account,
    { operation, parameters }: { operation: string; parameters: unknown },
  ): Answer {
    try {
      return json(store.call(operation, parameters));
    } catch (problem) {
      if (!(problem instanceof ServiceError)) throw problem;
      return errorAnswer("secretsmanager", problem.type, problem.message, problem.status);
    }
  }

  const { url, close } = await startLoopback(serve, options.port ?? 0);

  const double: CloudADouble = {
    url,
    openAccount() {
      const key = { accessKeyId: `AKIA${opened.size}X${randomHex()}`, secretAccessKey: randomHex() };
      opened.set(key.accessKeyId, { account: newAccount(), key });
      return key;
    },
    secrets: (keyId) => accountOf(keyId).store.view(),
    requests: (keyId) => structuredClone(accountOf(keyId).log),
    fault: (fault, keyId) => void accountOf(keyId).faults.push({ ...fault }),
    clearFaults() {
      main.faults.length = 0;
    },
    call: (operation, parameters, keyId) => accountOf(keyId).store.call(operation, parameters),
    expireSessions() {
      for (const session of sessions.values()) session.expiresAt = 0;
    },
    reset() {
      main.store.reset();
      sessions.clear();
      opened.clear();
      main.log.length = 0;
      main.faults.length = 0;
    },
    close,
  };
  return double;
}

function describeRequest(request: Received): LoggedRequest {
  const target = request.headers["x-amz-target"];
  const form = new URLSearchParams(target === undefined ? request.body.toString() : "");
  const entry: LoggedRequest = {
    service: target === undefined ? "sts" : "secretsmanager",
    operation: target?.replace(/^secretsmanager\./, "") ?? form.get("Action") ?? "",
    subject: null,
    accessKeyId: null,
    clientRequestToken: null,
    valueBytes: null,
    status: null,
    errorType: null,
  };
  try {
    const body = target === undefined ? Object.fromEntries(form) : parseJson(request.body);
    const { Name, SecretId, RoleArn, ClientRequestToken, SecretString } = body as Record<string, unknown>;
    entry.subject = String(Name ?? SecretId ?? RoleArn ?? "") || null;
    entry.clientRequestToken = typeof ClientRequestToken === "string" ? ClientRequestToken : null;
    entry.valueBytes = typeof SecretString === "string" ? Buffer.byteLength(SecretString) : null;
  } catch {
    // A body that cannot be read is answered as such later; the log then holds the envelope only.
  }
  return entry;
}

/** Checks the request around the parameters: method, path, content type and target, exactly. */
function checkEnvelope({ method, target, headers }: Received, service: Service): void {
  const operation = headers["x-amz-target"]?.replace(/^secretsmanager\./, "") ?? "";
  if (method !== "POST" || target !== "/") throw new ServiceError("UnknownOperationException", "", 404);
  if (service === "sts") {
    if (headers["content-type"]?.split(";")[0] === "application/x-www-form-urlencoded") return;
    throw new ServiceError("InvalidAction", "The content type must be application/x-www-form-urlencoded");
  }
  if (headers["content-type"] !== "application/x-amz-json-1.1") {
    throw new ServiceError("UnknownOperationException", "", 404);
  }
  if (headers["x-amz-target"] !== `secretsmanager.${operation}` || !operationNames.includes(operation)) {
    throw new ServiceError("UnknownOperationException", "");
  }
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body));
  } catch {
    throw new ServiceError("SerializationException", "The body is not JSON in UTF-8");
  }
}

const randomHex = () => crypto.randomUUID().replaceAll("-", "");

const json = (body: unknown): Answer => ({ status: 200, contentType: "application/json", body: JSON.stringify(body) });

function errorAnswer(service: Service, type: string, message: string, status: number): Answer {
  return service === "sts"
    ? { status, contentType: "text/xml", body: errorXml(type, message), errorType: type }
    : {
        status,
        contentType: "application/x-amz-json-1.1",
        body: JSON.stringify({ __type: type, message }),
        errorType: type,
      };
}

function send(outgoing: ServerResponse, { status, contentType, body, headers = {} }: Answer): void {
  outgoing.writeHead(status, { "content-type": contentType, "x-amzn-requestid": crypto.randomUUID(), ...headers });
  outgoing.end(body);
}
