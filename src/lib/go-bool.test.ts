import { expect, it } from "vitest";
import { parseGoBool } from "./go-bool.ts";

it.each([
  [true, ["1", "t", "T", "TRUE", "true", "True"]],
  [false, ["0", "f", "F", "FALSE", "false", "False"]],
  [null, ["", "tRUE", "yes", "2", " true"]],
])("returns %s for its spellings", (value, texts) => {
  for (const text of texts) expect(parseGoBool(text), text).toBe(value);
});
