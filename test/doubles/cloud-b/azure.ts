import type { IncomingMessage } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { parseObject } from "../cloud-b-kv/requests.ts";
import { armError, armOperation, performArm } from "./arm.ts";
import { ArmError } from "./arm-state.ts";
import { Account } from "./azure-account.ts";
import type { AzureAccount, AzureOptions, Change, Fault, LoggedRequest, Service } from "./azure-types.ts";
import { graphError, graphOperation, performGraph } from "./graph.ts";
import { GraphError } from "./graph-state.ts";
import { type Answer, type Claims, Directory, loginError, type Received } from "./login.ts";
import { type Handler, Listeners } from "./server.ts";

export interface AzureDoubleOptions {
  now?: () => number;
  /** Of its own login endpoint; 0, the default: any free port. The others always have any free port. */
  port?: number;
}

export interface AzureDouble {
  /** Without a trailing slash: for CLOUD_B_LOGIN_URL, CLOUD_B_GRAPH_URL and CLOUD_B_ARM_URL. */
  loginUrl: string;
  graphUrl: string;
  armUrl: string;
  /** A separate tenant, opened by `POST /_double/accounts`. */
  openAccount(options?: AzureOptions): { account: Account; details: AzureAccount };
  /** For a login endpoint that another double serves, too: `startCloudB({ otherTenants })`. */
  otherTenants(request: Received): Handler | null;
  close(): Promise<void>;
}

/**
 * Microsoft Graph and Azure Resource Manager, with the identity platform's token endpoint, on loopback and stricter than the
 * real services: every request needs a token for the right audience of its own tenant, its permissions are looked up, unknown
 * fields and query options are refused, and what was just made can be hidden for a while as it is in the real directory.
 *
 * Tests inside the Workers runtime drive it over HTTP at any of the three addresses: `POST /_double/accounts` (AzureOptions)
 * opens an account and returns an `AzureAccount`; with `?account=<tenant id>` the others apply to it:
 * `GET /_double/everything`, `GET /_double/requests`, `POST /_double/faults` (one Fault), `DELETE /_double/faults`,
 * `POST /_double/call` (one Change).
 */
export async function startAzure({ now = Date.now, port = 0 }: AzureDoubleOptions = {}): Promise<AzureDouble> {
  const directory = new Directory({ now });
  const accounts = new Map<string, Account>();
  const listeners = new Listeners();

  function openAccount(options: AzureOptions = {}) {
    const account = new Account(options, { now, revokeTokens: (tenantId) => directory.revokeTokens(tenantId) });
    accounts.set(account.tenantId, account);
    directory.add(account);
    const details = { ...account.answer, login_url: loginUrl, graph_url: graphUrl, arm_url: armUrl };
    return { account, details };
  }

  const login: Handler = async (request, incoming) => {
    const account = accounts.get(directory.tenantOf(request) ?? "");
    if (account === undefined) return directory.answer(request);
    const path = request.target.split("?")[0] ?? "";
    const operation = path.endsWith("/token") ? "Token" : path.endsWith("/openid-configuration") ? "Discovery" : "";
    const entry = entryOf(request, { service: "login", operation, caller: null });
    return logged(account, entry, incoming, () => directory.answer(request));
  };

  const graph: Handler = async (request, incoming) => {
    const claims = claimsOf(request);
    const account = accounts.get(claims?.tid ?? "");
    if (account === undefined) return graphError(refusedToken());
    const operation = graphOperation(request)?.operation ?? "";
    const entry = entryOf(request, { service: "graph", operation, caller: claims?.appid ?? null });
    return logged(account, entry, incoming, () => {
      const checked = verified(request, [account.cloud.graph]);
      if (checked instanceof Refused) return graphError({ ...checked, status: 401 });
      const host = request.headers["x-original-host"];
      const bases = [host === undefined ? graphUrl : `https://${host}`, graphUrl, account.cloud.graph] as const;
      return performGraph(account.directory, { request, claims: checked, bases });
    });
  };

  const arm: Handler = async (request, incoming) => {
    const claims = claimsOf(request);
    const account = accounts.get(claims?.tid ?? "");
    if (account === undefined) return armError(refusedToken());
    const operation = armOperation(request)?.operation ?? "";
    const entry = entryOf(request, { service: "arm", operation, caller: claims?.appid ?? null });
    return logged(account, entry, incoming, () => {
      const checked = verified(request, account.cloud.armAudiences);
      if (checked instanceof Refused) return armError({ ...checked, status: 401 });
      checkTenant(account, request);
      const host = request.headers["x-original-host"];
      const base = host === undefined ? armUrl : `https://${host}`;
      const { directory, subscription } = account;
      return performArm({ request, claims: checked, directory, subscription, base });
    });
  };

  /** The claims when the token is good for one of these audiences. */
  function verified({ headers }: Received, audiences: readonly string[]): Claims | Refused {
    const claims = directory.verify(/^Bearer (\S+)$/.exec(headers["authorization"] ?? "")?.[1] ?? "");
    if (claims === null) return refusedToken();
    return audiences.includes(claims.aud) ? claims : new Refused("Access token validation failure. Invalid audience.");
  }

  /** A subscription of another account is not just unknown. */
  function checkTenant(account: Account, { target }: Received): void {
    const named = /^\/+subscriptions\/([\da-f-]{36})/i.exec(target)?.[1]?.toLowerCase();
    const owner = [...accounts.values()].find(({ subscription }) => subscription.id === named);
    if (owner === undefined || owner === account) return;
    const message = `The access token is from the wrong issuer. It must match the tenant 'https://sts.windows.net/${owner.tenantId}/' associated with this subscription.`;
    throw new ArmError(401, "InvalidAuthenticationTokenTenant", message);
  }

  const served = (handler: Handler): Handler => {
    return (request, incoming) =>
      request.target.startsWith("/_double/") ? inspect(request) : handler(request, incoming);
  };
  const [loginUrl, graphUrl, armUrl] = await Promise.all([
    listeners.listen(port, served(login)),
    listeners.listen(0, served(graph)),
    listeners.listen(0, served(arm)),
  ]);

  async function inspect({ method, target, body }: Received): Promise<Answer> {
    const { pathname, searchParams } = new URL(target, "http://double");
    const call = `${method} ${pathname}`;
    const given: unknown = body.length > 0 ? parseObject(body) : {};
    if (call === "POST /_double/accounts") return { status: 200, body: openAccount(given as AzureOptions).details };
    const account = accounts.get(searchParams.get("account") ?? "");
    if (account === undefined) return { status: 404, body: "no such account" };
    switch (call) {
      case "GET /_double/everything":
        return { status: 200, body: account.everything() };
      case "GET /_double/requests":
        return { status: 200, body: account.log };
      case "POST /_double/faults":
        account.fault(given as Fault);
        return { status: 200, body: null };
      case "DELETE /_double/faults":
        account.clearFaults();
        return { status: 200, body: null };
      case "POST /_double/call":
        try {
          return { status: 200, body: account.call(given as Change) };
        } catch (problem) {
          return { status: 400, body: String(problem) };
        }
      default:
        return { status: 404, body: `no ${call} here` };
    }
  }

  return {
    loginUrl,
    graphUrl,
    armUrl,
    openAccount,
    otherTenants: (request) => (directory.tenantOf(request) === null ? null : login),
    close: () => listeners.close(),
  };
}

