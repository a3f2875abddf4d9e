import { afterAll, describe, expect, it } from "vitest";
import { fieldsOf } from "../../src/platform/http/fields.ts";
import {
  type Definition,
  define,
  effectiveTemplate,
  MASK,
  masked,
  resolved,
} from "../../src/sync/configuration/definition.ts";
import { type FieldDescription, requiredFields } from "../../src/sync/destinations/description.ts";
import { destinationTypes } from "../../src/sync/destinations/index.ts";
import { settingsOf, startStandIns } from "../doubles/stand-ins.ts";
import { madeUpTypes } from "../made-up/destinations.ts";
import { startMadeUp } from "../made-up/stand-ins.ts";

// Each row comes from a type's description and the body of its stand-in.

type Body = Readonly<Record<string, unknown>>;

const standIns = (await Promise.all([startStandIns(), startMadeUp()])).flat();
const types = [...destinationTypes.values(), ...madeUpTypes];
afterAll(() => Promise.all(standIns.map((standIn) => standIn.close())));
const settings = settingsOf(standIns);

/** Quoted by no refusal. */
const CANARY = "canary-9c41";
const wrongValues: readonly unknown[] = [{ x: { deep: [CANARY] } }, [[CANARY]]];
/** Refused, unless the field takes any text. */
const strangeText = `${CANARY}\u0000\n`;

/** Other values of a field, for a change. */
function otherValues(before: unknown, { choices, placeholder }: FieldDescription): unknown[] {
  const text = typeof before === "string" ? before : "";
  const end = /[a-z0-9](?=[^a-z0-9]*$)/i;
  return [
    ...Object.keys(choices ?? {}),
    text.replace(end, (last) => (last === "1" ? "2" : "1")),
    text.replace(/:\d+/, ":1"),
    text.replace(/(\w\/)\w/, "$1x"),
    placeholder,
    "other",
    "us-east-1",
    "11111111-2222-4333-8444-999999999999",
    { "us-east-1": "" },
    ["other"],
    true,
    false,
    7,
  ];
}

describe.each(standIns)("$type", (standIn) => {
  const type = types.find((one) => one.type === standIn.type);
  if (!type) throw new Error(`no type ${standIn.type}`);
  const { description } = type;
  const body = async (): Promise<Body> => (await standIn.open()).body;
  const write = (given: Body, before: Definition | null = null) =>
    define(type, { body: given, mode: "write", origin: "" }, before, settings);
  const created = async (given: Body): Promise<Definition> => {
    const done = write(given);
    expect(done, "the create body of the stand-in").toMatchObject({ ok: true });
    if (!done.ok) throw new Error(done.message);
    return done.value.definition;
  };

  it("describes the fields of its schema, except those that it refuses", async () => {
    const known = fieldsOf(type.connection);
    expect(Object.keys(description.fields).filter((field) => !known.includes(field))).toEqual([]);
    const whole = await body();
    for (const field of known.filter((one) => !(one in description.fields))) {
      expect(write({ ...whole, [field]: "x" }), field).toMatchObject({ ok: false });
    }
  });

  it("accepts its example", () => {
    if (description.example) expect(type.connection.safeParse(description.example).error).toBeUndefined();
  });

  it("refuses a body without a required field, and names the field", async () => {
    const whole = await body();
    for (const field of requiredFields(description)) {
      for (const absent of [undefined, null, "", ...(type.sensitive.includes(field) ? [MASK] : [])]) {
        const done = write({ ...whole, [field]: absent });
        const message = done.ok ? "accepted" : done.message;
        expect(message, `${field}: ${absent}`).toContain(`${field}: `);
      }
    }
  });

  it("refuses a field of a wrong type, names the field, and quotes no value", async () => {
    const whole = await body();
    for (const field of Object.keys(description.fields)) {
      for (const value of [...wrongValues, strangeText]) {
        const done = write({ ...whole, [field]: value });
        if (done.ok && value === strangeText) continue;
        const row = `${field}: ${JSON.stringify(value)}`;
        const message = done.ok ? "accepted" : done.message;
        expect(message, row).toContain(field);
        expect(message, row).not.toMatch(new RegExp(`Invalid input|${CANARY}`));
      }
    }
  });

  it("refuses a change of each field that is described as fixed", async () => {
    const whole = await body();
    const before = await created(whole);
    const proven: string[] = [];
    for (const [field, described] of Object.entries(description.fields).filter(([, { fixed }]) => fixed)) {
      const was = JSON.stringify(resolved(type, before.connection)[field]);
      for (const other of otherValues(whole[field], described)) {
        const alone = write({ ...whole, [field]: other });
        if (!alone.ok || JSON.stringify(resolved(type, alone.value.definition.connection)[field]) === was) continue;
        const done = write({ ...whole, [field]: other }, before);
        expect(done.ok ? "accepted" : done.message, field).toMatch(/cannot be updated|must stay/);
        proven.push(field);
        break;
      }
    }
    if (Object.values(description.fields).some(({ fixed }) => fixed)) expect(proven).not.toEqual([]);
  });

  it("clears each other field by null as by an empty text, also in a patch, and keeps durations", async () => {
    const whole = await body();
    const changeable = Object.entries(description.fields).filter(([, { fixed }]) => !fixed);
    for (const [field, described] of changeable) {
      const values = [whole[field], ...otherValues(whole[field], described)].filter((value) => value);
      const made = values.map((value) => write({ ...whole, [field]: value })).find(({ ok }) => ok);
      if (!made?.ok) continue;
      const before = made.value.definition;
      const left = (value: unknown, mode: "write" | "patch") => {
        const done = define(type, { body: { [field]: value }, mode, origin: "" }, before, settings);
        return done.ok ? done.value.definition.connection : done.message;
      };
      const cleared = left("", "write");
      expect(left(null, "patch"), `${field}, patched`).toEqual(cleared);
      expect(left(null, "write"), field).toEqual(field === "identity_token_ttl" ? before.connection : cleared);
    }
  });

  it("takes back each default that a read shows, also with the other granularity", async () => {
    const before = await created(await body());
    const { granularity, connection } = before;
    const shown = {
      ...type.shown?.(connection),
      ...masked(type, connection),
      granularity,
      secret_name_template: effectiveTemplate(type, before),
      custom_tags: before.customTags,
      update_policy: before.updatePolicy,
      deletion_policy: before.deletionPolicy,
    };
    const again = write(shown, before);
    expect(again).toMatchObject({ ok: true, value: { definition: { template: "", granularity } } });
    if (again.ok) expect(resolved(type, again.value.definition.connection)).toEqual(resolved(type, connection));
    const other = granularity === "secret-key" ? "secret-path" : "secret-key";
    const moved = write({ ...shown, granularity: other }, before);
    expect(moved).toMatchObject({ ok: true, value: { definition: { template: "", granularity: other } } });
  });

  it("keeps secrets whose mask is sent back, and shows only the mask", async () => {
    const before = await created(await body());
    const shown = masked(type, before.connection);
    for (const field of type.sensitive.filter((one) => one in before.connection)) expect(shown[field]).toBe(MASK);
    const again = write(shown, before);
    expect(again).toMatchObject({ ok: true, value: { definition: { connection: before.connection } } });
  });
});
