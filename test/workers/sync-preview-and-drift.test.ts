import { beforeEach, describe, expect, it } from "vitest";
import { del, get, mountKv, patch, put, send } from "./client.ts";
import { dump } from "./stored-rows.ts";
import { association, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { type Shared, shared } from "./sync-shared-accounts.ts";

/** Looking ahead (`dry_run`), looking again (`drift`), and trying a connection (`verify`). */

const AT = "/sys/sync/destinations";

interface Planned {
  readonly association: string;
  readonly sub_key?: string;
  readonly external_name: string;
  readonly action: string;
  readonly outside?: string;
  readonly reason?: string;
}

/** Whether the provider has an ownership marker. */
const marks = (type: string) => type !== "repo-host";
const drySet = async (destination: string, secret: string): Promise<Planned[]> => {
  const answer = await put(`${AT}/${destination}/associations/set?dry_run=true`, { mount: "kv", secret_name: secret });
  expect([answer.status, answer.body.data?.dry_run], answer.text).toEqual([200, true]);
  return answer.body.data.planned;
};
const dryWrite = async (destination: string, body: object): Promise<Planned[]> => {
  const answer = await patch(`${AT}/${destination}?dry_run=true`, body);
  expect([answer.status, answer.body.data?.dry_run, answer.body.data?.next], answer.text).toEqual([200, true, ""]);
  return answer.body.data.planned;
};
/** Runs something that must store nothing anywhere, and change nothing outside. */
async function harmlessly<T>(look: () => Promise<T>, names: () => Promise<string[]>): Promise<T> {
  const state = async () => {
    // Room in the queue is given back behind the answer that ended the work, and so is a scan that a write began.
    const tables = Object.entries(await dump()).filter(([table]) => !/ (share|scan)$/.test(table));
    return [Object.fromEntries(tables), await names()];
  };
  const before = await state();
  const seen = await look();
  expect(await state()).toEqual(before);
  return seen;
}
const nothingOutside = async (): Promise<string[]> => [];
const short = (planned: readonly Planned[]) =>
  planned.map(({ external_name, action, outside }) => [external_name, action, outside]).sort();

let accessor = "";
beforeEach(async () => {
  ({ accessor } = await mountKv());
});

describe.each(Object.entries(shared))("at %s", (type, open) => {
  const at = `${type}/d`;
  let there: Shared;
  const nameOf = async (secret: string) => String((await association(at, secret))?.["external_name"]);
  beforeEach(async () => {
    there = await open();
    await makeDestination(type, "d", { ...there.body, granularity: "secret-path" });
  });

  it("verify returns ok for a valid connection and the error of an invalid one", async () => {
    const verify = async () => {
      const answer = await put(`${AT}/${at}/verify`, {});
      expect(answer.status, answer.text).toBe(200);
      return answer.body.data;
    };
    expect(await harmlessly(verify, there.names)).toEqual({
      ok: true,
      message: "The credentials are accepted and the target can be reached.",
    });
    // The result of a read may be written back: a masked value stays unchanged.
    const { connection_details } = (await get(`${AT}/${at}`)).body.data;
    expect(JSON.stringify(connection_details)).toContain('"*****"');
    await makeDestination(type, "d", connection_details);
    await patch(`${AT}/${at}`, connection_details);
    expect(await verify()).toMatchObject({ ok: true });
    await makeDestination(type, "d", there.wrong);
    const refused = await verify();
    expect(refused).toEqual({
      ok: false,
      error_code: "auth_failed",
      message: expect.stringMatching(/^[A-Z][^\n]+\.$/),
      retried_until: expect.any(String),
    });
    for (const value of Object.values(there.wrong)) expect(refused.message).not.toContain(value);
    await patch("/sys/sync/config", { disabled: true });
    expect(await verify()).toMatchObject({ ok: false, error_code: "paused" });
  });

  it("a dry run of set returns the changes without making them", async () => {
    await write("app", { v: 1 });
    const look = () => harmlessly(() => drySet(at, "app"), there.names);
    const [first] = await look();
    const name = String(first?.external_name);
    const id = `${accessor}/app`;
    expect(first).toEqual({ association: id, external_name: name, action: "create", outside: "absent" });
    expect(await association(at, "app")).toBeUndefined();

    await there.create(name);
    const foreign = marks(type) ? "foreign" : "present";
    expect(await look()).toEqual([
      { association: id, external_name: name, action: "update", outside: foreign, reason: expect.any(String) },
    ]);
    for (const [update_policy, action] of [
      ["if-not-exists", "retain"],
      ["owned-only", "refuse"],
    ]) {
      await makeDestination(type, "d", { update_policy });
      expect(short(await look()), update_policy).toEqual([[name, action, foreign]]);
      const done = (await setAssociation(at, "app")).body.data.associated_secrets[id];
      if (action === "retain") expect(done).toMatchObject({ sync_status: "SYNCED", note: expect.any(String) });
      else expect(done).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "not_owned" });
    }

    await makeDestination(type, "d", { update_policy: "replace" });
    await there.remove(name);
    expect((await setAssociation(at, "app")).status).toBe(200);
    // A provider may take longer than an answer to give a name back.
    await eventually(async () => expect((await association(at, "app"))?.sync_status).toBe("SYNCED"));
    expect(await nameOf("app")).toBe(name);
    expect(short(await look())).toEqual([[name, "update", marks(type) ? "ours" : "present"]]);
    await there.remove(name);
    expect(short(await look())).toEqual([[name, "create", "absent"]]);
    await makeDestination(type, "d", there.wrong);
    expect(short(await look())).toEqual([[name, "update", "unreadable"]]);
  });

  it("a dry run of a write returns the objects that the write creates and removes", async () => {
    await write("app", { one: "1", two: "2" });
    await setAssociation(at, "app");
    const before = await there.names();
    const look = (body: object) => harmlessly(() => dryWrite(at, body), there.names);
    expect(await look({})).toEqual([]);
    const planned = await look({ granularity: "secret-key" });
    const created = planned.filter(({ action }) => action === "create");
    expect(created.map(({ sub_key, outside }) => [sub_key, outside]).sort()).toEqual([
      ["one", "absent"],
      ["two", "absent"],
    ]);
    const outside = marks(type) ? "ours" : "present";
    expect(short(planned.filter(({ action }) => action !== "create"))).toEqual([[before[0], "delete", outside]]);

    await patch(`${AT}/${at}`, { granularity: "secret-key" });
    await setAssociation(at, "app");
    await eventually(async () => {
      const { body, text } = await get(`${AT}/${at}/associations`);
      expect(body.data.sync_operation_counters, text).toEqual({ SYNCED: 2 });
    });
    expect(await there.names()).toEqual(created.map(({ external_name }) => external_name).sort());
  });

  it("drift returns unchanged, changed, missing and unexpected objects", { timeout: 60_000 }, async () => {
    for (const secret of ["same", "touched", "gone", "back"]) {
      await write(secret, { v: secret });
      const set = await setAssociation(at, secret);
      expect(set.body.data.sync_operation_counters, set.text).toEqual({ SYNCED: 1 });
    }
    const names = Object.fromEntries(
      await Promise.all(["same", "touched", "gone", "back"].map(async (one) => [one, await nameOf(one)] as const)),
    ) as Record<"same" | "touched" | "gone" | "back", string>;
    const drift = async (query = "") => {
      const answer = await get(`${AT}/${at}/drift${query}`);
      expect(answer.status, answer.text).toBe(200);
      return answer.body.data;
    };
    const statesIn = (objects: Record<string, { state: string }>) =>
      Object.fromEntries(Object.entries(objects).map(([key, { state }]) => [key.slice(accessor.length + 1), state]));

    const untouched = await harmlessly(() => drift(), there.names);
    expect(untouched.counters).toEqual({ in_sync: 4 });
    expect(untouched.next).toBe("");
    expect(untouched.objects[`${accessor}/same`]).toEqual({
      external_name: names.same,
      state: "in_sync",
      ...(marks(type) && { owned: true }),
    });

    await del("/v1/kv/data/back");
    await eventually(async () => expect((await association(at, "back"))?.sync_status).toBe("UNSYNCED"));
    expect(statesIn((await drift()).objects)).toMatchObject({ back: "in_sync" });
    await there.remove(names.gone);
    await there.change(names.touched);
    await there.create(names.back);
    const seen = await drift();
    expect(statesIn(seen.objects)).toEqual({
      same: "in_sync",
      touched: "changed",
      gone: "missing",
      back: "unexpected",
    });
    expect(seen.counters).toEqual({ in_sync: 1, changed: 1, missing: 1, unexpected: 1 });

    await patch("/sys/sync/config", { disabled: true });
    await write("late", { v: 1 });
    await setAssociation(at, "late");
    const paused = await drift();
    expect(statesIn(paused.objects)).toMatchObject({ late: "pending", same: "unreadable" });
    expect(paused.objects[`${accessor}/same`]).toMatchObject({
      error_code: "paused",
      error_message: expect.any(String),
    });
    expect(paused.counters).toEqual({ pending: 1, unreadable: 4 });
  });
});

