import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { failure } from "../../src/providers/outcome.ts";
import { deployProject } from "../../src/sync/destinations/deploy-project/adapter.ts";
import type { CallContext } from "../../src/sync/destinations/destination-type.ts";
import { type DeployProjectDouble, type Fault, startDeployProject } from "../doubles/deploy-project/api.ts";
import { Fixture, idOf, referenceOf, value } from "../doubles/deploy-project/fixture.ts";

let double: DeployProjectDouble;
let at: Fixture;

beforeAll(async () => {
  double = await startDeployProject();
});
afterAll(() => double.close());
beforeEach(() => {
  at = new Fixture(double);
});

describe("remove", () => {
  it("deletes the written variable, and succeeds for an absent one", async () => {
    const reference = referenceOf(await at.put());
    expect(await at.remove(reference)).toEqual({ outcome: "ok" });
    expect(at.shapes()).toEqual([]);
    expect(at.operations().slice(2)).toEqual(["ListVariables", "RemoveVariable"]);
    expect(await at.remove(reference)).toEqual({ outcome: "ok" });
    expect(await at.remove(null)).toEqual({ outcome: "ok" });
  });

  it("succeeds when the variable disappears meanwhile", async () => {
    const reference = referenceOf(await at.put());
    at.fault({ fault: "error", status: 404, code: "not_found", operation: "RemoveVariable" });
    expect(await at.remove(reference)).toEqual({ outcome: "ok" });
  });

  it("finds the variable without a reference, and after another writer has renamed it", async () => {
    const reference = referenceOf(await at.put());
    expect(await at.remove(null)).toEqual({ outcome: "ok" });
    expect(at.shapes()).toEqual([]);
    const again = referenceOf(await at.put({ reference }));
    at.humanEdits(idOf(again), { key: "RENAMED" });
    expect(await at.remove(again)).toEqual({ outcome: "ok" });
    expect(at.shapes()).toEqual([]);
  });

  it("keeps another writer's values for other environments", async () => {
    at.human({ target: ["production", "preview"] });
    at.human({ target: ["development"], customEnvironmentIds: ["env_staging"] });
    expect(await at.remove(null, false, at.connection("development", "production"))).toEqual({ outcome: "ok" });
    expect(at.secrets()).toMatchObject([
      { target: ["preview"], value: "theirs" },
      { target: [], customEnvironmentIds: ["env_staging"] },
    ]);
  });

  it("keeps environments that another writer added, and removes those that the connection lost", async () => {
    const reference = referenceOf(await at.put({}, at.connection("preview", "production")));
    at.humanEdits(idOf(reference), { target: ["development", "preview", "production"] });
    expect(await at.remove(reference)).toEqual({ outcome: "ok" });
    expect(at.shapes()).toEqual([["DB", "development", value]]);
  });

  it("with ownedOnly leaves variables without the marker", async () => {
    at.human({ target: ["production"] });
    expect(await at.remove(null, true)).toEqual({ outcome: "ok" });
    expect(at.shapes()).toEqual([["DB", "production", "theirs"]]);
    const reference = referenceOf(await at.put());
    expect(await at.remove(reference, true)).toEqual({ outcome: "ok" });
    expect(at.shapes()).toEqual([]);
  });

  it("removes variables that the token cannot see by id, and reports only confirmed removals", async () => {
    at = new Fixture(double, {}, { hidesProduction: true });
    const reference = referenceOf(await at.put());
    expect(await at.remove(null)).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(await at.remove(reference, true)).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(await at.remove(reference)).toEqual({ outcome: "ok" });
    expect(at.shapes()).toEqual([]);
  });

  it("does not treat an unknown project as a removed variable", async () => {
    const reference = referenceOf(await at.put());
    const elsewhere = { ...at.connection(), team_id: at.account.teamId };
    expect(await at.remove(reference, false, elsewhere)).toMatchObject({ outcome: "client", code: "not_found" });
  });

  it("can be repeated after a lost answer", async () => {
    const reference = referenceOf(await at.put());
    at.fault({ fault: "apply-then-drop", operation: "RemoveVariable" });
    expect(await at.remove(reference)).toMatchObject({ outcome: "unknown" });
    expect(await at.remove(reference)).toEqual({ outcome: "ok" });
  });
});

