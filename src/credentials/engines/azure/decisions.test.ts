import { describe, expect, it } from "vitest";
import { plainRole, refusedWith } from "../../../../test/memory-engine.ts";
import type { StepResult } from "../../../contracts/credential-engine.ts";
import { step } from "./calls.ts";
import type { CloudAccount } from "./directory.ts";
import { type Issue, issueSaga } from "./issue.ts";
import { newProvision, provisionSaga } from "./provision.ts";
import { removalSaga, revocationOf } from "./removal.ts";
import { newRoleWrite, roleSaga } from "./role-write.ts";
import { newRotation, outcomeOfRotation, rotationSaga } from "./rotation.ts";
import { draftStatic, type StaticRole } from "./static-role.ts";
import { beginStaticRotation, outcomeOfStatic, staticSaga, undoOfStaticRole } from "./static-write.ts";

/** Decisions of the sagas at one step each. */

const blank = newProvision({ displayName: "n", tags: [], signInAudience: "" }, { grants: [], memberships: [] });
const made = { ...blank, made: { objectId: "o", clientId: "c", at: 0 } };
const failureOf = (result: StepResult) => {
  if (result.ok) throw new Error("no failure");
  return result.failure;
};

describe("a principal for a new application", () => {
  it("is retried while the directory may not know the application, and a missing right is reported soon", () => {
    const denied = failureOf(refusedWith("permission_denied"));
    const create = step("createServicePrincipal", "c");
    const decided = [19_000, 21_000].map((now) => provisionSaga.onError(made, create, denied, now, 0).kind);
    expect(decided).toEqual(["retry", "failed"]);
    const missing = failureOf(refusedWith("not_found"));
    expect(provisionSaga.onError(made, create, missing, 21_000, 0).kind).toBe("retry");
  });

  it("gets a password for the longest life of the lease", () => {
    const issue: Issue = {
      kind: "principal",
      provision: { ...made, principal: "p" },
      lifeMs: 1_000,
      permanently: true,
      key: null,
    };
    expect(issueSaga.next(issue, 5_000)).toEqual(step("addPrincipalPassword", "p", { startsAt: 5_000, endsAt: 6_000 }));
  });
});

describe("a right to withdraw", () => {
  it("counts as withdrawn when it does not exist", () => {
    const missing = failureOf(refusedWith("not_found"));
    for (const withdraw of [step("deleteRoleAssignment", "/s/a"), step("removeGroupMember", "g", "p")]) {
      expect(provisionSaga.onError(made, withdraw, missing, 10 ** 9, 0).kind, withdraw.call).toBe("done");
    }
  });
});

describe("a role", () => {
  const asked = { application: "app", roles: null, groups: null };
  const found = (clientId: string) => ({ objectId: "app", clientId, displayName: "", passwords: [] });

  it("is refused for the application of the engine", () => {
    const write = newRoleWrite("r", plainRole, asked, "Engine");
    const get = step("getApplication", "app");
    expect(roleSaga.onSuccess(write, get, found("eNGINE"), 0).problem).toContain("the engine itself");
    expect(roleSaga.onSuccess(write, get, found("other"), 0).problem).toBeNull();
  });

  it("keeps an interrupted change of its application for the next write", () => {
    const managed = { ...made, principal: "p", outdated: true };
    const write = newRoleWrite(
      "r",
      { ...plainRole, persist_app: true, managed },
      { application: null, roles: null, groups: null },
      "engine",
    );
    expect(roleSaga.next(write, 0)).toMatchObject({ call: "updateApplication" });
  });
});

it("rotates neither of two applications with one client id", () => {
  const account = { tenantId: "t", subscriptionId: "s", clientId: "c", clientSecret: "abc", environment: "" };
  const listed = ["a", "b"].map((objectId) => ({ objectId, clientId: "c", displayName: "", passwords: [] }));
  const state = rotationSaga.onSuccess(
    newRotation(account, null, 1),
    step("findApplicationsByClientId", "c"),
    listed,
    0,
  );
  expect(state.problem).toContain("multiple applications");
  expect(rotationSaga.next(state, 0)).toBeNull();
});

describe("a former password that the directory does not find", () => {
  const account = { clientId: "engine" } as CloudAccount;
  const id = "00000000-0000-4000-8000-000000000001";
  const drafted = draftStatic(null, { application_object_id: id, rotation_grace_period: -1 });
  if (!drafted.ok) throw new Error(drafted.message);
  const role: StaticRole = {
    ...drafted.value,
    key: { id: "k2", endsAt: 10 ** 9, imported: false },
    previous: { id: "k1", removeAt: 0 },
    rotatedAt: 5_000,
  };
  const begun = beginStaticRotation("static-roles/r", role, "rotate-role/:name", {
    account: { ok: true, value: account },
  });
  if (!begun.ok) throw new Error(begun.message);
  const shown = (...keys: string[]) => ({
    objectId: id,
    clientId: "c",
    displayName: "",
    passwords: keys.map((keyId) => ({ keyId, displayName: "", hint: "", endsAt: null })),
  });
  const look = step("getApplication", id);

  it.each([
    ["in its list", staticSaga.onSuccess(begun.value, look, shown("k2"), 6_000)],
    [
      "when it is removed",
      staticSaga.onError(
        staticSaga.onSuccess(begun.value, look, shown("k1", "k2"), 6_000),
        step("removeApplicationPassword", id, "k1"),
        failureOf(refusedWith("not_found")),
        6_000,
        0,
      ).state ?? begun.value,
    ],
  ])("%s is removed beside the write, and checked again while it may be new", (_when, state) => {
    expect(staticSaga.next(state, 6_000)).toMatchObject({ call: "addApplicationPassword" });
    const add = state.add && { ...state.add, key: { keyId: "k3", endsAt: 10 ** 9 } };
    const outcome = outcomeOfStatic({ ...state, add, secret: "s" }, role, 7_000);
    expect(outcome).toMatchObject({
      removals: [{ removal: { madeAt: 5_000, items: [{ keyId: "k2" }, { keyId: "k1" }] }, former: true }],
    });
  });

  it("counts from its rotation when the role is deleted, and of the root from now", () => {
    expect(undoOfStaticRole(role)).toMatchObject({ madeAt: 5_000 });
    const rotation = newRotation(
      { ...account, tenantId: "t", subscriptionId: "s", clientSecret: "s", environment: "" },
      null,
      1,
    );
    const add = { application: "app", name: "n", strays: false, key: { keyId: "new", endsAt: 1 } };
    const done = { ...rotation, add, secret: "s", replaces: "old" } as unknown as typeof rotation;
    expect(outcomeOfRotation(done, 8_000)).toMatchObject({ removal: { madeAt: 8_000, items: [{ keyId: "old" }] } });
  });
});

it("waits for a deleted application to appear among those that can be purged, counted from its deletion", () => {
  const old = revocationOf(
    { kind: "principal", application: "app", principal: "p", assignments: [], groups: [], permanently: true },
    -(10 ** 9),
  );
  const deleted = removalSaga.onSuccess(old, step("deleteApplication", "app"), null, 0);
  const missing = failureOf(refusedWith("not_found"));
  const purge = step("purgeDeleted", "app");
  const soon = removalSaga.onError(deleted, purge, missing, 1_000, 0);
  expect(soon).toMatchObject({ state: { items: expect.arrayContaining([expect.objectContaining({ id: "app" })]) } });
  const late = removalSaga.onError(deleted, purge, missing, 60_000, 0);
  expect(late).not.toMatchObject({ state: { items: [expect.anything(), expect.anything()] } });
});
