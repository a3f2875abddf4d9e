import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { seed } from "../../scripts/seed.ts";
import { readTour } from "../../scripts/tour.ts";

let dir: string;
let refuse: { status: number; body: string } | undefined;
const requests: string[] = [];
const server = createServer(async (request, response) => {
  let body = "";
  for await (const bytes of request) body += bytes;
  requests.push(`${request.headers.authorization} ${request.method} ${request.url} ${body}`.trim());
  response.writeHead(refuse?.status ?? 204).end(refuse?.body);
});

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "sallyport-seeds-"));
  refuse = undefined;
  requests.length = 0;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  rmSync(dir, { recursive: true });
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

const load = () => seed({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: "t" }, dir);
const write = (name: string, ...made: unknown[]) =>
  writeFileSync(join(dir, name), JSON.stringify({ because: "a test", requests: made }));

it("loads files in the order of their names, requests in the order of the file, and skips the tour", async () => {
  write("20-b.json", { method: "DELETE", path: "/v1/c" });
  write(
    "10-a.json",
    { method: "PUT", path: "/v1/a?x=y", body: { a: 1 } },
    { method: "POST", path: "/v1/b", body: "{}\n{}\n" },
  );
  writeFileSync(join(dir, "tour.json"), "{}");
  writeFileSync(join(dir, "README.md"), "");
  expect(await load()).toBe(3);
  expect(requests).toEqual(['Bearer t PUT /v1/a?x=y {"a":1}', "Bearer t POST /v1/b {}\n{}", "Bearer t DELETE /v1/c"]);
});

it.each([
  [{ status: 400, body: '{"errors":["data: required","x"]}' }, "400: data: required; x"],
  [{ status: 404, body: '{"errors":[]}' }, "404: nothing there"],
  [{ status: 409, body: "volume is in use\n" }, "409: volume is in use"],
  [{ status: 500, body: "" }, "500: no reason given"],
])("stops at the first refusal %j, and prints the request and the reason", async (answer, reason) => {
  refuse = answer;
  write("10-a.json", { method: "PUT", path: "/v1/a", body: {} }, { method: "PUT", path: "/v1/b", body: {} });
  await expect(load()).rejects.toThrow(`${join(dir, "10-a.json")}: PUT /v1/a was refused with ${reason}`);
  expect(requests).toHaveLength(1);
});

it("the seeds of this repository state their purpose", () => {
  expect(readdirSync("seeds")).toContain("tour.json");
  for (const { title, command } of readTour())
    expect([title, command]).toEqual([expect.any(String), expect.stringContaining("$SALLYPORT_ADDR")]);
});
