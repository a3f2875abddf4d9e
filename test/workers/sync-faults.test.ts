import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { part } from "../support/long.ts";
import { mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself, PassingTime } from "./clock-and-alarms.ts";
import { holdAnswer, isOfTest } from "./held-call.ts";
import { openRepoHost, type ProviderAccount, providers } from "./sync-doubles.ts";
import {
  association,
  endFreshRights,
  eventually,
  makeDestination,
  setAssociation,
  setWithoutWaiting,
  write,
} from "./sync-helpers.ts";

/** After any fault of a provider, a secret is pushed once, and its status is correct meanwhile. */
clock.moves = true;

let mount = { uuid: "", accessor: "" };
let account: ProviderAccount;
let at = "";

/** The operations that a first push begins with, and those that ask for a token, where there are any. */
const words: Readonly<Record<string, { first: string; token?: string; denied: Record<string, unknown> }>> = {
  "cloud-a-sm": {
    first: "CreateSecret",
    denied: { fault: "error", type: "AccessDeniedException", message: "User is not authorized" },
  },
  "cloud-b-kv": {
    first: "SetSecret",
    token: "Token",
    denied: { fault: "error", type: "Forbidden", inner: "ForbiddenByPolicy", status: 403 },
  },
  "cloud-c-sm": {
    first: "AddSecretVersion",
    token: "Token",
    denied: { fault: "error", status: "PERMISSION_DENIED", message: "Permission denied" },
  },
  "repo-host": {
    first: "getPublicKey",
    denied: { fault: "error", status: 403, message: "Resource not accessible by personal access token" },
  },
  "deploy-project": { first: "CreateVariables", denied: { fault: "error", code: "forbidden", status: 403 } },
};

const alarmed = () => ({ mounts: [mount.uuid], destinations: [at] });
/** Back-offs are short at first; tokens of providers do not like a clock that is far ahead, least of all those of repo-host. */
const soon = (check: () => Promise<void>) =>
  byItself(alarmed(), check, { step: 3_000, rounds: 36, skips: !at.startsWith("repo-host/") });
const seen = async (): Promise<Record<string, unknown>> => (await association(at, "app")) ?? {};
/** A secret of cloud-c is there before its first value. */
const values = async () => Object.values(await account.values()).filter((value) => value !== "null");

