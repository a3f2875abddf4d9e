import { expect } from "vitest";
import type { UpdatePolicy } from "../../../src/contracts/sync-tasks.ts";
import { failure } from "../../../src/providers/outcome.ts";
import type { Done, Inspection, Put } from "../../../src/sync/destinations/destination-type.ts";
import { completionOf, isUnsure } from "../../../src/sync/scheduler/retry-policy.ts";
import type { Fault, Place } from "../../doubles/stand-in.ts";
import { type Case, canary, type Known, type Subject } from "./subject.ts";

/** More than the calls of any operation. */
const always = 99;

/** The outcome of a failure that lets the next attempt succeed, unless the adapter has repeated the call itself. */
const failures: Readonly<Record<Fault, readonly [outcome: string, code: string][]>> = {
  throttled: [["external", "throttled"]],
  unavailable: [["external", "provider_unavailable"]],
  lost: [["unknown", "network_error"]],
  cut: [["unknown", "network_error"]],
  forbidden: [["client", "permission_denied"]],
};

function expectFailure(fault: Fault, outcome: Put | Done): void {
  if (outcome.outcome === "ok") {
    expect(fault, "the fault that the adapter has repeated a call for").toMatch(/^(lost|cut)$/);
    return;
  }
  expect([[outcome.outcome, outcome.code]]).toEqual(failures[fault]);
  if (outcome.retryAfterMs !== undefined) {
    expect(outcome.retryAfterMs, "the provider's hint").toBeGreaterThanOrEqual(0);
    expect(outcome.retryAfterMs, "the provider's hint").toBeLessThanOrEqual(1000);
  }
}

const transient = ["throttled", "unavailable", "lost", "cut"] as const;

const texts: Readonly<Record<Fault, string>> = {
  throttled: "throttling",
  unavailable: "an answer 503",
  lost: "a lost answer",
  cut: "a cut connection",
  forbidden: "a missing right",
};

const creations = transient.map(
  (fault): Case => ({
    name: `creates after ${texts[fault]}`,
    async run(subject) {
      subject.place.fail(fault, 1);
      expectFailure(fault, await subject.put());
      await subject.pushed({ unsureSince: Date.now() - 1000 });
      subject.holds(canary());
    },
  }),
);

const changes = transient.map(
  (fault): Case => ({
    name: `changes after ${texts[fault]}`,
    async run(subject) {
      const known = await subject.pushed();
      const change = { ...known, value: canary("-2") };
      const began = Date.now() - 1000;
      subject.place.fail(fault, 1);
      expectFailure(fault, await subject.put(change));
      await subject.pushed({ ...change, unsureSince: began });
      subject.holds(canary("-2"));
    },
  }),
);

const removals = transient.map(
  (fault): Case => ({
    name: `removes after ${texts[fault]}`,
    async run(subject) {
      const { reference } = await subject.pushed();
      subject.place.fail(fault, 1);
      expectFailure(fault, await subject.remove(reference));
      await subject.removed(reference);
      expect(subject.place.objects().size).toBe(0);
    },
  }),
);

const policies = (["if-not-exists", "owned-only"] satisfies UpdatePolicy[]).map(
  (updatePolicy): Case => ({
    name: `recognises its creation after a lost answer, by ${updatePolicy}`,
    async run(subject) {
      subject.place.fail("lost", 1);
      const first = await subject.put({ updatePolicy });
      expectFailure("lost", first);
      await recognised(subject, first, updatePolicy);
    },
  }),
);

const applied = (["if-not-exists", "owned-only"] satisfies UpdatePolicy[]).map(
  (updatePolicy): Case => ({
    name: `recognises its creation after an answer 504 to an applied write, by ${updatePolicy}`,
    async run(subject) {
      subject.loseToProxy();
      const first = await subject.put({ updatePolicy });
      if (first.outcome !== "ok") expect(first).toMatchObject({ outcome: "external", code: "provider_unavailable" });
      await recognised(subject, first, updatePolicy);
      expect(subject.isToLose, "an answer was replaced").toBe(false);
    },
  }),
);

