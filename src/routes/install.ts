/**
 * The installation files of the node agent (docs/guides/agent.md): a script and packages below `/install/`, which a
 * release adds to the static files. They are public and need no token; any other path is left to the API.
 */
const HOME = "/install/";

const HEADERS: Readonly<Record<string, string>> = {
  "Cache-Control": "no-cache",
  "Content-Type": "application/octet-stream",
  "X-Content-Type-Options": "nosniff",
};

/** The answer to a request for an installation file; null for any other request. */
export function installAnswer({ method }: Request, { pathname }: URL, env: Env): Promise<Response> | null {
  return pathname.startsWith(HOME) && (method === "GET" || method === "HEAD") ? serve(method, pathname, env) : null;
}

async function serve(method: string, path: string, env: Env): Promise<Response> {
  const found = await env.ASSETS.fetch(`https://assets${path}`);
  const isThere = found.status === 200;
  if (!isThere || method === "HEAD") await found.body?.cancel();
  const body = isThere ? found.body : "this deployment has no such file of the agent: it is built from a checkout\n";
  return new Response(method === "HEAD" ? null : body, { status: isThere ? 200 : 404, headers: HEADERS });
}
