import { randomBytes, randomUUID } from "node:crypto";
import { decodeJwt, type JWK, jwtVerify } from "jose";
import { ALGORITHM, SigningIssuer } from "./signing-issuer.ts";
import { TokenReviews } from "./token-reviews.ts";

/** A request to a system that issues tokens; its path begins below the system's URL. */
export interface SystemRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface SystemAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const json = (status: number, value: object): SystemAnswer => ({
  status,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(value),
});
const secret = (): string => randomBytes(24).toString("base64url");
const bearer = ({ headers }: SystemRequest): string => `${headers["authorization"] ?? ""}`.replace(/^bearer /i, "");
const discovery = (url: string, keys: string): object => ({
  issuer: url,
  jwks_uri: `${url}${keys}`,
  response_types_supported: ["id_token"],
  subject_types_supported: ["public"],
  id_token_signing_alg_values_supported: [ALGORITHM],
});

/**
 * GitHub Actions as an issuer. A job gets its token with its own secret
 * (https://docs.github.com/en/actions/reference/security/oidc).
 */
export class ActionsIssuer {
  readonly #issuer: SigningIssuer;
  /** Branches by the secret of the job that runs on them. */
  readonly #jobs = new Map<string, string>();

  private constructor(issuer: SigningIssuer) {
    this.#issuer = issuer;
  }

  static async create(url: string): Promise<ActionsIssuer> {
    return new ActionsIssuer(await SigningIssuer.create(url));
  }

  get url(): string {
    return this.#issuer.url;
  }

  /** A job's `ACTIONS_ID_TOKEN_REQUEST_URL`, which a query continues. */
  get requestUrl(): string {
    return `${this.url}/token?api-version=2.0`;
  }

  /** Starts a job of `acme/app` on a branch. @returns its `ACTIONS_ID_TOKEN_REQUEST_TOKEN` */
  startJob(branch: string): string {
    const requestToken = secret();
    this.#jobs.set(requestToken, branch);
    return requestToken;
  }

  async answer(request: SystemRequest): Promise<SystemAnswer | null> {
    const { path, query } = request;
    if (path === "/.well-known/openid-configuration") return json(200, discovery(this.url, "/.well-known/jwks"));
    if (path === "/.well-known/jwks") return json(200, await this.#issuer.keySet());
    if (path !== "/token") return null;
    const branch = this.#jobs.get(bearer(request));
    if (branch === undefined) return json(401, { message: "the token of the request is not that of a job" });
    const value = await this.#tokenOf(branch, query.get("audience") ?? "https://github.com/acme");
    return json(200, { count: value.length, value });
  }

  #tokenOf(branch: string, aud: string): Promise<string> {
    const ref = `refs/heads/${branch}`;
    const workflow = `acme/app/.github/workflows/deploy.yml@${ref}`;
    return this.#issuer.sign({
      aud,
      sub: `repo:acme/app:ref:${ref}`,
      jti: randomUUID(),
      ref,
      ref_type: "branch",
      ref_protected: "false",
      repository: "acme/app",
      repository_id: "74",
      repository_owner: "acme",
      repository_owner_id: "65",
      repository_visibility: "private",
      actor: "ann",
      actor_id: "12",
      event_name: "push",
      workflow: "deploy",
      workflow_ref: workflow,
      job_workflow_ref: workflow,
      run_id: "1",
      run_number: "10",
      run_attempt: "1",
      runner_environment: "github-hosted",
      sha: "0".repeat(40),
    });
  }
}

/**
 * The parts of a Kubernetes API that logins need: service-account tokens, their keys, and reviews
 * (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources).
 */
export class ClusterApi {
  readonly #issuer: SigningIssuer;
  readonly #reviews: TokenReviews;
  readonly #uids = new Map<string, string>();
  /** The token of an administrator, which permits to create tokens and to review them. */
  readonly adminToken: string;

  private constructor(issuer: SigningIssuer, publicKey: JWK, adminToken: string) {
    this.#issuer = issuer;
    this.adminToken = adminToken;
    this.#reviews = new TokenReviews({ key: publicKey, algorithm: ALGORITHM, reviewers: [adminToken] });
  }

  static async create(url: string): Promise<ClusterApi> {
    const issuer = await SigningIssuer.create(url);
    const exp = Math.floor(Date.now() / 1000) + 86_400;
    const admin = await issuer.sign({ aud: [url], sub: "system:serviceaccount:kube-system:admin", exp });
    return new ClusterApi(issuer, await issuer.publicKey(), admin);
  }

