import { type Call, open } from "./server/route.ts";

/**
 * API documentation for machines and people (docs/reference/openapi.md), unauthenticated. Both files are static assets
 * beside the Worker, at no cost in bundle size or memory.
 */

const SECONDS = 300;

const asset = async (call: Call, name: string): Promise<Response> => {
  const found = await call.env.ASSETS.fetch(`https://assets/${name}`);
  if (!found.ok) throw new Error(`the asset ${name} is not deployed: ${found.status}`);
  return found;
};

const strong = (etag: string): string => etag.trim().replace(/^W\//, "");

const etagsIn = (header: string | null): readonly string[] => header?.split(",").map(strong) ?? [];

/** The asset, or 304 for a client with the current version. */
async function show(call: Call, found: Response, type: string, more: Record<string, string> = {}): Promise<Response> {
  const etag = strong(found.headers.get("ETag") ?? "");
  const shared = { ETag: etag, "Cache-Control": `public, max-age=${SECONDS}`, ...more };
  const known = etagsIn(call.request.headers.get("If-None-Match"));
  if (!known.includes(etag) && !known.includes("*"))
    return new Response(found.body, { headers: { ...shared, "Content-Type": type } });
  await found.body?.cancel();
  return new Response(null, { status: 304, headers: shared });
}

/** Content security policy: the page may run its own scripts and styles and call this service. */
async function policyOf(html: string): Promise<string> {
  const inside = async (tag: string): Promise<string> => {
    const [, text = ""] = new RegExp(`<${tag}>(.*?)</${tag}>`, "s").exec(html) ?? [];
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return `${tag}-src 'sha256-${Buffer.from(digest).toString("base64")}'`;
  };
  const own = ["default-src 'none'", await inside("script"), await inside("style"), "connect-src 'self'"];
  return [...own, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"].join("; ");
}

async function showPage(call: Call): Promise<Response> {
  const page = await asset(call, "openapi.html");
  const policy = await policyOf(await page.clone().text());
  return show(call, page, "text/html; charset=utf-8", {
    "Content-Security-Policy": policy,
    "Referrer-Policy": "no-referrer",
  });
}

export const documentRoutes = [
  ...["/openapi.json", "/sys/internal/specs/openapi"].map((path) =>
    open(`GET ${path}`, async (call) => show(call, await asset(call, "openapi.json"), "application/json")),
  ),
  open("GET /docs", showPage),
];
