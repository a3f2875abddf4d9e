import { beforeEach, describe, expect, it, vi } from "vitest";
import { forgetCallers } from "../../src/platform/limits/caller-limits.ts";
import { itRows } from "../support/rows.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deployment } from "./deployment.ts";
import { newIdentity } from "./scripted-agent.ts";

clock.moves = true;

beforeEach(() => forgetCallers());

/** Accepts `most` requests per key, and records the keys. */
class Counter implements RateLimit {
  readonly counts = new Map<string, number>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  async limit({ key }: RateLimitOptions): Promise<RateLimitOutcome> {
    const count = (this.counts.get(key) ?? 0) + 1;
    this.counts.set(key, count);
    return { success: count <= this.#most };
  }
}

const HERE = "203.0.113.7";
const THERE = "203.0.113.8";

describe("a token above its request rate", () => {
  it("gets each API's error before any effect, with Retry-After", async () => {
    await mountKv();
    const LIMIT_TOKEN = new Counter(2);
    const ask = deployment({ LIMIT_TOKEN });
    const write = (password: string) =>
      ask("/v1/kv/data/a", { method: "PUT", from: HERE, body: { data: { password } } });
    expect((await write("1")).status).toBe(200);
    expect((await write("2")).status).toBe(200);
    const refused = await write("3");
    expect([refused.status, refused.headers.get("Retry-After")]).toEqual([429, "10"]);
    expect(JSON.parse(refused.text)).toEqual({ errors: ["too many requests: by this token; try again in 10 s"] });
    const cluster = await ask("/v1/nodes", { from: THERE });
    expect([cluster.status, cluster.text]).toEqual([429, "too many requests: by this token; try again in 10 s"]);
    expect(cluster.headers.get("Content-Type")).toMatch(/^text\/plain/);
    expect((await get("/v1/kv/data/a")).body.data.data.password).toBe("2");
  });

  it("is refused before its token is looked up", async () => {
    const ask = deployment({ LIMIT_TOKEN: new Counter(0) });
    expect((await ask("/v1/sys/mounts", { token: "nobody's", from: HERE })).status).toBe(429);
  });

  it("does not reduce the limits of others, and its counter's name does not reveal it", async () => {
    const LIMIT_TOKEN = new Counter(1);
    const ask = deployment({ LIMIT_TOKEN });
    const { client_token: token } = (await put("/v1/auth/token/create", { policies: ["root"] })).body.auth;
    for (const each of ["root", token]) {
      expect((await ask("/v1/sys/mounts", { token: each, from: HERE })).status).toBe(200);
      expect((await ask("/v1/sys/mounts", { token: each, from: HERE })).status).toBe(429);
    }
    expect([...LIMIT_TOKEN.counts.keys()].join()).not.toMatch(new RegExp(`root|${token}`));
  });
});

describe("unknown callers", () => {
  it("block their address when there are too many: for strangers, but not for known callers and other addresses", async () => {
    const ask = deployment({ LIMIT_REFUSED: new Counter(3) });
    const guess = (from: string) => ask("/v1/sys/mounts", { token: crypto.randomUUID(), from });
    const known = () => ask("/v1/sys/mounts", { from: HERE });
    expect((await known()).status).toBe(200);
    for (let n = 0; n < 4; n++) expect((await guess(HERE)).status).toBe(403);
    const refused = await guess(HERE);
    expect([refused.status, refused.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect((await ask("/v1/sys/mounts", { token: null, from: HERE })).status).toBe(429);
    expect((await ask("/v1/nodes", { token: null, from: HERE })).text).toMatch(/^too many requests: refused/);
    expect((await known()).status).toBe(200);
    expect((await guess(THERE)).status).toBe(403);
  });

  it("are not looked up while their address is blocked", async () => {
    const LIMIT_TOKEN = new Counter(100);
    const ask = deployment({ LIMIT_TOKEN, LIMIT_REFUSED: new Counter(0) });
    await ask("/v1/sys/mounts", { token: "x", from: HERE });
    expect((await ask("/v1/sys/mounts", { token: "y", from: HERE })).status).toBe(429);
    expect(LIMIT_TOKEN.counts.size).toBe(1);
  });

  it("are accepted again after a minute", async () => {
    const ask = deployment({ LIMIT_REFUSED: new Counter(0) });
    const guess = () => ask("/v1/sys/mounts", { token: "x", from: HERE });
    await guess();
    expect((await guess()).status).toBe(429);
    const later = Date.now() + 60_001;
    vi.spyOn(Date, "now").mockReturnValue(later);
    expect((await guess()).status).toBe(403);
  });

  it("of one IPv6 network count together", async () => {
    const ask = deployment({ LIMIT_REFUSED: new Counter(1) });
    const guess = (from: string) => ask("/v1/sys/mounts", { token: "x", from });
    for (const from of ["2001:db8:0:1::1", "2001:db8:0:1::2"]) expect((await guess(from)).status).toBe(403);
    expect((await guess("2001:db8:0:1::3")).status).toBe(429);
    expect((await guess("2001:db8:0:2::1")).status).toBe(403);
  });

  it("do not include known callers without a right", async () => {
    const LIMIT_REFUSED = new Counter(0);
    const ask = deployment({ LIMIT_REFUSED });
    const { client_token: token } = (await put("/v1/auth/token/create", { policies: ["default"] })).body.auth;
    for (let n = 0; n < 3; n++) expect((await ask("/v1/sys/mounts", { token, from: HERE })).status).toBe(403);
    expect((await ask("/v1/nodes", { token, from: HERE })).status).toBe(403);
    expect(LIMIT_REFUSED.counts.size).toBe(0);
  });

  it("include callers that guess the secrets of open routes", async () => {
    const ask = deployment({ LIMIT_REFUSED: new Counter(1) });
    const { publicKey } = await newIdentity();
    const body = { Token: "a guess", PublicKey: publicKey, Name: "n" };
    const join = () => ask("/v1/agent/join", { method: "POST", token: null, from: HERE, body });
    for (let n = 0; n < 2; n++) expect((await join()).status).toBe(403);
    expect((await join()).status).toBe(429);
  });

  it("on this machine are not limited", async () => {
    const ask = deployment({
      LIMIT_TOKEN: new Counter(0),
      LIMIT_REFUSED: new Counter(0),
      LIMIT_OPEN: new Counter(0),
    });
    for (const from of ["127.0.0.1", "::1", undefined]) {
      const asked = { token: null, ...(from !== undefined && { from }) };
      for (let n = 0; n < 2; n++) expect((await ask("/v1/sys/mounts", asked)).status).toBe(403);
      expect((await ask("/v1/sys/health", asked)).status).toBe(200);
      expect((await ask("/v1/sys/mounts", { ...asked, token: "root" })).status).toBe(200);
    }
  });
});

describe("routes without authentication", () => {
  it.each([
    ["GET", "/v1/sys/init"],
    ["PUT", "/v1/sys/init"],
    ["GET", "/v1/identity/oidc/plugins/.well-known/keys"],
    ["GET", "/v1/agent/connect"],
    ["POST", "/v1/agent/join"],
    ["PUT", "/v1/acl/bootstrap"],
  ])("%s %s is limited by address, for any token", async (method, path) => {
    const ask = deployment({ LIMIT_OPEN: new Counter(1) });
    const asked = { method, from: HERE, ...(method !== "GET" && { body: {} }) };
    expect((await ask(path, asked)).status).not.toBe(429);
    const refused = await ask(path, { ...asked, token: null });
    expect([refused.status, refused.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect((await ask(path, { ...asked, from: THERE })).status).not.toBe(429);
  });
});

itRows(["/v1/sys/health", "/sys/health", "/v1/sys/seal-status", "/v1/sys/leader"])(
  "%s is never limited, because its clients give 429 another meaning",
  async (path) => {
    const ask = deployment({ LIMIT_TOKEN: new Counter(0), LIMIT_OPEN: new Counter(0), LIMIT_REFUSED: new Counter(0) });
    await ask("/v1/sys/mounts", { token: null, from: HERE });
    expect((await ask("/v1/sys/mounts", { token: null, from: HERE })).status).toBe(429);
    for (const token of [null, "guess", "root"])
      for (const method of ["GET", "HEAD"]) expect((await ask(path, { method, token, from: HERE })).status).toBe(200);
  },
);

describe("without limits", () => {
  it("a deployment without rate limit bindings refuses no caller", async () => {
    const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const bare = deployment({ LIMIT_TOKEN: undefined, LIMIT_OPEN: undefined, LIMIT_REFUSED: undefined });
    for (let n = 0; n < 3; n++) expect((await bare("/v1/sys/mounts", { from: HERE })).status).toBe(200);
    const missing = warned.mock.calls.filter(([line]) => String(line).includes("limit-missing"));
    expect(missing).toHaveLength(1);
  });

  it("nor does one with failing counters", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const failing = { limit: () => Promise.reject(new Error("no counter")) };
    const ask = deployment({ LIMIT_TOKEN: failing, LIMIT_OPEN: failing, LIMIT_REFUSED: failing });
    for (let n = 0; n < 2; n++) {
      expect((await ask("/v1/sys/mounts", { from: HERE })).status).toBe(200);
      expect((await ask("/v1/sys/mounts", { from: HERE, token: "x" })).status).toBe(403);
      expect((await ask("/v1/sys/init", { from: HERE })).status).toBe(200);
    }
  });

  it("nor does one with limits switched off", async () => {
    const none = { LIMIT_TOKEN: new Counter(0), LIMIT_OPEN: new Counter(0), LIMIT_REFUSED: new Counter(0) };
    const ask = deployment({ ...none, RATE_LIMITS: "off" });
    for (let n = 0; n < 2; n++) {
      expect((await ask("/v1/sys/mounts", { from: HERE })).status).toBe(200);
      expect((await ask("/v1/sys/mounts", { from: HERE, token: "x" })).status).toBe(403);
      expect((await ask("/v1/sys/init", { from: HERE })).status).toBe(200);
    }
  });
});

it("the platform's rate limiters behave like those of this test", async () => {
  const ask = deployment({});
  expect((await ask("/v1/sys/mounts", { from: "198.51.100.9" })).status).toBe(200);
  const statuses = new Map<number, number>();
  // A new minute may begin meanwhile.
  for (let n = 0; n < 250 && !statuses.has(429); n++) {
    const { status } = await ask("/v1/sys/mounts", { token: "guess", from: "198.51.100.9" });
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  expect(statuses.get(403)).toBeGreaterThan(100);
  expect(statuses.get(429)).toBe(1);
  expect((await ask("/v1/sys/mounts", { from: "198.51.100.9" })).status).toBe(200);
});
