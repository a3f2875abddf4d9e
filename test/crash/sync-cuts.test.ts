import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { SyncResult } from "../../src/contracts/sync-tasks.ts";
import type { WakeUpMessage } from "../../src/platform/durable/wake-up.ts";
import { part } from "../support/long.ts";
import { del, get, mountKv, patch, put } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { byItself as passing } from "../workers/clock-and-alarms.ts";
import { cloudA } from "../workers/sync-cloud-a.ts";
import { openCloudC, openRepoHost } from "../workers/sync-doubles.ts";
import {
  association,
  cloudABody,
  makeDestination,
  removeWithoutWaiting,
  setAssociation,
  write,
} from "../workers/sync-helpers.ts";
import { attempt, both, type Cut, cut, insist, type Method, prototypeOf } from "./crash-point.ts";

/** Secret sync recovers automatically after a crash of an object in any of its calls. */
clock.moves = true;

let mount = { accessor: "", uuid: "" };
let names: string[] = [];
const byItself = (check: () => Promise<void>, options: Parameters<typeof passing>[2] = {}) =>
  passing({ mounts: [mount.uuid], destinations: names }, check, options);

/** Keys and values of the cloud-a double's secrets. */
const external = async (): Promise<Record<string, string | null>> =>
  Object.fromEntries(
    (await cloudA.secrets()).map(({ name, value }) => [name.replace(`vault/${mount.accessor}/`, ""), value]),
  );

const SPREAD = "cloud-a-sm/keys";
const spread = () =>
  makeDestination(
    "cloud-a-sm",
    "keys",
    cloudABody({
      granularity: "secret-key",
      secret_name_template: "vault/{{ .MountAccessor }}/{{ .SecretPath }}/{{ .SecretKey }}",
    }),
  );

beforeEach(async () => {
  await cloudA.begin();
  mount = await mountKv();
  names = [SPREAD, "cloud-a-sm/d"];
  // So little room that each push asks for its own, and gives it back.
  await patch("/sys/sync/config", { queue_capacity: 1_000 });
  await write("app", { a: "1", b: "1" });
  await spread();
});

/** Every method that a push calls, in the order in which it does. */
const PUSH: Cut[] = [
  ...both("SyncControl", "share", "mayRun"),
  ...both("SyncDestination", "poll", "plan"),
  ...both("KvStore", "newest"),
];

describe("a secret with changed keys", () => {
  it.each(part([...PUSH, ...both("SyncDestination", "changed"), ...both("KvStore", "put", "flush")]))(
    "after a crash in %s.%s (%s) has exactly one object per key",
    async (...where) => {
      await setAssociation(SPREAD, "app");
      await byItself(async () => expect(await external()).toEqual({ "app/a": "1", "app/b": "1" }));
      await cloudA.fault({ fault: "delay", ms: 350, operation: "CreateSecret" });
      const happened = cut(where);
      const first = await attempt(put("/v1/kv/data/app", { data: { b: "2", c: "2" } }));
      if (!first) await insist(() => put("/v1/kv/data/app", { data: { b: "2", c: "2" } }));
      await byItself(async () => expect(await external()).toEqual({ "app/b": "2", "app/c": "2" }));
      await byItself(async () => expect((await association(SPREAD, "app"))?.sync_status).toBe("SYNCED"));
      expect(happened()).toBe(true);
    },
  );

  it.each(part(both("SyncDestination", "set", "poll", "remove")))(
    "removed after a crash in %s.%s (%s) leaves no objects",
    async (...where) => {
      const happened = cut(where);
      await insist(() => setAssociation(SPREAD, "app"));
      await attempt(put("/v1/kv/data/app", { data: { b: "2", c: "2" } }));
      await insist(() => removeWithoutWaiting(SPREAD, "app"));
      await byItself(async () => {
        expect(await association(SPREAD, "app")).toBeUndefined();
        expect(await external()).toEqual({});
      });
      expect(happened()).toBe(true);
    },
  );
});