/** A token that is not accepted. */
class Refused {
  readonly code = "InvalidAuthenticationToken";
  readonly message: string;
  readonly status = 401;
  constructor(message: string) {
    this.message = message;
  }
}

const refusedToken = () => new Refused("Access token is empty, expired, revoked or not of this directory.");

/** Answers one request of an account, or lets its fault happen. Null when the connection has been dropped. */
async function logged(
  account: Account,
  entry: LoggedRequest,
  { socket }: IncomingMessage,
  perform: () => Answer | Promise<Answer>,
): Promise<Answer | null> {
  account.log.push(entry);
  const fault = account.takeFault(entry.service, entry.operation);
  if (fault?.fault === "drop") {
    socket.destroy();
    return null;
  }
  if (fault?.fault === "delay") await wait(fault.ms, undefined, { ref: false });
  const instead = fault?.fault === "error" || fault?.fault === "raw" ? faulty(fault, entry.service) : null;
  const performed = instead ?? (await answered(perform));
  const answer = fault?.fault === "apply-then-error" ? faulty(fault, entry.service) : performed;
  entry.status = answer.status;
  entry.errorCode = answer.errorType ?? null;
  if (fault?.fault !== "apply-then-drop") return answer;
  socket.destroy();
  return null;
}

async function answered(perform: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await perform();
  } catch (problem) {
    if (problem instanceof GraphError) return graphError(problem);
    if (problem instanceof ArmError) return armError(problem);
    throw problem;
  }
}

function faulty(fault: Fault & { fault: "error" | "raw" | "apply-then-error" }, service: Service): Answer {
  const { status, headers = {} } = fault;
  if (fault.fault === "raw") return { status, body: fault.body, headers };
  const { code, message = "", number = 0 } = fault;
  const answer =
    service === "login"
      ? loginError({ error: code, number, message })
      : service === "graph"
        ? graphError({ status, code, message })
        : armError({ status, code, message });
  return { ...answer, status, headers: { ...answer.headers, ...headers } };
}

/** The unverified claims of a token, to find the account for log and faults. */
function claimsOf({ headers }: Received): Claims | null {
  try {
    const [, payload = ""] = headers["authorization"]?.split(".") ?? [];
    return JSON.parse(Buffer.from(payload, "base64url").toString());
  } catch {
    return null;
  }
}

function entryOf(
  { method, target, body }: Received,
  known: Pick<LoggedRequest, "service" | "operation" | "caller">,
): LoggedRequest {
  let fields: string[] = [];
  try {
    const text = body.toString();
    fields = Object.keys(known.service === "login" ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text));
  } catch {
    // A body that cannot be read is answered as such later; the log then holds the envelope only.
  }
  return { ...known, method, target, fields, status: null, errorCode: null };
}
