import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { get, put } from "./client.ts";
import { deployment } from "./deployment.ts";

type Line = Record<string, unknown>;
interface Found {
  readonly source: string;
  readonly lines: readonly Line[];
  readonly searched: number;
  readonly next: string;
}

const files = env.FILES as R2Bucket;
const ask = deployment({ AUDIT_BUCKET: files, AUDIT_ON_FAILURE: "open" });

/** Lines of the test itself; those of its own requests have another `mark`. */
let mark = "";

beforeEach(() => {
  vi.spyOn(console, "info").mockImplementation(() => undefined);
  mark = `mark-${crypto.randomUUID()}`;
});

const search = async (query: Record<string, string>, through = ask): Promise<Found> => {
  const { status, text } = await through(`/v1/sys/audit/lines?${new URLSearchParams(query)}`);
  expect([status, text]).toEqual([200, expect.any(String)]);
  const { data, warnings } = JSON.parse(text) as { data: Found; warnings: string[] | null };
  const noRecord = [expect.stringMatching(/^no bucket is bound/)];
  expect(warnings).toEqual(data.source === "bucket" ? null : noRecord);
  return data;
};

/** All pages of a search. */
async function searchAll(query: Record<string, string>): Promise<{ lines: Line[]; pages: number }> {
  const lines: Line[] = [];
  let cursor = "";
  for (let pages = 1; ; pages++) {
    const found = await search({ ...query, cursor });
    lines.push(...found.lines);
    cursor = found.next;
    if (cursor === "") return { lines, pages };
    expect(pages).toBeLessThan(100);
  }
}

/** Stores objects as the service does: one for each time, with so many lines. */
async function keep(times: readonly number[], linesEach = 1): Promise<void> {
  const keepOne = async (time: number, at: number): Promise<void> => {
    const iso = new Date(time).toISOString();
    const id = time.toString(16).padStart(12, "0");
    const [day, hour] = iso.split(/[T:]/);
    const suffix = at.toString(16).padStart(12, "0");
    const key = `${day}/${hour}/${id.slice(0, 8)}-${id.slice(8)}-7000-8000-${suffix}.jsonl`;
    const lines = Array.from({ length: linesEach }, (_, number) =>
      JSON.stringify({ level: "audit", kind: "action", time: iso, event: "removed", mark, at, number }),
    );
    await files.put(key, `${lines.join("\n")}\n`);
  };
  await Promise.all(times.map(keepOne));
}

const HOUR = 3_600_000;
const OLD = Date.parse("2026-03-04T05:06:07.089Z");

