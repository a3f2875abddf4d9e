import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AgentFrame, NO_ACCEPTED, type Req, type Res } from "@sallyport/agent-protocol";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Handlers, Outcome } from "./handler.ts";
import { Journal } from "./journal.ts";
import { Operations } from "./operations.ts";

const VOLUME = "0b6f1a52-3c55-4f6d-9a3e-8a1f2b3c4d5e";
const opOf = (number: number) => `01939b5e-7a10-7cc1-8b5e-${String(number).padStart(12, "0")}`;
const cfg = { pingMs: 1000, deadMs: 3000, fingerprintMs: 1000, maxInflight: 32 };

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "sallyport-operations-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

type Made = Outcome<{ path: string; bytes: number }>;

/** An agent's operations with creations that the test completes. */
async function operationsOn(journal?: Journal) {
  const opened = journal ?? (await Journal.open(join(directory, "journal")));
  const frames: AgentFrame[] = [];
  const begun: Array<{
    id: string;
    name: string;
    secrets: object;
    again: boolean;
    end: (outcome: Made) => void;
    fail: (e: Error) => void;
  }> = [];
  const handlers: Handlers = {
    ...({} as Handlers),
    "dhv.create": ({ id, name }, { secrets, again }) =>
      new Promise((end, fail) => begun.push({ id, name, secrets, again, end, fail })) as Promise<Made>,
    "csi.node.publish": async ({ publishContext }) =>
      ({ ok: false, kind: "plugin", message: `no device ${publishContext["device"]}`, outcome: "failed" }) as const,
    "dhv.register": async () => ({ ok: true }),
    "dhv.delete": async () => ({ ok: true }),
    "agent.fingerprint": async () => ({ ok: true, node: {}, unavailableVolumes: [] }) as never,
  };
  const onEnded = vi.fn(async () => {});
  const operations = new Operations({ journal: opened, handlers, send: (frame) => frames.push(frame), onEnded });
  return {
    journal: opened,
    operations,
    frames,
    begun,
    onEnded,
    acks: (op: string) => frames.flatMap((frame) => (frame.t === "ack" && frame.op === op ? [frame.state] : [])),
    results: (op: string) => frames.filter((frame): frame is Res => frame.t === "res" && frame.op === op),
    nowBegun: (count: number) => vi.waitFor(() => expect(begun).toHaveLength(count)),
    welcome: (change: { resume?: string[]; forget?: string[]; maxInflight?: number } = {}) =>
      operations.welcome({
        cfg: { ...cfg, maxInflight: change.maxInflight ?? 32 },
        resume: change.resume ?? [],
        forget: change.forget ?? [],
      }),
  };
}

const create = (op: string, change: Partial<Req> = {}): Req => ({
  t: "req",
  op,
  method: "dhv.create",
  key: `dhv:${VOLUME}`,
  gen: 1,
  deadlineMs: 30_000,
  params: { id: VOLUME, name: op, namespace: "default", pluginId: "p", parameters: {}, capacityMin: 0, capacityMax: 0 },
  ...change,
});
const made: Made = { ok: true, path: "/v", bytes: 0 };
const [A = "", B = "", C = ""] = [1, 2, 3].map(opOf);

it("acknowledges an operation when it is on disk and before it begins", async () => {
  const { operations, frames, begun, nowBegun, results, journal, onEnded } = await operationsOn();
  operations.receive(create(A));
  expect(frames).toEqual([]);
  await nowBegun(1);
  expect(frames).toEqual([{ t: "ack", op: A, state: "accepted" }]);
  expect(readFileSync(join(directory, "journal"), "utf8")).toContain(A);
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  expect(results(A)).toMatchObject([{ ok: true, result: { path: "/v", bytes: 0 } }]);
  expect(journal.get(A)?.ended).toBeDefined();
  expect(onEnded).toHaveBeenCalledOnce();
  operations.done(A);
  expect(journal.get(A)).toBeUndefined();
});

