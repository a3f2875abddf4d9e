import type { IncomingMessage, ServerResponse } from "node:http";
import { ServiceError } from "../cloud-a-sm/parameters.ts";
import { type Received, verifySignature } from "../cloud-a-sts/signature.ts";
import { assumeWithWebIdentity, type WebIdentityRole } from "../cloud-a-sts/web-identity.ts";
import { received, startLoopback } from "../loopback.ts";
import { Account, type Fault, type Lags } from "./account.ts";
import { callIam, iamActions } from "./iam.ts";
import { answerXml, errorXml, Parameters, readParameters, type Service } from "./query.ts";
import { type Caller, callSts, stsActions } from "./sts.ts";

/** An account as its tests see it. */
export interface AccountView {
  readonly account: string;
  readonly access_key: string;
  readonly secret_key: string;
  /** A role that the engine's user may assume, and one with an external id. */
  readonly role_arn: string;
  readonly guarded_role_arn: string;
  readonly policy_arn: string;
  readonly boundary_arn: string;
}

/** A change as another hand makes it: an action, or an addition to a user. */
export type Change =
  | { readonly action: string; readonly parameters: Readonly<Record<string, string>> }
  | { readonly add: string; readonly user: string; readonly id: string };

export interface IamDouble {
  /** The base URL of both services, without a trailing slash. */
  readonly url: string;
  open(lags?: Partial<Lags>): AccountView;
  account(id: string): Account;
  close(): Promise<void>;
}

interface Options {
  /** 0, the default: any free port. */
  readonly port?: number;
  /** Takes the time of a request from its signature, for callers whose clock a test moves. */
  readonly followsCaller?: boolean;
}

const REGIONS = ["us-east-1", "eu-west-1"];

/**
 * IAM and STS on loopback, stricter than the real services: each signature is checked with the vendor's signer, each
 * parameter by the reference, unknown ones are refused, and pages have two entries.
 *
 * Tests inside the Workers runtime drive it over HTTP: `POST /_double/accounts` opens an account (`Partial<Lags>`) and
 * returns its `AccountView`; with `?account=<id>`, `POST /_double/faults` (a `Fault`), `/_double/lags`, `/_double/call` (a
 * `Change`), `/_double/trust` (a `WebIdentityRole`), `/_double/everything`, `/_double/requests`.
 */