/** Expects that the attempt after a creation of unknown outcome, at the latest, takes the object for ours. */
async function recognised(subject: Subject, first: Put, updatePolicy: UpdatePolicy): Promise<void> {
  // As the service records it: a failure that is sure to have no effect leaves no time.
  const unsure = first.outcome !== "ok" && isUnsure(first) ? { unsureSince: Date.now() - 1000 } : {};
  const put = first.outcome === "ok" ? first : await subject.put({ updatePolicy, ...unsure });
  expect(put).toMatchObject({ outcome: "ok" });
  expect(put).not.toHaveProperty("left");
  subject.holds(canary());
}

/** A removal as a task does it after a push of unknown outcome: what an inspection says is of others stays. */
async function removedAfterDoubt(subject: Subject, reference: string | null, ownedOnly: boolean): Promise<void> {
  const seen = await subject.inspect({ reference });
  expect(seen.outcome).toBe("ok");
  if (seen.outcome === "ok" && seen.state !== "absent" && seen.owned !== false) {
    await subject.removed(reference, ownedOnly);
  }
}

const abandoned = (["replace", "if-not-exists", "owned-only"] satisfies UpdatePolicy[]).map(
  (updatePolicy): Case => ({
    name: `removes what a push with a lost answer has made, by ${updatePolicy}`,
    async run(subject) {
      subject.place.fail("lost", 1);
      const put = await subject.put({ updatePolicy });
      const reference = put.outcome === "ok" ? (put.reference ?? null) : null;
      await removedAfterDoubt(subject, reference, updatePolicy !== "replace");
      expect(subject.place.objects().size).toBe(0);
    },
  }),
);

/** A push takes fewer requests than that. */
const most = 20;

/**
 * Whether an object may be another writer's for all that the provider shows: without a marker, the policies that spare
 * such objects spare one of a Worker that died, too.
 */
const isSpared = ({ stored }: Subject, updatePolicy: UpdatePolicy): boolean =>
  updatePolicy !== "replace" && stored?.owned === null;

const deaths = (["replace", "if-not-exists", "owned-only"] satisfies UpdatePolicy[]).flatMap((updatePolicy): Case[] => [
  {
    name: `removes what a Worker has left that died at any request, by ${updatePolicy}`,
    async run(subject) {
      let requests = 1;
      for (; await subject.putAndDie(requests, { updatePolicy }); requests++) {
        expect(requests).toBeLessThan(most);
        const left = isSpared(subject, updatePolicy) ? 1 : 0;
        await removedAfterDoubt(subject, null, updatePolicy !== "replace");
        expect(subject.place.objects().size, `after request ${requests}`).toBe(left);
        if (left > 0) await subject.removed();
      }
      expect(requests).toBeGreaterThan(1);
    },
  },
  {
    name: `pushes again after a Worker that died at any request, by ${updatePolicy}`,
    async run(subject) {
      for (let requests = 1; await subject.putAndDie(requests, { updatePolicy }); requests++) {
        expect(requests).toBeLessThan(most);
        const isUnknown = isSpared(subject, updatePolicy);
        const put = await subject.put({ updatePolicy, unsureSince: Date.now() - 1000 });
        if (!isUnknown) expect(put, `after request ${requests}`).toMatchObject({ outcome: "ok" });
        subject.holds(canary());
        await subject.removed(put.outcome === "ok" ? put.reference : null);
      }
    },
  },
]);

const laterDeaths: readonly Case[] = [
  {
    name: "changes again after a Worker that died at any request",
    async run(subject) {
      const known = await subject.pushed();
      const change = { ...known, value: canary("-2") };
      for (let requests = 1; await subject.putAndDie(requests, change); requests++) {
        expect(requests).toBeLessThan(most);
        const changed = await subject.pushed({ ...change, unsureSince: Date.now() - 1000 });
        subject.holds(canary("-2"));
        Object.assign(change, await subject.pushed({ ...changed, idempotencyToken: `back-${requests}` }));
        change.idempotencyToken = `intent-${requests + 2}`;
        subject.holds(canary());
      }
    },
  },
  {
    name: "removes again after a Worker that died at any request",
    async run(subject) {
      let { reference } = await subject.pushed();
      for (let requests = 1; await subject.removeAndDie(requests, reference); requests++) {
        expect(requests).toBeLessThan(most);
        await subject.removed(reference);
        expect(subject.place.objects().size, `after request ${requests}`).toBe(0);
        ({ reference } = await subject.pushed({ idempotencyToken: `intent-${requests + 2}` }));
      }
    },
  },
];

