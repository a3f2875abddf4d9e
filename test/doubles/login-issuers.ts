import type { IncomingMessage, ServerResponse } from "node:http";
import { AccessTeam, ActionsIssuer, ClusterApi, type SystemAnswer, type SystemRequest } from "./login-systems.ts";
import { bodyOf, startLoopback } from "./loopback.ts";
import { OidcProvider } from "./oidc-provider.ts";
import { ALGORITHM, SigningIssuer } from "./signing-issuer.ts";

export interface LoginIssuers {
  /** Addresses and credentials that the guides' commands use, by the name of their variable. */
  readonly values: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** The command line client's redirect URI. */
const CLI = "http://localhost:8250/oidc/callback";
const CLIENT = { id: "sallyport", secret: "secret-of-the-client" };
/** The people of the OpenID provider, with their passwords. */
const PEOPLE: Readonly<Record<string, string>> = { ann: "correct horse", bob: "battery staple" };

/**
 * Starts the systems that log callers in: GitHub Actions, a Kubernetes cluster, Cloudflare Access and an OpenID
 * provider, each below its path of one server on the loopback address.
 * @param serviceUrl the service behind Cloudflare Access, whose console is a client of the provider
 */
export async function startLoginIssuers(serviceUrl: string): Promise<LoginIssuers> {
  const handlers = new Map<string, (request: SystemRequest) => Promise<SystemAnswer | null>>();
  const { url: base, close } = await startLoopback((request, response) => serve(handlers, request, response));
  const [actions, cluster, access, people] = await Promise.all([
    ActionsIssuer.create(`${base}/actions`),
    ClusterApi.create(`${base}/cluster`),
    AccessTeam.create(`${base}/access`, serviceUrl),
    SigningIssuer.create(`${base}/people`),
  ]);
  handlers.set("actions", (request) => actions.answer(request));
  handlers.set("cluster", (request) => cluster.answer(request));
  handlers.set("access", (request) => access.answer(request));
  handlers.set("people", await providerOf(people, [CLI, ...consolesOf(serviceUrl)]));
  return {
    values: {
      ACTIONS_ISSUER: actions.url,
      ACTIONS_ID_TOKEN_REQUEST_URL: actions.requestUrl,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: actions.startJob("main"),
      BRANCH_ID_TOKEN_REQUEST_TOKEN: actions.startJob("experiment"),
      CLUSTER_URL: cluster.url,
      CLUSTER_TOKEN: cluster.adminToken,
      ACCESS_TEAM: access.url,
      ACCESS_APP: access.applicationUrl,
      ACCESS_AUDIENCE: access.audience,
      ANN_ACCESS_TOKEN: await access.logIn("ann@example.com"),
      GUEST_ACCESS_TOKEN: await access.logIn("guest@elsewhere.test"),
      PEOPLE_ISSUER: people.url,
      PEOPLE_CLIENT_ID: CLIENT.id,
      PEOPLE_CLIENT_SECRET: CLIENT.secret,
    },
    close,
  };
}

/** The redirect URIs of the console: a browser may spell the loopback address in two ways. */
function consolesOf(serviceUrl: string): string[] {
  const { port } = new URL(serviceUrl);
  return ["127.0.0.1", "localhost"].map((host) => `http://${host}:${port}/ui/oidc/callback`);
}

async function providerOf(issuer: SigningIssuer, redirectUris: readonly string[]) {
  const { url } = issuer;
  const provider = new OidcProvider({
    issuer: url,
    clientId: CLIENT.id,
    clientSecret: CLIENT.secret,
    redirectUris,
    people: PEOPLE,
    key: await issuer.privateKey(),
    algorithm: ALGORITHM,
    claims: {},
  });
  const document = {
    issuer: url,
    jwks_uri: `${url}/keys`,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [ALGORITHM],
  };
  const json = (value: object) => ({
    status: 200,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(value),
  });
  return async ({ method, path, query, headers, body }: SystemRequest): Promise<SystemAnswer | null> => {
    if (path === "/.well-known/openid-configuration") return json(document);
    if (path === "/keys") return json(await issuer.keySet());
    const asked = new URL(`${url}${path}?${query}`);
    return provider.answer(path, { method, url: asked, body, authorization: `${headers["authorization"] ?? ""}` });
  };
}

async function serve(
  handlers: ReadonlyMap<string, (request: SystemRequest) => Promise<SystemAnswer | null>>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { pathname, searchParams: query } = new URL(incoming.url ?? "/", "http://issuers");
  const [, system = "", path = "/"] = /^\/([^/]+)(\/.*)?$/.exec(pathname) ?? [];
  const { method = "GET", headers } = incoming;
  const request = { method, path, query, headers, body: String(await bodyOf(incoming)) };
  const answer = await handlers
    .get(system)?.(request)
    .catch((failure: unknown) => ({ status: 500, headers: {}, body: String(failure) }));
  outgoing.writeHead(answer?.status ?? 404, answer?.headers).end(answer?.body);
}
