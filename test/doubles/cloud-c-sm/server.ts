import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import type { OtherAccounts } from "../cloud-c/server.ts";
import { type Received, received, startLoopback } from "../loopback.ts";
import { Account, type AccountOptions, type AccountState, type Fault, type LoggedRequest } from "./account.ts";
import { Federation, type PoolProvider } from "./federation.ts";
import { errorInfo, httpStatus, type Parsed, parseBody, parseJson, parseTarget, StatusError } from "./requests.ts";
import type { SecretView, StoreCall } from "./store.ts";
import { claimedIssuer, GrantError, type KeyFile, verifyAssertion } from "./token.ts";

export interface CloudCOptions extends Partial<AccountOptions> {
  /** 0, the default: any free port. */
  port?: number;
  /** Accounts of another double, which the token endpoint serves, too. */
  others?: OtherAccounts;
}

/** An account as a test uses it: `account` names it to the double, `credentials` is its key file. */
export interface OpenedAccount {
  account: string;
  projectId: string;
  projectNumber: string;
  credentials: KeyFile;
}

/** All methods apply to the double's first account by default. */
export interface CloudCDouble extends OpenedAccount {
  /** For CLOUD_C_SM_URL. */
  url: string;
  /** For CLOUD_C_TOKEN_URL. */
  tokenUrl: string;
  openAccount(): Promise<OpenedAccount>;
  secrets(account?: string): SecretView[];
  requests(account?: string): LoggedRequest[];
  fault(fault: Fault, account?: string): void;
  /** Forgets the faults that have not happened. */
  clearFaults(account?: string): void;
  /** Makes a change as another writer: no token, not logged, no faults, no quota of the project. Throws `StatusError`. */
  call(call: StoreCall, account?: string): Record<string, unknown>;
  change(state: Partial<AccountState>, account?: string): void;
  /** Every access token ends now. */
  expireTokens(): void;
  /** Forgets secrets, state, faults and log; the first account keeps its key and its tokens, the others are gone. */
  reset(): void;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface Answer {
  status: number;
  body: string;
  contentType?: string;
  headers?: Record<string, string>;
  error?: string;
}

const maxBodyBytes = 256 * 1024;
const tokenSeconds = 3599;

/**
 * Google Secret Manager (REST v1), the OAuth token endpoint at `/token`, STS and IAM credentials on loopback, stricter than the real services: every
 * assertion is verified against the account's public key, every request against the service description, unknown fields are
 * refused, checksums must come and be right, and rights, quotas and states are kept.
 *
 * Tests inside the Workers runtime drive it over HTTP, with `?account=<account>` for one that they opened:
 * `POST /_double/accounts` opens one and answers an OpenedAccount; `GET /_double/secrets`, `GET /_double/requests`,
 * `POST /_double/faults` (one Fault), `POST /_double/call` (a StoreCall), `POST /_double/change` (part of an AccountState),
 * `POST /_double/trust` (a PoolProvider; without email, of the account), `POST /_double/expire-tokens`. There is no reset over HTTP: an account of one's own is as good.
 */
export async function startCloudC(given: CloudCOptions = {}): Promise<CloudCDouble> {
  const {
    port = 0,
    others,
    now = Date.now,
    etagMismatch = "ABORTED",
    writesPerSecret = 120,
    writesPerMinute = 600,
  } = given;
  const options: AccountOptions = { now, etagMismatch, writesPerSecret, writesPerMinute };
  const main = await Account.open("acme-double", "100000000001", options);
  const accounts = new Map([[main.id, main]]);
  const tokens = new Map<string, { email: string; expiresAt: number }>();
  let opened = 0;

  const find = (id: string | null | undefined): Account => {
    const account = accounts.get(id ?? main.id);
    if (account === undefined) throw new Error(`the double has no account ${id}`);
    return account;
  };
  const byEmail = (email: string | null) =>
    [...accounts.values()].find(({ keyFile }) => keyFile.client_email === email);
  const byProject = (project: string) =>
    [...accounts.values()].find(({ id, projectNumber }) => id === project || projectNumber === project);
  const shown = ({ id, projectNumber, keyFile }: Account): OpenedAccount => ({
    account: id,
    projectId: id,
    projectNumber,
    credentials: keyFile,
  });
  const openAccount = async (): Promise<OpenedAccount> => {
    opened++;
    const account = await Account.open(
      `acme-${opened}-${randomBytes(4).toString("hex")}`,
      String(200000000000 + opened),
      options,
    );
    accounts.set(account.id, account);
    return shown(account);
  };

  const issueTo = (email: string) => {
    const issued = { token: `ya29.c.${randomBytes(32).toString("base64url")}`, expiresAt: now() + tokenSeconds * 1000 };
    tokens.set(issued.token, { email, expiresAt: issued.expiresAt });
    return issued;
  };
  const federation = new Federation((email) => {
    const token = others?.issue(email) ?? null;
    return token === null ? issueTo(email) : { token, expiresAt: now() + tokenSeconds * 1000 };
  }, now);

  async function federate(request: Received): Promise<Answer> {
    try {
      return json(await federation.perform(request));
    } catch (problem) {
      if (problem instanceof StatusError) return statusAnswer(problem);
      if (!(problem instanceof GrantError)) throw problem;
      return {
        ...json({ error: problem.error, error_description: problem.message }),
        status: 400,
        error: problem.error,
      };
    }
  }

  async function grant({ headers, body }: Received): Promise<Answer> {
    try {
      const find = (email: string, kid: string | undefined) => byEmail(email)?.registered ?? others?.find(email, kid);
      const { email } = await verifyAssertion(headers["content-type"], body, { find, now: now() });
      const token = others?.issue(email) ?? issueTo(email).token;
      return json({ access_token: token, expires_in: tokenSeconds, token_type: "Bearer" });
    } catch (problem) {
      if (!(problem instanceof GrantError)) throw problem;
      const text = { error: problem.error, error_description: problem.message };
      return { ...json(text), status: 400, error: problem.error };
    }
  }

  /** The caller, or UNAUTHENTICATED. */
  function authenticate(headers: Received["headers"]): Account {
    const token = /^Bearer (\S+)$/.exec(headers["authorization"] ?? "")?.[1];
    const refuse = (reason: string) =>
      new StatusError("UNAUTHENTICATED", "Request had invalid authentication credentials.", [errorInfo(reason)]);
    if (token === undefined) throw refuse("CREDENTIALS_MISSING");
    const held = tokens.get(token);
    const account = byEmail(held?.email ?? null);
    if (held === undefined || account === undefined) throw refuse("ACCESS_TOKEN_TYPE_UNSUPPORTED");
    if (held.expiresAt <= now()) throw refuse("ACCESS_TOKEN_EXPIRED");
    if (account.state.disabled) throw refuse("ACCOUNT_STATE_INVALID");
    return account;
  }

  function perform(request: Received, parsed: Parsed): Answer {
    const caller = authenticate(request.headers);
    const { project } = parsed;
    const owner = byProject(project);
    if (owner === undefined || !owner.state.projectExists) {
      const info = errorInfo("CONSUMER_INVALID", { consumer: `projects/${project}` });
      throw new StatusError("PERMISSION_DENIED", `Permission denied on resource project ${project}.`, [info]);
    }
    if (!owner.state.apiEnabled) {
      const info = errorInfo("SERVICE_DISABLED", { consumer: `projects/${owner.projectNumber}` });
      const text = `Secret Manager API has not been used in project ${owner.projectNumber} before or it is disabled.`;
      throw new StatusError("PERMISSION_DENIED", text, [info]);
    }
    const body = parseBody(parsed, request.headers["content-type"], request.body);
    if (owner !== caller) {
      const info = errorInfo("IAM_PERMISSION_DENIED", { permission: parsed.rpc.permission }, "iam.googleapis.com");
      throw new StatusError("PERMISSION_DENIED", `Permission '${parsed.rpc.permission}' denied`, [info]);
    }
    owner.checkPermission(parsed);
    owner.countWrite(parsed);
    const { secretId, version, query, rpc } = parsed;
    const answer = owner.store.call({ operation: rpc.name, secretId, version, query, body });
    if (rpc.method === "DELETE" && owner.state.emptyDeletes) return { status: 204, body: "" };
    return json(parsed.enumsAsNumbers ? withNumbers(answer) : answer);
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await received(incoming, maxBodyBytes);
    if (request.target.startsWith("/_double/")) {
      send(outgoing, await control(request));
      return;
    }
    const federated = federation.operation(request);
    if (federated !== null) {
      const answer = await federate(request);
      main.log.push({
        ...describe(request, false, null),
        operation: federated,
        status: answer.status,
        error: answer.error ?? null,
      });
      send(outgoing, answer);
      return;
    }
    const isToken = request.target === "/token" && request.method === "POST";
    const parsed = isToken ? null : parse(request);
    const account =
      (isToken
        ? byEmail(claimedIssuer(request.body))
        : parsed instanceof StatusError
          ? undefined
          : byProject(parsed?.project ?? "")) ?? main;
    const entry = describe(request, isToken, parsed);
    account.log.push(entry);
    const fault = account.takeFault(entry.operation);
    if (fault?.fault === "drop") {
      incoming.socket.destroy();
      return;
    }
    if (fault?.fault === "delay") await wait(fault.ms, undefined, { ref: false });
    if (fault?.fault === "meanwhile") for (const call of fault.calls) account.store.call(call);
    const answer =
      fault?.fault === "error"
        ? {
            ...statusAnswer(new StatusError(fault.status, fault.message ?? "", fault.details)),
            headers: fault.headers ?? {},
          }
        : fault?.fault === "raw"
          ? { ...fault, contentType: "text/plain" }
          : await answerTo(request, parsed);
    entry.status = answer.status;
    entry.error = answer.error ?? null;
    if (fault?.fault === "apply-then-drop") incoming.socket.destroy();
    else send(outgoing, answer);
  }

  async function answerTo(request: Received, parsed: Parsed | StatusError | null): Promise<Answer> {
    if (parsed === null) return grant(request);
    try {
      if (parsed instanceof StatusError) throw parsed;
      return perform(request, parsed);
    } catch (problem) {
      if (problem instanceof StatusError) return statusAnswer(problem);
      throw problem;
    }
  }

  async function control({ method, target, body }: Received): Promise<Answer> {
    const { pathname, searchParams } = new URL(target, "http://double");
    const account = searchParams.get("account") ?? undefined;
    switch (`${method} ${pathname}`) {
      case "POST /_double/accounts":
        return json(await openAccount());
      case "GET /_double/secrets":
        return json(double.secrets(account));
      case "GET /_double/requests":
        return json(double.requests(account));
      case "POST /_double/faults":
        double.fault(parseJson(body) as Fault, account);
        return json({});
      case "POST /_double/change":
        double.change(parseJson(body) as Partial<AccountState>, account);
        return json({});
      case "POST /_double/trust":
        federation.trust({
          email: find(account).keyFile.client_email,
          ...(parseJson(body) as Omit<PoolProvider, "email">),
        });
        return json({});
      case "POST /_double/expire-tokens":
        double.expireTokens();
        return json({});
      case "POST /_double/call":
        try {
          return json(double.call(parseJson(body) as StoreCall, account));
        } catch (problem) {
          if (problem instanceof StatusError) return statusAnswer(problem);
          throw problem;
        }
      default:
        return { status: 404, contentType: "text/plain", body: `no ${method} ${pathname} here` };
    }
  }

  const { url, close } = await startLoopback(serve, port);

  const double: CloudCDouble = {
    url,
    tokenUrl: `${url}/token`,
    ...shown(main),
    openAccount,
    secrets: (account) => find(account).store.view(),
    requests: (account) => structuredClone(find(account).log),
    fault: (fault, account) => void find(account).faults.push({ ...fault }),
    clearFaults(account) {
      find(account).faults.length = 0;
    },
    call: (call, account) => find(account).store.call(call),
    change(state, account) {
      const changed = find(account);
      changed.state = { ...changed.state, ...state };
    },
    expireTokens() {
      for (const token of tokens.values()) token.expiresAt = 0;
    },
    reset() {
      main.reset();
      accounts.clear();
      accounts.set(main.id, main);
    },
    close,
    [Symbol.asyncDispose]: () => double.close(),
  };
  return double;
}

function parse({ method, target }: Received): Parsed | StatusError {
  try {
    return parseTarget(method, target);
  } catch (problem) {
    if (problem instanceof StatusError) return problem;
    throw problem;
  }
}

function describe(
  { method, target, body }: Received,
  isToken: boolean,
  parsed: Parsed | StatusError | null,
): LoggedRequest {
  const rpc = parsed instanceof StatusError ? null : parsed;
  const operation = isToken ? "Token" : (rpc?.rpc.name ?? null);
  return {
    operation,
    method,
    target,
    version: rpc?.version ?? null,
    status: null,
    error: null,
    valueBytes: operation === "AddSecretVersion" ? payloadBytes(body) : null,
  };
}

function payloadBytes(body: Buffer): number | null {
  try {
    const { payload } = JSON.parse(body.toString()) as { payload?: { data?: unknown } };
    return typeof payload?.data === "string" ? Buffer.from(payload.data, "base64").length : null;
  } catch {
    // A body that cannot be read is answered as such later; the log then holds the envelope only.
    return null;
  }
}

/** Enums as their numbers: the state of a version is the only one there is here. */
function withNumbers(answer: Record<string, unknown>): Record<string, unknown> {
  const states = ["STATE_UNSPECIFIED", "ENABLED", "DISABLED", "DESTROYED"];
  const numbered = (one: Record<string, unknown>) =>
    typeof one["state"] === "string" ? { ...one, state: states.indexOf(one["state"]) } : one;
  const { versions } = answer;
  return Array.isArray(versions) ? { ...answer, versions: versions.map(numbered) } : numbered(answer);
}

const json = (body: unknown): Answer => ({ status: 200, body: JSON.stringify(body) });

function statusAnswer({ status, message, details }: StatusError): Answer {
  const code = httpStatus[status];
  const error = { code, message, status, ...(details.length > 0 ? { details } : {}) };
  return { status: code, body: JSON.stringify({ error }), error: status };
}

function send(outgoing: ServerResponse, { status, contentType, body, headers = {} }: Answer): void {
  const type = { "content-type": contentType ?? "application/json; charset=UTF-8" };
  outgoing.writeHead(status, { ...(status === 204 ? {} : type), ...headers });
  outgoing.end(body);
}
