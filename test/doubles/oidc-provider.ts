import { createHash, randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { importJWK, type JWK, SignJWT } from "jose";

/** Settings of an OpenID provider. */
export interface ProviderSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly redirectUris: readonly string[];
  readonly key: JWK;
  readonly algorithm: string;
  /** Claims of the person, in ID tokens; they override those that the provider sets. */
  readonly claims: Record<string, unknown>;
  readonly userinfo?: Record<string, unknown>;
  /** The ID token itself, instead of a signed one. */
  readonly idToken?: string;
  /** The status of the token endpoint, instead of its answer. */
  readonly fails?: number;
  readonly delayMs?: number;
  /** The error that the person's login ends with, instead of a code. */
  readonly error?: string;
  /** Passwords by name: people log in on a page, and the name is the claim `sub`. Else each visitor is logged in at once. */
  readonly people?: Readonly<Record<string, string>>;
}

export interface ProviderRequest {
  readonly method: string;
  readonly url: URL;
  readonly body: string;
  readonly authorization: string;
}

interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

interface Code {
  readonly redirectUri: string;
  readonly challenge: string;
  readonly nonce: string;
  /** The name given on the page; undefined where there is no page. */
  readonly person: string | undefined;
}

/** The page on which a person logs in; it is posted to its own address. */
const LOGIN_PAGE = `<!doctype html><html lang="en"><title>Log in</title><form method="post">
<label>Name <input name="name"></label> <label>Password <input name="password" type="password"></label>
<button>Log in</button></form></html>`;

const page = (status: number): Answer => ({
  status,
  headers: { "content-type": "text/html; charset=utf-8" },
  body: LOGIN_PAGE,
});

const json = (status: number, value: object): Answer => ({
  status,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(value),
});

/**
 * An OpenID provider with one client: it refuses foreign redirect URIs, requests without PKCE (S256), used codes, wrong
 * verifiers and wrong client secrets (RFC 6749, RFC 7636).
 */
export class OidcProvider {
  settings: ProviderSettings;
  readonly #codes = new Map<string, Code>();
  readonly #accessTokens = new Set<string>();

  constructor(settings: ProviderSettings) {
    this.settings = settings;
  }

  /** The answer of an endpoint; null for other paths. */
  async answer(endpoint: string, request: ProviderRequest): Promise<Answer | null> {
    if (endpoint === "/authorize") return this.#visit(request);
    if (endpoint === "/token" && request.method === "POST") return this.#token(request);
    if (endpoint === "/userinfo" && request.method === "GET") return this.#userinfo(request.authorization);
    return null;
  }

  /** The page for a person, or the redirect after it. */
  #visit({ method, url, body }: ProviderRequest): Answer | null {
    const { people } = this.settings;
    if (people === undefined) return method === "GET" ? this.#authorize(url.searchParams, undefined) : null;
    if (method !== "POST") return page(200);
    const form = new URLSearchParams(body);
    const name = form.get("name") ?? "";
    return people[name] === form.get("password") ? this.#authorize(url.searchParams, name) : page(403);
  }

  #authorize(query: URLSearchParams, person: string | undefined): Answer {
    const { clientId, redirectUris, error } = this.settings;
    const redirectUri = query.get("redirect_uri") ?? "";
    // RFC 6749, 4.1.2.1: no redirect to an address that is not registered.
    if (query.get("client_id") !== clientId || !redirectUris.includes(redirectUri)) {
      return json(400, { error: "invalid_request" });
    }
    const challenge = query.get("code_challenge") ?? "";
    const isComplete =
      query.get("response_type") === "code" &&
      (query.get("scope") ?? "").split(" ").includes("openid") &&
      query.get("code_challenge_method") === "S256" &&
      /^[\w-]{43}$/.test(challenge);
    const back = new URL(redirectUri);
    back.searchParams.set("state", query.get("state") ?? "");
    if (error !== undefined || !isComplete) back.searchParams.set("error", error ?? "invalid_request");
    else {
      const code = randomBytes(16).toString("base64url");
      this.#codes.set(code, { redirectUri, challenge, nonce: query.get("nonce") ?? "", person });
      back.searchParams.set("code", code);
    }
    if (query.get("response_mode") === "form_post") {
      const fields = JSON.stringify(Object.fromEntries(back.searchParams));
      return { status: 200, headers: { "content-type": "application/json" }, body: fields };
    }
    return { status: 302, headers: { location: back.href }, body: "" };
  }

  async #token({ body, authorization }: ProviderRequest): Promise<Answer> {
    const { settings } = this;
    if (settings.delayMs) await wait(settings.delayMs, undefined, { ref: false });
    if (settings.fails) return json(settings.fails, { error: "server_error" });
    const form = new URLSearchParams(body);
    const [id, secret] = Buffer.from(authorization.replace(/^Basic /, ""), "base64")
      .toString()
      .split(":");
    const plain = (text = "") => new URLSearchParams(`_=${text}`).get("_");
    if (plain(id) !== settings.clientId || plain(secret) !== settings.clientSecret) {
      return json(401, { error: "invalid_client" });
    }
    const code = this.#codes.get(form.get("code") ?? "");
    this.#codes.delete(form.get("code") ?? "");
    const verifier = form.get("code_verifier") ?? "";
    const isVerified =
      /^[\w.~-]{43,128}$/.test(verifier) &&
      createHash("sha256").update(verifier).digest("base64url") === code?.challenge;
    const isGranted = form.get("grant_type") === "authorization_code" && code?.redirectUri === form.get("redirect_uri");
    if (!code || !isVerified || !isGranted) return json(400, { error: "invalid_grant" });
    const accessToken = randomBytes(16).toString("base64url");
    this.#accessTokens.add(accessToken);
    const idToken = settings.idToken ?? (await this.#idToken(code, accessToken));
    return json(200, { token_type: "Bearer", access_token: accessToken, expires_in: 300, id_token: idToken });
  }

  async #idToken({ nonce, person }: Code, accessToken: string): Promise<string> {
    const { issuer, clientId, claims, key, algorithm } = this.settings;
    const now = Math.floor(Date.now() / 1000);
    const hash = createHash("sha256").update(accessToken).digest();
    const usual = {
      iss: issuer,
      aud: clientId,
      iat: now,
      exp: now + 300,
      nonce,
      ...(person !== undefined && { sub: person }),
    };
    return new SignJWT({ ...usual, at_hash: hash.subarray(0, 16).toString("base64url"), ...claims })
      .setProtectedHeader({ alg: algorithm, kid: key.kid ?? "" })
      .sign(await importJWK(key, algorithm));
  }

  #userinfo(authorization: string): Answer {
    const { userinfo } = this.settings;
    const isKnown = this.#accessTokens.has(authorization.replace(/^Bearer /, ""));
    return userinfo && isKnown ? json(200, userinfo) : json(401, {});
  }
}
