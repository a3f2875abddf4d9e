import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../../test/crash/random.ts";
import { FakeCloud, failure } from "../../../../test/fake-cloud.ts";
import { answered, lostAnswer, passwordIssue, principalIssue, removed, walked } from "../../../../test/saga-walks.ts";
import { amount, PROPERTY } from "../../../../test/support/long.ts";
import { SagaRun } from "../../../../test/support/saga-run.ts";
import { batchOf } from "../../runner/saga.ts";
import { azureCalls, type CloudStep, performStep, step } from "./calls.ts";
import { type Issue, issueSaga, orphansOfIssue, resourcesOf, undoOfIssue } from "./issue.ts";
import { type KeyAdd, keySaga, newKeyAdd, passwordRemoval, passwordSearch } from "./key-add.ts";
import { applicationSearch, newProvision, provisionSaga } from "./provision.ts";
import { type Removal, removalSaga, revocationOf } from "./removal.ts";
import { newRotation, orphansOfRotation, type Rotation, rotationSaga, undoOfRotation } from "./rotation.ts";

const runOf = (cloud: FakeCloud, random: () => number): SagaRun =>
  new SagaRun(
    (step) => performStep(cloud.calls as unknown as Parameters<typeof performStep>[0], step as CloudStep),
    azureCalls,
    random,
  );

/** The removals for finished credentials: revocation of the lease, and the search for orphans. */
function endsOf(issue: Issue, now: number): Removal[] {
  const strays = orphansOfIssue(issue, now);
  return [revocationOf(resourcesOf(issue).resources, now), ...(strays ? [strays] : [])];
}

const seeds = Array.from({ length: amount(100, 300) }, (_, seed) => seed + 1);

describe.each([
  ["a principal", principalIssue],
  ["a password", passwordIssue],
])("credentials by %s", (_what, begin) => {
  it("leaves no resources after Workers die during creation and clean-up", PROPERTY, async () => {
    let lives = 0;
    for (const seed of seeds) {
      const random = randomFrom(seed);
      const cloud = new FakeCloud();
      const run = runOf(cloud, random);
      const made = await run.take(issueSaga, begin(), 0.15);
      if (made.ended) lives++;
      for (const end of made.ended ? endsOf(made.state, run.now) : [undoOfIssue(made.state, run.now)]) {
        await run.remove(removalSaga, end);
      }
      expect([...cloud.things], `seed ${seed}`).toEqual([]);
    }
    expect(lives).toBeGreaterThan(seeds.length / 15);
    expect(seeds.length - lives).toBeGreaterThan(seeds.length / 6);
  });
});

it("sends rights and the password in one batch, and each call with an id as its result alone", async () => {
  const cloud = new FakeCloud();
  const polls: string[][] = [];
  let state = principalIssue();
  for (let next = issueSaga.next(state, 0); next !== null && !("wait" in next); next = issueSaga.next(state, 0)) {
    const run = batchOf(issueSaga, state, next, 0, azureCalls);
    state = run.state;
    polls.push(run.steps.map(({ call }) => call));
    for (const step of run.steps) {
      const result = await performStep(cloud.calls as unknown as Parameters<typeof performStep>[0], step as CloudStep);
      if (result.ok) state = issueSaga.onSuccess(state, step, result.value, 0);
    }
  }
  expect(polls).toEqual([
    ["createApplication"],
    ["createServicePrincipal"],
    ["createRoleAssignment", "createRoleAssignment", "addGroupMember", "addPrincipalPassword"],
  ]);
});

