import { expect } from "vitest";
import { type Case, canary, type RemoteType } from "./subject.ts";

const ok = { outcome: "ok" };
const left = { outcome: "ok", left: true };

/** Creation, change and removal, and the update policies. */
export const objectCases: readonly Case[] = [
  {
    name: "creates an object",
    async run(subject) {
      await subject.pushed();
      subject.holds(canary());
      expect(subject.stored?.owned).not.toBe(false);
    },
  },
  {
    name: "changes its object",
    async run(subject) {
      await subject.put({ ...(await subject.pushed()), value: canary("-2") });
      subject.holds(canary("-2"));
    },
  },
  {
    name: "repeats an intent",
    async run(subject) {
      await subject.pushed();
      await subject.pushed();
      subject.holds(canary());
    },
  },
  {
    name: "changes its object without a reference",
    async run(subject) {
      await subject.pushed();
      await subject.pushed({ value: canary("-2"), idempotencyToken: "intent-2" });
      subject.holds(canary("-2"));
    },
  },
  {
    name: "overwrites the change of another hand",
    async run(subject) {
      const known = await subject.pushed();
      subject.place.write(subject.name, "theirs");
      await subject.pushed({ ...known, value: canary("-2") });
      subject.holds(canary("-2"));
    },
  },
  {
    name: "creates again an object that another hand removed",
    async run(subject) {
      const known = await subject.pushed();
      subject.place.remove(subject.name);
      await subject.pushed({ ...known, value: canary("-2") });
      subject.holds(canary("-2"));
    },
  },
  {
    name: "removes its object",
    async run(subject) {
      const { reference } = await subject.pushed();
      expect(await subject.remove(reference)).toEqual(ok);
      expect(subject.place.objects().size).toBe(0);
    },
  },
  {
    name: "removes its object without a reference",
    async run(subject) {
      await subject.pushed();
      expect(await subject.remove()).toEqual(ok);
      expect(subject.place.objects().size).toBe(0);
    },
  },
  {
    name: "removes an absent object",
    async run(subject) {
      expect(await subject.remove()).toEqual(ok);
      expect(await subject.remove(null, true)).toEqual(ok);
      const { reference } = await subject.pushed();
      await subject.removed(reference);
      await subject.removed(reference);
    },
  },
  {
    name: "creates again after a removal",
    async run(subject) {
      const { reference } = await subject.pushed();
      await subject.remove(reference);
      await subject.pushed({ value: canary("-2"), idempotencyToken: "intent-2" });
      subject.holds(canary("-2"));
    },
  },
  {
    name: "leaves other objects alone",
    async run(subject) {
      const other = subject.spell("other");
      subject.place.write(other, "theirs");
      const { reference } = await subject.pushed();
      await subject.remove(reference);
      expect([...subject.place.objects()]).toMatchObject([[other, { value: "theirs" }]]);
    },
  },
  {
    name: "adopts by replace",
    async run(subject) {
      subject.place.write(subject.name, "theirs");
      await subject.pushed();
      subject.holds(canary());
      expect(subject.stored?.owned).not.toBe(false);
    },
  },
  {
    name: "leaves a foreign object by if-not-exists",
    async run(subject) {
      subject.place.write(subject.name, "theirs");
      expect(await subject.put({ updatePolicy: "if-not-exists" })).toEqual(left);
      subject.holds("theirs");
    },
  },
  {
    name: "creates by if-not-exists",
    async run(subject) {
      expect(await subject.put({ updatePolicy: "if-not-exists" })).not.toHaveProperty("left");
      subject.holds(canary());
    },
  },
  {
    name: "leaves its own object by if-not-exists",
    async run(subject) {
      const known = await subject.pushed();
      expect(await subject.put({ ...known, value: canary("-2"), updatePolicy: "if-not-exists" })).toEqual(left);
      subject.holds(canary());
    },
  },
  {
    name: "refuses a foreign object by owned-only",
    async run(subject) {
      subject.place.write(subject.name, "theirs");
      const put = await subject.put({ updatePolicy: "owned-only" });
      expect(put).toMatchObject({ outcome: "client", code: "not_owned" });
      subject.holds("theirs");
    },
  },
  {
    name: "creates and changes by owned-only",
    async run(subject) {
      const known = await subject.pushed({ updatePolicy: "owned-only" });
      await subject.pushed({ ...known, value: canary("-2"), updatePolicy: "owned-only" });
      subject.holds(canary("-2"));
    },
  },
  {
    name: "removes owned objects only, when asked",
    async run(subject) {
      subject.place.write(subject.name, "theirs");
      expect(await subject.remove(null, true)).toEqual(ok);
      subject.holds("theirs");
      const { reference } = await subject.pushed();
      expect(await subject.remove(reference, true)).toEqual(ok);
      expect(subject.place.objects().size).toBe(0);
    },
  },
];

const withoutTags = (type: RemoteType) => (type.checkTags ? null : "no tags");

/** Tags, for the types that have them. */
export const tagCases: readonly Case[] = [
  {
    name: "writes tags",
    unless: withoutTags,
    async run(subject) {
      await subject.pushed({ tags: { "hashicorp:vault": "", team: "payments" } });
      expect(subject.stored).toMatchObject({ owned: true, tags: { team: "payments" } });
    },
  },
  {
    name: "changes and removes tags",
    unless: withoutTags,
    async run(subject) {
      const known = await subject.pushed({ tags: { "hashicorp:vault": "", team: "payments", tier: "one" } });
      await subject.pushed({ ...known, tags: { "hashicorp:vault": "", team: "web" } });
      expect(subject.stored).toMatchObject({ owned: true, tags: { team: "web" } });
      expect(subject.stored?.tags).not.toHaveProperty("tier");
    },
  },
  {
    name: "writes as many tags as it accepts",
    unless: withoutTags,
    async run(subject) {
      const { type } = subject;
      const some = (count: number) =>
        Object.fromEntries([
          ["hashicorp:vault", ""],
          ...Array.from({ length: count }, (_, index) => [`t${index}`, "x"]),
        ]);
      let most = 0;
      while (type.checkTags?.(some(most + 1)) === null && most < 1000) most++;
      expect(most).toBeGreaterThan(0);
      await subject.pushed({ tags: some(most) });
      expect(Object.keys(subject.stored?.tags ?? {})).toHaveLength(most + 1);
    },
  },
];
