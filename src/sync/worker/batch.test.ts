import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ObjectTask, Setup, SyncResult, SyncTask, UpdatePolicy } from "../../contracts/sync-tasks.ts";
import { ok } from "../../lib/result.ts";
import { performTasks } from "./batch.ts";
import type { LeasedTask } from "./task.ts";

/** A provider of the type `edge-worker`, whose writes are merge patches that are applied as a whole or refused. */
class Provider {
  readonly secrets = new Map<string, string>();
  /** `method` of each call, with the number of secrets of a patch. */
  readonly calls: string[] = [];
  /** The fate of the next patch. */
  fault: "lost" | "cut" | "unavailable" | null = null;
  /** Refuses every patch. */
  refusal: { readonly status: number; readonly code: number } | null = null;

  /** Called by each read. */
  passes = () => {};
  /** Whether the login is refused. */
  denies = false;

  readonly fetch = async (
    url: string,
    { method = "GET", body }: { method?: string; body?: string },
  ): Promise<Response> => {
    if (url.endsWith("/tokens/verify")) return this.denies ? answer(401, null, 1000) : answer(200, {});
    if (method === "GET") {
      this.calls.push("GET");
      this.passes();
      if (this.denies) return answer(401, null, 10_000);
      return answer(
        200,
        [...this.secrets.keys()].map((name) => ({ name })),
      );
    }
    const { secrets } = JSON.parse(body ?? "") as { secrets: Record<string, { text: string } | null> };
    this.calls.push(`PATCH ${Object.keys(secrets).length}`);
    const { fault } = this;
    this.fault = null;
    if (fault === "cut") throw new Error("connection reset");
    if (fault === "unavailable") return answer(503, null, 1);
    if (this.refusal) return answer(this.refusal.status, null, this.refusal.code);
    // The name of another binding.
    if ("DB" in secrets) return answer(400, null, 10_053);
    for (const [name, secret] of Object.entries(secrets)) {
      if (secret) this.secrets.set(name, secret.text);
      else this.secrets.delete(name);
    }
    if (fault === "lost") throw new Error("connection reset");
    return answer(200, {});
  };
}

const answer = (status: number, result: unknown, code?: number): Response =>
  Response.json({ success: code === undefined, errors: code === undefined ? [] : [{ code }], result }, { status });

let provider: Provider;

beforeEach(() => {
  provider = new Provider();
  vi.stubGlobal("fetch", provider.fetch);
});
afterEach(() => vi.unstubAllGlobals());

interface Part {
  readonly name: string;
  readonly value: string;
  readonly isObsolete?: boolean;
}

const copyOf = ({ name, isObsolete = false }: Part): ObjectTask => ({
  subKey: name,
  name,
  obsolete: isObsolete,
  ours: "certainly",
  outside: undefined,
  knownToExist: true,
  fingerprint: null,
  reference: "written",
  previousTagKeys: [],
  blocked: false,
  unsureSince: null,
  unclaimed: false,
});

/** A task of the association `id` with these keys. */
function taskOf(id: string, parts: readonly Part[], end = Date.now() + 20_000): LeasedTask {
  const living = parts.filter(({ isObsolete }) => !isObsolete);
  const data = JSON.stringify(Object.fromEntries(living.map(({ name, value }) => [name, value])));
  const task: SyncTask = {
    lease: { id, generation: 1, lease: id, leaseUntil: end },
    desired: "present",
    mountUuid: "m",
    secretName: id,
    granularity: "secret-key",
    copies: parts.map(copyOf),
    idempotencyToken: id,
  };
  return { task, secret: Promise.resolve(ok({ version: 7, data })), end };
}