describe("inspect", () => {
  it("distinguishes unchanged, changed, present and absent", async () => {
    expect(await at.inspect(null)).toEqual({ outcome: "ok", state: "absent", owned: null });
    const reference = referenceOf(await at.put());
    expect(await at.inspect(reference)).toEqual({ outcome: "ok", state: "unchanged", owned: true });
    expect(await at.inspect(null)).toEqual({ outcome: "ok", state: "present", owned: true });
    expect(await at.inspect(reference, at.connection("preview", "production"))).toMatchObject({ state: "changed" });
    at.humanEdits(idOf(reference), { value: "theirs" });
    expect(await at.inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: true });
    at.humanEdits(idOf(reference), { comment: "mine" });
    expect(await at.inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: false });
    at.humanRemoves(idOf(reference));
    expect(await at.inspect(reference)).toEqual({ outcome: "ok", state: "absent", owned: null });
    at.human({ target: ["production", "preview"] });
    expect(await at.inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: false });
  });

  it("reads the list only, and no value", async () => {
    const reference = referenceOf(await at.put());
    await at.inspect(reference);
    expect(at.operations().slice(2)).toEqual(["ListVariables"]);
    expect(double.requests(at.account.id).at(-1)?.target).not.toContain("decrypt");
  });

  it("does not report a variable that the token cannot see as absent", async () => {
    at = new Fixture(double, {}, { hidesProduction: true });
    await at.put();
    expect(await at.inspect(null)).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(await at.inspect(null, at.connection("preview"))).toMatchObject({ state: "absent" });
  });
});

describe("probe", () => {
  it("succeeds with a token that reaches the project, and changes nothing", async () => {
    expect(await at.probe()).toEqual({ outcome: "ok" });
    const ofTeam = { ...at.connection(), project_id: at.account.teamProjectId, team_id: at.account.teamId };
    expect(await at.probe(ofTeam)).toEqual({ outcome: "ok" });
    expect(at.operations().filter((one) => !/^(Get|List)/.test(one))).toEqual([]);
  });

  it("distinguishes a wrong token, missing access, an unknown project and a wrong team", async () => {
    const good = at.connection();
    expect(await at.probe({ ...good, access_token: "nobody" })).toMatchObject({
      outcome: "client",
      code: "auth_failed",
    });
    expect(await at.probe({ ...good, team_id: "team_other" })).toMatchObject({ code: "permission_denied" });
    expect(await at.probe({ ...good, project_id: "prj_none" })).toMatchObject({ code: "not_found" });
    expect(await at.probe({ ...good, team_id: at.account.teamId })).toMatchObject({ code: "not_found" });
    at = new Fixture(double, {}, { projectIds: ["prj_other"] });
    expect(await at.probe()).toMatchObject({ outcome: "client", code: "permission_denied" });
  });

  it("reads the account when an error names no cause", async () => {
    const refusal = { fault: "error", status: 403, code: "forbidden" } as const;
    at.fault({ ...refusal, operation: "GetProject" });
    at.fault({ ...refusal, operation: "GetUser" });
    expect(await at.probe()).toMatchObject({ outcome: "client", code: "auth_failed" });
    at.fault({ ...refusal, operation: "GetProject" });
    expect(await at.probe()).toMatchObject({ outcome: "client", code: "permission_denied" });
  });
});

