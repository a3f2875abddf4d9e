/** Ways to log in, and the life of the token afterwards. */
import { place } from "../app/router.ts";
import { timeOf } from "../lib/time.ts";
import { api, isDenied, isTokenRefused, type Schemas } from "./client.ts";
import { beginSession, type Caller, caller, endSession, session } from "./session.ts";

interface LoginPlace {
  /** Namespace of the secrets API; empty for the root namespace. */
  readonly namespace: string;
  /** Keep the token in the tab's session storage. */
  readonly keep: boolean;
}

export async function logInWithToken(token: string, { namespace, keep }: LoginPlace): Promise<void> {
  const found = await lookUp(token, namespace);
  beginSession({ token, home: namespace, method: "token" }, keep);
  caller.value = found;
}

/** @param mount path of the auth method below `auth/` */
export async function logInWithPassword(mount: string, name: string, password: string, at: LoginPlace): Promise<void> {
  const { auth } = await api("POST /v1/auth/userpass/login/{name}", {
    mount: `auth/${mount}`,
    path: { name },
    body: { password },
    namespace: at.namespace,
    anonymous: true,
    sensitive: true,
  });
  await begin(auth, `password:${mount}`, at);
}

async function begin(auth: Schemas["Auth"] | null, method: string, { namespace, keep }: LoginPlace): Promise<void> {
  if (!auth) throw new Error("The answer to the log-in holds no token.");
  const token = auth.client_token;
  const found = await lookUp(token, namespace);
  beginSession({ token, home: namespace, method }, keep);
  caller.value = found ?? { ...unknownCaller(namespace), policies: auth.policies };
}

const PENDING = "sallyport.oidc";

/** A log-in that waits for the browser to return from the identity provider. */
interface Pending extends LoginPlace {
  readonly mount: string;
  readonly nonce: string;
  readonly returnTo: string;
}

export const redirectUri = (): string => `${location.origin}/ui/oidc/callback`;

/** Sends the browser to the identity provider. */
export async function logInWithOidc(mount: string, role: string, at: LoginPlace): Promise<void> {
  const nonce = crypto.randomUUID();
  const { data } = await api("POST /v1/auth/oidc/oidc/auth_url", {
    mount: `auth/${mount}`,
    namespace: at.namespace,
    anonymous: true,
    body: { ...(role ? { role } : {}), redirect_uri: redirectUri(), client_nonce: nonce },
  });
  if (!/^https?:\/\//.test(data.auth_url))
    throw new Error(
      `The service gives no address for this log-in. The role must list ${redirectUri()} in allowed_redirect_uris, and the provider must be reachable.`,
    );
  const pending: Pending = { ...at, mount, nonce, returnTo: location.pathname + location.search };
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  location.assign(data.auth_url);
}

/** Completes the log-in that began in this tab; resolves with the address to go on at. */
export async function completeOidc(): Promise<string> {
  const query = new URLSearchParams(location.search);
  const text = sessionStorage.getItem(PENDING);
  sessionStorage.removeItem(PENDING);
  // The code stays neither in the address nor in the history.
  history.replaceState(null, "", "/ui/oidc/callback");
  const refused = query.get("error");
  if (refused)
    throw new Error(`The identity provider refused the log-in: ${query.get("error_description") ?? refused}`);
  if (!text) throw new Error("This tab has not begun a log-in. Begin it again.");
  const pending = JSON.parse(text) as Pending;
  const { auth } = await api("GET /v1/auth/oidc/oidc/callback", {
    mount: `auth/${pending.mount}`,
    namespace: pending.namespace,
    anonymous: true,
    quiet: true,
    query: { state: query.get("state") ?? "", code: query.get("code") ?? "", client_nonce: pending.nonce },
  });
  await begin(auth, `oidc:${pending.mount}`, pending);
  return pending.returnTo.startsWith("/ui/") && !pending.returnTo.startsWith("/ui/oidc") ? pending.returnTo : "/ui/";
}

/**
 * The token's owner; null when its policies do not let it look itself up.
 * @throws ApiError for a token that is not valid
 */
async function lookUp(token: string, namespace: string): Promise<Caller | null> {
  try {
    const { data } = await api("GET /v1/auth/token/lookup-self", { token, namespace, quiet: true });
    return callerOf(data);
  } catch (failure) {
    if (isDenied(failure) && !isTokenRefused(failure)) return null;
    throw failure;
  }
}

const callerOf = (data: Schemas["Token"]): Caller => ({
  name: data.display_name,
  accessor: data.accessor,
  policies: [...new Set([...data.policies, ...(data.identity_policies ?? [])])],
  namespace: data.namespace_path.replace(/\/$/, ""),
  isRoot: data.policies.includes("root"),
  isRenewable: data.renewable,
  type: data.type,
  expires: timeOf(data.expire_time),
  uses: data.num_uses,
});

const unknownCaller = (namespace: string): Caller => ({
  name: "unknown",
  accessor: "",
  policies: [],
  namespace,
  isRoot: false,
  isRenewable: false,
  type: "unknown",
  expires: null,
  uses: 0,
});

/** Reads who the caller is, and when the token ends. */
export async function refreshCaller(): Promise<void> {
  const current = session.peek();
  if (!current) return;
  try {
    const found = await lookUp(current.token, current.home);
    if (session.peek() === current) caller.value = found ?? unknownCaller(current.home);
  } catch (failure) {
    if (isDenied(failure) && session.peek() === current)
      endSession("Your token is no longer valid. Log in again to continue.");
  }
}

export async function renewToken(): Promise<void> {
  await api("POST /v1/auth/token/renew-self", { body: {}, namespace: session.peek()?.home ?? "", sensitive: true });
  await refreshCaller();
}

/** Ends the token at the service, then forgets it. */
export async function revokeToken(): Promise<void> {
  await api("POST /v1/auth/token/revoke-self", { namespace: session.peek()?.home ?? "" });
  endSession("Logged out; the token is revoked.");
}

/** Auth methods that the service shows without a token, by path. */
export async function visibleMethods(namespace: string): Promise<{ readonly path: string; readonly type: string }[]> {
  const { data } = await api("GET /v1/sys/internal/ui/mounts", { namespace, anonymous: true, quiet: true });
  return Object.entries(data.auth).map(([path, { type }]) => ({ path: path.replace(/\/$/, ""), type }));
}

/** Namespace named by the address, for the log-in form. */
export const namespaceOfPlace = (): string => place.peek().query.get("ns") ?? "";
