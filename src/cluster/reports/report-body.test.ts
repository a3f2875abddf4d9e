import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../test/crash/random.ts";
import { amount, PROPERTY } from "../../../test/support/long.ts";
import { RequestError } from "../../platform/http/errors.ts";
import { readReports } from "./report-body.ts";

const BODIES = amount(1_000, 3_000);

const SEEDS = [
  {
    Topic: "Job",
    Type: "JobRegistered",
    Payload: { Job: { ID: "web", Meta: { a: "b" }, TaskGroups: [{ Name: "g" }] } },
  },
  { Topic: "Allocation", Type: "PlanResult", Payload: { Allocation: { ID: "a", TaskStates: { t: { Restarts: 1 } } } } },
  { Topic: "Node", Type: "NodeRegistration", Payload: { Node: { ID: "00000001-0000-4000-8000-000000000000" } } },
  { Index: 7, Events: [{ Topic: "Evaluation", Type: "EvaluationUpdated", Payload: { Evaluation: { ID: "e" } } }] },
];
const VALUES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e300,
  "",
  "x",
  "*",
  "a/b",
  "\u0000",
  "\ud800",
  [],
  {},
  [[]],
  { ID: "x" },
  { __proto__: { ID: "y" } },
  { rawJSON: "1" },
  { toString: 1, constructor: 2, hasOwnProperty: 3 },
];
const NAMES = ["ID", "Name", "Namespace", "Topic", "Type", "Payload", "Job", "Meta", "Deleted", "__proto__", "toJSON"];

/** A value with randomly replaced parts. */
function shaken(value: unknown, random: () => number): unknown {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  if (random() < 0.06) return pick(VALUES);
  if (Array.isArray(value)) return value.map((item) => shaken(item, random));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, item]) => [
    random() < 0.04 ? pick(NAMES) : name,
    shaken(item, random),
  ]);
  return Object.fromEntries(entries);
}

describe("readReports", () => {
  it("parses any body or throws a RequestError", PROPERTY, () => {
    const random = randomFrom(7);
    let read = 0;
    for (let round = 0; round < BODIES; round++) {
      const seed = SEEDS[round % SEEDS.length];
      let text = JSON.stringify(
        round % 3 === 0 && !("Events" in (seed ?? {})) ? [shaken(seed, random)] : shaken(seed, random),
      );
      if (random() < 0.1) text = text.slice(0, Math.floor(random() * text.length));
      try {
        for (const report of readReports(text, "default").reports) {
          expect(report.id).not.toBe("");
          expect(report.body).toMatch(/^\{.*\}$/s);
          read += 1;
        }
      } catch (failure) {
        expect(failure, text).toBeInstanceOf(RequestError);
        expect((failure as RequestError).status).toBe(400);
        expect((failure as RequestError).messages.join().length).toBeGreaterThan(0);
      }
    }
    // Some of the random bodies are valid.
    expect(read).toBeGreaterThan(BODIES / 10);
  });

  it("treats a field named __proto__ as data", () => {
    const { reports } = readReports(
      '{"Topic":"Job","Type":"JobRegistered","Payload":{"Job":{"ID":"web","__proto__":{"ID":"x"},"Meta":{"__proto__":"m"}}}}',
      "default",
    );
    expect(reports[0]?.body).toBe('{"ID":"web","__proto__":{"ID":"x"},"Meta":{"__proto__":"m"},"Namespace":"default"}');
  });

  it.each([
    '{"Topic":"Job","Type":"JobRegistered","Payload":{"Job":{"ID":"web","SubmitTime":9000000000000000001,"X":{"Y":9007199254740993}}}}',
    '{"Topic":"Node","Type":"NodeDrain","Payload":{"Node":{"ID":"00000001-0000-4000-8000-000000000000","X":{"Y":9007199254740993},"DrainStrategy":{"Deadline":9000000000000000001}}}}',
  ])("numbers keep their digits, also where they are validated: %s", (text) => {
    const body = readReports(text, "default").reports[0]?.body;
    for (const number of ["9000000000000000001", '{"Y":9007199254740993}']) expect(body).toContain(`:${number}`);
  });
});
