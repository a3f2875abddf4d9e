import bundled from "../../docs/openapi.json";
import { type Call, open } from "../http/route.ts";
import page from "../openapi/page.html";

/** The API for machines and for people (docs/openapi.md). Both texts are part of the Worker, and open to everybody. */

interface Text {
  readonly text: string;
  readonly type: string;
  readonly etag: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** wrangler.toml makes it a text, of which the compiler knows nothing. */
const document = bundled as unknown as string;

const SECONDS = 300;

const base64Digest = async (text: string): Promise<string> =>
  Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toString("base64");

const withTag = async (text: string, type: string, headers: Readonly<Record<string, string>> = {}): Promise<Text> => ({
  ...{ text, type, headers },
  etag: `"${(await base64Digest(text)).slice(0, 22)}"`,
});

/** The page may run and show what is in it, and ask this service; nothing else. */
async function policyOf(html: string): Promise<string> {
  const inside = async (tag: string): Promise<string> => {
    const [, text = ""] = new RegExp(`<${tag}>(.*?)</${tag}>`, "s").exec(html) ?? [];
    return `${tag}-src 'sha256-${await base64Digest(text)}'`;
  };
  const own = ["default-src 'none'", await inside("script"), await inside("style"), "connect-src 'self'"];
  return [...own, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"].join("; ");
}

/** Made by the first request of an isolate. */
let made: Promise<{ readonly document: Text; readonly page: Text }> | undefined;

async function make() {
  const headers = { "Content-Security-Policy": await policyOf(page), "Referrer-Policy": "no-referrer" };
  return {
    document: await withTag(document, "application/json"),
    page: await withTag(page, "text/html; charset=utf-8", headers),
  };
}

async function show(call: Call, which: "document" | "page"): Promise<Response> {
  made ??= make();
  const { text, type, etag, headers } = (await made)[which];
  const shared = { ETag: etag, "Cache-Control": `public, max-age=${SECONDS}`, ...headers };
  const known = (call.request.headers.get("If-None-Match") ?? "")
    .split(",")
    .map((tag) => tag.trim().replace(/^W\//, ""));
  if (known.includes(etag) || known.includes("*")) return new Response(null, { status: 304, headers: shared });
  return new Response(text, { headers: { ...shared, "Content-Type": type } });
}

export const documentRoutes = [
  open({ verb: "GET", path: "/openapi.json", handle: (call) => show(call, "document") }),
  open({ verb: "GET", path: "/docs", handle: (call) => show(call, "page") }),
];
