import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { PollAnswer, SyncResult } from "../../src/contracts/sync-tasks.ts";
import { RuleWork } from "../../src/sync/rules/rule-work.ts";
import { del, mountKv, patch, put } from "./client.ts";
import { association, eventually, makeDestination, objects, write } from "./sync-helpers.ts";
import { destination } from "./sync-limits.ts";

/** Rules whose secrets no longer match while a Worker holds a lease, or while their pushes wait. */

const D = "in-mem/d";
let mount = { accessor: "", uuid: "" };

beforeEach(async () => {
  mount = await mountKv();
  await makeDestination("in-mem", "d", { secret_name_template: "{{ .SecretPath }}" });
  await write("app/db", { v: 1 });
});

const rule = async (path_prefix: string, changes: object) => {
  const made = await put(`/v1/sys/sync/destinations/${D}/rules/web`, { mount: "kv", path_prefix, ...changes });
  expect(made.status, made.text).toBe(200);
};
const holds = (expected: Record<string, string>) =>
  eventually(async () => expect(await objects("d")).toEqual(expected));
const poll = async (holder: string, results: readonly SyncResult[] = []) =>
  (await destination(D).poll(results, 1, undefined, holder)) as unknown as PollAnswer;

describe.each(["hold", "retain"])("with on_unmatch %s", (on_unmatch) => {
  /** The association was held or forgotten. */
  const released = () =>
    eventually(async () => {
      const found = await association(D, "app/db");
      if (on_unmatch === "retain") expect(found).toBeUndefined();
      else expect(found).toMatchObject({ note: expect.stringMatching(/^held: /) });
    });

  beforeEach(async () => {
    await rule("app", { on_unmatch });
    await holds({ "app/db": '{"v":1}' });
  });

  describe("a Worker's task", () => {
    /** A push that a Worker holds, without other Workers. */
    const lease = async () => {
      for (const method of ["send", "sendBatch"] as const)
        vi.spyOn(env.SYNC_WORK, method).mockRejectedValue(new Error("later"));
      const rights = { create: true, update: true };
      await env.KV_STORE.getByName(mount.uuid).put("app/db", '{"v":2}', null, rights);
      return eventually(async () => {
        const { tasks } = await poll("slow");
        expect(tasks).toHaveLength(1);
        task = tasks[0];
      });
    };
    let task: PollAnswer["tasks"][number] | undefined;
    const result = (): SyncResult => ({
      lease: task?.lease as SyncResult["lease"],
      version: 2,
      tagKeys: [],
      copies: [],
      unfinished: false,
    });

    it("ends before another one begins for the same secret", async () => {
      await lease();
      await rule("other", { on_unmatch });
      await released();
      await rule("app", { on_unmatch });
      await eventually(async () => {
        const found = await association(D, "app/db");
        expect([found?.sync_status, found?.["note"]]).toEqual(["PENDING", undefined]);
      });
      expect((await poll("fast")).tasks).toEqual([]);
      expect(await objects("d")).toEqual({ "app/db": '{"v":1}' });
      expect((await poll("slow", [result()])).tasks.map(({ lease: { id } }) => id)).toEqual([task?.lease.id]);
    });

    it("leaves no work after its end", async () => {
      await lease();
      await rule("other", { on_unmatch });
      await released();
      expect(await poll("slow", [result()])).toMatchObject({ tasks: [], retryInMs: null });
      await released();
    });
  });

  it("keeps the object of a secret whose metadata is deleted, although a task comes first", async () => {
    const status = async () => (await association(D, "app/db"))?.sync_status;
    const original = RuleWork.prototype.matching;
    const matching = vi.spyOn(RuleWork.prototype, "matching").mockImplementationOnce(async function (
      this: RuleWork,
      ...given
    ) {
      await eventually(async () => expect(await status()).toBe("PENDING"));
      await patch("/sys/sync/config", { disabled: false });
      await eventually(async () => expect(await status()).not.toBe("PENDING"));
      return original.apply(this, given);
    });
    await patch("/sys/sync/config", { disabled: true });
    await del("/v1/kv/metadata/app/db");
    await released();
    expect(matching).toHaveBeenCalledOnce();
    expect(await objects("d")).toEqual({ "app/db": '{"v":1}' });
  });

  it("removes the object of a secret without a version, whose metadata stays", async () => {
    await del("/v1/kv/data/app/db");
    await holds({});
    expect(await association(D, "app/db")).toMatchObject({ sync_status: "UNSYNCED" });
  });
});

it("shows UNSYNCED for a secret without a key that its rule pushes as an object", async () => {
  await rule("app", {
    granularity: "secret-key",
    name_template: "{{ .SecretKey }}{{ .SecretPath }}",
    key_glob: ["x*"],
  });
  await eventually(async () => expect((await association(D, "app/db"))?.sync_status).toBe("UNSYNCED"));
  await write("app/db", { v: 1, x: "1" });
  await holds({ "xapp/db": "1" });
  await write("app/db", { v: 1 });
  await holds({});
  await eventually(async () => expect((await association(D, "app/db"))?.sync_status).toBe("UNSYNCED"));
});
