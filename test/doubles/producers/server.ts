import { takeFault } from "../faults.ts";
import { type Received, received, startLoopback } from "../loopback.ts";
import { Account, type Fault, type ProviderName } from "./account.ts";
import { apis } from "./apis.ts";
import { PRIVATE_KEY } from "./snowflake.ts";

/** An account as its tests see it. */
export interface ProducerView {
  readonly account: string;
  readonly token: string;
  /** The key that signs tokens. */
  readonly key: string;
}

/**
 * The providers of examples/producers on loopback. Tests drive it over HTTP: `POST /_double/accounts` with `{provider}` opens an
 * account and returns its `ProducerView`; with `?account=<id>`, `POST /_double/faults` (a `Fault`), `/_double/clear-faults`, `/_double/everything`,
 * `/_double/requests`, `/_double/accepts` (credentials),
 * `/_double/first-works` (whether the secret of the view does).
 */
export async function startProducers() {
  const accounts = new Map<string, Account>();
  const requests: { account: string; method: string; target: string; status: number | null; headers: object }[] = [];

  function controlOf({ url, body }: Received): unknown {
    const given = body.length > 0 ? JSON.parse(body.toString()) : {};
    if (url.pathname === "/_double/accounts") {
      const account = new Account((given as { provider: ProviderName }).provider);
      accounts.set(account.id, account);
      return { account: account.id, token: account.token, key: PRIVATE_KEY } satisfies ProducerView;
    }
    const account = accounts.get(url.searchParams.get("account") ?? "");
    if (!account) throw new Error("no such account");
    if (url.pathname === "/_double/faults") account.faults.push(given as Fault);
    if (url.pathname === "/_double/clear-faults") account.faults.length = 0;
    if (url.pathname === "/_double/accepts")
      return Object.values(given as object).some((secret) => account.works(String(secret), Date.now()));
    if (url.pathname === "/_double/requests") return requests.filter((each) => each.account === account.id);
    if (url.pathname === "/_double/first-works") return account.tokenId !== null;
    return account.made.map(({ id, name, expires }) => ({ id, name, expires }));
  }

  return startLoopback(async (incoming, outgoing) => {
    const request = await received(incoming);
    const { method, url, target } = request;
    const answer = (status: number, body?: unknown) =>
      outgoing
        .writeHead(status, body === undefined ? {} : { "content-type": "application/json" })
        .end(body === undefined ? "" : JSON.stringify(body));
    if (url.pathname.startsWith("/_double/")) return answer(200, controlOf(request));
    const now = Date.now();
    for (const account of accounts.values()) {
      const api = apis[account.provider];
      const owns = api.owns(account, request);
      for (const { kind, path, query = [], takes, run, ...operation } of api.operations) {
        const found = operation.method === method ? path.exec(url.pathname) : null;
        if (!found || takes?.(request) === false) continue;
        // New credentials are of the account that knows them.
        const isOurs = kind === "verify" ? run(account, request, found[1] ?? "", now).status < 400 : owns;
        if (!isOurs) continue;
        // Without the secrets of the engine.
        const headers = Object.fromEntries(
          Object.entries(request.headers).filter(([name, text]) => name.startsWith("webhook-") && text !== ""),
        );
        const log = (status: number | null) => requests.push({ account: account.id, method, target, status, headers });
        if ([...url.searchParams.keys()].some((name) => !query.includes(name))) {
          log(400);
          return answer(400, api.refusal(400));
        }
        const fault = takeFault(account.faults, kind);
        if (fault?.fault === "drop") {
          log(null);
          return incoming.socket.destroy();
        }
        if (fault?.fault === "error") {
          log(fault.status);
          return answer(fault.status, api.refusal(fault.status));
        }
        const { status, body = status < 400 ? undefined : api.refusal(status) } = run(
          account,
          request,
          found[1] ?? "",
          now,
        );
        log(status);
        return fault?.fault === "apply-then-drop" ? incoming.socket.destroy() : answer(status, body);
      }
    }
    const api = Object.values(apis).find(({ operations }) => operations.some(({ path }) => path.test(url.pathname)));
    return answer(401, api?.refusal(401) ?? { message: "unauthorized" });
  });
}