/** Faults of the network and the provider, each for creations, changes and removals. */
export const faultCases: readonly Case[] = [
  ...creations,
  ...changes,
  ...removals,
  ...policies,
  ...applied,
  ...abandoned,
  ...deaths,
  ...laterDeaths,
  {
    name: "writes a newer value after a lost answer",
    async run(subject) {
      const known = await subject.pushed();
      const began = Date.now() - 1000;
      subject.place.fail("lost", 1);
      await subject.put({ ...known, value: canary("-2") });
      await subject.pushed({ ...known, value: canary("-3"), idempotencyToken: "intent-3", unsureSince: began });
      subject.holds(canary("-3"));
    },
  },
  {
    name: "reports a missing right to create",
    async run(subject) {
      subject.place.fail("forbidden", always);
      expectFailure("forbidden", await subject.put());
      expect(subject.place.objects().size).toBe(0);
    },
  },
  {
    name: "reports a missing right to change",
    async run(subject) {
      const known = await subject.pushed();
      subject.place.fail("forbidden", always);
      expectFailure("forbidden", await subject.put({ ...known, value: canary("-2") }));
      subject.holds(canary());
    },
  },
  {
    name: "reports a missing right to remove",
    async run(subject) {
      const { reference } = await subject.pushed();
      subject.place.fail("forbidden", always);
      expectFailure("forbidden", await subject.remove(reference));
      subject.holds(canary());
    },
  },
];

type Body = Place["body"];

type Operation = (subject: Subject, body: Body, known: Known) => Promise<Put | Done | Inspection>;

const operations: readonly [name: string, Operation][] = [
  ["a push", (subject, body) => subject.put({ value: canary("-2") }, body)],
  ["a change", (subject, body, known) => subject.put({ ...known, value: canary("-2") }, body)],
  ["a removal", (subject, body, { reference }) => subject.remove(reference, false, body)],
  ["a removal of owned objects only", (subject, body, { reference }) => subject.remove(reference, true, body)],
  ["an inspection", (subject, body, { reference }) => subject.inspect({ reference }, body)],
  ["a check of the connection", (subject, body) => subject.probe(body)],
];

/** The completion of a task whose push has failed so. */
const completionAfter = (trouble: Put, isFresh: boolean): string => {
  if (trouble.outcome === "ok") return "done";
  const lease = { id: "a", generation: 1, lease: "l", leaseUntil: 0 };
  return completionOf({ lease, trouble, version: null, tagKeys: [], copies: [], unfinished: false }, isFresh).kind;
};

const freshRights: Case = {
  name: "retries a refusal of fresh rights, and no other",
  async run(subject) {
    const { wrongCredentials, missing, body } = subject.place;
    const refusals = [await subject.put({}, wrongCredentials), await subject.put({}, missing)];
    subject.place.fail("forbidden", 1);
    refusals.push(await subject.put());
    for (const refusal of refusals) {
      expect([completionAfter(refusal, true), completionAfter(refusal, false)]).toEqual(["retry", "park"]);
    }
    await subject.pushed();
    subject.holds(canary());
    const large = failure("client", "value_too_large", "");
    expect([completionAfter(large, true), completionAfter(await subject.put({}, body), true)]).toEqual([
      "park",
      "done",
    ]);
  },
};

/** Wrong credentials, and a target that does not exist: never `ok`. */
const refusedConnections: readonly Case[] = operations.flatMap(([operation, run]) => [
  {
    name: `reports wrong credentials at ${operation}`,
    async run(subject: Subject) {
      const outcome = await run(subject, subject.place.wrongCredentials, await subject.pushed());
      expect(outcome).toMatchObject({ outcome: "client", code: "auth_failed" });
      subject.holds(canary());
    },
  },
  {
    name: `reports a missing target at ${operation}`,
    async run(subject: Subject) {
      const outcome = await run(subject, subject.place.missing, await subject.pushed());
      expect(outcome).toMatchObject({ outcome: "client" });
      subject.holds(canary());
    },
  },
]);

export const connectionCases: readonly Case[] = [...refusedConnections, freshRights];