export async function startIam({ port = 0, followsCaller = false }: Options = {}): Promise<IamDouble> {
  const accounts = new Map<string, Account>();
  const trusting: { readonly role: WebIdentityRole; readonly account: Account }[] = [];

  const open = (lags: Partial<Lags> = {}): AccountView => {
    const account = new Account(0, lags);
    accounts.set(account.id, account);
    const [key] = account.keysOf("sallyport");
    return {
      account: account.id,
      access_key: key?.accessKeyId ?? "",
      secret_key: key?.secretAccessKey ?? "",
      role_arn: account.roles[0]?.arn ?? "",
      guarded_role_arn: account.roles[1]?.arn ?? "",
      policy_arn: "arn:aws:iam::aws:policy/ReadOnlyAccess",
      boundary_arn: account.arn("policy/boundary"),
    };
  };
  const accountOf = (id: string): Account => {
    const found = accounts.get(id);
    if (!found) throw new Error(`no account ${id}`);
    return found;
  };
  const holderOf = (keyId: string): Account | undefined =>
    [...accounts.values()].find(({ keys, sessions }) => keys.has(keyId) || sessions.has(keyId));

  async function perform(request: Received, form: URLSearchParams, service: Service, now: number): Promise<string> {
    const action = form.get("Action") ?? "";
    if (action === "AssumeRoleWithWebIdentity") return assumeWithToken(request, form, now);
    const keyId = signerOf(request);
    const account = holderOf(keyId);
    const key = account?.keys.get(keyId);
    const session = account?.sessions.get(keyId);
    const verdict = await verifySignature(request, {
      service,
      regions: service === "iam" ? ["us-east-1"] : REGIONS,
      now,
      find: () => (key && key.worksFrom > now ? undefined : (key ?? session)),
    });
    if (!verdict.ok) throw new ServiceError(verdict.type, verdict.message, 403);
    if (!account || !(key || session)) throw new ServiceError("InvalidClientTokenId", "unknown", 403);
    const caller: Caller = key ? { key } : { session: session ?? raise() };
    const rules = (service === "iam" ? iamActions : stsActions)[action];
    const version = service === "iam" ? "2010-05-08" : "2011-06-15";
    if (!rules || form.get("Version") !== version) {
      throw new ServiceError("InvalidAction", `Could not find operation ${action} for version ${form.get("Version")}`);
    }
    const given = readParameters(form, rules);
    if (service === "sts") return answerXml(service, action, callSts(account, action, given, caller, now), requestId());
    // Keys that the engine has issued may call nothing here, and sessions of its role everything.
    if (key && key.userName !== "sallyport") {
      const user = account.arn(`user/${key.userName}`);
      throw new ServiceError("AccessDenied", `User: ${user} is not authorized to perform: iam:${action}`, 403);
    }
    return answerXml(service, action, callIam(account, action, given, key?.userName ?? "sallyport", now), requestId());
  }

  async function assumeWithToken(request: Received, form: URLSearchParams, now: number): Promise<string> {
    const signed = request.headers["authorization"] !== undefined;
    const roles = trusting.map(({ role }) => role);
    const { xml, session } = await assumeWithWebIdentity({ form: form.toString(), signed }, roles, now);
    const account = trusting.find(({ role }) => role.arn === form.get("RoleArn"))?.account;
    const { accessKeyId, secretAccessKey, sessionToken = "", expiresAt = 0 } = session;
    const arn = account?.arn("role/engine") ?? "";
    account?.sessions.set(accessKeyId, { accessKeyId, secretAccessKey, sessionToken, expiresAt, arn, kind: "role" });
    return xml;
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await received(incoming);
    if (request.target.startsWith("/_double/")) {
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(JSON.stringify(control(new URL(request.target, "http://double"), request.body.toString())));
      return;
    }
    const form = new URLSearchParams(request.body.toString());
    const action = form.get("Action") ?? "";
    const service: Service = form.get("Version") === "2010-05-08" ? "iam" : "sts";
    const account =
      holderOf(signerOf(request)) ?? trusting.find(({ role }) => role.arn === form.get("RoleArn"))?.account;
    const entry = { service, operation: action, accessKeyId: signerOf(request), status: null as number | null };
    account?.log.push(entry);
    const fault = account?.nextFault(action) ?? null;
    if (fault?.fault === "drop") {
      incoming.socket.destroy();
      return;
    }
    const now = followsCaller ? (timeOf(request.headers["x-amz-date"]) ?? Date.now()) : Date.now();
    const { status, body } = await answerOf(request, form, service, now, fault);
    entry.status = status;
    if (fault?.fault === "apply-then-drop") incoming.socket.destroy();
    else {
      outgoing.writeHead(status, { "content-type": "text/xml", "x-amzn-requestid": requestId() });
      outgoing.end(body);
    }
  }

  async function answerOf(
    request: Received,
    form: URLSearchParams,
    service: Service,
    now: number,
    fault: Fault | null,
  ) {
    if (fault?.fault === "error") {
      const { code = "Throttling", message = "Rate exceeded", status = 400 } = fault;
      return { status, body: errorXml(service, code, message, requestId()) };
    }
    try {
      if (
        request.method !== "POST" ||
        request.headers["content-type"]?.split(";")[0] !== "application/x-www-form-urlencoded"
      ) {
        throw new ServiceError("InvalidAction", "A form is expected");
      }
      return { status: 200, body: await perform(request, form, service, now) };
    } catch (problem) {
      if (!(problem instanceof ServiceError)) throw problem;
      return { status: problem.status, body: errorXml(service, problem.type, problem.message, requestId()) };
    }
  }

  function control(url: URL, body: string): unknown {
    const given: unknown = body === "" ? {} : JSON.parse(body);
    if (url.pathname === "/_double/accounts") return open(given as Partial<Lags>);
    const account = accountOf(url.searchParams.get("account") ?? "");
    switch (url.pathname) {
      case "/_double/everything":
        return account.everything();
      case "/_double/requests":
        return account.log;
      case "/_double/faults":
        account.fail(given as Fault);
        return null;
      case "/_double/lags":
        account.lags = { ...account.lags, ...(given as Partial<Lags>) };
        return null;
      case "/_double/trust":
        trusting.push({ role: given as WebIdentityRole, account });
        return null;
      case "/_double/call":
        return change(account, given as Change);
      default:
        throw new Error(`no ${url.pathname} here`);
    }
  }

  const { url, close } = await startLoopback(serve, port);
  return {
    url,
    open,
    account: accountOf,
    close,
  };
}

function change(account: Account, given: Change): unknown {
  if ("action" in given) {
    // Others have made it long ago: the time of a request has whole seconds only.
    const now = account.users.get(given.parameters["UserName"] ?? "")?.knownFrom ?? 0;
    return callIam(account, given.action, new Parameters(new Map(Object.entries(given.parameters))), "sallyport", now);
  }
  const user = account.users.get(given.user);
  user?.additions.set(given.add, (user.additions.get(given.add) ?? new Set()).add(given.id));
  return null;
}

const raise = (): never => {
  throw new Error("no session");
};

const requestId = (): string => crypto.randomUUID();

const signerOf = ({ headers }: Received): string =>
  /Credential=([^/,\s]+)/.exec(headers["authorization"] ?? "")?.[1] ?? "";

const timeOf = (text = ""): number | null => {
  const at = Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  return Number.isNaN(at) ? null : at;
};
