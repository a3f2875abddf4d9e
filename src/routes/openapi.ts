import { type Call, open } from "./server/route.ts";

/**
 * The API for machines and for people (docs/reference/openapi.md), open to everybody. Both files are static assets beside the Worker, so they
 * cost it neither size nor memory.
 */

const SECONDS = 300;

const asset = async (call: Call, name: string): Promise<Response> => {
  const found = await call.env.ASSETS.fetch(`https://assets/${name}`);
  if (!found.ok) throw new Error(`the asset ${name} is not deployed: ${found.status}`);
  return found;
};

const strong = (etag: string): string => etag.trim().replace(/^W\//, "");

const etagsIn = (header: string | null): readonly string[] => header?.split(",").map(strong) ?? [];

/** The asset as it is to who does not have it yet. */
async function show(call: Call, found: Response, type: string, more: Record<string, string> = {}): Promise<Response> {
  const etag = strong(found.headers.get("ETag") ?? "");
  const shared = { ETag: etag, "Cache-Control": `public, max-age=${SECONDS}`, ...more };
  const known = etagsIn(call.request.headers.get("If-None-Match"));
  if (!known.includes(etag) && !known.includes("*"))
    return new Response(found.body, { headers: { ...shared, "Content-Type": type } });
  await found.body?.cancel();
  return new Response(null, { status: 304, headers: shared });
}

/** The page may run and show what is in it, and ask this service; nothing else. */
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
  open({
    verb: "GET",
    path: "/openapi.json",
    handle: async (call) => show(call, await asset(call, "openapi.json"), "application/json"),
  }),
  open({ verb: "GET", path: "/docs", handle: showPage }),
];