describe("GET sys/audit/lines", () => {
  it("returns the bucket's lines, newest first, over hours and days without lines", async () => {
    const times = [OLD, OLD + 5, OLD + HOUR, OLD + 30 * HOUR, OLD + 900 * HOUR];
    await keep(times, 2);
    const { lines } = await search({ text: mark, kind: "action" });
    expect(lines.map(({ at, number }) => [at, number])).toEqual(
      [4, 3, 2, 1, 0].flatMap((at) => [
        [at, 1],
        [at, 0],
      ]),
    );
  });

  it("returns each line once when it is read in pages that end within objects", async () => {
    await keep([OLD, OLD + 1, OLD + 2 * HOUR], 7);
    const { lines, pages } = await searchAll({ text: mark, kind: "action", limit: "4" });
    expect(lines).toHaveLength(21);
    expect(new Set(lines.map(({ at, number }) => `${at}/${number}`)).size).toBe(21);
    expect(pages).toBeGreaterThanOrEqual(6);
  });

  it("begins at a time, and tells an answer's line by a part of it in any case", async () => {
    await keep([OLD, OLD + 1_000]);
    const { lines } = await search({ text: mark.toUpperCase(), before: new Date(OLD + 1).toISOString() });
    expect(lines.map(({ at }) => at)).toEqual([0]);
    await ask(`/v1/secret/data/${mark}`);
    // Searches themselves are logged without their query, so they never find themselves.
    await expect.poll(async () => (await search({ text: mark, kind: "answer" })).lines.length).toBe(1);
    const [line] = (await search({ text: `data/${mark}` })).lines;
    expect(line).toMatchObject({ kind: "answer", path: `/v1/secret/data/${mark}`, method: "GET" });
  });

  it("passes over objects of others", async () => {
    await files.put(`2026-03-04/05/zzz-${mark}.jsonl`, `no JSON ${mark}\n["${mark}"]\n`);
    await files.put(`elsewhere/${mark}.jsonl`, `{"mark":"${mark}"}`);
    await files.put(`${mark}.jsonl`, `{"mark":"${mark}"}`);
    await keep([OLD]);
    const { lines } = await search({ text: mark, kind: "action" });
    expect(lines).toHaveLength(1);
  });

  it("returns the isolate's last lines where no bucket is bound", async () => {
    const bare = deployment({ AUDIT_BUCKET: undefined });
    await bare(`/v1/secret/data/${mark}`);
    const found = await search({ text: mark }, bare);
    expect(found.source).toBe("isolate");
    expect(found.lines.filter(({ path }) => path === `/v1/secret/data/${mark}`)).toHaveLength(1);
    for (let more = 0; more < 5; more++) await bare(`/v1/secret/data/${mark}`);
    const page = await search({ text: `data/${mark}`, limit: "2" }, bare);
    expect(page.lines).toHaveLength(2);
    expect(page.next).not.toBe("");
  });

  it.each([
    ["limit=0", "limit: "],
    ["limit=1001", "limit: "],
    ["kind=secret", "kind: "],
    ["before=yesterday", "before: "],
    ["cursor=a%20b", "cursor: "],
    [`text=${"x".repeat(1_025)}`, "text: "],
  ])("returns 400 for %s", async (query, problem) => {
    const { status, text } = await ask(`/v1/sys/audit/lines?${query}`);
    expect(status).toBe(400);
    expect((JSON.parse(text) as { errors: string[] }).errors[0]).toContain(problem);
  });

  it("returns 403 without sudo, and 400 in a namespace", async () => {
    await put("/v1/sys/policies/acl/p", { policy: 'path "sys/audit/*" { capabilities = ["read"] }' });
    const { client_token: token } = (await put("/v1/auth/token/create", { policies: ["p"] })).body.auth;
    expect((await get("/v1/sys/audit/lines", { token })).status).toBe(403);
    await put("/v1/sys/policies/acl/p", { policy: 'path "sys/audit/*" { capabilities = ["read", "sudo"] }' });
    expect((await get("/v1/sys/audit/lines", { token })).status).toBe(200);
    await put("/v1/sys/namespaces/n", {});
    expect((await get("/v1/sys/audit/lines", { headers: { "X-Orch-Namespace": "n" } })).status).toBe(400);
  });

  it("returns no line to the administrator of a namespace, by any spelling", async () => {
    const there = { headers: { "X-Orch-Namespace": "n" } };
    await put("/v1/sys/namespaces/n", {});
    const all = 'path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }';
    await put("/v1/sys/policies/acl/admin", { policy: all }, there);
    const { client_token: token } = (await put("/v1/auth/token/create", { policies: ["admin"] }, there)).body.auth;
    expect((await get("/v1/sys/mounts", { token, ...there })).status).toBe(200);
    for (const path of ["/v1/sys/audit/lines", "/v1/n/sys/audit/lines", "/v1/n/../sys/audit/lines", "/v1/sys/audit"]) {
      for (const headers of [{}, there.headers, { "X-Orch-Namespace": "/" }, { "X-Orch-Namespace": "root" }]) {
        const { status, text } = await get(path, { token, headers });
        expect([path, status >= 400, text.includes("requestId")], text).toEqual([path, true, false]);
      }
    }
  });
});