it("acknowledges no accepted operation to a service that needs no acknowledgement", async () => {
  const { operations, frames, begun, nowBegun, results } = await operationsOn();
  operations.welcome({ cfg, resume: [], forget: [], features: [NO_ACCEPTED] });
  operations.receive(create(A));
  await nowBegun(1);
  expect(readFileSync(join(directory, "journal"), "utf8")).toContain(A);
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  expect(frames.map(({ t }) => t)).toEqual(["res"]);
});

it("sends a result when it is on disk, also for an abandoned operation", async () => {
  const first = await operationsOn();
  const disk = Promise.withResolvers<void>();
  const end = first.journal.end.bind(first.journal);
  const ending = vi.spyOn(first.journal, "end").mockImplementation(async (op, result) => {
    await disk.promise;
    await end(op, result);
  });
  first.operations.receive(create(A));
  await first.nowBegun(1);
  first.begun[0]?.end(made);
  await vi.waitFor(() => expect(ending).toHaveBeenCalledTimes(1));
  // An operation of unknown outcome below its key's fence: a repetition abandons it.
  await first.journal.accept({ ...create(B, { gen: 2 }), key: "dhv:moved", secret: false });
  await first.journal.accept({ ...create(C, { gen: 3 }), key: "dhv:moved", secret: false });
  first.operations.receive(create(B, { gen: 2, key: "dhv:moved" }));
  await vi.waitFor(() => expect(ending).toHaveBeenCalledTimes(2));
  expect([first.results(A), first.results(B)]).toEqual([[], []]);
  disk.resolve();
  await vi.waitFor(() => expect([first.results(A).length, first.results(B).length]).toEqual([1, 1]));
});

it("drops an operation that the service is done with while it runs", async () => {
  const { operations, journal, begun, nowBegun, results, onEnded } = await operationsOn();
  operations.receive(create(A));
  await nowBegun(1);
  operations.done(A);
  begun[0]?.end(made);
  await vi.waitFor(() => expect(onEnded).toHaveBeenCalled());
  await vi.waitFor(() => expect(journal.get(A)).toBeUndefined());
  expect(results(A)).toEqual([]);
});

it("joins a repeated operation to the running one or answers with the stored result", async () => {
  const { operations, begun, nowBegun, acks, results } = await operationsOn();
  operations.receive(create(A));
  operations.receive(create(A));
  await nowBegun(1);
  operations.receive(create(A));
  await vi.waitFor(() => expect(acks(A)).toEqual(["accepted", "duplicate", "duplicate"]));
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  operations.receive(create(A));
  await vi.waitFor(() => expect(results(A)).toHaveLength(2));
  expect(results(A)[1]).toEqual(results(A)[0]);
  expect(begun).toHaveLength(1);
});

it("runs operations of one key in sequence and of several keys concurrently", async () => {
  const { operations, begun, nowBegun } = await operationsOn();
  operations.receive(create(A));
  operations.receive(create(B, { gen: 2 }));
  operations.receive(create(C, { key: "dhv:other" }));
  await nowBegun(2);
  expect(begun.map(({ name }) => name)).toEqual([A, C]);
  begun[0]?.end(made);
  await nowBegun(3);
  expect(begun[2]?.name).toBe(B);
});

it("refuses a generation below the key's fence, also after a restart", async () => {
  const first = await operationsOn();
  first.operations.receive(create(A, { gen: 5 }));
  await first.nowBegun(1);
  first.operations.receive(create(B, { gen: 4 }));
  expect(first.acks(B)).toEqual(["rejected"]);
  expect(first.results(B)).toMatchObject([{ ok: false, error: { kind: "stale", outcome: "failed" } }]);
  first.begun[0]?.end(made);
  await vi.waitFor(() => expect(first.results(A)).toHaveLength(1));
  first.operations.done(A);
  await first.journal.close();
  const second = await operationsOn();
  second.operations.receive(create(C, { gen: 4 }));
  expect(second.results(C)).toMatchObject([{ error: { kind: "stale" } }]);
  second.operations.receive(create(B, { gen: 5 }));
  await second.nowBegun(1);
  expect(second.journal.get(C)).toBeUndefined();
});

