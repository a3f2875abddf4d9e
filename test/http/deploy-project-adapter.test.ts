import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ExternalObject } from "../../src/sync/destinations/destination-type.ts";
import { type DeployProjectDouble, startDeployProject } from "../doubles/deploy-project/api.ts";
import { Fixture, idOf, referenceOf, value } from "../doubles/deploy-project/fixture.ts";

const marked = expect.stringMatching(/^managed by sallyport sync \(push [0-9a-f]{32}\)$/);
const ok = { outcome: "ok", reference: expect.any(String) };
let double: DeployProjectDouble;
let at: Fixture;

beforeAll(async () => {
  double = await startDeployProject();
});
afterAll(() => double.close());
beforeEach(() => {
  at = new Fixture(double);
});

describe("put", () => {
  it("reads before it creates a variable, and marks it", async () => {
    const done = await at.put({}, at.connection("preview", "production"));
    expect(done).toEqual(ok);
    expect(at.operations()).toEqual(["ListVariables", "CreateVariables"]);
    expect(at.secrets()).toMatchObject([
      { key: "DB", value, type: "encrypted", target: ["preview", "production"], comment: marked },
    ]);
    const [{ id, updatedAt } = { id: "", updatedAt: 0 }] = at.secrets();
    expect(referenceOf(done)).toBe(`${id} ${updatedAt} encrypted preview,production`);
  });

  it("updates a recorded variable in one call, and returns its new time", async () => {
    const first = referenceOf(await at.put());
    const second = await at.put({ reference: first, value: "two" });
    expect(at.operations().slice(2)).toEqual(["EditVariable"]);
    expect(at.shapes()).toEqual([["DB", "production", "two"]]);
    expect(referenceOf(second)).not.toBe(first);
    expect(idOf(referenceOf(second))).toBe(idOf(first));
  });

  it("drops a recorded variable that was deleted, and creates another", async () => {
    const reference = referenceOf(await at.put());
    at.humanRemoves(idOf(reference));
    expect(await at.put({ reference })).toEqual(ok);
    expect(at.operations().slice(2)).toEqual(["EditVariable", "ListVariables", "CreateVariables"]);
    expect(at.shapes()).toEqual([["DB", "production", value]]);
  });

  it("finds its own variable without a reference, and creates no second one", async () => {
    await at.put();
    expect(await at.put({ value: "two" })).toEqual(ok);
    expect(at.shapes()).toEqual([["DB", "production", "two"]]);
  });

  it("removes environments that the connection lost, and adds new ones", async () => {
    const reference = referenceOf(await at.put({}, at.connection("preview", "production")));
    const moved = await at.put({ reference }, at.connection("preview"));
    expect(at.shapes()).toEqual([["DB", "preview", value]]);
    await at.put({ reference: referenceOf(moved) }, at.connection("development", "preview"));
    expect(at.shapes()).toEqual([["DB", "development,preview", value]]);
    // Also when the reference was lost.
    await at.put({}, at.connection("preview"));
    expect(at.shapes()).toEqual([["DB", "preview", value]]);
  });

  it("leaves the variable of another destination in the same project alone", async () => {
    await at.put({ value: "of production" });
    await at.put({ value: "of preview" }, at.connection("preview"));
    expect(at.shapes()).toEqual([
      ["DB", "production", "of production"],
      ["DB", "preview", "of preview"],
    ]);
  });

  it("restores the name and environments of a variable that was renamed or moved to a branch", async () => {
    const reference = referenceOf(await at.put({}, at.connection("preview")));
    const id = idOf(reference);
    at.humanEdits(id, { key: "RENAMED" });
    const again = referenceOf(await at.put({ reference }, at.connection("preview")));
    expect(at.shapes()).toEqual([["DB", "preview", value]]);
    at.humanEdits(id, { gitBranch: "main" });
    expect(await at.put({ reference: again }, at.connection("preview"))).toEqual(ok);
    expect(at.secrets()).toMatchObject([{ id, gitBranch: null }]);
  });

  it("leaves no value readable in a plain variable", async () => {
    const id = at.human({ type: "plain", target: ["production"] });
    await at.put();
    expect(at.secrets()).toMatchObject([{ id, type: "encrypted", value }]);
    at.humanEdits(id, { type: "plain" });
    await at.put({ reference: `${id} 1 encrypted production` });
    expect(at.secrets()).toMatchObject([{ id, type: "encrypted", value }]);
  });

  it("writes sensitive variables, also where the team's policy makes all of them sensitive", async () => {
    at = new Fixture(double, { sensitivePolicy: true });
    const reference = referenceOf(await at.put());
    expect(reference).toContain(" sensitive ");
    await at.put({ reference, value: "two" });
    expect(at.operations().slice(2)).toEqual(["EditVariable"]);
    // A reference that is older than the change to sensitive costs a lookup.
    await at.put({ reference: reference.replace("sensitive", "encrypted"), value: "three" });
    expect(at.operations().slice(3)).toEqual(["EditVariable", "ListVariables", "EditVariable"]);
    expect(at.shapes()).toEqual([["DB", "production", "three"]]);
  });

  it("finds a variable on a later page", async () => {
    at = new Fixture(double, { pageSize: 2 });
    await at.put();
    for (const key of ["A", "B", "C", "D"]) at.human({ key, target: ["production"] });
    expect(await at.put({ value: "two" })).toEqual(ok);
    expect(at.operations().slice(2)).toEqual(["ListVariables", "ListVariables", "ListVariables", "EditVariable"]);
    expect(at.secrets().filter(({ key }) => key === "DB")).toMatchObject([{ value: "two" }]);
  });

  it("uses the team, and reports a missing team", async () => {
    const ofTeam = { ...at.connection(), project_id: at.account.teamProjectId, team_id: at.account.teamId };
    expect(await at.put({}, ofTeam)).toEqual(ok);
    expect(at.secrets()).toMatchObject([{ projectId: at.account.teamProjectId }]);
    expect(await at.put({}, { ...at.connection(), project_id: at.account.teamProjectId })).toMatchObject({
      outcome: "client",
      code: "not_found",
    });
  });

  it.each<[string, Partial<ExternalObject>, string]>([
    ["65 537 bytes", { value: `${"é".repeat(32_768)}x` }, "value_too_large"],
    ["a name with a dash", { name: "A-B" }, "name_invalid"],
    ["a name that begins with a digit", { name: "1A" }, "name_invalid"],
    ["a name of 257 characters", { name: "N".repeat(257) }, "name_invalid"],
  ])("refuses %s without a call", async (_what, changed, code) => {
    expect(await at.put(changed)).toMatchObject({ outcome: "client", code });
    expect(at.operations()).toEqual([]);
  });

  it.each<[string, Partial<ExternalObject>, string]>([
    ["an empty value", { value: "" }, "value_empty"],
    ["a reserved name", { name: "VERCEL_URL" }, "name_invalid"],
    ["values that are too large together", { value: "v".repeat(65_536) }, "value_too_large"],
  ])("returns the provider's refusal: %s", async (_what, changed, code) => {
    expect(await at.put(changed)).toMatchObject({ outcome: "client", code });
  });

  it("reports a full project", async () => {
    at = new Fixture(double, { maxVariables: 1 });
    at.human({ key: "A", target: ["production"] });
    expect(await at.put()).toMatchObject({ outcome: "client", code: "quota_exceeded" });
  });
});

