import { describe, expect, it } from "vitest";
import { plainRole, refusedWith } from "../../../../test/memory-engine.ts";
import type { StepResult } from "../../../contracts/credential-engine.ts";
import { step } from "./calls.ts";
import { type Issue, issueSaga } from "./issue.ts";
import { newProvision, provisionSaga } from "./provision.ts";
import { removalSaga, revocationOf } from "./removal.ts";
import { newRoleWrite, roleSaga } from "./role-write.ts";
import { newRotation, rotationSaga } from "./rotation.ts";

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