it.each([
  ["a method it does not have", { method: "csi.controller.teleport" }, "unsupported", "csi.controller.teleport"],
  ["a method named like something every object has", { method: "toString" }, "unsupported", "toString"],
  ["parameters that are wrong", { params: { id: "../etc" } }, "invalid", "dhv.create: id: "],
])("%s is refused in words, and nothing is kept", async (_, change, kind, words) => {
  const { operations, acks, results, journal } = await operationsOn();
  operations.receive(create(A, change));
  expect(acks(A)).toEqual(["rejected"]);
  expect(results(A)).toMatchObject([{ ok: false, error: { kind, message: expect.stringContaining(words) } }]);
  expect(journal.entries()).toEqual([]);
  expect(journal.fence(create(A).key)).toBe(0);
});

it("rejects a malformed request, and leaves the outcome of a known operation open", async () => {
  const { operations, nowBegun, acks, results } = await operationsOn();
  operations.reject(A, "req: secrets: has more than 128 entries");
  expect(acks(A)).toEqual(["rejected"]);
  const message = expect.stringContaining("128 entries");
  expect(results(A)).toMatchObject([{ ok: false, error: { kind: "invalid", message, outcome: "failed" } }]);
  operations.receive(create(B));
  await nowBegun(1);
  operations.reject(B, "req: gen: is wrong");
  expect(results(B)).toMatchObject([{ error: { kind: "invalid", outcome: "unknown" } }]);
});

it("refuses operations beyond the limit as busy until one has completed", async () => {
  const { operations, begun, nowBegun, results, acks, welcome } = await operationsOn();
  welcome({ maxInflight: 2 });
  operations.receive(create(A));
  operations.receive(create(B, { gen: 2 }));
  operations.receive(create(C, { gen: 3 }));
  expect(results(C)).toMatchObject([{ error: { kind: "busy", outcome: "failed" } }]);
  await nowBegun(1);
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  operations.receive(create(C, { gen: 3 }));
  await vi.waitFor(() => expect(acks(C)).toEqual(["rejected", "accepted"]));
});

it("reports an unknown outcome at the deadline and the actual result later", async () => {
  const { operations, begun, nowBegun, results, acks, journal } = await operationsOn();
  operations.receive(create(A, { deadlineMs: 20 }));
  await nowBegun(1);
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  expect(results(A)).toMatchObject([{ ok: false, error: { kind: "timeout", outcome: "unknown" } }]);
  expect(journal.get(A)?.ended).toBeUndefined();
  operations.receive(create(A, { deadlineMs: 20 }));
  await vi.waitFor(() => expect(results(A)).toHaveLength(2));
  expect(acks(A)).toEqual(["accepted", "duplicate"]);
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(3));
  expect(results(A)[2]).toMatchObject({ ok: true });
  expect(begun).toHaveLength(1);
});

it("sends a timely result once, also after the deadline", async () => {
  const { operations, begun, nowBegun, results } = await operationsOn();
  operations.receive(create(A, { deadlineMs: 100 }));
  await nowBegun(1);
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  operations.receive(create(B, { deadlineMs: 200 }));
  await vi.waitFor(() => expect(results(B)).toMatchObject([{ error: { kind: "timeout" } }]));
  expect(results(A)).toMatchObject([{ ok: true }]);
});

it("repeats an operation of unknown outcome on request", async () => {
  const { operations, begun, nowBegun, results } = await operationsOn();
  operations.receive(create(A));
  await nowBegun(1);
  begun[0]?.end({ ok: false, kind: "timeout", message: "the plugin hung", outcome: "unknown" });
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  operations.receive(create(A));
  await nowBegun(2);
  begun[1]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(2));
  expect(results(A)[1]).toMatchObject({ ok: true });
});

