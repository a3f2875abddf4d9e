import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AccessControl, ReadReplica } from "../../src/worker.ts";
import { accessObject, issue } from "./access.ts";
import { arrange, cases, leastBody } from "./bad-input.ts";
import { get, mountKv } from "./client.ts";
import { clock } from "./clock.ts";
import { examples } from "./examples.ts";
import { holdBody } from "./held-bodies.ts";
import { throughReplicas } from "./replicas.ts";

/* Rights that end between the head of a request and the last byte of its body, or of its answer. */

clock.moves = true;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => {
  throughReplicas(1);
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const pass = () => vi.setSystemTime(Date.now() + 1_000);

const writing = cases.filter(
  ({ route }) => route.verb !== "GET" && route.verb !== "LIST" && route.access !== "none" && !route.refuses,
);

const READING: ReadonlySet<string> = new Set(["GET", "LIST"]);
const PATCH = { "Content-Type": "application/merge-patch+json" };

describe("a request whose body ends after its token was revoked", () => {
  it.each([
    ["a body of unknown length", false],
    ["a small body", true],
  ])("is refused, and not carried out, at every writing route, with %s", { timeout: 120_000 }, async (_, declared) => {
    await arrange();
    const bodies = writing.filter(({ route }) => !route.streams);
    const judgements = [
      vi.spyOn(ReadReplica.prototype, "authorizeAsText"),
      vi.spyOn(AccessControl.prototype, "authorize"),
    ] as const;
    /** A small body is being read before its caller is judged. */
    const judgement = async () => {
      await vi.waitUntil(() => judgements.some(({ mock }) => mock.settledResults.length > 0));
      await scheduler.wait(10);
    };
    const wrong: string[] = [];
    for (const { name, path, route } of bodies) {
      const { client_token: token } = await issue({ policies: ["root"] });
      const handled = vi.spyOn(route, "handle");
      const least = route.body ? leastBody(route.body, examples[name]?.body) : {};
      for (const each of judgements) each.mockClear();
      const { answer, begun, finish } = holdBody(route.verb, path, least, {
        token,
        declared,
        headers: route.verb === "PATCH" ? PATCH : {},
      });
      await begun;
      if (declared) await judgement();
      pass();
      await accessObject().revokeToken({ own: token });
      await finish();
      const { status } = await answer;
      if (status !== 403 || handled.mock.calls.length > 0) wrong.push(`${name}: ${status}`);
    }
    expect(wrong).toEqual([]);
    expect(bodies.length).toBeGreaterThan(100);
  });

  it.each([1, 0])(
    "is carried out as the last use of its token, which others are refused, with %s replicas",
    async (replicas) => {
      throughReplicas(replicas);
      const { client_token: token } = await issue({ policies: ["root"], num_uses: 1 });
      await mountKv("kv");
      const { answer, begun, finish } = holdBody("PUT", "/v1/kv/data/last", { data: {} }, { token });
      await begun;
      pass();
      for (const path of ["last", "other"]) expect((await get(`/v1/kv/data/${path}`, { token })).status).toBe(403);
      await finish();
      expect((await answer).status).toBe(200);
      expect((await get("/v1/kv/data/last", { token })).status).toBe(403);
    },
  );

  it("arrives while its caller is authorized, where it is small, and the caller is judged once", async () => {
    await mountKv("kv");
    const sent = Promise.withResolvers<void>();
    const { authorizeAsText } = ReadReplica.prototype;
    const judged = vi.spyOn(ReadReplica.prototype, "authorizeAsText").mockImplementation(async function (
      this: ReadReplica,
      ...given
    ) {
      await sent.promise;
      return authorizeAsText.apply(this, given);
    });
    const { answer, finish } = holdBody("PUT", "/v1/kv/data/early", { data: {} }, { declared: true });
    await finish();
    pass();
    sent.resolve();
    expect((await answer).status).toBe(200);
    expect(judged).toHaveBeenCalledTimes(1);
  });

  it("that is read as a stream is judged by the route itself", () => {
    // Tested in backup-refusals.test.ts.
    expect(writing.filter(({ route }) => route.streams).map(({ name }) => name)).toEqual(["POST /v1/sys/snapshot"]);
  });
});

describe("a read whose token is revoked before its answer", () => {
  it("is refused at every reading route", { timeout: 120_000 }, async () => {
    await arrange();
    const reading = cases.filter(({ route }) => READING.has(route.verb) && route.access !== "none");
    const wrong: string[] = [];
    let refused = 0;
    for (const { name, path, route } of reading) {
      const { client_token: token } = await issue({ policies: ["root"] });
      const { handle } = route;
      vi.spyOn(route, "handle").mockImplementation((async (...given: Parameters<typeof handle>) => {
        const answer = await (handle as (...given: unknown[]) => Promise<Response>)(...given);
        pass();
        await accessObject().revokeToken({ own: token });
        return answer;
      }) as typeof handle);
      const list = route.verb === "LIST" ? `${path.includes("?") ? "&" : "?"}list=true` : "";
      const headers = { "X-Orch-Token": token };
      const { status, body } = await exports.default.fetch(`https://x${path}${list}`, { headers });
      await body?.cancel();
      // One that has found nothing says so.
      if (status === 403) refused++;
      else if (status < 400) wrong.push(`${name}: ${status}`);
      vi.restoreAllMocks();
    }
    expect(wrong).toEqual([]);
    expect(refused).toBeGreaterThan(reading.length / 2);
  });

  it("is cut, as a download of a snapshot", async () => {
    const { client_token: token } = await issue({ policies: ["root"] });
    const answer = await exports.default.fetch("https://x/v1/sys/snapshot", { headers: { "X-Orch-Token": token } });
    expect(answer.status).toBe(200);
    await accessObject().revokeToken({ own: token });
    vi.setSystemTime(Date.now() + 2_000);
    await expect(answer.arrayBuffer()).rejects.toThrow();
  });
});