/** Exactly one object, and it holds this. */
async function arrives(value: string): Promise<void> {
  await soon(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED" }));
  const all = await values();
  expect(all).toHaveLength(1);
  expect(all[0]).toContain(value);
}

/** The deadline of the call to a provider that is about to be sent: the last timer of more than 10 s. */
function catchDeadlines(): () => () => void {
  const real = globalThis.setTimeout;
  let last: () => void = () => {};
  const caught = (run: () => void, ms = 0) => {
    if (ms > 10_000) last = run;
    // A test that holds a call must not meet the deadline by itself, however slow the machine is.
    return real(run, ms > 10_000 ? 10 * ms : ms);
  };
  vi.spyOn(globalThis, "setTimeout").mockImplementation(caught as unknown as typeof setTimeout);
  return () => last;
}

/** The state of the last write at the provider: null without an answer. A 404 of cloud-c makes it create the secret. */
async function lastWrite(): Promise<number | null | undefined> {
  const last = (await account.requests()).at(-1);
  return last?.operation === account.writes && last.status !== 404 ? last.status : undefined;
}

describe.each(part(Object.keys(providers), 0, 2))("when %s", (type) => {
  const { first = "", token, denied = {} } = words[type] ?? {};

  beforeEach(async () => {
    account = await (providers[type] as () => Promise<ProviderAccount>)();
    mount = await mountKv();
    at = `${type}/d`;
    await makeDestination(type, "d", account.body);
    await write("app", { v: "first-value" });
  });
  afterEach(() => vi.restoreAllMocks());

  const set = async () => {
    const answer = await setAssociation(at, "app");
    expect(answer.status, answer.text).toBe(200);
    // On a busy machine the answer may come before the outcome.
    await eventually(async () => expect((await seen())["sync_status"]).not.toBe("PENDING"));
  };
  const fault = (given: Record<string, unknown>, operation: string | undefined = first) =>
    account.fault({ ...given, ...(operation === "" ? {} : { operation }) });

  it("throttles, all secrets of the destination wait as requested, then arrive", async () => {
    await write("other", { v: "other-value" });
    await fault({ fault: "raw", status: 429, body: "{}", headers: { "retry-after": "40" } });
    const began = Date.now();
    await set();
    const throttled = await seen();
    expect(throttled).toMatchObject({ sync_status: "EXTERNAL_SERVICE_ERROR", error_code: "throttled" });
    expect(Date.parse(String(throttled["next_attempt_at"])) - began).toBeGreaterThanOrEqual(40_000);
    const calls = (await account.requests()).length;
    expect((await setAssociation(at, "other")).body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    const time = new PassingTime(alarmed());
    for (let passed = 0; passed < 30_000; passed += 6_000) await time.pass(6_000);
    expect((await account.requests()).length).toBe(calls);
    expect(await values()).toEqual([]);
    time.end();
    await soon(async () => expect((await values()).join(" ")).toMatch(/first-value.*other-value|other.*first-value/));
    expect(await seen()).toMatchObject({ sync_status: "SYNCED" });
    expect(await values()).toHaveLength(2);
  });

  it("fails temporarily, the error is shown and the secret arrives by itself", async () => {
    await fault({ fault: "raw", status: 500, body: "{}", count: 3 });
    await set();
    expect(await seen()).toMatchObject({
      sync_status: "EXTERNAL_SERVICE_ERROR",
      error_code: "provider_unavailable",
      attempts: 1,
    });
    await arrives("first-value");
    expect(await seen()).not.toHaveProperty("error_code");
  });

  it("is slow, the answer to `set` does not wait for it", async () => {
    catchDeadlines();
    const write = holdAnswer(async () => (await lastWrite()) !== undefined);
    const answer = await setWithoutWaiting(at, "app");
    expect(answer.body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    await eventually(() => expect(write.isHeld()).toBe(true));
    expect(await seen()).toMatchObject({ sync_status: "PENDING" });
    write.release();
    await eventually(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED", synced_version: 1 }));
    const writes = (await account.requests()).filter(({ operation }) => operation === account.writes);
    // cloud-c is first asked to add to a secret that is not there.
    expect(writes.filter(({ status }) => status !== 404)).toHaveLength(1);
    await arrives("first-value");
  });

  it("hangs beyond the deadline, the status is UNKNOWN until the next attempt", async () => {
    const deadline = catchDeadlines();
    await fault({ fault: "delay", ms: 120_000 }, account.writes);
    const fetching = globalThis.fetch;
    const calls = vi.spyOn(globalThis, "fetch").mockImplementation(async (...request) => {
      const expire = deadline();
      const answer = fetching(...request);
      if (isOfTest(request)) return answer;
      const settled = answer.then(
        () => true,
        () => true,
      );
      while (!(await Promise.race([settled, scheduler.wait(10)]))) if ((await lastWrite()) === null) expire();
      return answer;
    });
    await set();
    expect(await seen()).toMatchObject({ sync_status: "UNKNOWN", error_code: "deadline_exceeded" });
    calls.mockRestore();
    await write("app", { v: "second-value" });
    await arrives("second-value");
    expect(await seen()).toMatchObject({ synced_version: 2 });
  });

  it.each(["drop", "apply-then-drop"])("ends the connection (%s), the secret is pushed once", async (how) => {
    await fault({ fault: how }, account.writes);
    await set();
    expect((await seen())["sync_status"]).toMatch(/^(UNKNOWN|SYNCED)$/);
    await arrives("first-value");
    await fault({ fault: how }, "");
    await write("app", { v: "second-value" });
    await soon(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED", synced_version: 2 }));
    await arrives("second-value");
  });

  it.each([
    [
      "ends its answer early",
      { status: 200, body: '{"name":"', headers: { "content-length": "5000", connection: "close" } },
    ],
    ["answers with a page", { status: 200, body: "<!doctype html><title>Sign in to the network</title>" }],
    ["answers with an empty body", { status: 200, body: "" }],
    ["answers an error page", { status: 502, body: "<html><h1>Bad gateway</h1></html>" }],
  ])("%s, a push is never reported as done falsely", async (_what, raw) => {
    await fault({ fault: "raw", ...raw }, "");
    await fault({ fault: "raw", ...raw }, account.writes);
    await set();
    expect((await seen())["sync_status"]).toMatch(/^(UNKNOWN|EXTERNAL_SERVICE_ERROR)$/);
    await arrives("first-value");
  });

  it("answers without end, the answer is cut and the outcome is unknown", async () => {
    let sent = 0;
    const endless = () =>
      new ReadableStream({
        pull(controller) {
          sent += 65_536;
          controller.enqueue(new Uint8Array(65_536).fill(32));
        },
      });
    vi.spyOn(globalThis, "fetch").mockImplementationOnce(async () => new Response(endless()));
    await set();
    expect((await seen())["error_code"]).toMatch(/^(answer_too_large|unreadable_answer)$/);
    expect(sent).toBeLessThan(4 * 1024 * 1024);
    await arrives("first-value");
  });

  it("answers with a redirect, it is not followed", async () => {
    const calls = vi.spyOn(globalThis, "fetch");
    await fault({ fault: "raw", status: 307, body: "", headers: { location: "http://127.0.0.1:9/stolen" } }, "");
    await set();
    expect(await seen()).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "redirect_refused" });
    expect(calls.mock.calls.map(([to]) => String(to)).filter((to) => to.includes("stolen"))).toEqual([]);
    calls.mockRestore();
    await set();
    await arrives("first-value");
  });

  it("refuses the credentials, the error is shown until valid ones are written", async () => {
    await put(`/sys/sync/destinations/${at}`, { ...account.body, ...account.wrong });
    await set();
    expect(await seen()).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "auth_failed" });
    await put(`/sys/sync/destinations/${at}`, account.body);
    await eventually(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED" }));
    await arrives("first-value");
  });

  it("receives valid credentials during a push with invalid ones, the secret is pushed again", async () => {
    await put(`/sys/sync/destinations/${at}`, { ...account.body, ...account.wrong });
    let state: "waits" | "calls" | "goes on" = "waits";
    const until = async (reached: typeof state) => {
      while (state !== reached) await scheduler.wait(10);
    };
    const fetching = globalThis.fetch;
    vi.spyOn(globalThis, "fetch").mockImplementationOnce(async (...request) => {
      state = "calls";
      await until("goes on");
      return fetching(...request);
    });
    const setting = set();
    await until("calls");
    await put(`/sys/sync/destinations/${at}`, account.body);
    // Long enough for the background work of a write.
    await scheduler.wait(600);
    state = "goes on";
    await setting;
    await arrives("first-value");
  });

  it("denies permission that is not fresh, the error is shown and not retried until the next set", async () => {
    await endFreshRights(at);
    await fault(denied);
    await set();
    expect(await seen()).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "permission_denied" });
    const time = new PassingTime(alarmed());
    const calls = (await account.requests()).length;
    for (let round = 0; round < 4; round++) await time.pass(10_000);
    expect((await account.requests()).length).toBe(calls);
    time.end();
    await set();
    await arrives("first-value");
  });

  it("refuses the object, the error is shown and the next version is tried", async () => {
    await fault({ fault: "raw", status: 400, body: "{}" });
    await set();
    expect(await seen()).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR" });
    expect(await seen()).not.toHaveProperty("next_attempt_at");
    await write("app", { v: "second-value" });
    await eventually(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED", synced_version: 2 }));
    await arrives("second-value");
  });

  it("has a smaller size limit, the value is not sent until a smaller one arrives", async () => {
    await write("app", { v: "x".repeat(70_000) });
    await set();
    expect(await seen()).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "value_too_large" });
    expect(await account.requests()).toEqual([]);
    await write("app", { v: "small-value" });
    await eventually(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED", synced_version: 3 }));
    await arrives("small-value");
  });

  it.runIf(token !== undefined)("fails at the token endpoint, the failure is transient", async () => {
    await fault({ fault: "raw", status: 503, body: "down" }, token);
    await fault({ fault: "drop" }, token);
    await fault({ fault: "raw", status: 200, body: "<html>" }, token);
    await set();
    expect(await seen()).toMatchObject({ sync_status: "EXTERNAL_SERVICE_ERROR" });
    // In real time: a provider refuses an assertion from a clock that is ahead.
    await eventually(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED" }));
    await arrives("first-value");
  });

  it.runIf(type === "cloud-b-kv" || type === "cloud-c-sm")("revokes a token in use, another is requested", async () => {
    await set();
    await account.revoke?.();
    await write("app", { v: "second-value" });
    await eventually(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED", synced_version: 2 }));
    await arrives("second-value");
  });
});

describe("as a custom application of repo-host", () => {
  let host: Awaited<ReturnType<typeof openRepoHost>>;
  beforeEach(async () => {
    host = await openRepoHost();
    account = host;
    mount = await mountKv();
    at = "repo-host/d";
    const { appId: app_id, appKey: private_key, installationId, owner, repository } = host.account;
    await put("/sys/sync/repo-host-apps/bot", { app_id, private_key });
    await makeDestination("repo-host", "d", {
      app_name: "bot",
      installation_id: installationId,
      repository_owner: owner,
      repository_name: repository,
    });
    await write("app", { v: "first-value" });
  });

  it("a temporary failure of the token endpoint is transient", async () => {
    const operation = "createInstallationToken";
    await host.fault({ fault: "raw", status: 500, body: "down", operation });
    await host.fault({ fault: "drop", operation });
    await setAssociation(at, "app");
    expect(await seen()).toMatchObject({ sync_status: "EXTERNAL_SERVICE_ERROR" });
    await arrives("first-value");
  });

  it.each([
    ["its tokens are revoked", { operation: "revoke-installation-tokens" }],
    ["the repository gets another key", { operation: "rotate-key", place: "acme/web" }],
  ])("when %s midway, pushes go on", async (_what, change) => {
    await setAssociation(at, "app");
    await host.call(change);
    await write("app", { v: "second-value" });
    await eventually(async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED", synced_version: 2 }));
    await arrives("second-value");
  });
});