it("repeats an operation that the journal has dropped, and refuses it with an unknown outcome", async () => {
  let now = 0;
  const journal = await Journal.open(join(directory, "journal"), { now: () => now });
  const { operations, begun, nowBegun, results, welcome } = await operationsOn(journal);
  operations.receive(create(A));
  await nowBegun(1);
  begun[0]?.end({ ok: false, kind: "timeout", message: "the plugin hung", outcome: "unknown" });
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  now = 2 * 24 * 3_600_000;
  expect(journal.entries()).toEqual([]);
  welcome({ maxInflight: 1 });
  operations.receive(create(B, { key: "dhv:other" }));
  operations.receive(create(A));
  expect(results(A)[1]).toMatchObject({ error: { kind: "busy", outcome: "unknown" } });
  welcome();
  operations.receive(create(A));
  await nowBegun(3);
  expect(begun.map(({ name, again }) => [name, again])).toEqual([
    [A, false],
    [B, false],
    [A, true],
  ]);
});

it("keeps publish contexts out of the journal and redacts them in messages", async () => {
  const { operations, results, journal } = await operationsOn();
  const params = {
    pluginId: "p",
    externalId: "v",
    allocId: "a",
    capability: { accessMode: "single-node-writer", attachmentMode: "file-system" },
    mount: null,
    readOnly: false,
    context: {},
    publishContext: { device: "s3cr3t-canary" },
  };
  operations.receive(create(A, { method: "csi.node.publish", params }));
  await vi.waitFor(() => expect(results(A)).toMatchObject([{ error: { message: "no device [REDACTED]" } }]));
  expect(journal.get(A)?.secret).toBe(true);
  expect(journal.get(A)?.params["publishContext"]).toEqual({});
  expect(readFileSync(join(directory, "journal"), "utf8")).not.toContain("canary");
});

it("drops a cancelled operation that is queued and continues a running one", async () => {
  const { operations, begun, nowBegun, results } = await operationsOn();
  operations.receive(create(A));
  operations.receive(create(B, { gen: 2 }));
  await nowBegun(1);
  operations.cancel(A);
  operations.cancel(B);
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(B)).toHaveLength(1));
  expect(results(A)).toMatchObject([{ ok: true }]);
  expect(results(B)).toMatchObject([{ error: { kind: "cancelled", outcome: "failed" } }]);
  expect(begun).toHaveLength(1);
});

it("reports an unknown outcome for a defect in a handler and continues", async () => {
  const { operations, begun, nowBegun, results } = await operationsOn();
  operations.receive(create(A, { secrets: { token: "s3cr3t-canary" } }));
  operations.receive(create(B));
  await nowBegun(1);
  begun[0]?.fail(new Error("broken with s3cr3t-canary"));
  await nowBegun(2);
  expect(results(A)).toMatchObject([{ error: { kind: "internal", outcome: "unknown" } }]);
  expect(JSON.stringify(results(A))).not.toContain("canary");
});

it("passes secrets to the handler only and redacts them in messages", async () => {
  const { operations, begun, nowBegun, results } = await operationsOn();
  const secrets = { token: "s3cr3t-canary", longer: "s3cr3t-canary-and-more", short: "an" };
  operations.receive(create(A, { secrets }));
  await nowBegun(1);
  expect(begun[0]?.secrets).toEqual(secrets);
  const message = "cannot log in with s3cr3t-canary-and-more\nor s3cr3t-canary";
  begun[0]?.end({ ok: false, kind: "plugin", message, outcome: "failed" });
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  expect(results(A)).toMatchObject([{ error: { message: "cannot log in with [REDACTED] or [REDACTED]" } }]);
  expect(readFileSync(join(directory, "journal"), "utf8")).not.toContain("canary");
});

it("repeats interrupted operations after a restart and the welcome", async () => {
  const first = await operationsOn();
  first.operations.receive(create(A, { key: "a" }));
  first.operations.receive(create(B, { key: "b" }));
  first.operations.receive(create(C, { key: "c", secrets: { token: "s3cr3t" } }));
  await first.nowBegun(3);
  await first.journal.close();

  const second = await operationsOn();
  expect(second.journal.entries().map(({ ended }) => ended)).toEqual([undefined, undefined, undefined]);
  expect(second.begun).toEqual([]);
  second.welcome({ forget: [B] });
  await second.nowBegun(1);
  expect(second.begun[0]?.name).toBe(A);
  second.begun[0]?.end(made);
  await vi.waitFor(() => expect(second.results(A)).toMatchObject([{ ok: true }]));
  // Without its secrets, which are not on disk, it cannot run.
  expect(second.begun).toHaveLength(1);
  second.operations.receive(create(C, { key: "c", secrets: { token: "s3cr3t" } }));
  await second.nowBegun(2);
  expect(second.begun[1]).toMatchObject({ name: C, secrets: { token: "s3cr3t" } });
  expect(second.acks(C)).toEqual(["duplicate"]);
  expect(second.journal.get(B)).toBeUndefined();
});

