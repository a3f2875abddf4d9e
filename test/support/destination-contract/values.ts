import { expect } from "vitest";
import type { Put } from "../../../src/sync/destinations/destination-type.ts";
import { type Case, canary, type RemoteType, type Subject } from "./subject.ts";

/** Every printable ASCII character. */
const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index)).join("");
const strange = "Ünïcode/日本 😀:.-_~$\n\t'\"";

const forbiddenOf = ({ naming }: RemoteType): string | undefined =>
  [..." /:$é\n-"].find((character) => !naming.allowed.test(character));

async function storedAs(subject: Subject, name: string): Promise<void> {
  await subject.pushed({ name });
  expect([...subject.place.objects().keys()]).toEqual([name]);
  expect(await subject.inspect({ name })).toMatchObject({ outcome: "ok", state: "present" });
}

/** Expects a refusal that the user must act on, without a call. */
function refused(subject: Subject, put: Put, code: string): void {
  expect(put).toMatchObject({ outcome: "client", code });
  expect(subject.place.writes(), "calls that write").toBe(0);
  expect(subject.place.objects().size).toBe(0);
}

/** Names, by the rules that the type states. */
export const nameCases: readonly Case[] = [
  {
    name: "accepts its sample name as it is",
    async run(subject) {
      expect(subject.spell(subject.name)).toBe(subject.name);
      await storedAs(subject, subject.name);
    },
  },
  { name: "accepts the longest name", run: (subject) => storedAs(subject, subject.spell("n".repeat(5000))) },
  { name: "accepts every permitted character", run: (subject) => storedAs(subject, subject.spell(`n${printable}`)) },
  {
    name: "accepts a name of other characters, as it spells it",
    run: (subject) => storedAs(subject, subject.spell(strange)),
  },
  {
    name: "accepts a name that begins with a digit, as it spells it",
    run: (subject) => storedAs(subject, subject.spell("1st")),
  },
  {
    name: "refuses a name that is too long",
    async run(subject) {
      const name = subject.name + subject.name.slice(-1).repeat(subject.type.naming.maxLength);
      refused(subject, await subject.put({ name }), "name_invalid");
    },
  },
  {
    name: "refuses a name with a forbidden character",
    unless: (type) => (forbiddenOf(type) === undefined ? "every character is permitted" : null),
    async run(subject) {
      const name = `${subject.name}${forbiddenOf(subject.type)}x`;
      refused(subject, await subject.put({ name }), "name_invalid");
    },
  },
  {
    name: "refuses an empty name",
    async run(subject) {
      refused(subject, await subject.put({ name: "" }), "name_invalid");
    },
  },
  {
    name: "has one object for names with one collision key",
    unless: ({ naming: { collisionKey: key = (name) => name } }) =>
      key("aB") === key("Ab") ? null : "names differ by case",
    async run(subject) {
      const [one, other] = [subject.spell("aB"), subject.spell("Ab")];
      await subject.pushed({ name: one });
      await subject.pushed({ name: other, value: canary("-2") });
      expect([...subject.place.objects().values()]).toMatchObject([{ value: canary("-2") }]);
    },
  },
];

/** Values, by the limit that the type states. */
export const valueCases: readonly Case[] = [
  {
    name: "accepts the largest value",
    async run(subject) {
      // Some providers count the name, too.
      const name = subject.spell("a");
      const value = "v".repeat(subject.type.maxValueBytes);
      await subject.pushed({ name, value });
      expect(subject.place.objects().get(name)?.value).toBe(value);
    },
  },
  {
    name: "refuses one byte more",
    async run(subject) {
      const value = `é${"v".repeat(subject.type.maxValueBytes - 1)}`;
      refused(subject, await subject.put({ value }), "value_too_large");
    },
  },
  {
    name: "stores an empty value, or refuses it",
    async run(subject) {
      const put = await subject.put({ value: "" });
      if (put.outcome === "ok") return subject.holds("");
      expect(put).toMatchObject({ outcome: "client", code: "value_empty" });
      expect(subject.place.objects().size).toBe(0);
    },
  },
  {
    name: "stores any text to the letter, or refuses it",
    async run(subject) {
      const value = canary(`  "quoted" 'é' 日本 😀\\n\n\t\r\n\${HOME} $(id) {{ x }} %41 & <b> \n `);
      const put = await subject.put({ value });
      if (put.outcome === "ok") return subject.holds(value);
      expect(put).toMatchObject({ outcome: "client", code: "value_invalid" });
      expect(subject.place.objects().size).toBe(0);
    },
  },
  {
    name: "changes a value to one of another length",
    async run(subject) {
      const known = await subject.pushed({ value: canary("-long".repeat(100)) });
      await subject.pushed({ ...known, value: canary() });
      subject.holds(canary());
    },
  },
];
