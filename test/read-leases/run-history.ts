/** One random history of reads and writes at four places and two owners, and whether it is linearizable. */
import { type Operation, verdictOn } from "../support/linearizability.ts";
import { World } from "./simulated-network.ts";
import { NO_OWNER_FAULTS, type OwnerFaults, SimulatedOwner } from "./simulated-owner.ts";
import { NO_REPLICA_FAULTS, type ReplicaFaults, SimulatedReplica } from "./simulated-replica.ts";

export type Faults = Partial<OwnerFaults & ReplicaFaults>;

export interface Outcome {
  /** The keys whose history is not linearizable. */
  readonly broken: readonly string[];
  /** The keys about which the checker could not decide. */
  readonly undecided: readonly string[];
  readonly operations: number;
  readonly fromMemory: number;
  readonly asked: number;
}

const PLACES = ["fra", "iad", "sin", "gru"] as const;
const KEYS: Readonly<Record<string, readonly string[]>> = { access: ["token", "policy"], kv: ["a", "b"] };
const LASTS_MS = 10_000;

export function runHistory(seed: number, faults: Faults = {}): Outcome {
  const world = new World(seed);
  const made = PLACES.map((place) => new SimulatedReplica(place, world, { ...NO_REPLICA_FAULTS, ...faults }));
  const replicas = new Map(made.map((replica) => [replica.place, replica]));
  const owners = Object.keys(KEYS).map((name) => {
    const owner: SimulatedOwner = new SimulatedOwner(
      name,
      world,
      (holder, changes, done) => {
        const replica = replicas.get(holder.split(" ", 1)[0] ?? "");
        if (!replica) return;
        world.send(name, replica.place, () => {
          const by = replica.invalidate(name, changes);
          world.send(replica.place, name, () => done(by));
        });
      },
      { ...NO_OWNER_FAULTS, ...faults },
    );
    return owner;
  });
  const histories = new Map<string, Operation[]>();
  let written = 0;

  const record = (name: string, operation: Operation) => {
    histories.set(name, [...(histories.get(name) ?? []), operation]);
  };
  const read = (place: string): void => {
    const owner = world.pick(owners);
    const key = world.pick(KEYS[owner.name] ?? []);
    const call = world.now;
    const answer = (value: number) => record(`${owner.name} ${key}`, { kind: "read", value, call, end: world.now });
    // A push, or a Worker that asks the owner itself.
    if (world.chance(0.25)) {
      world.send(
        place,
        owner.name,
        once(() =>
          owner.read(key, (value) =>
            world.send(
              owner.name,
              place,
              once(() => answer(value)),
            ),
          ),
        ),
      );
    } else replicas.get(place)?.read(owner, key, answer);
  };
  const write = (place: string): void => {
    const owner = world.pick(owners);
    const key = world.pick(KEYS[owner.name] ?? []);
    written += 1;
    // A thing that is not there has the value 0: a deleted secret, or a revoked token.
    const value = world.chance(0.2) ? 0 : written;
    const operation = { kind: "write" as const, value, call: world.now, end: Number.POSITIVE_INFINITY };
    record(`${owner.name} ${key}`, operation);
    const answered = once(() => {
      operation.end = world.now;
    });
    const givenBack = world.chance(0.6) ? (replicas.get(place)?.giveBack(owner.name, key) ?? null) : null;
    const arrive = () => {
      owner.write(key, value, givenBack, () => world.send(owner.name, place, answered));
      // The moments behind a commit are those in which a restart could do harm.
      if (world.chance(0.1)) world.after(world.between(1, 400), () => owner.restart());
    };
    // A Worker that waits for the body of its request in between.
    world.after(world.between(0, 300), () => world.send(place, owner.name, once(arrive)));
  };

  for (const place of PLACES) {
    const next = (): void => {
      if (world.now > LASTS_MS) return;
      if (world.chance(0.1)) write(place);
      else for (let reads = world.chance(0.3) ? 3 : 1; reads > 0; reads--) read(place);
      world.after(world.between(20, 350), next);
    };
    world.after(world.between(0, 200), next);
  }
  const trouble = (): void => {
    if (world.now > LASTS_MS) return;
    world.pick([
      () => world.pick(owners).restart(),
      () => world.pick(made).restart(),
      () => world.cutOff(world.pick(PLACES), world.between(500, 6_000)),
    ])();
    world.after(world.between(500, 6_000), trouble);
  };
  world.after(world.between(500, 4_000), trouble);
  world.run();

  const verdicts = [...histories].map(([name, history]) => [name, verdictOn(history, 0)] as const);
  const keysThatAre = (wanted: string) => verdicts.filter(([, verdict]) => verdict === wanted).map(([name]) => name);
  return {
    broken: keysThatAre("broken"),
    undecided: keysThatAre("undecided"),
    operations: [...histories.values()].reduce((sum, { length }) => sum + length, 0),
    fromMemory: made.reduce((sum, { served }) => sum + served.fromMemory, 0),
    asked: made.reduce((sum, { served }) => sum + served.asked, 0),
  };
}

/** A client's request has one effect and one answer, however often the network delivers it. */
function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}