/** Performs tasks as one. */
function perform(tasks: readonly LeasedTask[], updatePolicy: UpdatePolicy = "replace"): Promise<SyncResult[]> {
  const setup: Setup = {
    namespace: "",
    type: "edge-worker",
    connection: { account_id: "0".repeat(32), script_name: "shop", api_token: "t" },
    tags: {},
    updatePolicy,
    retain: false,
    fingerprintKey: "k",
    atOnce: 1,
    batch: 100,
  };
  const dependencies = {
    object: { plan: async () => null },
    settings: {},
    permit: async () => true,
    apps: async () => ({ ok: false as const, reason: "missing" as const, message: "" }),
    identities: async () => Promise.reject(new Error("no identity is needed")),
    isDeleted: async () => false,
  };
  return performTasks(dependencies, setup, tasks);
}

const many = (count: number, from = 0) =>
  Array.from({ length: count }, (_, n) => taskOf(`t${from + n}`, [{ name: `N${from + n}`, value: `v${from + n}` }]));
const states = (results: readonly SyncResult[]) => results.flatMap(({ copies }) => copies.map(({ state }) => state));
const codes = (results: readonly SyncResult[]) =>
  results.flatMap(({ copies }) => copies.map((copy) => copy.trouble?.code));
const patches = () => provider.calls.filter((call) => call.startsWith("PATCH"));

describe("tasks performed as one", () => {
  it("are one deployment, with a result for each", async () => {
    const results = await perform(many(60));
    expect(patches()).toEqual(["PATCH 60"]);
    expect(results.map(({ lease, version }) => [lease.id, version])).toEqual(
      many(60).map(({ task }) => [task.lease.id, 7]),
    );
    expect(new Set(states(results))).toEqual(new Set(["pushed"]));
    expect(provider.secrets.get("N59")).toBe("v59");
  });

  it("push first, and remove with one more call", async () => {
    for (const name of ["OLD1", "OLD2"]) provider.secrets.set(name, "x");
    const renamed = (n: number) => [
      { name: `NEW${n}`, value: "v" },
      { name: `OLD${n}`, value: "", isObsolete: true },
    ];
    const results = await perform([taskOf("a", renamed(1)), taskOf("b", renamed(2))]);
    expect(patches()).toEqual(["PATCH 2", "PATCH 2"]);
    expect([...provider.secrets.keys()].sort()).toEqual(["NEW1", "NEW2"]);
    expect(states(results)).toEqual(["pushed", "absent", "pushed", "absent"]);
  });

  describe("with removals of objects whose push may have failed", () => {
    const unsure = (count: number) =>
      Array.from({ length: count }, (_, n) => {
        const leased = taskOf(`t${n}`, [{ name: `OLD${n}`, value: "", isObsolete: true }]);
        provider.secrets.set(`OLD${n}`, "x");
        const copies = leased.task.copies.map((copy) => ({ ...copy, ours: "maybe" as const }));
        return { ...leased, task: { ...leased.task, copies } };
      });

    it("remove some in each lease, although all inspections take longer than a task", async () => {
      const real = Date.now.bind(Date);
      let passed = 0;
      vi.spyOn(Date, "now").mockImplementation(() => real() + passed);
      provider.passes = () => {
        passed += 3_000;
      };
      const results = await perform(unsure(10));
      vi.mocked(Date.now).mockRestore();
      expect(patches()).toEqual(["PATCH 4"]);
      expect(states(results)).toEqual([...Array(4).fill("absent"), ...Array(6).fill("untouched")]);
      expect(results.map(({ unfinished }) => unfinished)).toEqual([...Array(4).fill(false), ...Array(6).fill(true)]);
    });

    it("fail where the login is refused, and do not wait", async () => {
      provider.denies = true;
      const results = await perform(unsure(2));
      expect(codes(results)).toEqual(["auth_failed", "auth_failed"]);
      expect(provider.calls).toEqual(["GET", "GET"]);
    });
  });

  it("of more objects than a call takes are several calls", async () => {
    const parts = Array.from({ length: 150 }, (_, n) => ({ name: `N${n}`, value: "v" }));
    await perform([taskOf("a", parts)]);
    expect(patches()).toEqual(["PATCH 100", "PATCH 50"]);
  });

  it("make no call for objects that are up to date, blocked or too large", async () => {
    const large = taskOf("a", [{ name: "LARGE", value: "x".repeat(6_000) }]);
    const results = await perform([large, taskOf("b", [{ name: "N", value: "v" }])]);
    expect(patches()).toEqual(["PATCH 1"]);
    expect(codes(results)).toEqual(["value_too_large", undefined]);
  });
});

