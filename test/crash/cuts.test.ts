import { exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { part } from "../support/long.ts";
import { get, lines, mountKv, put, send } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { byItself as passing } from "../workers/clock-and-alarms.ts";
import { cloudA } from "../workers/sync-cloud-a.ts";
import {
  association,
  makeDestination,
  objects,
  removeAssociation,
  removeWithoutWaiting,
  setAssociation,
  write,
} from "../workers/sync-helpers.ts";
import { at, attempt, both, type ClassName, type Cut, cut, type Method, prototypeOf } from "./crash-point.ts";

clock.moves = true;

const byItself = (check: () => Promise<void>) =>
  passing({ mounts: [mount.uuid], destinations: ["cloud-a-sm/d", "in-mem/m"] }, check);

let mount = { accessor: "", uuid: "" };
const nameOf = (secret: string) => `vault/${mount.accessor}/${secret}`;
const valueAt = async (at: string) =>
  at === "in-mem/m" ? (await objects("m"))[nameOf("app")] : cloudA.value(nameOf("app"));

const everywhere = (cuts: Cut[]) => [...at("cloud-a-sm/d", cuts), ...at("in-mem/m", cuts)];

beforeEach(async () => {
  await cloudA.begin();
  mount = await mountKv();
  await write("app", { v: 1 });
  await makeDestination("cloud-a-sm", "d");
  await makeDestination("in-mem", "m");
});

describe("setting an association with a crash", () => {
  it.each(part(everywhere([...both("SyncDestination", "set", "poll"), ...both("KvStore", "watch", "newest")])))(
    "at %s, in %s.%s (%s)",
    async (destination, ...where) => {
      const happened = cut(where);
      const first = await attempt(setAssociation(destination, "app"));
      expect(happened()).toBe(true);
      // A client that got no answer asks again; one that got an answer need not.
      if (!first) expect((await setAssociation(destination, "app")).status).toBe(200);
      await byItself(async () => {
        expect(await valueAt(destination)).toBe('{"v":1}');
        expect(await association(destination, "app")).toMatchObject({ sync_status: "SYNCED", synced_version: 1 });
      });
      // The mount has the watcher after any crash.
      await write("app", { v: 2 });
      await byItself(async () => expect(await valueAt(destination)).toBe('{"v":2}'));
    },
  );

  it("pushes a version that was written before the mount knew its destination", async () => {
    const watch = vi.spyOn(prototypeOf("KvStore"), "watch").mockRejectedValue(new Error("mount is down"));
    expect((await setAssociation("in-mem/m", "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    await write("app", { v: 2 });
    expect(await valueAt("in-mem/m")).toBe('{"v":1}');
    watch.mockRestore();
    await byItself(async () => expect(await valueAt("in-mem/m")).toBe('{"v":2}'));
  });
});

describe("writing a secret with a crash", () => {
  it.each(
    part(everywhere([...both("KvStore", "put", "flush", "newest"), ...both("SyncDestination", "changed", "poll")])),
  )("synced to %s, in %s.%s (%s)", async (destination, ...where) => {
    await setAssociation(destination, "app");
    const happened = cut(where);
    const first = await attempt(put("/v1/kv/data/app", { data: { v: 2 } }));
    if (where[1] === "put") expect(first).toBeNull();
    // Unacknowledged, it is there whole or not at all.
    // A store that is being restarted answers 503: try again.
    const { version } = await vi.waitFor(async () => {
      const read = await get("/v1/kv/data/app");
      expect(read.status).toBe(200);
      return read.body.data.metadata;
    });
    if (first) expect(version).toBe(2);
    else expect(version).toBe(where[2] === "after" ? 2 : 1);
    await byItself(async () => {
      expect(await valueAt(destination)).toBe(`{"v":${version}}`);
      expect(await association(destination, "app")).toMatchObject({ sync_status: "SYNCED", synced_version: version });
    });
    expect(happened()).toBe(true);
  });
});

describe("removing an association with a crash", () => {
  it.each(part(everywhere([...both("SyncDestination", "remove", "poll"), ...both("KvStore", "unwatch")])))(
    "at %s, in %s.%s (%s)",
    async (destination, ...where) => {
      await setAssociation(destination, "app");
      const happened = cut(where);
      const first = await attempt(removeWithoutWaiting(destination, "app"));
      if (!first) expect((await removeWithoutWaiting(destination, "app")).status).toBe(200);
      await byItself(async () => {
        expect(await valueAt(destination)).toBeUndefined();
        expect(await association(destination, "app")).toBeUndefined();
      });
      expect(happened()).toBe(true);
      expect((await send("DELETE", `/sys/sync/destinations/${destination}`)).status).toBe(204);
    },
  );
});

/** The lines of the stream so far: index and key of each event. */
async function stream(): Promise<[number, string][]> {
  const answer = await exports.default.fetch("https://x/v1/event/stream?topic=ACLPolicy&index=0", {
    headers: { "X-Orch-Token": "root" },
  });
  const seen: [number, string][] = [];
  for await (const line of lines(answer.body)) {
    // Heartbeats follow the backlog.
    if (!line.Events || line.Events.length === 0) break;
    for (const event of line.Events) seen.push([event.Index, event.Key]);
  }
  await answer.body?.cancel().catch(() => undefined);
  return seen;
}

describe("writing a policy with a crash", () => {
  const policy = { policy: 'path "x" { capabilities = ["read"] }' };

  it.each([...both("AccessControl", "putPolicy"), ...both("EventLog", "append")])("in %s.%s (%s)", async (...where) => {
    await put("/v1/sys/policies/acl/first", policy);
    const happened = cut(where);
    const answered = await attempt(put("/v1/sys/policies/acl/app", policy));
    expect(happened()).toBe(true);
    const stored = (await get("/v1/sys/policies/acl/app")).status === 200;
    if (answered || where[2] === "after") expect(stored).toBe(true);
    await put("/v1/sys/policies/acl/last", policy).catch(() => undefined);
    await byItself(async () => {
      const seen = await stream();
      expect(seen.map(([, key]) => key)).toEqual(stored ? ["first", "app", "last"] : ["first", "last"]);
      expect(seen.map(([index]) => index)).toEqual(seen.map((_, position) => position + 1));
    });
  });
});

/** Deliveries repeat, effects do not: every receiver of every flow is called twice. */
it("has every effect once when every delivery is repeated", async () => {
  const receivers: [ClassName, string][] = [
    ["KvStore", "watch"],
    ["KvStore", "unwatch"],
    ["KvStore", "destroy"],
    ["SyncDestination", "changed"],
    ["SyncDestination", "poll"],
    ["SyncControl", "share"],
    ["EventLog", "append"],
    ["AccessControl", "holdsKeys"],
  ];
  const calls = receivers.map(([name, method]) => {
    const original = prototypeOf(name)[method] as Method;
    return vi.spyOn(prototypeOf(name), method).mockImplementation(async function (
      this: ThisParameterType<Method>,
      ...parameters
    ) {
      // A poll leases tasks, too; only its results are reported twice.
      await original.apply(this, method === "poll" ? [parameters[0], 0] : parameters);
      return original.apply(this, parameters);
    });
  });
  for (const name of ["one", "two"]) await put(`/v1/sys/policies/acl/${name}`, { policy: 'path "a" {}' });
  await makeDestination("in-mem", "fresh");
  for (const destination of ["cloud-a-sm/d", "in-mem/m"]) {
    expect((await setAssociation(destination, "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
  }
  await write("app", { v: 2 });
  for (const destination of ["cloud-a-sm/d", "in-mem/m"]) {
    await byItself(async () => expect(await valueAt(destination)).toBe('{"v":2}'));
  }
  await removeAssociation("in-mem/m", "app");
  expect(await valueAt("in-mem/m")).toBeUndefined();
  await send("DELETE", "/v1/sys/mounts/kv");
  await byItself(async () => expect(await cloudA.secrets()).toEqual([]));
  expect((await stream()).map(([, key]) => key)).toEqual(["one", "two"]);
  for (const [position, receiver] of receivers.entries()) {
    expect(calls[position], receiver.join(".")).toHaveBeenCalled();
  }
});