describe("drift", () => {
  it("is paged by object, and returns 400 for an unknown page", async () => {
    await makeDestination("in-mem", "m", { granularity: "secret-key" });
    await write("app", { a: 1, b: 2, c: 3 });
    await write("app/b", { x: 1 });
    for (const secret of ["app", "app/b"]) await setAssociation("in-mem/m", secret);
    const seen: string[] = [];
    let after = "";
    do {
      const { body } = await get(`${AT}/in-mem/m/drift?limit=2&after=${after}`);
      expect(Object.keys(body.data.objects).length).toBeLessThanOrEqual(2);
      expect(body.data.counters).toEqual({ in_sync: Object.keys(body.data.objects).length });
      seen.push(...Object.keys(body.data.objects));
      after = body.data.next;
    } while (after !== "");
    expect(seen).toEqual(["app/a", "app/b", "app/c", "app/b/x"].map((key) => `${accessor}/${key}`));
    for (const [query, text] of [
      ["after=xyz", "after: must be what an earlier answer said in next"],
      ["limit=0", "limit: must be 1 to 100"],
      ["limit=101", "limit: must be 1 to 100"],
    ]) {
      const refused = await get(`${AT}/in-mem/m/drift?${query}`);
      expect([refused.status, refused.body.errors], query).toEqual([400, [text]]);
    }
    expect((await get(`${AT}/in-mem/none/drift`)).status).toBe(404);
  });
});

