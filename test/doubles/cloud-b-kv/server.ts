import type { IncomingMessage } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { type Answer, type Application, type Claims, Directory, loginError, type Received } from "../cloud-b/login.ts";
import { type Handler, Listeners } from "../cloud-b/server.ts";
import { type CallFault, takeFault } from "../faults.ts";
import type { Trust } from "../trusted-token.ts";
import {
  checkOperation,
  type Operation,
  parseObject,
  permissions,
  readOperation,
  routeOf,
  VaultError,
} from "./requests.ts";
import { type SecretView, Vault } from "./vault.ts";

export interface CloudBOptions {
  /** Of the login endpoint; 0, the default: any free port. Vaults always have any free port. */
  port?: number;
  now?: () => number;
  /** The settings of the first account. */
  account?: AccountOptions;
  /** Answers the login endpoint for a tenant of another double; null for an unknown tenant. */
  otherTenants?: (request: Received) => Handler | null;
}

export interface AccountOptions {
  /** How many operations on a name after its deletion, or its recovery, still find that going on; 1 by default. */
  deletePolls?: number;
  recoverPolls?: number;
  createsPer10s?: number;
  /** The permissions of the application in the vault's access policy, all by default: set, get, list, delete, recover, purge. */
  permissions?: readonly string[];
  /** How the vault calls itself in ids and links; its own URL by default. */
  vaultUri?: string;
  /** Whether conflicts name no reason (`innererror`). */
  bareConflicts?: boolean;
  /** Faults that another double of the account's application shares; those of `fault` come beside them. */
  faults?: Fault[];
}

/**
 * A fault of `service` (optional); the login endpoint's operation is "Token". `error` is refused as `type`: an OAuth error
 * with AADSTS number `number`, or a vault's error with `inner`; `status` is 400 by default.
 */
export type Fault = CallFault<{ type: string; inner?: string; number?: number; status?: number }> & {
  service?: Service;
};

/** One request as the log keeps it: no value, no token, no text of an error. */
export interface LoggedRequest {
  service: Service;
  /** "Token", "Discovery", a vault's operation such as "SetSecret", or "" for none of them. */
  operation: string;
  /** The secret's name, or the tenant. */
  subject: string;
  valueBytes: number | null;
  /** Null when the connection was dropped before it was performed. */
  status: number | null;
  errorType: string | null;
}

/** The connection fields of an account. */
export interface CloudBAccount {
  tenant_id: string;
  client_id: string;
  client_secret: string;
  key_vault_uri: string;
}

