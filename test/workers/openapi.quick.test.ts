import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { engineTypes } from "../../src/credentials/engines/index.ts";
import { documentText, openApiDocument } from "../../src/openapi/document.ts";
import { authRoutes, clusterRoutes, mountRoutes, mountTable, secretsRoutes } from "../../src/routes/table.ts";
import { get } from "./client.ts";

const anonymous = { token: null };

describe("the document of the API", () => {
  it("is generated from the code, and docs/openapi.json is up to date (`npm run openapi`)", async () => {
    const served = await get("/v1/openapi.json", anonymous);
    expect(served.status).toBe(200);
    // Compared by lines, because a diff of the whole document is unreadable.
    const missing = new Set(documentText(openApiDocument()).split("\n")).difference(new Set(served.text.split("\n")));
    expect([...missing]).toEqual([]);
    expect(served.text).toBe(documentText(openApiDocument()));
  });

  it("has each route of the table once, and no other; routes that only refuse are omitted", async () => {
    const { body } = await get("/v1/openapi.json", anonymous);
    const described = Object.entries(body.paths as Record<string, object>).flatMap(([path, item]) =>
      Object.keys(item).map(
        (method) => `${path.endsWith("/") ? "list" : method.replace("put", "post")} ${path.replace(/\/$/, "")}`,
      ),
    );
    const routes = [
      ...[...secretsRoutes.routes, ...clusterRoutes.routes].map((route) => ({ route, at: "/v1" })),
      ...mountRoutes.kv.routes.map((route) => ({ route, at: "/v1/secret" })),
      ...mountRoutes["kv-v1"].routes.map((route) => ({ route, at: "/v1/kv-v1" })),
      ...engineTypes.flatMap(({ type }) => mountTable(type).routes.map((route) => ({ route, at: `/v1/${type}` }))),
      ...Object.entries(authRoutes).flatMap(([type, { routes }]) =>
        routes.map((route) => ({ route, at: `/v1/auth/${type}` })),
      ),
    ];
    const expected = routes
      .filter(({ route }) => !route.refuses)
      .map(({ route: { verb, path }, at }) => `${verb.toLowerCase()} ${at}${path.replace(/:(\w+)\+?/g, "{$1}")}`);
    expect(described.sort()).toEqual(expected.sort());
  });

  it("is public, and is not sent again to clients with a current ETag", async () => {
    for (const path of ["/v1/openapi.json", "/openapi.json", "/docs", "/v1/docs"]) {
      const first = await get(path, anonymous);
      const etag = first.headers.get("ETag") ?? "";
      expect([first.status, first.headers.get("Cache-Control")]).toEqual([200, "public, max-age=300"]);
      expect(etag).toMatch(/^"\w+"$/);
      const again = await get(path, { token: null, headers: { "If-None-Match": `"other", W/${etag}` } });
      expect([again.status, again.text, again.headers.get("ETag")]).toEqual([304, "", etag]);
      expect((await get(path, { token: null, headers: { "If-None-Match": '"other"' } })).status).toBe(200);
    }
  });

  it("is deployed with the page beside the Worker, and no other file of docs/ is", async () => {
    const status = async (name: string) => (await env.ASSETS.fetch(`https://assets/${name}`)).status;
    expect(await Promise.all(["openapi.json", "openapi.html"].map(status))).toEqual([200, 200]);
    const others = [
      "reference/openapi.md",
      "internals/storage.md",
      "operate/alerts.yml",
      ".assetsignore",
      "internals/decisions/0001-seal-in-the-transaction.md",
      "",
    ];
    expect(await Promise.all(others.map(status))).toEqual(others.map(() => 404));
  });
});

describe("the page", () => {
  const page = () => exports.default.fetch("https://x/docs");

  it("runs inline scripts only, and sends requests to this service only", async () => {
    const response = await page();
    expect(response.headers.get("Content-Type")).toBe("text/html; charset=utf-8");
    const html = await response.text();
    const policy = response.headers.get("Content-Security-Policy") ?? "";
    for (const tag of ["script", "style"]) {
      const [, inside = ""] = new RegExp(`<${tag}>(.*?)</${tag}>`, "s").exec(html) ?? [];
      const digest = Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(inside)));
      expect(policy).toContain(`${tag}-src 'sha256-${digest.toString("base64")}'`);
      expect(html.split(`<${tag}`)).toHaveLength(2);
    }
    expect(policy).toMatch(
      /^default-src 'none'; .*connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
    );
    expect(policy).not.toContain("unsafe");
    expect(response.headers.get("Set-Cookie")).toBeNull();
  });
});
