import { expect } from "vitest";
import type { Batched, Done, ExternalObject, Put } from "../../../src/sync/destinations/destination-type.ts";
import { type Case, canary, type RemoteType, type Subject } from "./subject.ts";

const unless = (type: RemoteType): string | null => (type.batch ? null : "each object is a call");

const COUNT = 3;
const namesOf = (subject: Subject) => Array.from({ length: COUNT }, (_, n) => subject.spell(`name${n}`));
const objectsOf = (subject: Subject, text = ""): Partial<ExternalObject>[] =>
  namesOf(subject).map((name) => ({ name, value: canary(text) }));
const values = (subject: Subject) => [...subject.place.objects()].map(([name, { value }]) => [name, value]).sort();

/** Pushes objects together. @returns them as they are removed */
async function pushedMany(subject: Subject) {
  const answer = await subject.putMany(objectsOf(subject));
  return namesOf(subject).map((name) => {
    const outcome = "outcome" in answer ? answer : answer.get(name);
    expect(outcome, name).toMatchObject({ outcome: "ok" });
    return {
      name,
      reference: outcome && "reference" in outcome ? (outcome.reference ?? null) : null,
      ownedOnly: false,
    };
  });
}

function failsAlike(answer: Batched<Put | Done>, expected: object): void {
  for (const outcome of "outcome" in answer ? [answer] : answer.values()) expect(outcome).toMatchObject(expected);
}

/** Writes of many objects in one call. */
export const batchCases: readonly Case[] = [
  {
    name: "writes many objects in one call",
    unless,
    async run(subject) {
      await pushedMany(subject);
      expect(subject.place.writes(), "calls that write").toBe(1);
      expect(values(subject)).toEqual(namesOf(subject).map((name) => [name, canary()]));
    },
  },
  {
    name: "removes many objects in one call, also absent ones",
    unless,
    async run(subject) {
      const objects = await pushedMany(subject);
      subject.place.remove(namesOf(subject)[0] ?? "");
      const answer = await subject.removeMany(objects);
      for (const { name } of objects)
        expect("outcome" in answer ? answer : answer.get(name)).toEqual({ outcome: "ok" });
      expect(subject.place.writes(), "calls that write").toBe(2);
      expect(values(subject)).toEqual([]);
    },
  },
  {
    name: "refuses one object without a call, and writes the others",
    unless,
    async run(subject) {
      const answer = await subject.putMany([...objectsOf(subject), { name: "", value: canary() }]);
      expect("outcome" in answer ? answer : answer.get("")).toMatchObject({ outcome: "client", code: "name_invalid" });
      expect(values(subject)).toHaveLength(COUNT);
    },
  },
  {
    name: "leaves foreign objects alone, by policy, and writes the others",
    unless,
    async run(subject) {
      const [foreign = ""] = namesOf(subject);
      subject.place.write(foreign, "theirs");
      const answer = await subject.putMany(
        objectsOf(subject).map((object) => ({ ...object, updatePolicy: "if-not-exists" as const })),
      );
      expect("outcome" in answer ? answer : answer.get(foreign)).toMatchObject({ outcome: "ok", left: true });
      expect(subject.place.objects().get(foreign)?.value).toBe("theirs");
      expect(values(subject)).toHaveLength(COUNT);
    },
  },
  {
    name: "reports a lost answer for every object, and may be repeated",
    unless,
    async run(subject) {
      subject.place.fail("lost", 1);
      failsAlike(await subject.putMany(objectsOf(subject)), { outcome: "unknown" });
      const objects = await pushedMany(subject);
      subject.place.fail("lost", 1);
      failsAlike(await subject.removeMany(objects), { outcome: "unknown" });
      failsAlike(await subject.removeMany(objects), { outcome: "ok" });
      expect(values(subject)).toEqual([]);
    },
  },
  {
    name: "reports throttling, a missing right and wrong credentials for every object",
    unless,
    async run(subject) {
      subject.place.fail("throttled", 1);
      failsAlike(await subject.putMany(objectsOf(subject)), { outcome: "external", code: "throttled" });
      subject.place.fail("forbidden", 1);
      failsAlike(await subject.putMany(objectsOf(subject)), { outcome: "client", code: "permission_denied" });
      const { wrongCredentials } = subject.place;
      failsAlike(await subject.putMany(objectsOf(subject), wrongCredentials), {
        outcome: "client",
        code: "auth_failed",
      });
      expect(values(subject)).toEqual([]);
    },
  },
];