describe("errors", () => {
  it.each([
    ["bad_request", 400, "client", "invalid_request"],
    ["unauthorized", 401, "client", "auth_failed"],
    ["payment_required", 402, "client", "payment_required"],
    ["forbidden", 403, "client", "permission_denied"],
    ["not_found", 404, "client", "not_found"],
    ["something_new", 409, "client", "conflict"],
    ["something_new", 410, "client", "gone"],
    ["something_new", 418, "client", "invalid_request"],
    ["KEY_INVALID_CHARACTERS", 400, "client", "name_invalid"],
    ["VALUE_INVALID_LENGTH", 400, "client", "value_too_large"],
    ["MAX_ENVS_EXCEEDED", 403, "client", "quota_exceeded"],
    ["rate_limited", 429, "external", "throttled"],
    ["internal_server_error", 500, "external", "provider_unavailable"],
    ["forbidden", 503, "external", "provider_unavailable"],
  ])("%s (HTTP %i) is %s %s", async (code, status, outcome, own) => {
    // Three times, the number of lookups of a put after a conflict.
    at.fault({ fault: "error", code, status, operation: "CreateVariables", count: 3 });
    expect(await at.put()).toMatchObject({ outcome, code: own });
  });

  // Proves: B.deploy-project.access_token
  it("a write without permission is refused", async () => {
    at = new Fixture(double, {}, { readOnly: true });
    expect(await at.put()).toMatchObject({ outcome: "client", code: "permission_denied" });
    at = new Fixture(double);
    expect(await at.put({}, { ...at.connection(), access_token: "nobody" })).toMatchObject({ code: "auth_failed" });
  });

  it("a rate limit is 'throttled' with the remaining wait", async () => {
    at = new Fixture(double, { perMinute: 1 });
    await at.put();
    const refused = await at.put();
    expect(refused).toMatchObject({ outcome: "external", code: "throttled", retryAfterMs: expect.any(Number) });
    const { retryAfterMs } = refused as { retryAfterMs: number };
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(60_000);
  });

  it.each<[string, Partial<Fault & { fault: "error" }>, number]>([
    ["Retry-After", { headers: { "retry-after": "7" } }, 7000],
    ["the header, seconds", { headers: { "x-ratelimit-reset": "1030" } }, 30_000],
    ["the body, seconds", { fields: { limit: { reset: 1040, total: 1 } } }, 40_000],
    ["the body, milliseconds", { fields: { limit: { reset: 9, resetMs: 1_040_500 } } }, 40_500],
    ["at most an hour", { fields: { limit: { resetMs: 999_999_999 } } }, 3_600_000],
    ["zero when it has passed", { fields: { limit: { resetMs: 5 } } }, 0],
  ])("the wait is that of %s", async (_what, how, retryAfterMs) => {
    const clock = vi.spyOn(Date, "now").mockReturnValue(1_000_000);
    try {
      at.fault({ fault: "error", status: 429, code: "rate_limited", ...how });
      expect(await at.put()).toMatchObject({ code: "throttled", retryAfterMs });
    } finally {
      clock.mockRestore();
    }
  });

  it("an unreadable success is 'unknown' for a write and 'external' for a read, never 'ok'", async () => {
    const page = { fault: "raw", status: 200, body: "<html>captive portal</html>" } as const;
    at.fault({ ...page, operation: "ListVariables" });
    expect(await at.put()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    for (const body of ["<html>", "{}", '{"created":{},"failed":[]}', '{"failed":[]}']) {
      at.fault({ fault: "raw", status: 201, body, operation: "CreateVariables" });
      expect(await at.put()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    }
    const reference = referenceOf(await at.put());
    at.fault({ ...page, operation: "EditVariable" });
    expect(await at.put({ reference })).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    at.fault({ ...page, operation: "RemoveVariable" });
    expect(await at.remove(reference)).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    at.fault({ fault: "raw", status: 204, body: "", operation: "RemoveVariable" });
    expect(await at.remove(reference), "answered 204").toEqual({ outcome: "ok" });
  });

  it("a missing answer is 'unknown' for a write and 'external' for a read", async () => {
    at.fault({ fault: "drop", operation: "ListVariables" });
    expect(await at.put()).toMatchObject({ outcome: "external", code: "network_error" });
    at.fault({ fault: "drop", operation: "CreateVariables" });
    expect(await at.put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    const reference = referenceOf(await at.put());
    at.fault({ fault: "delay", ms: 800, operation: "EditVariable" });
    const late = await at.put({ reference, value: "late" }, at.connection(), at.context(400));
    expect(late).toMatchObject({ outcome: "unknown", code: "deadline_exceeded" });
    await vi.waitFor(() => expect(at.shapes()).toEqual([["DB", "production", "late"]]));
  });

  it("the error of a pause is returned unchanged", async () => {
    const paused = failure("external", "paused", "Syncing is paused.");
    const context: CallContext = { settings: {}, send: async () => ({ ok: false, outcome: paused }) };
    const reference = "id 1 encrypted production";
    expect(await at.put({}, at.connection(), context)).toEqual(paused);
    expect(await at.put({ reference }, at.connection(), context)).toEqual(paused);
    const known = { name: "DB", reference, ownedOnly: false };
    expect(await deployProject.remove(known, at.connection(), context)).toEqual(paused);
    expect(await deployProject.inspect(known, at.connection(), context)).toEqual(paused);
    expect(await deployProject.probe(at.connection(), context)).toEqual(paused);
  });

  it("contain no value, token or text of the provider", async () => {
    const message = `the value ${value} is wrong`;
    const outcomes: unknown[] = [await at.put({ value: "v".repeat(70_000) })];
    for (const code of ["bad_request", value, `${value}_ERROR`, "ENV_CONFLICT", "forbidden"]) {
      at.fault({ fault: "error", code, message, operation: "CreateVariables", fields: { value }, count: 3 });
      outcomes.push(await at.put());
      const failed = [{ error: { code, message, value } }];
      const body = JSON.stringify({ failed });
      at.fault({ fault: "raw", status: 201, body, operation: "CreateVariables", count: 3 });
      outcomes.push(await at.put());
    }
    outcomes.push(await at.put({}, { ...at.connection(), access_token: "wrong-token" }));
    const text = JSON.stringify(outcomes);
    for (const part of [value, "vvvv", "wrong-token", at.account.accessToken]) expect(text).not.toContain(part);
    expect(outcomes.filter((one) => (one as { outcome: string }).outcome !== "client")).toEqual([]);
  });
});