describe("a push to a provider that keeps versions", () => {
  const G = "cloud-c-sm/g";
  /** The Worker of the next push crashes before it reports the result. */
  function loseResult(): () => boolean {
    let lease = "";
    const poll = prototypeOf("SyncDestination")["poll"] as Method;
    vi.spyOn(prototypeOf("SyncDestination"), "poll").mockImplementation(function (
      this: ThisParameterType<Method>,
      ...parameters
    ) {
      const [result] = parameters[0] as SyncResult[];
      lease ||= result?.lease.lease ?? "";
      if (result && result.lease.lease === lease) throw new Error("the Worker died");
      return poll.apply(this, parameters);
    });
    return () => lease !== "";
  }
  const unsure = () =>
    runInDurableObject(env.SYNC_DESTINATION.getByName(G), (_object, { storage }) =>
      storage.sql.exec<{ at: number | null }>("SELECT unsure_since AS at FROM copies").one(),
    );

  it("leaves only the newest version enabled after lost answers and results", async () => {
    const account = await openCloudC();
    await makeDestination("cloud-c-sm", "g", account.body);
    names = [G];
    const drop = (count: number) => () => {
      account.fault({ fault: "apply-then-drop", operation: "AddSecretVersion", count });
      return () => true;
    };
    for (const [what, lose] of [
      ["the answer to the first push", drop(1)],
      ["the result", loseResult],
      ["the answer", drop(1)],
      ["three answers", drop(3)],
    ] as const) {
      const happened = lose();
      const value = { a: what };
      if (what === "the answer to the first push") {
        await write("app", value);
        await setAssociation(G, "app");
      } else await write("app", value);
      await byItself(async () => expect(happened(), what).toBe(true));
      await byItself(async () => expect((await account.enabled()).at(-1), what).toBe(JSON.stringify(value)));
      await byItself(async () => expect((await association(G, "app"))?.sync_status, what).toBe("SYNCED"));
      expect(await account.enabled(), what).toEqual([JSON.stringify(value)]);
      expect(await unsure(), what).toEqual({ at: null });
      vi.restoreAllMocks();
    }
  }, 120_000);

  it("records an unknown outcome before the call is sent, and clears it after a refusal", async () => {
    const account = await openCloudC();
    await makeDestination("cloud-c-sm", "g", account.body);
    await write("app", { a: "1" });
    await account.fault({ fault: "delay", ms: 1_000, operation: "AddSecretVersion" });
    const set = setAssociation(G, "app");
    await vi.waitFor(async () => {
      expect((await account.requests()).map(({ operation }) => operation)).toContain("AddSecretVersion");
    });
    expect((await unsure()).at).toBeGreaterThan(0);
    await set;
    expect(await unsure()).toEqual({ at: null });
    for (const [status, stays] of [
      ["INVALID_ARGUMENT", false],
      ["INTERNAL", true],
      ["PERMISSION_DENIED", true],
    ] as const) {
      await account.fault({ fault: "error", status, operation: "AddSecretVersion" });
      await setAssociation(G, "app");
      expect((await unsure()).at !== null, status).toBe(stays);
    }
  });
});

