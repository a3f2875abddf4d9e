import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { beforeEach, describe, expect, it } from "vitest";
import { amount, PROPERTY } from "../../../test/support/long.ts";
import type { ObjectResult, ObjectTask } from "../../contracts/sync-tasks.ts";
import type { DesiredObject } from "../associations/external-name.ts";
import { destinationMigrations, type RemoteObjectRow } from "../schema.ts";
import { planObjects, type Step } from "./object-plan.ts";
import { objectTask, RemoteObjects, unclaimed } from "./remote-objects.ts";

const wanted = (subKey: string, name: string, refused: string | null = null): DesiredObject => ({
  subKey,
  name,
  collisionKey: name.toLowerCase(),
  refused,
});

const row = (sub_key: string, external_name: string, changes: Partial<RemoteObjectRow> = {}): RemoteObjectRow => ({
  association: "a",
  sub_key,
  external_name,
  fold: external_name.toLowerCase(),
  obsolete: 0,
  ours: 2,
  known: 1,
  version: 1,
  fingerprint: "f",
  reference: null,
  tag_keys: "[]",
  tags_written: null,
  blocked: null,
  left_alone: 0,
  retained: 0,
  owed: null,
  unsure_since: null,
  claimed: null,
  status: "SYNCED",
  error_code: null,
  error_message: null,
  updated: 0,
  ...changes,
});

const nobody = () => null;
/** Histories of random name changes and crashes. */
const SEEDS = amount(60, 300);

/** One line per step. */
const told = (steps: readonly Step[]): string[] =>
  steps.map((step) => {
    if (step.kind === "drop" || step.kind === "retire")
      return `${step.kind} ${step.row.sub_key}:${step.row.external_name}`;
    const { kind, copy, blocked, adoptedFrom } = step;
    const heir = adoptedFrom.length > 0 ? ` heir of ${adoptedFrom.map((one) => one.sub_key).join(",")}` : "";
    return `${kind} ${copy.subKey}:${copy.name}${blocked === null ? "" : ` blocked: ${blocked}`}${heir}`;
  });

describe("a plan from recorded to desired objects", () => {
  it("keeps unchanged objects, adds new ones and retires those that may exist", () => {
    const rows = [row("x", "X"), row("y", "Y"), row("z", "Z", { ours: 1 })];
    expect(told(planObjects(rows, [wanted("x", "X"), wanted("n", "N")], nobody))).toEqual([
      "retire y:Y",
      "retire z:Z",
      "keep x:X",
      "add n:N",
    ]);
  });

  it("drops a name without a push instead of removing a possibly foreign object", () => {
    expect(told(planObjects([row("", "old", { ours: 0 })], [wanted("", "new")], nobody))).toEqual([
      "drop :old",
      "add :new",
    ]);
  });

  it("moves an object to the key with its name, so that swapped names remove no object", () => {
    const rows = [row("a", "A"), row("b", "B")];
    expect(told(planObjects(rows, [wanted("a", "B"), wanted("b", "A")], nobody))).toEqual([
      "drop a:A",
      "drop b:B",
      "add a:B heir of b",
      "add b:A heir of a",
    ]);
  });

  it("adopts no object from a row without a push", () => {
    const rows = [row("a", "X", { ours: 0 })];
    expect(told(planObjects(rows, [wanted("b", "X")], nobody))).toEqual(["drop a:X", "add b:X"]);
  });

  it("blocks all keys with one collision key, and names refused by the provider", () => {
    const plan = planObjects(
      [],
      [wanted("a", "Foo"), wanted("b", "foo"), wanted("c", "C"), wanted("d", "D", "no")],
      nobody,
    );
    expect(told(plan)).toEqual([
      'add a:Foo blocked: several keys of the secret would be called "Foo"',
      'add b:foo blocked: several keys of the secret would be called "foo"',
      "add c:C",
      "add d:D blocked: no",
    ]);
  });

  it("blocks a name that another association holds", () => {
    const plan = planObjects([], [wanted("", "X")], (fold) => (fold === "x" ? "kv_1/other" : null));
    expect(told(plan)).toEqual(['add :X blocked: external name "X" is taken by the association of kv_1/other']);
  });
});