describe("replace, with variables of other writers", () => {
  it.each(["conflict", "take"] as const)(
    "removes only our environments from a variable with more (upsert: %s)",
    async (how) => {
      at = new Fixture(double, { upsertOverlap: how });
      const id = at.human({ target: ["production", "preview"], comment: "keep" });
      await at.put();
      expect(at.secrets()).toMatchObject([
        { id, target: ["preview"], value: "theirs", comment: "keep" },
        { target: ["production"], value },
      ]);
    },
  );

  it("adopts a variable whose environments are all ours, and removes the others", async () => {
    at.human({ target: ["production"] });
    at.human({ target: ["preview"] });
    await at.put({}, at.connection("preview", "production"));
    expect(at.secrets()).toMatchObject([{ target: ["preview", "production"], value, comment: marked }]);
  });

  it("leaves variables for one branch and for custom environments", async () => {
    at.human({ target: ["preview"], gitBranch: "main" });
    at.human({ target: ["preview"], customEnvironmentIds: ["env_staging"], value: "staging" });
    await at.put({}, at.connection("preview"));
    expect(at.secrets()).toMatchObject([
      { gitBranch: "main", value: "theirs" },
      { target: [], customEnvironmentIds: ["env_staging"], value: "staging" },
      { target: ["preview"], value },
    ]);
  });

  it("takes over an environment that the connection gains and another writer's variable has", async () => {
    const reference = referenceOf(await at.put());
    at.human({ target: ["preview"] });
    expect(await at.put({ reference }, at.connection("preview", "production"))).toEqual(ok);
    expect(at.shapes()).toEqual([["DB", "preview,production", value]]);
  });

  it("changes no other variable when the value is refused", async () => {
    at.human({ target: ["production", "preview"] });
    const before = at.shapes();
    expect(await at.put({ value: "" })).toMatchObject({ code: "value_empty" });
    expect(at.shapes()).toEqual(before);
    at.human({ target: ["development"] });
    const both = at.shapes();
    expect(await at.put({ value: "" }, at.connection("development", "preview"))).toMatchObject({ code: "value_empty" });
    expect(at.shapes()).toEqual(both);
  });

  it("reads again when a variable appears between read and write", async () => {
    at.fault({ fault: "error", status: 403, code: "ENV_ALREADY_EXISTS", operation: "CreateVariables" });
    expect(await at.put()).toEqual(ok);
    at.fault({ fault: "error", status: 409, code: "env_already_exists", operation: "EditVariable" });
    expect(await at.put({ value: "two" })).toEqual(ok);
    expect(at.shapes()).toEqual([["DB", "production", "two"]]);
  });

  it("returns 'external' when another writer keeps creating and deleting the object", async () => {
    at.human({ target: ["production"] });
    at.fault({ fault: "error", status: 404, code: "not_found", operation: "EditVariable", count: 9 });
    expect(await at.put()).toMatchObject({ outcome: "external", code: "contended" });
  });

  it("updates a variable that the token cannot see in place, and reports when that is impossible", async () => {
    at = new Fixture(double, {}, { hidesProduction: true });
    const id = at.human({ target: ["production"] });
    expect(await at.put()).toEqual(ok);
    expect(at.secrets()).toMatchObject([{ id, value }]);
    at.humanEdits(id, { target: ["production", "preview"] });
    expect(await at.put()).toMatchObject({ outcome: "client", code: "already_exists" });
  });

  it("detects a collision in an answer with status 201", async () => {
    at = new Fixture(double, { conflictsAs: "failed" }, { hidesProduction: true });
    at.human({ target: ["production", "preview"] });
    const refused = await at.put();
    expect(refused).toMatchObject({ outcome: "client", code: "already_exists" });
    expect(JSON.stringify(refused)).not.toContain(value);
  });
});

