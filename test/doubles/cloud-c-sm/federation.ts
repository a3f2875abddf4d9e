import { randomBytes } from "node:crypto";
import { refusedToken, type Trust } from "../trusted-token.ts";
import { StatusError } from "./requests.ts";
import { GrantError } from "./token.ts";

/** A provider of a workload identity pool, whose tokens may act as one service account. */
export interface PoolProvider extends Trust {
  /** Its name: //iam.googleapis.com/projects/…/locations/global/workloadIdentityPools/…/providers/… */
  provider: string;
  email: string;
}

const scope = "https://www.googleapis.com/auth/cloud-platform";
const fixed = {
  grantType: "urn:ietf:params:oauth:grant-type:token-exchange",
  scope,
  requestedTokenType: "urn:ietf:params:oauth:token-type:access_token",
  subjectTokenType: "urn:ietf:params:oauth:token-type:jwt",
};
const generate = /^\/v1\/projects\/-\/serviceAccounts\/([^/:]+):generateAccessToken$/;

interface Received {
  method: string;
  target: string;
  headers: Record<string, string | undefined>;
  body: Buffer;
}

/** The members of a form, as Google's clients send it: the names of RFC 8693. */
const formOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...new URLSearchParams(text)].map(([name, value]) => [
      name.replaceAll(/_[a-z]/g, ([, letter = ""]) => letter.toUpperCase()),
      value,
    ]),
  );

/**
 * Google's Security Token Service and the IAM Service Account Credentials API, stricter than the real services: a body has
 * exactly the documented members, and a federated token opens only the service account of its provider.
 */
export class Federation {
  readonly #providers: PoolProvider[] = [];
  /** Service accounts by federated token. */
  readonly #federated = new Map<string, string>();
  readonly #issue: (email: string) => { token: string; expiresAt: number };
  readonly #now: () => number;

  constructor(issue: (email: string) => { token: string; expiresAt: number }, now: () => number) {
    this.#issue = issue;
    this.#now = now;
  }

  trust(provider: PoolProvider): void {
    this.#providers.push(provider);
  }

  /** The operation of a request; null for those of other services. */
  operation({ method, target }: Received): "ExchangeToken" | "GenerateAccessToken" | null {
    if (method !== "POST") return null;
    if (target === "/v1/token") return "ExchangeToken";
    return generate.test(decodeURIComponent(target)) ? "GenerateAccessToken" : null;
  }

  /** Throws `GrantError` or `StatusError`. */
  async perform(request: Received): Promise<Record<string, unknown>> {
    const text = request.body.toString();
    const isForm = request.headers["content-type"]?.startsWith("application/x-www-form-urlencoded");
    if (request.target === "/v1/token") return this.#exchange(isForm ? formOf(text) : JSON.parse(text));
    return this.#generate(request, JSON.parse(text));
  }

  async #exchange(body: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { audience, subjectToken, ...others } = body;
    const asFixed = Object.fromEntries(Object.entries(others).sort());
    if (JSON.stringify(asFixed) !== JSON.stringify(Object.fromEntries(Object.entries(fixed).sort()))) {
      throw new GrantError("invalid_request", "The members are not those of an exchange");
    }
    const providers = this.#providers.filter(({ provider }) => provider === audience);
    if (providers.length === 0) throw new GrantError("invalid_target", `There is no provider ${String(audience)}`);
    const refused = await refusedToken(String(subjectToken), providers, this.#now());
    if (refused !== null) throw new GrantError("invalid_grant", `The token ${String(subjectToken)}: ${refused}`);
    // As long as the reference allows.
    const token = `ya29.d.${randomBytes(9_210).toString("base64url")}`;
    this.#federated.set(token, providers[0]?.email ?? "");
    return {
      access_token: token,
      issued_token_type: fixed.requestedTokenType,
      token_type: "Bearer",
      expires_in: 3599,
    };
  }

  #generate({ target, headers }: Received, body: Record<string, unknown>): Record<string, unknown> {
    const email = generate.exec(decodeURIComponent(target))?.[1] ?? "";
    const token = /^Bearer (\S+)$/.exec(headers["authorization"] ?? "")?.[1] ?? "";
    const allowed = this.#federated.get(token);
    if (allowed === undefined) throw new StatusError("UNAUTHENTICATED", "Request had invalid credentials.");
    if (JSON.stringify(body) !== JSON.stringify({ scope: [scope], lifetime: "3600s" })) {
      throw new StatusError("INVALID_ARGUMENT", "The body must have the scope and an hour's lifetime");
    }
    if (allowed !== email) {
      throw new StatusError("PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied");
    }
    const { token: accessToken, expiresAt } = this.#issue(email);
    return { accessToken, expireTime: new Date(expiresAt).toISOString() };
  }
}
