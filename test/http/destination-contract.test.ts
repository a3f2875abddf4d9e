import { afterAll, describe, expect, it } from "vitest";
import { type DestinationType, destinationTypes } from "../../src/sync/destinations/index.ts";
import { startStandIns } from "../doubles/stand-ins.ts";
import { madeUpTypes } from "../made-up/destinations.ts";
import { startMadeUp } from "../made-up/stand-ins.ts";
import { contract } from "../support/destination-contract/cases.ts";
import { contractPage } from "../support/destination-contract/page.ts";
import { type RemoteType, Subject } from "../support/destination-contract/subject.ts";

const running = (await Promise.all([startStandIns(), startMadeUp()])).flat();
afterAll(() => Promise.all(running.map((standIn) => standIn.close())));

const isRemote = (type: DestinationType<unknown>): type is RemoteType => type.kind === "remote";
const released = [...destinationTypes.values()].filter(isRemote);
const remoteTypes = [...released, ...madeUpTypes.filter(isRemote)];

it("has a stand-in for each type that calls a provider", () => {
  expect(running.map(({ type }) => type).toSorted()).toEqual(remoteTypes.map(({ type }) => type).toSorted());
});

it("docs/internals/destination-contract.md has the rows of each type", async () => {
  await expect(contractPage(released)).toMatchFileSnapshot("../../docs/internals/destination-contract.md");
});

describe.each(running)("$type", (standIn) => {
  const type = remoteTypes.find((one) => one.type === standIn.type);
  for (const [part, cases] of Object.entries(contract)) {
    for (const { name, unless, run } of cases) {
      if (type === undefined || unless?.(type)) continue;
      it(`${part}: ${name}`, async () => run(await Subject.open(type, standIn)));
    }
  }
});
