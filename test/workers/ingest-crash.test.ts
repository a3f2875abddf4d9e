import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { EventLog } from "../../src/worker.ts";
import { attempt, both, cut, insist, type Method, prototypeOf } from "../crash/crash-point.ts";
import { randomFrom } from "../crash/random.ts";
import { part } from "../support/long.ts";
import { eventsOf } from "./access.ts";
import { get } from "./client.ts";
import { clock } from "./clock.ts";
import { alarmsUntil } from "./clock-and-alarms.ts";
import { allocation, gone, job, type Reported, send, uuid } from "./reports.ts";
import { closeAll } from "./streams.ts";

clock.moves = true;
afterEach(closeAll);

const registryObject = () => env.CLUSTER_REGISTRY.getByName("main");

/** Lets alarms and back-offs pass until `check` holds, without any request. */
const byItself = (check: () => Promise<void>): Promise<void> => alarmsUntil(registryObject, check, { rounds: 20 });

/** Topic, key and both indexes of the object, of each event so far, by lines. */
async function lines(): Promise<[number, [string, number, number][]][]> {
  const events = [...(await eventsOf("Job")), ...(await eventsOf("Allocation"))];
  const byIndex = Map.groupBy(events, ({ Index }) => Index as number);
  return [...byIndex]
    .sort(([a], [b]) => a - b)
    .map(([index, told]) => [
      index,
      told.map(({ Topic, Key, Payload }) => [Key, Payload[Topic].CreateIndex, Payload[Topic].ModifyIndex]),
    ]);
}

const told = [job({ ID: "app" }), allocation()];
const source = "?source=eu&source_index=2";

/** Kills the registry when it has sent a line to the log, before the log has it or before the registry can know. */
async function killRegistry(when: "there" | "back"): Promise<() => boolean> {
  let happened = false;
  const original = prototypeOf("EventLog")["append"] as Method;
  vi.spyOn(prototypeOf("EventLog"), "append").mockImplementationOnce(async function (
    this: ThisParameterType<Method>,
    ...parameters
  ) {
    if (when === "back") {
      await original.apply(this, parameters);
      await this.ctx.storage.sync();
    }
    happened = true;
    const killed = runInDurableObject(registryObject(), (_registry, state) => state.abort("killed by a test"));
    await killed.catch(() => undefined);
    throw new Error("nobody is there to hear");
  });
  return () => happened;
}

type Place = () => (() => boolean) | Promise<() => boolean>;

const CUTS: [where: string, place: Place][] = [
  ...[...both("ClusterRegistry", "ingest"), ...both("EventLog", "append")].map((each): [string, Place] => [
    each.join(" "),
    () => cut(each),
  ]),
  ["the registry, on the way to the log", () => killRegistry("there")],
  ["the registry, on the way back", () => killRegistry("back")],
];

describe("a report", () => {
  it.each(part(CUTS))(
    "of a source, with a crash at %s, is published once, complete, and a repetition returns its index",
    async (_where, place) => {
      await send([job({ ID: "first" })], "?source=eu&source_index=1");
      const happened = await place();
      await attempt(send(told, source));
      expect(happened()).toBe(true);
      const again = await insist(() => send(told, source));
      await insist(() => send([job({ ID: "last" })], "?source=eu&source_index=3"));
      await byItself(async () => {
        expect(await lines()).toEqual([
          [1, [["first", 1, 1]]],
          [
            2,
            [
              ["app", 2, 2],
              [uuid(1), 2, 2],
            ],
          ],
          [3, [["last", 3, 3]]],
        ]);
        expect((await get("/v1/job/app")).body).toMatchObject({ CreateIndex: 2, ModifyIndex: 2 });
        expect((await get(`/v1/allocation/${uuid(1)}`)).body).toMatchObject({ CreateIndex: 2, ModifyIndex: 2 });
        expect((await get("/v1/job/last")).body).toMatchObject({ CreateIndex: 3, ModifyIndex: 3 });
      });
      expect([2, null]).toContain(again.body.Index);
      expect((await send([job({ ID: "last" })], "?source=eu&source_index=3")).body).toEqual({
        Index: 3,
        Applied: false,
      });
    },
  );

  it.each(part(CUTS))(
    "without a source, with a crash at %s, is published completely for each time it was accepted",
    async (_where, place) => {
      const happened = await place();
      const first = await attempt(send(told));
      expect(happened()).toBe(true);
      const taken = (await insist(() => get("/v1/job/app"))).status === 200;
      if (first) expect(taken).toBe(true);
      if (!first) await insist(() => send(told));
      const times = taken && !first ? 2 : 1;
      await byItself(async () => {
        const seen = await lines();
        expect(seen.map(([index, events]) => [index, events.map(([key]) => key)])).toEqual(
          Array.from({ length: times }, (_, at) => [at + 1, ["app", uuid(1)]]),
        );
        expect((await get("/v1/job/app")).body).toMatchObject({ CreateIndex: 1, ModifyIndex: times });
      });
    },
  );
});

it("repeated deliveries to the log publish each line once", async () => {
  const original = prototypeOf("EventLog")["append"] as Method;
  const append = vi.spyOn(EventLog.prototype, "append").mockImplementation(async function (
    this: unknown,
    ...parameters: unknown[]
  ) {
    await original.apply(this as ThisParameterType<Method>, parameters);
    return (await original.apply(this as ThisParameterType<Method>, parameters)) as number[];
  } as never);
  for (const ID of ["a", "b", "a"]) await send([job({ ID })]);
  expect(append).toHaveBeenCalled();
  expect(await lines()).toEqual([
    [1, [["a", 1, 1]]],
    [2, [["b", 2, 2]]],
    [3, [["a", 1, 3]]],
  ]);
});

describe("random reports with power cuts", () => {
  it.each([1, 2, 3, 4])(
    "are published as reported, and end in the reported state (seed %i)",
    async (seed) => {
      const random = randomFrom(seed);
      const pick = (bound: number) => Math.floor(random() * bound);
      const history: { event: Reported; gone: boolean; id: string; nr: number }[] = [];
      for (let nr = 1; nr <= 30; nr++) {
        const id = `job-${pick(4)}`;
        const ends = random() < 0.25;
        history.push({ event: ends ? gone(job({ ID: id })) : job({ ID: id, Priority: nr }), gone: ends, id, nr });
      }
      for (const { event, nr } of history) {
        const happened = await CUTS[pick(CUTS.length * 3)]?.[1]();
        await insist(() => send([event], `?source=eu&source_index=${nr}`));
        // One that was not reached must not strike later, when it would be counted twice.
        if (happened && !happened()) vi.restoreAllMocks();
      }
      await byItself(async () => {
        const seen = await lines();
        const expected: typeof seen = [];
        const created = new Map<string, number>();
        for (const { id, gone: ends, nr } of history) {
          const first = created.get(id) ?? nr;
          expected.push([nr, [[id, first, nr]]]);
          if (ends) created.delete(id);
          else created.set(id, first);
        }
        expect(seen).toEqual(expected);
        const stored = (await get("/v1/jobs")).body.map((each: Record<string, unknown>) => [
          each["ID"],
          each["CreateIndex"],
          each["ModifyIndex"],
        ]);
        const last = new Map(history.map(({ id, nr }) => [id, nr]));
        expect(stored).toEqual([...created].sort().map(([id, first]) => [id, first, last.get(id)]));
      });
    },
    60_000,
  );
});
