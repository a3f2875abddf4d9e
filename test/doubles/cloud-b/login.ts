import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { refusedToken, type Trust } from "../trusted-token.ts";

/** One HTTP request, read whole; header names in lower case. */
export interface Received {
  method: string;
  /** Path and query. */
  target: string;
  headers: Record<string, string>;
  body: Buffer;
}

export interface Answer {
  status: number;
  /** A JSON value; undefined is an empty body. */
  body?: unknown;
  headers?: Record<string, string>;
  /** The error in the log. */
  errorType?: string;
}

/** A tenant as the directory sees it. */
export interface Tenant {
  readonly tenantId: string;
  /** The audiences that tokens are issued for there, such as https://vault.azure.net. */
  readonly resources: readonly string[];
  /** Throws `LoginError` unless this client may have a token now. */
  identify(clientId: string, proof: Proof): Identity | Promise<Identity>;
}

/** Authentication of a client: with its secret, or with a signed assertion (RFC 7523). */
export type Proof = { secret: string } | { assertion: string };

export interface Identity {
  clientId: string;
  /** Of the service principal. */
  objectId: string;
  /** The application permissions that its tokens for this audience carry. */
  roles(resource: string): string[];
}

/** An app registration with its one secret, and its service principal in the one tenant that knows it. */
export interface Application {
  tenantId: string;
  clientId: string;
  clientSecret: string;
  objectId: string;
  /** Identity tokens that it accepts instead of its secret. */
  trusted: Trust[];
}

/** The claims of an access token that resource servers look at. Times are seconds since the epoch. */
export interface Claims {
  aud: string;
  iss: string;
  tid: string;
  appid: string;
  oid: string;
  roles?: string[];
  nbf: number;
  exp: number;
}

export interface DirectoryOptions {
  /** Milliseconds since the epoch. */
  now(): number;
  /** The audiences of `newTenant`. */
  resources?: readonly string[];
  /** How long a token is good for (60 to 90 minutes with the real service). */
  tokenSeconds?: number;
}

/** The names under which the vendor's own client describes itself; they mean nothing to a token request. */
const telemetry = /^(x-client-|x-app-|x-ms-lib-capability$|client_info$|client-request-id$|claims$)/;
const secretForm = ["grant_type", "client_id", "client_secret", "scope"];
const assertionForm = ["grant_type", "client_id", "client_assertion_type", "client_assertion", "scope"];
const known = new Set([...secretForm, ...assertionForm]);
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/** A refusal as the token endpoint words it. */
export class LoginError extends Error {
  readonly error: string;
  readonly number: number;
  readonly status: number;
  constructor(error: string, number: number, message: string, status = 400) {
    super(message);
    this.error = error;
    this.number = number;
    this.status = status;
  }
}

/**
 * The identity platform's directory: tenants, their applications and the tokens issued to them (client credentials grant,
 * version 2.0 endpoints). Serves `POST /{tenant}/oauth2/v2.0/token` and the discovery document. Tokens are JWTs that only
 * this directory can check, so a resource server asks it.
 */
export class Directory {
  readonly #options: DirectoryOptions;
  readonly #key = randomBytes(32);
  readonly #tenants = new Map<string, Tenant>();
  /** Of each tenant, written into its tokens; those with an earlier one are revoked. */
  readonly #serials = new Map<string, number>();

  constructor(options: DirectoryOptions) {
    this.#options = options;
  }