it("does not repeat an interrupted operation below its key's fence", async () => {
  const first = await operationsOn();
  first.operations.receive(create(A, { gen: 1 }));
  first.operations.receive(create(B, { gen: 2 }));
  await first.nowBegun(1);
  await first.journal.close();
  const second = await operationsOn();
  second.welcome();
  await second.nowBegun(1);
  expect(second.begun[0]?.name).toBe(B);
  await vi.waitFor(() => expect(second.results(A)).toMatchObject([{ error: { kind: "stale", outcome: "failed" } }]));
});

it("answers stale for an unknown outcome below its key's fence", async () => {
  const { operations, begun, nowBegun, results } = await operationsOn();
  operations.receive(create(A));
  await nowBegun(1);
  begun[0]?.end({ ok: false, kind: "timeout", message: "the plugin hung", outcome: "unknown" });
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  operations.receive(create(B, { gen: 2 }));
  await nowBegun(2);
  operations.receive(create(A));
  await vi.waitFor(() => expect(results(A)).toHaveLength(2));
  expect(results(A)[1]).toMatchObject({ error: { kind: "stale", outcome: "failed" } });
  expect(begun).toHaveLength(2);
});

it("repeats awaited results with each welcome until done", async () => {
  const { operations, begun, nowBegun, results, welcome } = await operationsOn();
  operations.receive(create(A));
  await nowBegun(1);
  welcome({ resume: [A, B] });
  begun[0]?.end(made);
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  welcome({ resume: [A] });
  expect(results(A)).toHaveLength(2);
  operations.done(A);
  welcome({ resume: [A] });
  expect(results(A)).toHaveLength(2);
  expect(begun).toHaveLength(1);
});

it("refuses operations while the disk is full and accepts them afterwards", async () => {
  const journal = await Journal.open(join(directory, "journal"));
  const accept = vi.spyOn(journal, "accept").mockRejectedValueOnce(new Error("ENOSPC"));
  const { operations, begun, nowBegun, acks, results } = await operationsOn(journal);
  operations.receive(create(A));
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  expect(acks(A)).toEqual(["rejected"]);
  expect(results(A)).toMatchObject([{ error: { kind: "internal", outcome: "failed" } }]);
  operations.receive(create(A));
  await nowBegun(1);
  expect(accept).toHaveBeenCalledTimes(2);
  expect(begun).toHaveLength(1);
});

it("begins no operation while stopping and leaves queued ones for the next start", async () => {
  const { operations, begun, nowBegun, results, journal } = await operationsOn();
  operations.receive(create(A));
  operations.receive(create(B));
  await nowBegun(1);
  const stopped = operations.stop();
  operations.receive(create(C));
  expect(results(C)).toMatchObject([{ error: { kind: "unavailable" } }]);
  begun[0]?.end(made);
  await stopped;
  expect(begun).toHaveLength(1);
  expect(journal.get(A)?.ended).toBeDefined();
  expect(journal.get(B)).toBeDefined();
  expect(journal.get(B)?.ended).toBeUndefined();
});

it("journals no read-only method", async () => {
  const { operations, acks, results, journal } = await operationsOn();
  operations.receive(create(A, { method: "agent.fingerprint", params: {} }));
  await vi.waitFor(() => expect(results(A)).toHaveLength(1));
  expect(acks(A)).toEqual(["accepted"]);
  expect(journal.entries()).toEqual([]);
  expect(readFileSync(join(directory, "journal"), "utf8")).toBe("");
});