/** The storage of an object, limited to the calls of `RemoteObjects`. */
function storage(): SqlStorage {
  const database = new DatabaseSync(":memory:");
  for (const step of destinationMigrations) database.exec(step);
  const exec = (sql: string, ...values: SQLInputValue[]) => {
    const rows = database.prepare(sql).all(...values);
    return { toArray: () => rows, one: () => rows[0] };
  };
  return { exec } as unknown as SqlStorage;
}

/** Pseudo-random numbers, the same in every run. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

const NAMES = ["A", "a", "B", "C", "D"];
const KEYS = ["k1", "k2", "k3"];
const ASSOCIATIONS = ["one", "two"];

/** A provider with case-insensitive names, and Workers that may die at any point of a task. */
class World {
  readonly copies = new RemoteObjects(storage());
  readonly outside = new Map<string, { by: string; text: string }>();
  /** Objects of another owner, never written by the service. */
  readonly foreign = new Set<string>();
  readonly desired = new Map<string, readonly DesiredObject[]>();
  #clock = 0;

  set(association: string, copies: readonly DesiredObject[]): void {
    this.copies.apply(association, this.copies.plan(association, copies), this.#clock++);
    this.copies.forgetFingerprints(association);
    this.desired.set(association, copies);
  }

  /** Changes the secret's keys without a set: the next task detects the change. */
  change(association: string, copies: readonly DesiredObject[]): void {
    this.desired.set(association, copies);
  }

  /** Creates a foreign object, except under a name that is certainly ours: a repeated removal would delete it. */
  create(name: string): void {
    const rows = ASSOCIATIONS.flatMap((association) => this.copies.of(association));
    const isOurs = rows.some((one) => one.fold === name.toLowerCase() && one.ours === 2);
    if (isOurs || this.outside.has(name.toLowerCase())) return;
    this.outside.set(name.toLowerCase(), { by: "somebody else", text: "theirs" });
    this.foreign.add(name.toLowerCase());
  }

  /** Performs a task as a Worker does. @param steps the number of steps after which it dies without a result */
  perform(association: string, steps = Number.POSITIVE_INFINITY): void {
    // A blocked name may have become free.
    this.copies.apply(association, this.copies.plan(association, this.desired.get(association) ?? []), this.#clock++);
    const rows = this.copies.of(association);
    const tasks = rows.map((one) => objectTask(one, ""));
    this.copies.leased(rows, ["tag"], this.#clock++);
    const results: ObjectResult[] = [];
    const ordered = [...tasks.filter((task) => !task.obsolete), ...tasks.filter((task) => task.obsolete)];
    for (const task of ordered.slice(0, steps)) results.push(this.#do(association, task));
    if (steps <= ordered.length) return;
    for (const result of results)
      this.copies.record(association, result, { version: 1, tagKeys: ["tag"] }, this.#clock++);
  }

  #do(association: string, task: ObjectTask): ObjectResult {
    const { subKey, name } = task;
    const fold = name.toLowerCase();
    const text = `${association} ${subKey}`;
    if (task.obsolete) {
      const there = this.outside.get(fold);
      const spared = task.ours === "no" || (task.ours === "maybe" && there?.by !== "us");
      if (!spared) {
        this.outside.delete(fold);
        expect(this.foreign, `somebody else's ${name} was removed`).not.toContain(fold);
      }
      return { subKey, name, state: "absent" };
    }
    if (task.blocked) return { subKey, name, state: "untouched", ...(task.outside !== undefined && { certain: true }) };
    if (typeof task.outside === "number" && task.fingerprint === text) {
      return { subKey, name, state: "kept", fingerprint: text };
    }
    this.outside.set(fold, { by: "us", text });
    this.foreign.delete(fold);
    return { subKey, name, state: "pushed", fingerprint: text };
  }

  /** The expected objects at the provider, without blocked ones. */
  expected(): Record<string, string> {
    const all = ASSOCIATIONS.flatMap((association) => this.copies.live(association));
    return Object.fromEntries(
      all.filter((one) => one.blocked === null).map((one) => [one.fold, `${one.association} ${one.sub_key}`]),
    );
  }
}

it("converges to exactly the desired objects despite name changes and crashes of Workers", PROPERTY, () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = randomOf(seed);
    const world = new World();
    const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T;
    for (let step = 0; step < 25; step++) {
      const association = pick(ASSOCIATIONS);
      const action = random(10);
      if (action < 4) {
        const copies = KEYS.filter(() => random(2) === 0).map((key) => wanted(key, pick(NAMES)));
        if (action < 2) world.set(association, copies);
        else world.change(association, copies);
      } else if (action < 7) world.perform(association, random(6));
      else if (action < 9) world.perform(association);
      else world.create(pick(NAMES));
    }
    // Twice, because a name released in the first round is free for others in the second.
    for (let round = 0; round < 3; round++) for (const association of ASSOCIATIONS) world.perform(association);
    const ours = [...world.outside].filter(([, { by }]) => by === "us");
    const blocked = new Set(
      ASSOCIATIONS.flatMap((association) => world.copies.live(association))
        .filter((one) => one.blocked !== null)
        .map((one) => one.fold),
    );
    const settled = ours.filter(([name]) => !blocked.has(name) || name in world.expected());
    expect(Object.fromEntries(settled.map(([name, { text }]) => [name, text])), `seed ${seed}`).toEqual(
      world.expected(),
    );
    for (const name of world.foreign) expect(world.outside.get(name)?.text, `seed ${seed}`).toBe("theirs");
    for (const association of ASSOCIATIONS) {
      expect(world.copies.of(association).filter((one) => one.obsolete === 1)).toEqual([]);
      expect(
        world.copies
          .live(association)
          .map((one) => one.sub_key)
          .sort(),
      ).toEqual((world.desired.get(association) ?? []).map((one) => one.subKey).sort());
    }
  }
});

it("pushes a name again that returned after a removal of unknown outcome", () => {
  const world = new World();
  world.set("one", [wanted("k", "A")]);
  world.perform("one");
  world.change("one", [wanted("k", "B")]);
  world.perform("one", 2);
  expect([...world.outside.keys()]).toEqual(["b"]);
  world.change("one", [wanted("k", "A")]);
  world.perform("one");
  expect([...world.outside.keys()]).toEqual(["a"]);
});

describe("names that other destinations may own", () => {
  const HERE = "here";

  it("are blocked with their owner, and the object under them counts as foreign", () => {
    const copies = new RemoteObjects(storage());
    copies.apply("a", copies.plan("a", [wanted("", "X")]), 1, "elsewhere");
    copies.leased(copies.of("a"), ["tag"], 2, "elsewhere");
    copies.record(
      "a",
      { subKey: "", name: "X", state: "pushed", fingerprint: "f" },
      { version: 3, tagKeys: ["tag"] },
      3,
    );
    expect(copies.of("a")[0]).toMatchObject({ ours: 2, version: 3 });
    const steps = copies.plan("a", [wanted("", "X")], new Map([["x", "the destination t/d"]]));
    expect(steps).toMatchObject([{ kind: "keep", elsewhere: true }]);
    copies.apply("a", steps, 4, HERE);
    expect(copies.of("a")[0]).toMatchObject({
      ours: 0,
      known: 0,
      version: null,
      fingerprint: null,
      tag_keys: "[]",
      claimed: null,
      error_code: "name_collision",
      status: "CLIENT_SIDE_ERROR",
      blocked: 'external name "X" is taken by the destination t/d, which writes to the same place',
    });
    copies.apply("a", copies.plan("a", [wanted("", "X")]), 5, HERE);
    expect(copies.of("a")[0]).toMatchObject({ blocked: null, claimed: HERE, ours: 0 });
  });

  it("are the recorded and desired names that are not claimed for the current targets", () => {
    const rows = [
      row("k1", "Claimed", { claimed: HERE }),
      row("k2", "Moved", { claimed: "elsewhere" }),
      row("k3", "Old", { claimed: null, obsolete: 1 }),
      row("k4", "Blocked", { claimed: HERE, blocked: "taken", ours: 0 }),
      row("k5", "Blocked-but-ours", { claimed: null, blocked: "taken", ours: 1 }),
    ];
    const names = [wanted("k1", "Claimed"), wanted("k6", "New"), wanted("k7", "blocked")];
    expect(unclaimed(rows, names, HERE)).toEqual(["moved", "old", "blocked-but-ours", "new", "blocked"]);
    expect(unclaimed(rows, [], HERE)).toEqual(["moved", "old", "blocked-but-ours"]);
    expect(unclaimed(rows, names, "")).toEqual([]);
  });

  it("are not pushed before the check, and not removed once they are foreign", () => {
    const copies = new RemoteObjects(storage());
    copies.apply("a", copies.plan("a", [wanted("k", "X"), wanted("l", "Y")]), 1, HERE);
    copies.yieldName("x");
    copies.leased(copies.of("a"), ["tag"], 2, HERE);
    const byKey = () => Object.fromEntries(copies.of("a").map((one) => [one.sub_key, one]));
    expect(byKey()).toMatchObject({ k: { ours: 0, unsure_since: null }, l: { ours: 1, unsure_since: 2 } });
    expect(objectTask(byKey()["k"] as RemoteObjectRow, HERE).unclaimed).toBe(true);
    expect(copies.holdersOf("x", HERE)).toEqual({ associations: ["a"], surely: false });
    expect(copies.holdersOf("y", HERE)).toEqual({ associations: ["a"], surely: true });
    copies.yieldName("y");
    expect(copies.holdersOf("y", HERE).surely).toBe(false);
    copies.claimNames("a", new Map([["y", "the destination t/d"]]), HERE);
    expect(byKey()["l"]).toMatchObject({ ours: 0, claimed: null });
    copies.apply("a", copies.plan("a", [wanted("l", "Z")]), 3, HERE);
    copies.leased(copies.of("a"), [], 4, HERE);
    copies.yieldName("z");
    copies.claimNames("a", new Map(), HERE);
    expect(byKey()["l"]).toMatchObject({ external_name: "Z", ours: 1, claimed: HERE });
  });
});

describe("a push of unknown outcome", () => {
  const LOST = { outcome: "unknown", code: "network_error", message: "m" } as const;
  const outside = { version: 1, tagKeys: [] };
  let copies: RemoteObjects;
  const only = (association = "a") => copies.live(association)[0];
  beforeEach(() => {
    copies = new RemoteObjects(storage());
    copies.apply("a", copies.plan("a", [wanted("k", "X")]), 1);
    copies.leased(copies.of("a"), [], 10);
  });

  it("is recorded from its lease on, the first of several, until an outcome is known", () => {
    copies.record("a", { subKey: "k", name: "X", state: "failed", trouble: LOST }, outside, 11);
    copies.leased(copies.of("a"), [], 20);
    expect(only()?.unsure_since).toBe(10);
    const failed = { outcome: "client", code: "value_invalid", message: "m" } as const;
    copies.record("a", { subKey: "k", name: "X", state: "failed", trouble: failed, unsureSince: 10 }, outside, 21);
    expect(only()?.unsure_since).toBe(10);
    copies.record("a", { subKey: "k", name: "X", state: "pushed", fingerprint: "f" }, outside, 22);
    expect(only()?.unsure_since).toBeNull();
  });

  it("is recorded for the key that adopts its name", () => {
    copies.apply("a", copies.plan("a", [wanted("l", "X")]), 12);
    expect([only()?.sub_key, only()?.unsure_since]).toEqual(["l", 10]);
    copies.leased(copies.of("a"), [], 30);
    expect(only()?.unsure_since).toBe(10);
  });

  it("is not recorded without a call, and the object stays foreign", () => {
    copies.record("a", { subKey: "k", name: "X", state: "untouched", certain: true, notOurs: true }, outside, 11);
    expect(only()).toMatchObject({ ours: 0, known: 1, unsure_since: null });
  });
});

describe("the digest of the tags that a push wrote", () => {
  const copies = new RemoteObjects(storage());
  const written = () => objectTask(copies.of("a")[0] as RemoteObjectRow, "").tagsWritten;
  const lease = () => copies.leased(copies.of("a"), ["tag"], 1);
  const record = (result: Partial<ObjectResult>) =>
    copies.record(
      "a",
      { subKey: "", name: "X", state: "pushed", ...result },
      { version: 1, tagKeys: ["tag"], tagsDigest: "digest" },
      2,
    );
  copies.apply("a", copies.plan("a", [wanted("", "X")]), 0);

  it("is recorded with the push, and uncertain from the next lease on", () => {
    expect(written()).toBeNull();
    lease();
    record({});
    expect(written()).toBe("digest");
    lease();
    expect(written()).toBeNull();
    record({ state: "failed", trouble: { outcome: "unknown", code: "network_error", message: "" } });
    expect(written()).toBeNull();
  });

  it("is as before the lease when no call was made", () => {
    lease();
    record({ state: "untouched", certain: true, tagsWritten: "before" });
    expect(written()).toBe("before");
  });

  it("is uncertain after a set, which sends the tags again", () => {
    copies.forgetFingerprints("a");
    expect(written()).toBeNull();
  });
});
