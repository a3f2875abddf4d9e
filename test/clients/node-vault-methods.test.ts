import { expect, inject, it } from "vitest";
import { clientNames, commandNames, NodeVaultMethods } from "./node-vault-methods.ts";
import { Recorder } from "./recorder.ts";
import { figuresOf } from "./suites/figures.ts";
import { explain, REASONS } from "./suites/reasons.ts";

it("every method of node-vault works but for those of features that are not offered", async () => {
  const { address, token } = inject("service");
  const recorder = await Recorder.before(address);
  const outcomes = await new NodeVaultMethods(recorder.address, token).run();
  recorder.close();
  expect(Object.keys(outcomes).sort()).toEqual([...commandNames, ...clientNames].sort());
  const failures = Object.entries(outcomes).filter(([, outcome]) => outcome !== "ok");
  const { counts, unexplained } = explain(
    failures.map(([method, outcome]) => `${method}: ${outcome}`),
    REASONS["node-vault"],
  );
  expect(unexplained).toEqual([]);
  const { passed, failures: expected } = figuresOf("node-vault");
  expect(counts).toEqual(expected);
  expect(Object.keys(outcomes)).toHaveLength(passed + failures.length);
  recorder.compare("node-vault");
});