  /** A separate tenant with one application. */
  newTenant(): Application {
    const application = {
      tenantId: crypto.randomUUID(),
      clientId: crypto.randomUUID(),
      clientSecret: `${randomBytes(3).toString("hex")}~${randomBytes(17).toString("base64url")}`,
      objectId: crypto.randomUUID(),
      trusted: [],
    };
    this.add({
      tenantId: application.tenantId,
      resources: this.#options.resources ?? [],
      identify: (clientId, proof) => identify(application, clientId, proof, this.#options.now()),
    });
    return application;
  }

  /** A tenant that authenticates its clients itself. */
  add(tenant: Tenant): void {
    this.#tenants.set(tenant.tenantId, tenant);
  }

  /** Gives the application another secret; the one before is refused from now on. */
  rotateSecret(application: Application): void {
    application.clientSecret = randomBytes(20).toString("base64url");
  }

  /** Every token issued until now, by this tenant or by all, is refused by `verify`. */
  revokeTokens(tenantId?: string): void {
    for (const id of tenantId === undefined ? this.#tenants.keys() : [tenantId]) {
      this.#serials.set(id, this.#serial(id) + 1);
    }
  }

  /** The tenant that a request to this endpoint names, or null. */
  tenantOf({ target }: Pick<Received, "target">): string | null {
    const tenant = target.split("/")[1]?.toLowerCase() ?? "";
    return this.#tenants.has(tenant) ? tenant : null;
  }

  /** The claims of a token that this directory issued and that is valid now; null for anything else. */
  verify(token: string): Claims | null {
    const [head = "", payload = "", signature = "", more] = token.split(".");
    const expected = Buffer.from(this.#sign(`${head}.${payload}`));
    const given = Buffer.from(signature);
    if (more !== undefined || expected.length !== given.length || !timingSafeEqual(expected, given)) return null;
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString()) as Claims & { serial: number };
    const seconds = this.#options.now() / 1000;
    return claims.nbf <= seconds && seconds < claims.exp && claims.serial === this.#serial(claims.tid) ? claims : null;
  }

  async answer(request: Received): Promise<Answer> {
    const { pathname, searchParams } = new URL(request.target, "http://login");
    const [, tenant = "", ...rest] = pathname.split("/");
    try {
      const unknown = [...searchParams.keys()].find((name) => !telemetry.test(name));
      if (unknown !== undefined)
        throw new LoginError("invalid_request", 9000411, `The parameter '${unknown}' is unknown.`);
      const path = rest.join("/");
      if (path === "oauth2/v2.0/token") return { status: 200, body: await this.#issue(request, tenant) };
      if (path === "v2.0/.well-known/openid-configuration" && request.method === "GET") {
        return { status: 200, body: this.#discovery(request, tenant) };
      }
      return { status: 404, errorType: "not_found" };
    } catch (problem) {
      if (!(problem instanceof LoginError)) throw problem;
      return { ...loginError(problem), status: problem.status };
    }
  }

  #serial(tenantId: string): number {
    return this.#serials.get(tenantId) ?? 0;
  }

  #tenant(tenant: string): Tenant {
    const found = this.#tenants.get(tenant.toLowerCase());
    if (found === undefined) {
      throw new LoginError(
        "invalid_request",
        90002,
        `Tenant '${tenant}' not found. Check to make sure you have the correct tenant ID.`,
      );
    }
    return found;
  }

  async #issue({ method, headers, body }: Received, given: string): Promise<Record<string, unknown>> {
    if (method !== "POST") throw new LoginError("invalid_request", 900561, "The endpoint only accepts POST requests.");
    if (headers["content-type"]?.split(";")[0] !== "application/x-www-form-urlencoded") {
      throw new LoginError(
        "invalid_request",
        900144,
        "The request body must contain the following parameter: 'grant_type'.",
      );
    }
    const tenant = this.#tenant(given);
    const form = new Map<string, string>();
    for (const [name, value] of new URLSearchParams(body.toString())) {
      if (form.has(name) || (!known.has(name) && !telemetry.test(name))) {
        throw new LoginError("invalid_request", 9000411, `The parameter '${name}' is duplicated or unknown.`);
      }
      form.set(name, value);
    }
    const asserts = form.has("client_assertion") || form.has("client_assertion_type");
    if (asserts && form.has("client_secret")) {
      throw new LoginError("invalid_request", 7000217, "The request must not hold both a secret and an assertion.");
    }
    for (const name of asserts ? assertionForm : secretForm) {
      if (!form.get(name))
        throw new LoginError(
          "invalid_request",
          900144,
          `The request body must contain the following parameter: '${name}'.`,
        );
    }
    if (form.get("grant_type") !== "client_credentials") {
      throw new LoginError("unsupported_grant_type", 70003, "The app requested an unsupported grant type.");
    }
    if (asserts && form.get("client_assertion_type") !== assertionType) {
      throw new LoginError("invalid_request", 50027, "The value of client_assertion_type is not supported.");
    }
    const proof = asserts
      ? { assertion: form.get("client_assertion") ?? "" }
      : { secret: form.get("client_secret") ?? "" };
    const identity = await tenant.identify((form.get("client_id") ?? "").toLowerCase(), proof);
    return this.#grant(tenant, identity, form.get("scope") ?? "");
  }

