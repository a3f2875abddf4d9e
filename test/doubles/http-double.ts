import { type Loopback, type Received, received, startLoopback } from "./loopback.ts";
import type { Fault } from "./stand-in.ts";

/** The server that the doubles of HTTP APIs share: accounts by credentials, faults, and a log of paths. */

export interface Reply {
  readonly status: number;
  /** Sent as JSON; a text is sent as it is. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A refusal by the provider, thrown by rules of a double. */
export class Refusal extends Error {
  readonly reply: Reply;
  constructor(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) {
    super(`HTTP ${status}`);
    this.reply = { status, body, headers };
  }
}

/** The faults and the log of an account; each double's account extends it. */
export class DoubleAccount {
  /** Method and path of each request, oldest first. */
  readonly requests: string[] = [];
  /** Calls that changed something, or were refused when they tried. */
  writes = 0;
  readonly #faults: { fault: Fault; left: number }[] = [];

  fail(fault: Fault, times: number): void {
    this.#faults.push({ fault, left: times });
  }

  nextFault(): Fault | null {
    const next = this.#faults[0];
    if (next === undefined) return null;
    next.left--;
    if (next.left <= 0) this.#faults.shift();
    return next.fault;
  }
}

export interface DoubleRules<Account extends DoubleAccount> {
  /** The account of the request's credentials. Throws `Refusal` when they are wrong. */
  authenticate(request: Received): Account | Promise<Account>;
  perform(request: Received, account: Account): Reply;
  /** Whether the request would change something. */
  isWrite(request: Received): boolean;
  /** The provider's own answers to a throttled call, and to one without the right. */
  readonly refusals: Readonly<Record<"throttled" | "unavailable" | "forbidden", Reply>>;
}

/** Starts a double on a free port of loopback. */
export async function startHttpDouble<Account extends DoubleAccount>(rules: DoubleRules<Account>): Promise<Loopback> {
  /** @returns null: the connection is cut */
  async function answer(request: Received): Promise<Reply | null> {
    const account = await rules.authenticate(request);
    account.requests.push(`${request.method} ${request.target}`);
    if (!rules.isWrite(request)) return rules.perform(request, account);
    account.writes++;
    const fault = account.nextFault();
    if (fault === "cut") return null;
    if (fault === "lost") {
      rules.perform(request, account);
      return null;
    }
    return fault === null ? rules.perform(request, account) : rules.refusals[fault];
  }

  return startLoopback(async (incoming, outgoing) => {
    const reply = await answer(await received(incoming)).catch((problem: unknown) => {
      if (problem instanceof Refusal) return problem.reply;
      throw problem;
    });
    if (reply === null) return incoming.socket.destroy();
    const { status, body, headers } = reply;
    const text = typeof body === "string" ? body : body === undefined ? "" : JSON.stringify(body);
    outgoing.writeHead(status, { ...(text !== "" && { "content-type": "application/json" }), ...headers });
    return outgoing.end(text);
  });
}

/** The members of a JSON body; others than `known` are refused with `refuse`. */
export function fieldsOf(
  { body }: Received,
  known: readonly string[],
  refuse: (message: string) => Refusal,
): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body));
  } catch {
    throw refuse("The body is not JSON");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw refuse("The body is not an object");
  const unknown = Object.keys(parsed).find((name) => !known.includes(name));
  if (unknown !== undefined) throw refuse(`Unknown field ${unknown}`);
  return { ...parsed };
}

export type AccountDouble<Account> = Loopback & { open(): Account };

interface TokenRules<Account extends DoubleAccount> extends Omit<DoubleRules<Account>, "authenticate" | "isWrite"> {
  newAccount(): Account;
  tokenOf(headers: Received["headers"]): string;
  /** The answer to a missing or wrong token. */
  readonly unauthorized: Refusal;
}

/** The bearer token of a request, or an empty text. */
export const bearerOf = (headers: Received["headers"]): string =>
  /^Bearer (.+)$/.exec(headers["authorization"] ?? "")?.[1] ?? "";

/** Starts a double whose accounts are known by a token, and whose reads are GET requests. */
export async function startTokenDouble<Account extends DoubleAccount & { readonly token: string }>({
  newAccount,
  tokenOf,
  unauthorized,
  ...rules
}: TokenRules<Account>): Promise<AccountDouble<Account>> {
  const accounts = new Map<string, Account>();
  const double = await startHttpDouble<Account>({
    ...rules,
    isWrite: ({ method }) => method !== "GET",
    authenticate({ headers }) {
      const account = accounts.get(tokenOf(headers));
      if (account === undefined) throw unauthorized;
      return account;
    },
  });
  return {
    ...double,
    open() {
      const account = newAccount();
      accounts.set(account.token, account);
      return account;
    },
  };
}
