import { expect } from "vitest";
import type { Inspection } from "../../../src/sync/destinations/destination-type.ts";
import { type Case, canary, type Subject } from "./subject.ts";

/** Expects the state, `present` where a read shows names only. */
function shows(subject: Subject, inspection: Inspection, state: "unchanged" | "changed"): void {
  const seen = subject.type.description.reads === "names" ? "present" : state;
  expect(inspection).toMatchObject({ outcome: "ok", state: seen });
}

/** The content of the sample object, for types whose values can be read. */
const desired = { value: canary() };

/** The connection by which the provider shows values. */
const shown = ({ place }: Subject) => ({ ...place.body, ...place.shown });

/** Our object and that of another hand, both with values that are shown. @returns the name of the other one */
async function twoShown(subject: Subject): Promise<string> {
  const { place } = subject;
  expect((await subject.put({}, shown(subject))).outcome).toBe("ok");
  const other = subject.spell("other");
  (place.writeShown ?? place.write)(other, "theirs");
  return other;
}

/** Reads of objects, and the check of a connection. */
export const inspectionCases: readonly Case[] = [
  {
    name: "finds an absent object absent",
    async run(subject) {
      expect(await subject.inspect()).toEqual({ outcome: "ok", state: "absent", owned: null });
      const { reference } = await subject.pushed();
      await subject.remove(reference);
      expect(await subject.inspect({ reference })).toEqual({ outcome: "ok", state: "absent", owned: null });
    },
  },
  {
    name: "finds its object unchanged",
    async run(subject) {
      const { reference } = await subject.pushed();
      shows(subject, await subject.inspect({ reference, desired }), "unchanged");
    },
  },
  {
    name: "finds no foreign change after a change of its own",
    async run(subject) {
      const { reference } = await subject.pushed({ ...(await subject.pushed()), value: canary("-2") });
      const found = await subject.inspect({ reference, desired: { value: canary("-2") } });
      expect(found.outcome === "ok" && found.state).toMatch(/^(unchanged|present)$/);
    },
  },
  {
    name: "finds the change of another hand",
    async run(subject) {
      const { reference } = await subject.pushed();
      subject.place.write(subject.name, "theirs");
      shows(subject, await subject.inspect({ reference, desired }), "changed");
    },
  },
  {
    name: "finds the removal by another hand",
    async run(subject) {
      const { reference } = await subject.pushed();
      subject.place.remove(subject.name);
      expect(await subject.inspect({ reference })).toMatchObject({ outcome: "ok", state: "absent" });
    },
  },
  {
    name: "finds an object present without a reference",
    async run(subject) {
      await subject.pushed();
      expect(await subject.inspect()).toMatchObject({ outcome: "ok", state: "present" });
    },
  },
  {
    name: "tells its objects from foreign ones",
    async run(subject) {
      await subject.pushed();
      const { owned } = subject.stored ?? {};
      expect(await subject.inspect()).toMatchObject({ owned });
      await subject.remove();
      subject.place.write(subject.spell("other"), "theirs");
      const foreign = await subject.inspect({ name: subject.spell("other") });
      expect(foreign).toMatchObject({ outcome: "ok", state: "present", owned: owned === null ? null : false });
    },
  },
  {
    name: "changes nothing by an inspection",
    async run(subject) {
      const { reference } = await subject.pushed();
      const before = [subject.place.writes(), [...subject.place.objects()]];
      await subject.inspect({ reference });
      await subject.inspect({ name: subject.spell("absent") });
      expect([subject.place.writes(), [...subject.place.objects()]]).toEqual(before);
    },
  },
  {
    name: "accepts a right connection, and changes nothing",
    async run(subject) {
      expect(await subject.probe()).toEqual({ outcome: "ok" });
      await subject.pushed();
      const before = [subject.place.writes(), [...subject.place.objects()]];
      expect(await subject.probe(subject.place.body, subject.name)).toEqual({ outcome: "ok" });
      expect([subject.place.writes(), [...subject.place.objects()]]).toEqual(before);
    },
  },
  {
    name: "lists the objects of all writers, without a change",
    unless: ({ reading }) => (reading ? null : "no import"),
    async run(subject) {
      const other = await twoShown(subject);
      const before = subject.place.writes();
      expect((await subject.listed(shown(subject))).sort()).toEqual([subject.name, other].sort());
      expect(subject.place.writes()).toBe(before);
    },
  },
  {
    name: "reads the values of all writers",
    unless: ({ reading }) => (reading?.read ? null : reading ? "values are not shown" : "no import"),
    async run(subject) {
      const [other, of] = [await twoShown(subject), shown(subject)];
      expect(await subject.read(subject.name, of)).toMatchObject({ outcome: "ok", content: { value: canary() } });
      expect(await subject.read(other, of)).toMatchObject({ outcome: "ok", content: { value: "theirs" } });
      expect(await subject.read(subject.spell("absent"), of)).toEqual({ outcome: "ok", content: null });
    },
  },
  {
    name: "lists its own objects or nothing from a cursor of another form",
    unless: ({ reading }) => (reading ? null : "no import"),
    async run(subject) {
      await subject.pushed();
      for (const cursor of ["../../elsewhere/", '["../"]', "1&page=2", "-1", "x"]) {
        const page = await subject.page(cursor);
        const names = page?.outcome === "ok" ? page.names : [];
        if (page?.outcome !== "ok") expect(page, cursor).toMatchObject({ outcome: "client" });
        expect([subject.name], cursor).toEqual(expect.arrayContaining([...names]));
      }
    },
  },
  {
    name: "lists and reads nothing with wrong credentials",
    unless: ({ reading }) => (reading ? null : "no import"),
    async run(subject) {
      await subject.pushed();
      const wrong = { ...subject.place.wrongCredentials, ...subject.place.shown };
      await expect(subject.listed(wrong)).rejects.toThrow("auth_failed");
      if (subject.type.reading?.read)
        expect(await subject.read(subject.name, wrong)).toMatchObject({ code: "auth_failed" });
    },
  },
];
