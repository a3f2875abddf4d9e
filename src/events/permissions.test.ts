import { afterEach, expect, it, vi } from "vitest";
import type { StreamAnswer } from "../contracts/stream-rights.ts";
import type { EventHeader } from "../publishing/event-headers.ts";
import { Permissions, PermissionsUnavailable } from "./permissions.ts";

afterEach(() => {
  vi.useRealTimers();
});

it("a rights check without a response fails, and the next check is sent", async () => {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const yes: StreamAnswer = { allowed: true, scope: { namespaces: null, rules: null }, expires: null };
  const answers = [new Promise<never>(() => undefined), Promise.resolve([yes])];
  const permissions = new Permissions(
    () => answers.shift() ?? Promise.reject(new Error("asked too often")),
    () => undefined,
  );
  const question = { accessor: "a", topics: ["Job"], namespace: "default" };
  const first = permissions.admit(question).catch((failure: unknown) => failure);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await Promise.race([first, "nothing"])).toBeInstanceOf(PermissionsUnavailable);
  expect(await permissions.admit(question)).toMatchObject({ denied: false });
});

const YES: StreamAnswer = { allowed: true, scope: { namespaces: null, rules: null }, expires: null };
const NO: StreamAnswer = { allowed: false };
const QUESTION = { accessor: "a", topics: ["Job"], namespace: "default" };
const told = (Topic: string, Key: string) => ({ Topic, Key }) as EventHeader;

/** Questions that are answered by hand, in their order. */
function byHand() {
  const asked: PromiseWithResolvers<StreamAnswer[]>[] = [];
  const permissions = new Permissions(
    () => {
      const question = Promise.withResolvers<StreamAnswer[]>();
      asked.push(question);
      return question.promise;
    },
    () => undefined,
  );
  return { asked, permissions };
}

it("a permission is deleted with its last reader", async () => {
  vi.useFakeTimers();
  const { asked, permissions } = byHand();
  const opened = [permissions.admit(QUESTION), permissions.admit(QUESTION)];
  await vi.advanceTimersByTimeAsync(0);
  asked[0]?.resolve([YES]);
  const [first, second] = await Promise.all(opened);
  if (!first || !second) throw new Error("denied");
  expect(first).toBe(second);
  await vi.advanceTimersByTimeAsync(0);
  const later = permissions.admit(QUESTION);
  await vi.advanceTimersByTimeAsync(0);
  asked[1]?.resolve([YES]);
  expect(await later).toBe(first);
  await vi.advanceTimersByTimeAsync(0);
  permissions.release(first);
  permissions.release(first);
  permissions.onHeaders([told("ACLPolicy", "p")]);
  expect(permissions.nextAsk()).toBe(0);
  permissions.release(second);
  expect(permissions.nextAsk()).toBe(Number.POSITIVE_INFINITY);
});

it("a batch token's permission is invalidated by events of its parent token", async () => {
  vi.useFakeTimers();
  const { asked, permissions } = byHand();
  const opened = permissions.admit({ ...QUESTION, accessor: "batch.a.statement.hash" });
  await vi.advanceTimersByTimeAsync(0);
  asked[0]?.resolve([YES]);
  const permission = await opened;
  permissions.onHeaders([told("ACLToken", "statement"), told("ACLToken", "b")]);
  expect(permission?.stateAt(Date.now())).toBe("open");
  permissions.onHeaders([told("ACLToken", "a")]);
  expect(permission?.stateAt(Date.now())).toBe("unsure");
});

