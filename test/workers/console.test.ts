import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { consoleAnswer } from "../../src/routes/console.ts";

const fetched = (path: string, init: RequestInit = {}) =>
  exports.default.fetch(`https://x${path}`, { redirect: "manual", ...init });

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** Script and style sheet of the page, as it names them. */
const filesIn = (html: string): string[] =>
  [...html.matchAll(/(?:src|href)="(\/ui\/assets\/[^"]+)"/g)].flatMap(([, path]) => path ?? []);

describe("/ui/", () => {
  it("serves the page at every path, revalidated by its ETag", async () => {
    for (const path of ["/ui/", "/ui/secrets/secret/app%2Fdatabase?tab=versions"]) {
      const answer = await fetched(path);
      expect([answer.status, answer.headers.get("Cache-Control")]).toEqual([200, "no-cache"]);
      expect(answer.headers.get("Content-Type")).toBe("text/html; charset=utf-8");
      expect(await answer.text()).toContain('<div id="app">');
      const etag = answer.headers.get("ETag") ?? "";
      const again = await fetched(path, { headers: { "If-None-Match": etag } });
      expect([again.status, await again.text(), again.headers.get("Content-Security-Policy")]).toEqual([
        304,
        "",
        POLICY,
      ]);
    }
  });

  it("sends the security headers with every answer", async () => {
    for (const path of ["/ui", "/ui/", "/ui/assets/none.js", ...filesIn(await (await fetched("/ui/")).text())]) {
      const { headers } = await fetched(path);
      expect([path, headers.get("Content-Security-Policy")]).toEqual([path, POLICY]);
      expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
      expect(headers.get("Referrer-Policy")).toBe("no-referrer");
      expect(headers.get("Cross-Origin-Opener-Policy")).toBe("same-origin");
      expect(headers.get("Set-Cookie")).toBeNull();
    }
  });

  it("lets browsers keep the files with a hash in their names", async () => {
    const files = filesIn(await (await fetched("/ui/")).text());
    expect(files.length).toBeGreaterThanOrEqual(2);
    for (const path of files) {
      const answer = await fetched(path);
      expect([path, answer.status, answer.headers.get("Cache-Control")]).toEqual([
        path,
        200,
        "public, max-age=31536000, immutable",
      ]);
      expect(answer.headers.get("Content-Type")).toMatch(path.endsWith(".js") ? /javascript/ : /^text\/css/);
    }
    expect((await fetched("/ui/assets/app-00000000.js")).status).toBe(404);
  });

  it("has no inline code in its page", async () => {
    const html = await (await fetched("/ui/")).text();
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:/i);
  });

  it("answers HEAD without a body, and refuses other methods", async () => {
    const head = await fetched("/ui/", { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const post = await fetched("/ui/", { method: "POST", body: "x" });
    expect([post.status, post.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
  });
});

describe("GET /", () => {
  it("leads browsers to the console, and answers other clients as before", async () => {
    const browser = await fetched("/", { headers: { Accept: "text/html,application/xhtml+xml" } });
    expect([browser.status, browser.headers.get("Location"), browser.headers.get("Vary")]).toEqual([
      302,
      "/ui/",
      "Accept",
    ]);
    for (const headers of [{}, { Accept: "*/*" }, { Accept: "application/json" }]) {
      const answer = await fetched("/", { headers: headers as Record<string, string> });
      expect([answer.status, await answer.json()]).toEqual([403, { errors: ["permission denied"] }]);
    }
  });
});

describe("without the console's files", () => {
  const ASSETS = { fetch: () => Promise.resolve(new Response("not found", { status: 404 })) };
  const answerAt = (path: string, method = "GET") => {
    const url = new URL(`https://x${path}`);
    const request = new Request(url, { method, headers: { Accept: "text/html" } });
    return consoleAnswer(request, url, { ASSETS } as unknown as Env);
  };

  it("answers browsers at / and below /ui/ with a page that says what to do", async () => {
    for (const path of ["/", "/ui", "/ui/", "/ui/secrets"]) {
      const answer = await answerAt(path);
      expect([path, answer?.status, answer?.headers.get("Content-Type")]).toEqual([
        path,
        503,
        "text/html; charset=utf-8",
      ]);
      expect(answer?.headers.get("Content-Security-Policy")).toBe(POLICY);
      expect(await answer?.text()).toContain("npm run build");
    }
    const head = await answerAt("/", "HEAD");
    expect([head?.status, await head?.text()]).toEqual([503, ""]);
  });

  it("answers 404 for scripts and styles", async () => {
    expect((await answerAt("/ui/assets/app-00000000.js"))?.status).toBe(404);
  });
});
