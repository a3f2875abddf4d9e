import { describe, expect, it } from "vitest";
import { failure } from "../../providers/outcome.ts";
import { putVariable, type SeenVariable, type VariablePlace, type Written } from "./variables.ts";

const lost = failure("unknown", "network_error", "The connection failed.");
const throttled = failure("external", "throttled", "Too many requests.");
const late = failure("external", "deadline_exceeded", "No time was left.");
const refused = (outcome: typeof lost) => ({ ok: false, status: null, body: null, outcome }) as const;
const unwritten = (outcome: typeof lost): Written => ({ ok: false, why: null, outcome });

/** A place whose creation has no answer, and whose next calls end as given. */
function place(found: SeenVariable | null | typeof late, change: Written, hasIds = false): VariablePlace {
  let finds = 0;
  return {
    ...(hasIds && { hasIds }),
    find: async () =>
      finds++ === 0
        ? { ok: true, seen: null }
        : found !== null && "outcome" in found
          ? refused(found)
          : { ok: true, seen: found },
    create: async () => unwritten(lost),
    change: async () => change,
    remove: async () => ({ ok: true }),
  };
}

const object = {
  name: "N",
  value: "v",
  reference: null,
  updatePolicy: "owned-only",
  knownToExist: false,
  unsureSince: undefined,
} as const;

describe("a creation without an answer", () => {
  it.each([
    ["the repeat is throttled", place(null, unwritten(throttled)), "throttled"],
    ["no time is left for the repeat", place(null, unwritten(late)), "deadline_exceeded"],
    ["its variable cannot be looked up", place(late, unwritten(late), true), "deadline_exceeded"],
    ["the change of what it made fails", place({ owned: null, value: "v" }, unwritten(throttled), true), "throttled"],
  ])("stays uncertain when %s", async (_name, at, code) => {
    expect(await putVariable(at, object)).toMatchObject({ outcome: "external", code, unsure: true });
  });

  it("is certain when another writer's variable is there", async () => {
    const put = await putVariable(place({ owned: false, value: "w" }, unwritten(late), true), object);
    expect(put).toMatchObject({ code: "not_owned" });
    expect(put).not.toHaveProperty("unsure");
  });
});
