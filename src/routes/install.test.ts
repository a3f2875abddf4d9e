import { expect, it } from "vitest";
import { installAnswer } from "./install.ts";

const FILES: Readonly<Record<string, string>> = { "/install/agent": "#!/bin/sh\n", "/ui/index.html": "<p>" };
const env = {
  ASSETS: {
    fetch: async (address: string) => {
      const content = FILES[new URL(address).pathname];
      return new Response(content ?? "not found", {
        status: content === undefined ? 404 : 200,
        headers: { "Content-Type": "text/html", ETag: '"1"' },
      });
    },
  },
} as unknown as Env;

const answer = (path: string, method = "GET") => {
  const request = new Request(`https://sallyport.example${path}`, { method });
  return installAnswer(request, new URL(request.url), env);
};

it("serves the installation files as files that no browser interprets", async () => {
  const response = await answer("/install/agent");
  expect([response?.status, await response?.text()]).toEqual([200, "#!/bin/sh\n"]);
  expect(Object.fromEntries(response?.headers ?? [])).toEqual({
    "cache-control": "no-cache",
    "content-type": "application/octet-stream",
    "x-content-type-options": "nosniff",
  });
  expect(await (await answer("/install/agent", "HEAD"))?.text()).toBe("");
});

it("answers 404 where the deployment has no packages, so that the line of the installation fails", async () => {
  const response = await answer("/install/sallyport-agent.tar.gz.0");
  expect([response?.status, await response?.text()]).toEqual([
    404,
    expect.stringContaining("no such file of the agent"),
  ]);
});

it("leaves all other paths and methods to the API, and serves no file outside of its folder", async () => {
  for (const [path, method] of [
    ["/install", "GET"],
    ["/installs/agent", "GET"],
    ["/install/agent", "POST"],
    ["/install/agent", "DELETE"],
    ["/install/../ui/index.html", "GET"],
    ["/ui/index.html", "GET"],
  ] as const)
    expect(answer(path, method), `${method} ${path}`).toBeNull();
  expect((await answer("/install/%2e%2e/ui/index.html"))?.status ?? 404).toBe(404);
});