it("a permission is invalidated by events of its policies alone, and while it is unsure of all", async () => {
  vi.useFakeTimers();
  const { asked, permissions } = byHand();
  const opened = permissions.admit(QUESTION);
  await vi.advanceTimersByTimeAsync(0);
  // The policies are not known yet.
  permissions.onHeaders([told("ACLPolicy", "other")]);
  asked[0]?.resolve([{ ...YES, policies: ["own", "ns1/own"] }]);
  const permission = await opened;
  expect(permission?.stateAt(Date.now())).toBe("unsure");
  await vi.advanceTimersByTimeAsync(0);
  asked[1]?.resolve([{ ...YES, policies: ["own", "ns1/own"] }]);
  await vi.advanceTimersByTimeAsync(0);
  permissions.onHeaders([told("ACLPolicy", "other"), told("ACLPolicy", "ns1/other")]);
  expect([permission?.stateAt(Date.now()), permission?.changes]).toEqual(["open", 0]);
  permissions.onHeaders([told("ACLPolicy", "ns1/own")]);
  expect([permission?.stateAt(Date.now()), permission?.changes]).toEqual(["unsure", 1]);
  permissions.onHeaders([told("ACLPolicy", "other")]);
  expect(permission?.changes).toBe(2);
});

it("every permission is invalidated by the end of an auth method, and by no other event about one", async () => {
  vi.useFakeTimers();
  const { asked, permissions } = byHand();
  const opened = permissions.admit({ ...QUESTION, accessor: "batch..statement.hash" });
  await vi.advanceTimersByTimeAsync(0);
  asked[0]?.resolve([YES]);
  const permission = await opened;
  const about = (Type: string) => ({ Topic: "ACLAuthMethod", Type, Key: "auth/userpass/" }) as EventHeader;
  permissions.onHeaders([about("ACLAuthMethodUpserted")]);
  expect(permission?.stateAt(Date.now())).toBe("open");
  permissions.onHeaders([about("ACLAuthMethodDeleted")]);
  expect(permission?.stateAt(Date.now())).toBe("unsure");
});

it("a rights check covers events from before its start and none from after it", async () => {
  vi.useFakeTimers();
  const { asked, permissions } = byHand();
  const opened = permissions.admit(QUESTION);
  await vi.advanceTimersByTimeAsync(0);
  asked[0]?.resolve([YES]);
  const permission = await opened;
  await vi.advanceTimersByTimeAsync(0);
  permissions.onHeaders([told("ACLToken", "another"), told("Job", "a")]);
  expect(permission?.stateAt(Date.now())).toBe("open");
  permissions.onHeaders([told("ACLToken", "a")]);
  const asking = permissions.askDue();
  await vi.advanceTimersByTimeAsync(0);
  permissions.onHeaders([told("ACLPolicy", "p")]);
  asked[1]?.resolve([YES]);
  await vi.advanceTimersByTimeAsync(0);
  expect([asked.length, permission?.stateAt(Date.now())]).toEqual([3, "unsure"]);
  asked[2]?.resolve([NO]);
  await asking;
  expect(permission?.stateAt(Date.now())).toBe("denied");
});

it("an expired permission is checked again at its expiry", async () => {
  vi.useFakeTimers();
  const { asked, permissions } = byHand();
  const opened = permissions.admit(QUESTION);
  await vi.advanceTimersByTimeAsync(0);
  const expires = Date.now() + 10_000;
  asked[0]?.resolve([{ ...YES, expires }]);
  const permission = await opened;
  await vi.advanceTimersByTimeAsync(0);
  expect([expires - 1, expires].map((now) => permission?.stateAt(now))).toEqual(["open", "expired"]);
  expect(permissions.nextAsk()).toBe(expires);
});

it("retries failed rights checks with growing delays and resets the delay after a success", async () => {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const { asked, permissions } = byHand();
  const opened = permissions.admit(QUESTION);
  await vi.advanceTimersByTimeAsync(0);
  asked[0]?.resolve([YES]);
  await opened;
  await vi.advanceTimersByTimeAsync(0);
  const pauses: number[] = [];
  for (let n = 1; n <= 4; n++) {
    if (n === 1) permissions.invalidateAll();
    vi.setSystemTime(Math.max(Date.now(), permissions.nextAsk()));
    const asking = permissions.askDue();
    await vi.advanceTimersByTimeAsync(0);
    asked[n]?.reject(new Error("nobody there"));
    await asking;
    pauses.push(permissions.nextAsk() - Date.now());
  }
  expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
  expect(pauses[3]).toBeGreaterThan(4 * (pauses[0] ?? 0));
});