describe("setting an association", () => {
  it.each(part(both("SyncControl", "share", "mayRun")))(
    "with a crash in %s.%s (%s) is recorded or refused, and pushed once",
    async (...where) => {
      await makeDestination("cloud-a-sm", "d");
      const happened = cut(where);
      await insist(() => setAssociation("cloud-a-sm/d", "app"));
      await byItself(async () => expect(await external()).toEqual({ app: '{"a":"1","b":"1"}' }));
      await byItself(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
      expect(happened()).toBe(true);
      expect((await cloudA.requests()).filter(({ operation }) => operation === "CreateSecret")).toHaveLength(1);
    },
  );
});

it("a gate lease that cannot be renewed during a push delays the push without a failure", async () => {
  await setAssociation(SPREAD, "app");
  // Longer than a permission holds, so that the next call asks for another.
  await cloudA.fault({ fault: "delay", ms: 500, operation: "UpdateSecret" });
  const statuses = new Set<string>();
  let asked = 0;
  const ask = prototypeOf("SyncControl")["mayRun"] as Method;
  vi.spyOn(prototypeOf("SyncControl"), "mayRun").mockImplementation(function (this: ThisParameterType<Method>) {
    asked++;
    if (asked % 2 === 0) throw new Error("not now");
    return ask.apply(this, []);
  });
  await write("app", { a: "2", b: "2", c: "2" });
  await byItself(async () => {
    statuses.add((await association(SPREAD, "app"))?.sync_status ?? "");
    expect(await external()).toEqual({ "app/a": "2", "app/b": "2", "app/c": "2" });
  });
  expect(asked).toBeGreaterThan(1);
  expect([...statuses]).not.toContain("INTERNAL_ERROR");
});

describe("a pause", () => {
  it.each(both("SyncControl", "setConfig"))(
    "with a crash at its start in %s.%s (%s) applies once it is acknowledged",
    async (...where) => {
      await setAssociation(SPREAD, "app");
      const happened = cut(where);
      await insist(() => patch("/sys/sync/config", { disabled: true }));
      expect(happened()).toBe(true);
      const calls = (await cloudA.requests()).length;
      await write("app", { a: "2" });
      await scheduler.wait(300);
      expect(await cloudA.requests()).toHaveLength(calls);
      await patch("/sys/sync/config", { disabled: false });
      await byItself(async () => expect(await external()).toEqual({ "app/a": "2" }));
    },
  );

  it.each(part([...both("SyncControl", "setConfig", "mayRun", "share"), ...both("SyncDestination", "poll")]))(
    "with a crash at its end in %s.%s (%s) resumes all pending work",
    async (...where) => {
      await setAssociation(SPREAD, "app");
      await patch("/sys/sync/config", { disabled: true });
      await write("app", { a: "2", d: "2" });
      const happened = cut(where);
      await insist(() => patch("/sys/sync/config", { disabled: false }));
      await byItself(async () => expect(await external()).toEqual({ "app/a": "2", "app/d": "2" }));
      await byItself(async () => expect((await association(SPREAD, "app"))?.sync_status).toBe("SYNCED"));
      expect(happened()).toBe(true);
    },
  );
});

describe("a rule", () => {
  it.each([
    ...both("KvStore", "follow", "survey", "watchMany", "newestOf"),
    ...both("SyncControl", "share"),
    ...both("SyncDestination", "contest", "poll"),
  ])("after a crash in %s.%s (%s) has one object for each secret, and follows its changes", async (...where) => {
    const count = 12;
    for (let each = 0; each < count; each++) await write(`many/k${each}`, { a: "1" });
    // Names are checked with a destination of the same account.
    await makeDestination("cloud-a-sm", "d", cloudABody());
    await setAssociation("cloud-a-sm/d", "app");
    const second = cloudABody({ secret_name_template: "by-rule/{{ .SecretPath }}" });
    await makeDestination("cloud-a-sm", "ruled", second);
    names.push("cloud-a-sm/ruled");
    const happened = cut(where);
    await insist(() => put("/sys/sync/destinations/cloud-a-sm/ruled/rules/all", { mount: "kv", path_prefix: "many" }));
    const pushed = async () =>
      (await cloudA.secrets())
        .filter(({ name }) => name.startsWith("by-rule/"))
        .map(({ name, value }) => [name, value]);
    const wanted = (changed: number) =>
      Array.from({ length: count }, (_, each) => [
        `by-rule/many/k${each}`,
        each === changed ? '{"a":"2"}' : '{"a":"1"}',
      ]);
    // Calls are counted: a Worker that repeats its report at once would be later than its leases.
    await byItself(async () => expect((await pushed()).sort()).toEqual(wanted(-1).sort()), { skips: false });
    expect(happened()).toBe(true);
    await write("many/k3", { a: "2" });
    await byItself(async () => expect((await pushed()).sort()).toEqual(wanted(3).sort()), { skips: false });
    const created = (await cloudA.requests()).filter(({ operation }) => operation === "CreateSecret");
    expect(created.length).toBeLessThanOrEqual(count + 1 + 1);
  });
});

describe("a purge", () => {
  it.each([
    ...both("SyncDestination", "delete", "poll"),
    ...both("SyncControl", "share", "mayRun"),
    ...both("KvStore", "unwatch"),
  ])("with a crash in %s.%s (%s) removes destination and objects, and frees the name", async (...where) => {
    await write("other", { x: "1" });
    for (const secret of ["app", "other"]) await setAssociation(SPREAD, secret);
    // The mount is told of both secrets at once, or of one after the other.
    const cuts = where[1] === "unwatch" ? [cut(where), cut(["KvStore", "watchMany", where[2]])] : [cut(where)];
    await insist(() => del(`/sys/sync/destinations/${SPREAD}?purge=true`));
    await byItself(async () => {
      expect((await get(`/sys/sync/destinations/${SPREAD}`)).status).toBe(404);
      expect(await external()).toEqual({});
    });
    await byItself(async () => {
      expect((await get("/sys/sync/associations?list=true")).status).toBe(404);
    });
    expect(cuts.some((happened) => happened())).toBe(true);
    vi.restoreAllMocks();
    await byItself(async () => void (await spread()));
    await setAssociation(SPREAD, "app");
    await byItself(async () => expect(await external()).toEqual({ "app/a": "1", "app/b": "1" }));
  });
});

describe("a write of new credentials", () => {
  it.each(part([...both("SyncDestination", "configure", "poll"), ...both("KvStore", "newestVersions")]))(
    "with a crash in %s.%s (%s) repairs the refused associations",
    async (...where) => {
      await makeDestination("cloud-a-sm", "d", cloudABody({ secret_access_key: "not-the-key" }));
      await setAssociation("cloud-a-sm/d", "app");
      expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("CLIENT_SIDE_ERROR");
      const happened = cut(where);
      await insist(() => put("/sys/sync/destinations/cloud-a-sm/d", cloudABody()));
      await byItself(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
      expect(happened()).toBe(true);
      expect(await external()).toEqual({ app: '{"a":"1","b":"1"}' });
    },
  );
});

describe("a refusal of fresh rights", () => {
  it.each(part(both("SyncDestination", "poll", "set")))(
    "with a crash in %s.%s (%s) is retried without a change",
    async (...where) => {
      await makeDestination("cloud-a-sm", "d", cloudABody());
      await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "CreateSecret", count: 3 });
      const happened = cut(where);
      await insist(() => setAssociation("cloud-a-sm/d", "app"));
      await byItself(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
      expect(happened()).toBe(true);
      expect(await external()).toEqual({ app: '{"a":"1","b":"1"}' });
    },
  );
});

describe("an import", () => {
  it.each([
    ...both("KvStore", "surveyOf", "setMetadata", "put"),
    ...both("SyncDestination", "setup", "previewAdoptions", "adopt", "poll"),
  ])("with a crash in %s.%s (%s) writes one version of each secret, and adopts it once", async (...where) => {
    await makeDestination("cloud-a-sm", "d", cloudABody());
    for (const name of ["old/one", "old/two"]) {
      const given = { Name: name, SecretString: `{"of":"${name}"}`, ClientRequestToken: crypto.randomUUID() };
      await cloudA.call("CreateSecret", given);
    }
    const happened = cut(where);
    const body = { mount: "kv", name_glob: ["old/*"] };
    const imported = await insist(() => put("/sys/sync/destinations/cloud-a-sm/d/import", body));
    const { counters } = imported.body.data;
    expect(counters.refuse, imported.text).toBeUndefined();
    for (const name of ["old/one", "old/two"]) {
      await byItself(async () => expect((await association("cloud-a-sm/d", name))?.sync_status).toBe("SYNCED"));
      const { data, metadata } = (await get(`/v1/kv/data/${name}`)).body.data;
      expect([data, metadata.version]).toEqual([{ of: name }, 1]);
      expect(await cloudA.value(name)).toBe(`{"of":"${name}"}`);
    }
    expect((await cloudA.secrets()).length).toBe(2);
    expect(happened()).toBe(true);
  });
});

describe("a custom application", () => {
  /** GitHub refuses the token of an application whose clock is a minute ahead; the push is not repeated then. */
  const soon = (check: () => Promise<void>) => byItself(check, { most: 45_000 });
  const setUp = async () => {
    const { account, ...host } = await openRepoHost();
    const body = {
      app_name: "bot",
      installation_id: account.installationId,
      repository_owner: account.owner,
      repository_name: account.repository,
    };
    const app = { app_id: account.appId, private_key: account.appKey };
    names = ["repo-host/r"];
    return { host, body, app };
  };

  it.each([
    ...both("SyncControl", "putApp", "claimApp", "useApp", "appCredentials"),
    ...both("SyncDestination", "configure"),
  ])("with a crash in %s.%s (%s) is in use exactly while a destination names it", async (...where) => {
    const { host, body, app } = await setUp();
    const happened = cut(where);
    await insist(() => put("/sys/sync/repo-host-apps/bot", app));
    expect((await insist(() => put("/sys/sync/destinations/repo-host/r", body))).status).toBe(200);
    await insist(() => setAssociation("repo-host/r", "app"));
    await soon(async () => expect(Object.values(await host.values())).toEqual(["1", "1"]));
    expect(happened()).toBe(true);
    expect((await del("/sys/sync/repo-host-apps/bot")).status).toBe(400);
    await insist(() => del("/sys/sync/destinations/repo-host/r?purge=true"));
    await soon(async () => expect(await host.values()).toEqual({}));
    await soon(async () => expect((await del("/sys/sync/repo-host-apps/bot")).status).toBeLessThan(300));
  });

  it.each<[Cut | null]>([
    [null],
    ...[...both("SyncControl", "putApp"), ...both("SyncDestination", "repaired")].map((each): [Cut] => [each]),
  ])("with a repaired key pushes all refused secrets at once, also after a crash (%s)", async (where) => {
    const { host, body, app } = await setUp();
    await put("/sys/sync/repo-host-apps/bot", { ...app, app_id: "999999" });
    await put("/sys/sync/destinations/repo-host/r", body);
    await setAssociation("repo-host/r", "app");
    expect((await association("repo-host/r", "app"))?.sync_status).toBe("CLIENT_SIDE_ERROR");
    if (where) cut(where);
    await insist(() => put("/sys/sync/repo-host-apps/bot", app));
    await soon(async () => expect(Object.values(await host.values())).toEqual(["1", "1"]));
  });
});

/** Messages are wake-ups: the work rows are kept in the object, whatever happens to a message. */
describe("with wake-up messages that", () => {
  const send = () => vi.spyOn(env.SYNC_WORK, "send");
  const original = env.SYNC_WORK.send.bind(env.SYNC_WORK);
  const fates: [string, () => unknown][] = [
    ["are lost", () => send().mockResolvedValue(undefined as never)],
    ["are refused", () => send().mockRejectedValue(new Error("no queue"))],
    [
      "are delivered several times",
      () =>
        send().mockImplementation(async (bell) => {
          await Promise.all([1, 2, 3].map(() => original(bell as WakeUpMessage)));
          return undefined as never;
        }),
    ],
    [
      "are delivered late",
      () => send().mockImplementation((bell) => original(bell as WakeUpMessage, { delaySeconds: 2 })),
    ],
  ];

  it.each(part(fates))("%s, every secret is pushed once", async (_what, befall) => {
    befall();
    await makeDestination("cloud-a-sm", "d");
    for (const at of names) await setAssociation(at, "app");
    await write("app", { a: "2" });
    await write("app", { a: "3" });
    await byItself(async () => expect(await external()).toEqual({ app: '{"a":"3"}', "app/a": "3" }));
    await put("/v1/kv/metadata/app", {});
    await del("/v1/kv/metadata/app");
    await byItself(async () => expect(await external()).toEqual({}));
  });
});

it("has every effect once when every delivery is repeated", async () => {
  const receivers: [Cut[0], string][] = [
    ["SyncDestination", "configure"],
    ["SyncDestination", "set"],
    ["SyncDestination", "changed"],
    ["SyncDestination", "poll"],
    ["SyncDestination", "plan"],
    ["SyncDestination", "remove"],
    ["SyncControl", "share"],
    ["SyncControl", "mayRun"],
    ["SyncControl", "setConfig"],
    ["KvStore", "watch"],
    ["KvStore", "newest"],
    ["KvStore", "newestVersions"],
  ];
  const calls = receivers.map(([name, method]) => {
    const single = prototypeOf(name)[method] as Method;
    return vi.spyOn(prototypeOf(name), method).mockImplementation(async function (
      this: ThisParameterType<Method>,
      ...parameters
    ) {
      // A poll leases tasks, too; only its results are reported twice.
      await single.apply(this, method === "poll" ? [parameters[0], 0] : parameters);
      return single.apply(this, parameters);
    });
  });
  await setAssociation(SPREAD, "app");
  await patch("/sys/sync/config", { disabled: true });
  await write("app", { b: "2", c: "2" });
  await patch("/sys/sync/config", { disabled: false });
  await byItself(async () => expect(await external()).toEqual({ "app/b": "2", "app/c": "2" }));
  await spread();
  await byItself(async () => expect((await association(SPREAD, "app"))?.sync_status).toBe("SYNCED"));
  await removeWithoutWaiting(SPREAD, "app");
  await byItself(async () => expect(await external()).toEqual({}));
  const creates = (await cloudA.requests()).filter(({ operation }) => operation === "CreateSecret");
  expect(creates).toHaveLength(3);
  for (const [position, receiver] of receivers.entries()) {
    expect(calls[position], receiver.join(".")).toHaveBeenCalled();
  }
});