export interface CloudBDouble {
  /** The login endpoint, without a trailing slash: for CLOUD_B_LOGIN_URL. */
  url: string;
  /** The first account, to which the following members refer unless they are given another one's tenant. */
  readonly account: CloudBAccount;
  secrets(tenant?: string): SecretView[];
  requests(tenant?: string): LoggedRequest[];
  fault(fault: Fault, tenant?: string): void;
  /** Forgets the faults that have not happened. */
  clearFaults(): void;
  /** Makes a change as another writer: no token, not logged, no faults. Throws `VaultError`. */
  call(
    operation: string,
    parameters: Partial<Omit<Operation, "operation">>,
    tenant?: string,
  ): Record<string, unknown> | undefined;
  /** The claims of a token that is valid now, for doubles of other services; null for anything else. */
  verify(token: string): Claims | null;
  /** A separate account: tenant, application, vault. */
  newAccount(options?: AccountOptions): Promise<CloudBAccount>;
  /** All tokens of all accounts are refused from now on. */
  revokeTokens(): void;
  /** Gives the first account's application another secret; the one before is refused from now on. */
  rotateSecret(): void;
  /** Forgets the first account's secrets, faults and log. */
  reset(): void;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Microsoft Graph, Resource Manager, App Configuration, and Azure DevOps. */
const OTHER_AUDIENCES = [
  "https://graph.microsoft.com",
  "https://management.azure.com",
  "https://azconfig.io",
  "499b84ac-1321-427f-aa17-267ca6975798",
];

type Service = "login" | "vault";

/** The state of one account. Accounts are isolated from each other. */
interface Account {
  application: Application;
  vault: Vault;
  vaultUrl: string;
  permissions: readonly string[];
  bareConflicts: boolean;
  log: LoggedRequest[];
  faults: Fault[];
}

const resource = "https://vault.azure.net";

/**
 * Azure Key Vault and the identity platform's token endpoint on loopback, stricter than the real services: every request
 * needs a token that was issued for the right audience in the vault's own tenant, unknown fields and parameters are
 * refused. The login endpoint is one for all accounts, each account's vault has a separate port.
 *
 * Tests inside the Workers runtime drive it over HTTP at the login endpoint: `POST /_double/accounts` (AccountOptions)
 * opens an account and returns its connection fields; with `?account=<tenant id>` the others apply to it:
 * `GET /_double/secrets`, `GET /_double/requests`, `POST /_double/faults` (one Fault), `POST /_double/call`
 * (`{operation, name, version, body}`), `POST /_double/trust` (one Trust), `POST /_double/revoke-tokens`, `POST /_double/reset`.
 */
export async function startCloudB(options: CloudBOptions = {}): Promise<CloudBDouble> {
  const { now = Date.now } = options;
  const directory = new Directory({
    now,
    resources: [resource, ...OTHER_AUDIENCES],
  });
  const accounts = new Map<string, Account>();
  const listeners = new Listeners();

  async function open(given: AccountOptions): Promise<Account> {
    const account: Account = {
      application: directory.newTenant(),
      vault: new Vault(() => given.vaultUri ?? account.vaultUrl, {
        now,
        deletePolls: given.deletePolls ?? 1,
        recoverPolls: given.recoverPolls ?? 1,
        createsPer10s: given.createsPer10s ?? 300,
      }),
      vaultUrl: "",
      permissions: given.permissions ?? Object.values(permissions),
      bareConflicts: given.bareConflicts ?? false,
      log: [],
      faults: given.faults ?? [],
    };
    account.vaultUrl = await listeners.listen(0, (request, incoming) =>
      logged(account, entryOf(request), incoming, () => performInVault(account, request)),
    );
    accounts.set(account.application.tenantId, account);
    return account;
  }

  function performInVault(account: Account, request: Received): Answer {
    try {
      authenticate(account, request);
      const operation = readOperation(request);
      const permission = permissions[operation.operation] ?? "";
      if (!account.permissions.includes(permission)) {
        const who = `The user, group or application 'appid=${account.application.clientId}'`;
        const message = `${who} does not have secrets ${permission} permission on key vault.`;
        throw new VaultError(403, "Forbidden", message, "ForbiddenByPolicy");
      }
      const body = account.vault.perform(operation);
      return body === undefined ? { status: 204 } : { status: 200, body };
    } catch (problem) {
      if (!(problem instanceof VaultError)) throw problem;
      const { status, code, message } = problem;
      return vaultError(
        account.bareConflicts && status === 409 ? new VaultError(status, code, message, null) : problem,
      );
    }
  }

  /** Throws unless the request has a token for this vault. */
  function authenticate({ application }: Account, { headers }: Received): void {
    const challenge = `Bearer authorization="https://login.windows.net/${application.tenantId}", resource="${resource}"`;
    const refuse = (message: string) =>
      new VaultError(401, "Unauthorized", message, null, { "www-authenticate": challenge });
    const token = /^Bearer (\S+)$/.exec(headers["authorization"] ?? "")?.[1];
    if (token === undefined) throw refuse("AKV10000: Request is missing a Bearer or PoP token.");
    const claims = directory.verify(token);
    if (claims === null) throw refuse("AKV10046: Unable to resolve the key used for signature validation.");
    if (claims.aud !== resource)
      throw refuse(`AKV10022: Invalid audience. Expected ${resource}, found: ${claims.aud}.`);
    const issuer = `https://sts.windows.net/${application.tenantId}/`;
    if (claims.iss !== issuer)
      throw refuse(`AKV10032: Invalid issuer. Expected one of ${issuer}, found ${claims.iss}.`);
  }

  const main = await open(options.account ?? {});
  const of = (tenant = main.application.tenantId): Account => {
    const account = accounts.get(tenant);
    if (account === undefined) throw new Error(`the double has no tenant ${tenant}`);
    return account;
  };

  const url = await listeners.listen(options.port ?? 0, async (request, incoming) => {
    if (request.target.startsWith("/_double/")) return inspect(request);
    const elsewhere = directory.tenantOf(request) === null && options.otherTenants?.(request);
    if (elsewhere) return elsewhere(request, incoming);
    const account = accounts.get(directory.tenantOf(request) ?? "") ?? main;
    return logged(account, loginEntry(request), incoming, () => directory.answer(request));
  });

  async function inspect(request: Received): Promise<Answer> {
    const { pathname, searchParams } = new URL(request.target, "http://double");
    const account = accounts.get(searchParams.get("account") ?? main.application.tenantId);
    const call = `${request.method} ${pathname}`;
    const given = request.body.length > 0 ? parseObject(request.body) : {};
    if (call === "POST /_double/accounts") return { status: 200, body: connectionOf(await open(given)) };
    if (account === undefined) return { status: 404, body: "no such account" };
    switch (call) {
      case "GET /_double/secrets":
        return { status: 200, body: account.vault.view() };
      case "GET /_double/requests":
        return { status: 200, body: account.log };
      case "POST /_double/faults":
        account.faults.push(given as unknown as Fault);
        return { status: 200, body: null };
      case "POST /_double/call":
        return callAsSomebodyElse(account, given);
      case "POST /_double/trust":
        account.application.trusted.push(given as unknown as Trust);
        return { status: 200, body: null };
      case "POST /_double/revoke-tokens":
        directory.revokeTokens();
        return { status: 200, body: null };
      case "POST /_double/reset":
        reset(account);
        return { status: 200, body: null };
      default:
        return { status: 404, body: `no ${call} here` };
    }
  }

  return {
    url,
    get account() {
      return connectionOf(main);
    },
    secrets: (tenant) => of(tenant).vault.view(),
    requests: (tenant) => structuredClone(of(tenant).log),
    fault: (fault, tenant) => void of(tenant).faults.push({ ...fault }),
    clearFaults() {
      main.faults.length = 0;
    },
    call: (operation, parameters, tenant) => of(tenant).vault.perform(operationOf({ operation, ...parameters })),
    verify: (token) => directory.verify(token),
    newAccount: async (given = {}) => connectionOf(await open(given)),
    revokeTokens: () => directory.revokeTokens(),
    rotateSecret: () => directory.rotateSecret(main.application),
    reset: () => reset(main),
    close: () => listeners.close(),
    [Symbol.asyncDispose]: () => listeners.close(),
  };
}

/** Answers one request of an account, or lets its fault happen. Null when the connection has been dropped. */
async function logged(
  account: Account,
  entry: LoggedRequest,
  { socket }: IncomingMessage,
  perform: () => Answer | Promise<Answer>,
): Promise<Answer | null> {
  account.log.push(entry);
  const fault = takeFault(
    account.faults,
    entry.operation,
    ({ service }) => (service ?? entry.service) === entry.service,
  );
  if (fault?.fault === "drop") {
    socket.destroy();
    return null;
  }
  if (fault?.fault === "delay") await wait(fault.ms, undefined, { ref: false });
  const answer =
    fault?.fault === "error" ? faultyAnswer(fault, entry) : fault?.fault === "raw" ? rawAnswer(fault) : await perform();
  entry.status = answer.status;
  entry.errorType = answer.errorType ?? null;
  if (fault?.fault !== "apply-then-drop") return answer;
  socket.destroy();
  return null;
}

const rawAnswer = ({ status, body, headers = {} }: Fault & { fault: "raw" }): Answer => ({ status, body, headers });

function faultyAnswer(fault: Fault & { fault: "error" }, { service }: LoggedRequest): Answer {
  const { type, inner = null, number = 0, message = "", status = 400, headers = {} } = fault;
  return service === "login"
    ? { ...loginError({ error: type, number, message }), status, headers }
    : vaultError(new VaultError(status, type, message, inner, headers));
}

function vaultError({ status, code, message, inner, headers }: VaultError): Answer {
  const error = { code, message, ...(inner !== null && { innererror: { code: inner } }) };
  return { status, body: { error }, headers, errorType: inner ?? code };
}

function entryOf(request: Received): LoggedRequest {
  const { operation = "", name = "" } = routeOf(request) ?? {};
  const entry: LoggedRequest = {
    service: "vault",
    operation,
    subject: name,
    valueBytes: null,
    status: null,
    errorType: null,
  };
  try {
    const { value } = parseObject(request.body);
    if (typeof value === "string") entry.valueBytes = Buffer.byteLength(value);
  } catch {
    // A body that cannot be read is answered as such later; the log then holds the envelope only.
  }
  return entry;
}

function loginEntry({ target }: Received): LoggedRequest {
  const [, subject = "", ...path] = new URL(target, "http://login").pathname.split("/");
  const operation = path.at(-1) === "token" ? "Token" : path.at(-1) === "openid-configuration" ? "Discovery" : "";
  return { service: "login", operation, subject, valueBytes: null, status: null, errorType: null };
}

function callAsSomebodyElse({ vault }: Account, given: Record<string, unknown>): Answer {
  try {
    return { status: 200, body: vault.perform(operationOf(given)) ?? null };
  } catch (problem) {
    if (problem instanceof VaultError) return vaultError(problem);
    throw problem;
  }
}

const operationOf = (given: Partial<Operation>): Operation =>
  checkOperation({ operation: "", name: "", version: "", body: {}, maxresults: 25, skiptoken: null, ...given });

function reset(account: Account): void {
  account.vault.reset();
  account.log.length = 0;
  account.faults.length = 0;
}

const connectionOf = ({ application, vaultUrl }: Account): CloudBAccount => ({
  tenant_id: application.tenantId,
  client_id: application.clientId,
  client_secret: application.clientSecret,
  key_vault_uri: vaultUrl,
});