describe("update policies", () => {
  it("if-not-exists leaves a variable in any of the environments, and reports that", async () => {
    at.human({ target: ["production", "preview"] });
    const before = at.secrets();
    expect(await at.put({ updatePolicy: "if-not-exists" })).toEqual({ outcome: "ok", left: true });
    expect(at.secrets()).toEqual(before);
  });

  it("if-not-exists creates an absent variable, and recognises its own after a lost answer", async () => {
    at.fault({ fault: "apply-then-drop", operation: "CreateVariables" });
    expect(await at.put({ updatePolicy: "if-not-exists" })).toMatchObject({ outcome: "unknown" });
    expect(await at.put({ updatePolicy: "if-not-exists" })).toEqual(ok);
    const later = { updatePolicy: "if-not-exists", idempotencyToken: "intent-2", value: "two" } as const;
    expect(await at.put(later)).toEqual({ outcome: "ok", left: true });
    expect(at.shapes()).toEqual([["DB", "production", value]]);
  });

  it("if-not-exists leaves a variable that the token cannot see", async () => {
    at = new Fixture(double, {}, { hidesProduction: true });
    at.human({ target: ["production"] });
    expect(await at.put({ updatePolicy: "if-not-exists" })).toEqual({ outcome: "ok", left: true });
    expect(at.shapes()).toEqual([["DB", "production", "theirs"]]);
  });

  it("owned-only leaves variables without the marker, visible to the token or not", async () => {
    at.human({ target: ["production", "preview"] });
    expect(await at.put({ updatePolicy: "owned-only" })).toMatchObject({ outcome: "client", code: "not_owned" });
    expect(at.shapes()).toEqual([["DB", "production,preview", "theirs"]]);
    at = new Fixture(double, {}, { hidesProduction: true });
    at.human({ target: ["production"] });
    expect(await at.put({ updatePolicy: "owned-only" })).toMatchObject({ code: "not_owned" });
    expect(at.shapes()).toEqual([["DB", "production", "theirs"]]);
  });

  it("owned-only writes a variable while it has the marker", async () => {
    const reference = referenceOf(await at.put({ updatePolicy: "owned-only" }));
    const second = await at.put({ updatePolicy: "owned-only", reference, value: "two" });
    expect(at.shapes()).toEqual([["DB", "production", "two"]]);
    at.humanEdits(idOf(reference), { comment: "mine now" });
    const third = { updatePolicy: "owned-only", reference: referenceOf(second), value: "three" } as const;
    expect(await at.put(third)).toMatchObject({ code: "not_owned" });
    expect(at.shapes()).toEqual([["DB", "production", "two"]]);
  });
});