  get url(): string {
    return this.#issuer.url;
  }

  async answer(request: SystemRequest): Promise<SystemAnswer | null> {
    const { method, path, body } = request;
    if (path === "/.well-known/openid-configuration") return json(200, discovery(this.url, "/openid/v1/jwks"));
    if (path === "/openid/v1/jwks") return json(200, await this.#issuer.keySet());
    if (method !== "POST") return null;
    if (path === "/apis/authentication.k8s.io/v1/tokenreviews") {
      const { status, body: review } = await this.#reviews.answer(body, `Bearer ${bearer(request)}`);
      return json(status, review);
    }
    const [, namespace, account] = /^\/api\/v1\/namespaces\/([^/]+)\/serviceaccounts\/([^/]+)\/token$/.exec(path) ?? [];
    if (namespace === undefined || account === undefined) return null;
    if (bearer(request) !== this.adminToken) return json(401, { kind: "Status", reason: "Unauthorized", code: 401 });
    const asked = JSON.parse(body);
    if (asked.kind !== "TokenRequest") return json(400, { kind: "Status", reason: "BadRequest", code: 400 });
    const token = await this.#tokenOf(namespace, account, asked.spec?.audiences ?? [this.url]);
    const expirationTimestamp = new Date((decodeJwt(token).exp ?? 0) * 1000).toISOString();
    return json(201, { ...asked, status: { token, expirationTimestamp } });
  }

  #tokenOf(namespace: string, name: string, aud: string[]): Promise<string> {
    const sub = `system:serviceaccount:${namespace}:${name}`;
    const uid = this.#uids.get(sub) ?? randomUUID();
    this.#uids.set(sub, uid);
    return this.#issuer.sign({
      aud,
      sub,
      jti: randomUUID(),
      "kubernetes.io": { namespace, serviceaccount: { name, uid } },
    });
  }
}

/**
 * A team of Cloudflare Access with one application in front of the service: it forwards the requests of logged-in
 * people with their assertion (https://developers.cloudflare.com/cloudflare-one/access-controls/applications).
 */
export class AccessTeam {
  readonly #issuer: SigningIssuer;
  readonly #publicKey: JWK;
  readonly #serviceUrl: string;
  /** The tag of the application: the audience of its assertions. */
  readonly audience = randomBytes(32).toString("hex");

  private constructor(issuer: SigningIssuer, publicKey: JWK, serviceUrl: string) {
    this.#issuer = issuer;
    this.#publicKey = publicKey;
    this.#serviceUrl = serviceUrl;
  }

  static async create(url: string, serviceUrl: string): Promise<AccessTeam> {
    const issuer = await SigningIssuer.create(url);
    return new AccessTeam(issuer, await issuer.publicKey(), serviceUrl);
  }

  get url(): string {
    return this.#issuer.url;
  }

  /** The service as it is seen through Access. */
  get applicationUrl(): string {
    return `${this.url}/application`;
  }

  /** The token of a person who logged in, as `cloudflared access token` prints it. */
  logIn(email: string): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const session = { aud: [this.audience], exp: now + 86_400, type: "app", identity_nonce: secret() };
    return this.#issuer.sign({ ...session, sub: randomUUID(), email, country: "DE" });
  }

  async answer(request: SystemRequest): Promise<SystemAnswer | null> {
    if (request.path === "/cdn-cgi/access/certs") return json(200, await this.#issuer.keySet());
    const [, below] = /^\/application(\/.*)$/.exec(request.path) ?? [];
    return below === undefined ? null : this.#forward(below, request);
  }

  async #forward(path: string, { method, query, headers, body }: SystemRequest): Promise<SystemAnswer> {
    const token = `${headers["cf-access-token"] ?? ""}`;
    const options = { issuer: this.url, audience: this.audience };
    const isKnown = await jwtVerify(token, this.#publicKey, options).then(
      () => true,
      () => false,
    );
    if (!isKnown) return { status: 403, headers: {}, body: "Forbidden" };
    const kept = ["content-type", "x-orch-token", "x-vault-token"].flatMap((name) =>
      typeof headers[name] === "string" ? [[name, headers[name]]] : [],
    );
    const passed = await fetch(`${this.#serviceUrl}${path}?${query}`, {
      method,
      headers: { ...Object.fromEntries(kept), "Cf-Access-Jwt-Assertion": token },
      ...(method !== "GET" && { body }),
    });
    const contentType = passed.headers.get("content-type") ?? "application/json";
    return { status: passed.status, headers: { "content-type": contentType }, body: await passed.text() };
  }
}
