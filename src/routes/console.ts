/**
 * The web console (docs/internals/console.md): static files below `/ui/`, served beside the API. They are no part of it: no token,
 * no object, no line in the audit log. Scripts and styles carry a hash in their names; every other path is a place within the page.
 */

const HOME = "/ui/";
const HASHED = "/ui/assets/";

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
  if (pathname === "/ui" || (pathname === "/" && isRead && isBrowser(request))) return Promise.resolve(goHome());
  if (!pathname.startsWith(HOME)) return null;
  return isRead ? serve(request, env, pathname) : Promise.resolve(refuse(405, { Allow: "GET, HEAD" }));
}

const isBrowser = ({ headers }: Request): boolean => /\btext\/html\b/i.test(headers.get("Accept") ?? "");

const goHome = (): Response =>
  new Response(null, {
    status: 302,
    headers: { ...HEADERS, Location: HOME, "Cache-Control": "no-cache", Vary: "Accept" },
  });

const refuse = (status: number, more: Record<string, string> = {}): Response =>
  new Response(null, { status, headers: { ...HEADERS, "Cache-Control": "no-store", ...more } });

async function serve({ method, headers }: Request, env: Env, pathname: string): Promise<Response> {
  const isHashed = pathname.startsWith(HASHED);
  const known = headers.get("If-None-Match");
  const found = await env.ASSETS.fetch(`https://assets${isHashed ? pathname : "/ui/index.html"}`, {
    headers: known === null ? {} : { "If-None-Match": known },
  });
  if (found.status !== 200 && found.status !== 304) {
    await found.body?.cancel();
    return refuse(found.status === 404 ? 404 : 503);
  }
  const answer = new Response(method === "HEAD" ? null : found.body, found);
  for (const [name, value] of Object.entries(HEADERS)) answer.headers.set(name, value);
  answer.headers.set("Cache-Control", isHashed ? "public, max-age=31536000, immutable" : "no-cache");
  return answer;
}
