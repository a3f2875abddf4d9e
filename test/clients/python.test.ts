import { expect, inject, it } from "vitest";
import { PythonClients } from "./python.ts";
import { Recorder } from "./recorder.ts";

const python = new PythonClients();
const { missing } = python;
if (missing !== null) console.warn(`hvac and python-nomad are not tried: ${missing}.`);

it.runIf(missing === null).each([
  ["hvac", "hvac_flow.py", 15],
  ["python-nomad", "nomad_flow.py", 8],
])("every step of the flow of %s succeeds", async (client, flow, steps) => {
  const { address, token } = inject("service");
  const recorder = await Recorder.before(address);
  const ran = await python.run(flow, recorder.address, token);
  recorder.close();
  expect(ran.filter(({ outcome }) => outcome !== "ok")).toEqual([]);
  expect(ran).toHaveLength(steps);
  recorder.compare(client);
});