describe("credentials after unanswered create calls", () => {
  const made = { objectId: "second", clientId: "client", displayName: "vault-planned", passwords: [] };

  it("are created once, and their possible orphans are searched for", () => {
    const { calls, state } = walked(
      issueSaga,
      principalIssue(),
      [
        lostAnswer,
        answered([]),
        answered(made),
        lostAnswer,
        failure("client", "already_exists", 409),
        answered([{ objectId: "principal" }]),
        answered(),
        answered(),
        answered(),
        answered({ keyId: "k", secretText: "s", endsAt: 9 }),
      ],
      5_000,
    );
    expect(calls).toEqual([
      "createApplication",
      "findApplicationsByName",
      "createApplication",
      "createServicePrincipal",
      "createServicePrincipal",
      "findServicePrincipals",
      "createRoleAssignment",
      "createRoleAssignment",
      "addGroupMember",
      "addPrincipalPassword",
    ]);
    expect(issueSaga.next(state, 5_000)).toBeNull();
    expect(resourcesOf(state).resources).toMatchObject({ application: "second", principal: "principal" });
    expect(orphansOfIssue(state, 5_000)?.search).toMatchObject({ name: "vault-planned", except: "second" });
    expect(undoOfIssue(state, 5_000)).toMatchObject({ madeAt: 5_000, search: { name: "vault-planned", except: null } });
  });

  it("fail after the third unanswered call, and are searched for", () => {
    const times = Array.from({ length: 3 }, () => [lostAnswer, answered([])]).flat();
    const { calls, state } = walked(issueSaga, principalIssue(), [...times, lostAnswer]);
    expect(calls.at(-1)).toBe("failed");
    expect(calls.filter((call) => call === "createApplication")).toHaveLength(4);
    expect(undoOfIssue(state, 0).search).toMatchObject({ name: "vault-planned" });
  });

  it("search for the first password after the second one was listed", () => {
    const shown = answered({ ...made, passwords: [{ keyId: "lost", displayName: "vault-planned", hint: "" }] });
    const none = answered({ ...made, passwords: [] });
    const key = answered({ keyId: "ours", secretText: "s", endsAt: 9 });
    const { calls, state } = walked(issueSaga, passwordIssue(), [lostAnswer, none, lostAnswer, shown, answered(), key]);
    expect(calls).toEqual([
      "addApplicationPassword",
      "getApplication",
      "addApplicationPassword",
      "getApplication",
      "removeApplicationPassword",
      "addApplicationPassword",
    ]);
    expect(orphansOfIssue(state, 0)?.search).toMatchObject({ name: "vault-planned", except: "ours" });
  });
});

it("sends at most sixteen steps in one batch", () => {
  const grants = Array.from({ length: 20 }, (_, n) => ({
    assignmentId: String(n),
    scope: "s",
    roleId: "r",
    standing: "wanted" as const,
  }));
  const begun = newProvision({ displayName: "n", tags: [], signInAudience: "" }, { grants, memberships: [] });
  const provision = { ...begun, made: { objectId: "o", clientId: "c", at: 0 }, principal: "p" };
  const first = provisionSaga.next(provision, 0);
  if (first === null || "wait" in first) throw new Error("no step");
  expect(batchOf(provisionSaga, provision, first, 0, azureCalls).steps).toHaveLength(16);
});

describe("a rotation of the root secret", () => {
  const account = { tenantId: "t", subscriptionId: "s", clientId: "c", clientSecret: "abcsecret", environment: "" };
  const app = (...passwords: { keyId: string; hint: string }[]) =>
    answered([
      {
        objectId: "app",
        clientId: "c",
        displayName: "",
        passwords: passwords.map((each) => ({ displayName: "", ...each })),
      },
    ]);
  const key = answered({ keyId: "new", secretText: "new-secret", endsAt: 9 });

  it("completes after two consecutive logins", () => {
    let { state } = walked(rotationSaga, newRotation(account, null, 1_000), [app(), key, answered()]);
    for (const answer of [failure("external", "throttled", 429), answered(), answered()]) {
      const next = rotationSaga.next(state, 60_000);
      expect(next, "another login").toMatchObject({ call: "login" });
      if (next === null || "wait" in next) break;
      if (answer.ok) state = { ...rotationSaga.onSuccess(state, next, answer.value, 0), nextLogin: 0 };
      else {
        const decision = rotationSaga.onError(state, next, answer.failure, 0, 0);
        state = ("state" in decision && decision.state) || state;
      }
    }
    expect(rotationSaga.next(state, 60_000)).toBeNull();
  });

  it.each([
    [
      "the secret with the known id, regardless of its hint",
      "known",
      [
        { keyId: "other", hint: "abc" },
        { keyId: "known", hint: "xyz" },
      ],
      "known",
    ],
    [
      "the only secret with a matching hint",
      null,
      [
        { keyId: "other", hint: "xyz" },
        { keyId: "ours", hint: "abc" },
      ],
      "ours",
    ],
    [
      "none when two hints match",
      null,
      [
        { keyId: "a", hint: "abc" },
        { keyId: "b", hint: "abc" },
      ],
      null,
    ],
    ["none when the hints are empty", null, [{ keyId: "a", hint: "" }], null],
  ])("replaces %s", (_which, keyId, passwords, replaces) => {
    expect(walked(rotationSaga, newRotation(account, keyId, 1_000), [app(...passwords)]).state.replaces).toBe(replaces);
  });
});

const named = (id: string) => ({ objectId: id, clientId: "", displayName: "n", passwords: [] });
const password = (keyId: string, displayName = "n") => ({ keyId, displayName, hint: "" });

