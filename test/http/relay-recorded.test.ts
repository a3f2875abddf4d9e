import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { isTable, TABLES } from "../doubles/nomad-state.ts";
import { amount } from "../support/long.ts";
import { Service } from "./events-service.ts";
import { brief, RelayWorld } from "./relay-world.ts";

/*
 * The stream of a real Nomad server, as recorded: jobs that run, fail and are purged, a drain, services. The relay is
 * killed at its reports, in turn before the service has it and before its answer arrives: at all of them in a long run.
 */

const recorded = readFileSync("test/http/nomad-2.0-events.ndjson", "utf8").trim().split("\n");
const EVERY = amount(5, 1);
const service = new Service({});
let world: RelayWorld;

beforeAll(async () => {
  await service.create();
  world = new RelayWorld(service, { bufferSize: 1_000 });
  world.nomad.state.index = 0;
  await world.open();
}, 300_000);
afterAll(async () => {
  await world.close();
  await service.destroy();
});

it("a recorded stream is mirrored once and in order while the relay is killed at its reports", {
  timeout: 400_000,
}, async () => {
  const { nomad, proxy } = world;
  world.start();
  await vi.waitFor(() => expect(world.log).toContain('"compared"'));
  const seen = new Set<string>();
  let kills = 0;
  proxy.fate = ({ body }) => {
    if (seen.has(body)) return "pass";
    seen.add(body);
    if (seen.size % EVERY !== 0) return "pass";
    kills += 1;
    return kills % 2 === 0 ? "kill before" : "kill after";
  };
  const watch = setInterval(() => world.isRunning || world.start(), 20);
  for (const text of recorded) {
    const before = nomad.state.history.length;
    nomad.replay(text);
    const added = nomad.state.history.slice(before).flatMap(({ events }) => events);
    if (!added.some(({ topic }) => isTable(topic))) continue;
    await vi.waitFor(() => expect(world.position().index).toBe(nomad.state.index), { timeout: 60_000, interval: 10 });
  }
  const events = nomad.state.history.flatMap((line) => line.events.map(({ text }) => JSON.parse(text)));
  const wanted = events.filter(({ Topic }) => isTable(Topic)).map(brief);
  await vi.waitFor(async () => expect((await world.published()).map(brief)).toEqual(wanted), { timeout: 60_000 });
  clearInterval(watch);
  // Lines that wait together are one report.
  expect(kills).toBeGreaterThanOrEqual(20);
  for (const topic of TABLES) expect(await world.mirrored(topic), topic).toEqual(world.existing(topic));
});
