/**
 * The web console (docs/internals/console.md): static files below `/ui/`, served beside the API. They are no part of
 * it: no token, no object, no line in the audit log. Scripts and styles carry a hash in their names; every other path
 * is a place within the page.
 */

const HOME = "/ui/";
const HASHED = "/ui/assets/";
const PAGE = "/ui/index.html";

/** Own files only, no inline code, and no HTML made from strings. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy": POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

/** The answer to a request for the console; null for any other request. */
export function consoleAnswer(request: Request, { pathname }: URL, env: Env): Promise<Response> | null {
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (pathname === "/ui" || (pathname === "/" && isRead && isBrowser(request))) return goHome(request, env);
  if (!pathname.startsWith(HOME)) return null;
  return isRead ? serve(request, env, pathname) : Promise.resolve(refuse(405, { Allow: "GET, HEAD" }));
}

const isBrowser = ({ headers }: Request): boolean => /\btext\/html\b/i.test(headers.get("Accept") ?? "");

async function goHome({ method }: Request, env: Env): Promise<Response> {
  const page = await asset(env, PAGE);
  await page.body?.cancel();
  if (page.status === 404) return unbuilt(method);
  return new Response(null, {
    status: 302,
    headers: { ...HEADERS, Location: HOME, "Cache-Control": "no-cache", Vary: "Accept" },
  });
}

const asset = (env: Env, path: string, headers: Record<string, string> = {}): Promise<Response> =>
  env.ASSETS.fetch(`https://assets${path}`, { headers });

const refuse = (status: number, more: Record<string, string> = {}): Response =>
  new Response(null, { status, headers: { ...HEADERS, "Cache-Control": "no-store", ...more } });

async function serve({ method, headers }: Request, env: Env, pathname: string): Promise<Response> {
  const isHashed = pathname.startsWith(HASHED);
  const known = headers.get("If-None-Match");
  const found = await asset(env, isHashed ? pathname : PAGE, known === null ? {} : { "If-None-Match": known });
  if (found.status !== 200 && found.status !== 304) {
    await found.body?.cancel();
    if (found.status !== 404) return refuse(503);
    return isHashed ? refuse(404) : unbuilt(method);
  }
  const answer = new Response(method === "HEAD" ? null : found.body, found);
  for (const [name, value] of Object.entries(HEADERS)) answer.headers.set(name, value);
  answer.headers.set("Cache-Control", isHashed ? "public, max-age=31536000, immutable" : "no-cache");
  return answer;
}

/** Page without script and style, for a deployment without the console's files. */
const UNBUILT = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sallyport</title></head>
<body>
<h1>The web console is not built</h1>
<p>The service runs and its API answers below <code>/v1/</code>, but it was started or deployed without the console's files.</p>
<p>Run <code>npm run build</code> in the repository, then start or deploy the service again.
<code>npm start</code> and <code>npm run deploy</code> build the files themselves.</p>
</body>
</html>
`;

const unbuilt = (method: string): Response =>
  new Response(method === "HEAD" ? null : UNBUILT, {
    status: 503,
    headers: { ...HEADERS, "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", Vary: "Accept" },
  });