it("verify succeeds for a destination of kind stored, and returns 404 for an absent one", async () => {
  await makeDestination("in-mem", "m");
  expect((await put(`${AT}/in-mem/m/verify`, {})).body.data).toMatchObject({ ok: true });
  expect((await put(`${AT}/in-mem/none/verify`, {})).status).toBe(404);
});

describe("a dry run", () => {
  const at = "in-mem/m";
  const look = (body: object) => harmlessly(() => dryWrite(at, body), nothingOutside);
  beforeEach(async () => {
    await makeDestination("in-mem", "m");
    for (const secret of ["one", "two"]) {
      await write(secret, { a: 1, b: 2 });
      await setAssociation(at, secret);
    }
  });
  const old = (secret: string) => `vault/${accessor}/${secret}`;

  it("of another template returns the new and the old objects, which a policy may retain", async () => {
    const template = { secret_name_template: "new/{{ .SecretPath }}" };
    expect(short(await look(template))).toEqual([
      ["new/one", "create", undefined],
      ["new/two", "create", undefined],
      [old("one"), "delete", undefined],
      [old("two"), "delete", undefined],
    ]);
    expect(short(await look({ ...template, deletion_policy: "retain" }))).toEqual([
      ["new/one", "create", undefined],
      ["new/two", "create", undefined],
      [old("one"), "retain", undefined],
      [old("two"), "retain", undefined],
    ]);
  });

  it("returns names that would collide, of two secrets or of two keys", async () => {
    expect(await look({ secret_name_template: "same" })).toEqual([
      { association: `${accessor}/one`, external_name: old("one"), action: "delete" },
      { association: `${accessor}/one`, external_name: "same", action: "create" },
      {
        association: `${accessor}/two`,
        external_name: "same",
        action: "refuse",
        reason: `external name "same" is taken by the association of ${accessor}/one`,
      },
    ]);
    await write("one", { "a b": 1, "a,b": 2 });
    await eventually(async () => expect((await association(at, "one"))?.["synced_version"]).toBe(2));
    const keys = (await look({ granularity: "secret-key" })).filter(({ association: of }) => of.endsWith("/one"));
    expect(keys.map(({ sub_key, action }) => [sub_key, action])).toEqual([
      ["a b", "refuse"],
      ["a,b", "refuse"],
    ]);
  });

  it("uses the current keys of a secret, and plans no change for a deleted one", async () => {
    await write("one", { only: 1 });
    await del("/v1/kv/metadata/two");
    await eventually(async () => expect((await association(at, "two"))?.sync_status).toBe("UNSYNCED"));
    await eventually(async () => expect((await association(at, "one"))?.["synced_version"]).toBe(2));
    expect(short(await look({ granularity: "secret-key" }))).toEqual([
      [old("one"), "delete", undefined],
      [`${old("one")}/only`, "create", undefined],
    ]);
  });

  it("is paged", { timeout: 60_000 }, async () => {
    for (let n = 0; n < 100; n++) {
      await write(`s${n}`, { a: 1 });
      await put(`${AT}/${at}/associations/set`, { mount: "kv", secret_name: `s${n}` });
    }
    const planned = new Set<string>();
    let after = "";
    let pages = 0;
    do {
      const query = `dry_run=true&after=${encodeURIComponent(after)}`;
      const { data } = (await patch(`${AT}/${at}?${query}`, { secret_name_template: "n/{{ .SecretPath }}" })).body;
      for (const { external_name, action } of data.planned) if (action === "create") planned.add(external_name);
      after = data.next;
      pages++;
    } while (after !== "");
    expect([planned.size, pages]).toEqual([102, 2]);
  });

  it("is requested in the query or in the body, of a write and of a set", async () => {
    const write_ = { secret_name_template: "new/{{ .SecretPath }}" };
    await harmlessly(async () => {
      for (const answer of [
        await put(`${AT}/${at}?dry_run=1`, write_),
        await put(`${AT}/${at}?dry_run`, write_),
        await put(`${AT}/${at}`, { ...write_, dry_run: "true" }),
        await patch(`${AT}/${at}`, { ...write_, dry_run: true }),
        await put(`${AT}/${at}/associations/set`, { mount: "kv", secret_name: "one", dry_run: true }),
      ]) {
        expect([answer.status, answer.body.data?.dry_run], answer.text).toEqual([200, true]);
      }
      for (const answer of [
        await put(`${AT}/${at}?dry_run=maybe`, write_),
        await put(`${AT}/${at}`, { ...write_, dry_run: "maybe" }),
      ]) {
        expect([answer.status, answer.body.errors[0]]).toEqual([400, expect.stringContaining("dry_run: ")]);
      }
    }, nothingOutside);
    const done = await put(`${AT}/${at}?dry_run=false`, { ...write_, dry_run: false });
    expect([done.body.data.options.secret_name_template, done.body.warnings]).toEqual([
      write_.secret_name_template,
      null,
    ]);
  });

  it("returns 400 for a removal", async () => {
    const asked = { mount: "kv", secret_name: "one" };
    await harmlessly(async () => {
      for (const answer of [
        await put(`${AT}/${at}/associations/remove?dry_run=true`, asked),
        await put(`${AT}/${at}/associations/remove`, { ...asked, dry_run: true }),
        await del(`${AT}/${at}?purge=true&dry_run=true`),
        await send("DELETE", `${AT}/${at}?force_delete=true`, { dry_run: true }),
      ]) {
        expect([answer.status, answer.body.errors]).toEqual([400, [expect.stringMatching(/^dry_run: /)]]);
      }
    }, nothingOutside);
  });

  it("returns the warnings and refusals of the write", async () => {
    // The first look at an object makes its key.
    for (const name of ["in-mem/new", "cloud-a-sm/new", "repo-host/new", "in-mem/none"])
      expect((await get(`${AT}/${name}`)).status).toBe(404);
    const app = { app_name: "none", installation_id: 7, repository_owner: "acme", repository_name: "web" };
    await harmlessly(async () => {
      const warned = await put(`${AT}/${at}?dry_run=true`, { zebra: 1 });
      expect(warned.body.warnings).toEqual(["Endpoint ignored these unrecognized parameters: [zebra]"]);
      for (const [type, body] of [
        ["in-mem", { granularity: "x" }],
        ["cloud-a-sm", { region: "Moon" }],
        ["repo-host", app],
      ] as const) {
        const dry = await put(`${AT}/${type}/new?dry_run=true`, body);
        const real = await put(`${AT}/${type}/new`, body);
        expect([dry.status, dry.body.errors], type).toEqual([400, real.body.errors]);
      }
      const fresh = await put(`${AT}/in-mem/new?dry_run=true`, {});
      expect([fresh.status, fresh.body.data.planned]).toEqual([200, []]);
      expect((await patch(`${AT}/in-mem/new?dry_run=true`, {})).status).toBe(404);
      for (const [secret, mount] of [
        ["nope", "kv"],
        ["one", "zz"],
      ]) {
        const asked = { mount, secret_name: secret };
        const dry = await put(`${AT}/${at}/associations/set?dry_run=true`, asked);
        const real = await put(`${AT}/${at}/associations/set`, asked);
        expect([dry.status, dry.body.errors]).toEqual([400, real.body.errors]);
      }
      const nowhere = await put(`${AT}/in-mem/none/associations/set?dry_run=true`, { mount: "kv", secret_name: "one" });
      expect(nowhere.status).toBe(404);
    }, nothingOutside);
  });
});