describe("a refused batch", () => {
  it("is tried in halves and then one by one, so that only the bad object fails", async () => {
    const tasks = [...many(7), taskOf("bad", [{ name: "DB", value: "v" }])];
    const results = await perform(tasks);
    // Eight, the good half, the bad half, and its four objects.
    expect(patches()).toEqual(["PATCH 8", "PATCH 4", "PATCH 4", "PATCH 1", "PATCH 1", "PATCH 1", "PATCH 1"]);
    expect(codes(results)).toEqual([...Array(7).fill(undefined), "name_invalid"]);
    expect(provider.secrets.size).toBe(7);
  });

  it.each([
    [{ status: 400, code: 10_215 }, "undeployed_version"],
    [{ status: 403, code: 10_000 }, "permission_denied"],
  ])("is the failure of every object when smaller ones would fail alike (%j)", async (refusal, code) => {
    provider.refusal = refusal;
    const results = await perform(many(8));
    expect(patches()).toHaveLength(1);
    expect(codes(results)).toEqual(Array(8).fill(code));
  });
});

describe("a failure without a verdict", () => {
  it.each([
    ["lost", "network_error", "unknown"],
    ["cut", "network_error", "unknown"],
    ["unavailable", "provider_unavailable", "external"],
  ] as const)("%s is that of every object, and a repeat is harmless", async (fault, code, outcome) => {
    provider.fault = fault;
    const results = await perform(many(5));
    expect(patches()).toHaveLength(1);
    expect(codes(results)).toEqual(Array(5).fill(code));
    expect(states(results)).toEqual(Array(5).fill("failed"));
    expect(results[0]?.copies[0]?.trouble?.outcome).toBe(outcome);
    expect(states(await perform(many(5)))).toEqual(Array(5).fill("pushed"));
    expect([...provider.secrets]).toEqual(many(5).map((_, n) => [`N${n}`, `v${n}`]));
  });

  it("leaves tasks without time to the next attempt", async () => {
    const late = taskOf("late", [{ name: "LATE", value: "v" }], Date.now() + 100);
    const results = await perform([late, ...many(1)]);
    expect(states(results)).toEqual(["untouched", "pushed"]);
    expect(results.map(({ unfinished }) => unfinished)).toEqual([true, false]);
  });

  it("is an internal one of a secret that cannot be read, and of no other", async () => {
    const sealed = { ...taskOf("s", [{ name: "S", value: "v" }]), secret: Promise.reject(new Error("restarted")) };
    sealed.secret.catch(() => undefined);
    const results = await perform([sealed, ...many(1)]);
    expect(results.map(({ trouble }) => trouble?.code)).toEqual(["internal", undefined]);
    expect(provider.secrets.size).toBe(1);
  });
});

describe("policies of a batch", () => {
  it("read the names once, and change only what they permit", async () => {
    provider.secrets.set("N1", "theirs");
    const results = await perform(many(3), "if-not-exists");
    expect(provider.calls).toEqual(["GET", "PATCH 2"]);
    expect(states(results)).toEqual(["pushed", "left", "pushed"]);
    expect(provider.secrets.get("N1")).toBe("theirs");
  });

  it("repeat a lost write at once, when a later attempt would find a foreign secret", async () => {
    provider.fault = "lost";
    expect(states(await perform(many(3), "if-not-exists"))).toEqual(["pushed", "pushed", "pushed"]);
  });
});