describe("the search for orphans", () => {
  const LOOKS = [0, 30, 60, 90, 120, 150, 180];

  it("repeats for three minutes, and removes an application listed late", () => {
    const calls = removed(applicationSearch("n", "ours", 0), ({ call }, second) =>
      call === "findApplicationsByName"
        ? { ok: true, value: [named("ours"), ...(second === 90 ? [named("late")] : [])] }
        : { ok: true, value: null },
    );
    const looks = LOOKS.map((second) => `${second} findApplicationsByName n`);
    expect(calls).toEqual([
      ...looks.slice(0, 4),
      "90 deleteApplication late",
      "90 purgeDeleted late",
      ...looks.slice(4),
    ]);
  });

  it("keeps the known password, and passwords of other names", () => {
    const calls = removed(passwordSearch("app", "n", "ours", 0), ({ call }, second) =>
      call === "getApplication"
        ? {
            ok: true,
            value: {
              ...named("app"),
              passwords: [password("ours"), password("theirs", "x"), ...(second === 60 ? [password("late")] : [])],
            },
          }
        : { ok: true, value: null },
    );
    expect(calls.filter((call) => !call.includes("getApplication"))).toEqual(["60 removeApplicationPassword app late"]);
    expect(calls.filter((call) => call.includes("getApplication"))).toHaveLength(LOOKS.length);
  });

  it("ends when the application is deleted", () => {
    const calls = removed(passwordSearch("app", "n", null, 0), () => failure("client", "not_found", 404));
    expect(calls).toHaveLength(LOOKS.length);
  });
});

describe("a resource that is not found", () => {
  it("is checked again with doubling intervals until it is 90 seconds old", () => {
    const calls = removed(passwordRemoval("app", "k", 0), () => failure("client", "not_found", 404));
    expect(calls.map((call) => Number(call.split(" ", 1)[0]))).toEqual([0, 2, 4, 8, 16, 32, 64, 128]);
  });

  it("counts as removed at once when it is old", () => {
    const calls = removed(passwordRemoval("app", "k", -90_000), () => failure("client", "not_found", 404));
    expect(calls).toHaveLength(1);
  });
});

describe("adding a password", () => {
  const begun = newKeyAdd("app", "n", 1_000);
  const adding =
    keySaga.beforeCall?.(begun, step("addApplicationPassword", "app", { displayName: "n", endsAt: 1 })) ?? begun;
  const looked = (passwords: ReturnType<typeof password>[]) =>
    keySaga.onSuccess(adding, step("getApplication", "app"), { ...named("app"), passwords }, 0);
  const done = (add: KeyAdd) => ({ ...add, adding: false, lost: [], key: { keyId: "ours", endsAt: 1 } });
  const rotation = (add: KeyAdd | null): Rotation => ({
    ...newRotation({ tenantId: "t", subscriptionId: "s", clientId: "c", clientSecret: "s", environment: "" }, null, 1),
    add,
  });
  const undone = (add: KeyAdd | null) => {
    const undo = undoOfRotation(rotation(add), 0);
    return (
      undo && { keys: undo.items.map((item) => ("keyId" in item ? item.keyId : "")), searches: undo.search !== null }
    );
  };

  it("is undone by removing the keys it may have created", () => {
    expect(undone(null)).toBeNull();
    expect(undone(begun), "nothing has left").toBeNull();
    expect(undone(adding), "no answer").toEqual({ keys: [], searches: true });
    expect(undone(looked([password("a"), password("theirs", "x")])), "lost").toEqual({ keys: ["a"], searches: false });
    expect(undone(looked([])), "not shown").toEqual({ keys: [], searches: true });
    expect(undone(done(looked([])))).toEqual({ keys: ["ours"], searches: true });
    expect(undone(done(begun))).toEqual({ keys: ["ours"], searches: false });
  });

  it("is followed by a search when an earlier key may be listed late", () => {
    const issue = (add: KeyAdd): Issue => ({ kind: "password", clientId: "c", add });
    for (const strays of [
      orphansOfIssue(issue(done(looked([]))), 0),
      orphansOfRotation(rotation(done(looked([]))), 0),
    ]) {
      expect(strays?.search).toMatchObject({ name: "n", application: "app", except: "ours" });
    }
    for (const none of [orphansOfIssue(issue(done(begun)), 0), orphansOfRotation(rotation(done(begun)), 0)]) {
      expect(none).toBeNull();
    }
    const early = keySaga.onError(
      looked([password("a")]),
      step("removeApplicationPassword", "app", "a"),
      { outcome: "client", code: "not_found", message: "", status: 404, providerCode: "" },
      0,
      0,
    );
    expect(early, "shown, and denied a moment later").toMatchObject({
      kind: "done",
      state: { lost: [], strays: true },
    });
  });
});