  #grant({ tenantId, resources }: Tenant, { clientId, objectId, roles }: Identity, scope: string) {
    const resource = /^(\S+)\/\.default$/.exec(scope)?.[1];
    if (resource === undefined) {
      throw new LoginError(
        "invalid_scope",
        1002012,
        `The provided value for scope ${scope} is not valid. Client credential flows must have a scope value with /.default suffixed to the resource identifier.`,
      );
    }
    if (!resources.includes(resource)) {
      throw new LoginError(
        "invalid_resource",
        500011,
        `The resource principal named ${resource} was not found in the tenant.`,
      );
    }
    const seconds = this.#options.tokenSeconds ?? 3599;
    const nbf = Math.floor(this.#options.now() / 1000);
    const claims = {
      aud: resource,
      iss: `https://sts.windows.net/${tenantId}/`,
      tid: tenantId,
      appid: clientId,
      oid: objectId,
      ...(roles(resource).length > 0 && { roles: roles(resource) }),
      nbf,
      exp: nbf + seconds,
      serial: this.#serial(tenantId),
      uti: randomBytes(16).toString("base64url"),
      ver: "1.0",
    };
    const encoded = [{ typ: "JWT", alg: "HS256" }, claims].map((part) =>
      Buffer.from(JSON.stringify(part)).toString("base64url"),
    );
    const token = `${encoded.join(".")}.${this.#sign(encoded.join("."))}`;
    return { token_type: "Bearer", expires_in: seconds, ext_expires_in: seconds, access_token: token };
  }

  #discovery({ headers }: Received, tenant: string): Record<string, unknown> {
    const { tenantId } = this.#tenant(tenant);
    const base = `https://${headers["x-original-host"] ?? headers["host"]}/${tenantId}`;
    return {
      token_endpoint: `${base}/oauth2/v2.0/token`,
      token_endpoint_auth_methods_supported: ["client_secret_post"],
      jwks_uri: `${base}/discovery/v2.0/keys`,
      issuer: `${base}/v2.0`,
      authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
      response_types_supported: ["code"],
      subject_types_supported: ["pairwise"],
      id_token_signing_alg_values_supported: ["RS256"],
      tenant_region_scope: "EU",
      cloud_instance_name: "microsoftonline.com",
    };
  }

  #sign(text: string): string {
    return createHmac("sha256", this.#key).update(text).digest("base64url");
  }
}

async function identify(application: Application, given: string, proof: Proof, now: number): Promise<Identity> {
  const { tenantId, clientId, clientSecret, objectId, trusted } = application;
  if (given !== clientId) {
    const message = `Application with identifier '${given}' was not found in the directory '${tenantId}'.`;
    throw new LoginError("unauthorized_client", 700016, message);
  }
  if (!("secret" in proof)) {
    const refused = await refusedToken(proof.assertion, trusted, now);
    if (refused === null) return { clientId, objectId, roles: () => [] };
    throw new LoginError("invalid_client", 700211, `No matching federated identity record found: ${refused}.`, 401);
  }
  if (proof.secret !== clientSecret) throw wrongSecret(proof.secret);
  return { clientId, objectId, roles: () => [] };
}

/** The real text does not quote the secret; this one does, so that a client that passes it on is found out. */
export const wrongSecret = (secret: string): LoginError =>
  new LoginError("invalid_client", 7000215, `Invalid client secret provided: '${secret}'.`, 401);

/** An error as the token endpoint writes it, for faults, too. */
export function loginError({ error, number, message }: { error: string; number: number; message: string }): Answer {
  const trace = crypto.randomUUID();
  return {
    status: 400,
    errorType: error,
    body: {
      error,
      error_description: `AADSTS${number}: ${message} Trace ID: ${trace}`,
      error_codes: number === 0 ? [] : [number],
      timestamp: new Date().toISOString(),
      trace_id: trace,
      correlation_id: crypto.randomUUID(),
      error_uri: `https://login.microsoftonline.com/error?code=${number}`,
    },
  };
}