describe("a put repeated after a lost answer", () => {
  it.each(["CreateVariables", "EditVariable"] as const)(
    "at %s ends with one variable and the newest value",
    async (lost) => {
      const reference = lost === "EditVariable" ? referenceOf(await at.put()) : null;
      at.fault({ fault: "apply-then-drop", operation: lost });
      expect(await at.put({ reference, value: "two" })).toMatchObject({ outcome: "unknown", code: "network_error" });
      expect(await at.put({ reference, value: "two" })).toEqual(ok);
      expect(at.shapes()).toEqual([["DB", "production", "two"]]);
    },
  );

  it.each<[number, "EditVariable" | "RemoveVariable", number]>([
    [1, "EditVariable", 0],
    [2, "RemoveVariable", 0],
    [3, "RemoveVariable", 1],
    [4, "EditVariable", 1],
  ])("at write %i of a takeover has the same result as without the loss", async (_write, operation, before) => {
    for (const target of ["production", "preview", "development"]) at.human({ target: [target] });
    const all = at.connection("development", "preview", "production");
    if (before > 0) at.fault({ fault: "delay", ms: 0, operation });
    at.fault({ fault: "apply-then-drop", operation });
    expect(await at.put({}, all)).toMatchObject({ outcome: "unknown" });
    expect(await at.put({}, all)).toEqual(ok);
    expect(at.shapes()).toEqual([["DB", "development,preview,production", value]]);
  });

  it("between removing an environment from another variable and writing it ends with both in place", async () => {
    at.human({ target: ["production", "preview"] });
    at.fault({ fault: "drop", operation: "CreateVariables" });
    expect(await at.put()).toMatchObject({ outcome: "unknown" });
    expect(await at.put()).toEqual(ok);
    expect(at.shapes()).toEqual([
      ["DB", "preview", "theirs"],
      ["DB", "production", value],
    ]);
  });
});
