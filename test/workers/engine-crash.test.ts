import {
  createExecutionContext,
  createMessageBatch,
  getQueueResult,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { PollResult, Started } from "../../src/contracts/credential-engine.ts";
import { performJob } from "../../src/credentials/runner/job-worker.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { NOTIFY_AGAIN_MS, WakeUp, type WakeUpMessage } from "../../src/platform/durable/wake-up.ts";
import worker from "../../src/worker.ts";
import { randomFrom } from "../crash/random.ts";
import type { Fault, OperationName } from "../doubles/cloud-b/azure-types.ts";
import { part } from "../support/long.ts";
import { del, get, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import {
  byItself,
  creds,
  dynamicRole,
  engineObject,
  lookup,
  revoke,
  rows,
  skippingWaits,
  succeeded,
  writeRole,
} from "./engine-helpers.ts";
import { expectNothingLeft, fresh, openEngine, tenant, uuid, writeExisting } from "./engine-world.ts";
import { evictObject } from "./evict-all.ts";

clock.moves = true;

beforeEach(() => openEngine());

type Method = (this: { ctx: DurableObjectState }, ...parameters: unknown[]) => unknown;

const ONE_BY_ONE = 1;
const TOGETHER = 16;
/** Polls of an issue: application, principal, then rights and password, one by one or in a batch. */
const POLLS_OF_AN_ISSUE: Readonly<Record<number, number>> = { [ONE_BY_ONE]: 5, [TOGETHER]: 3 };
const everyPoll = [...deaths(5, ONE_BY_ONE), ...deaths(3, TOGETHER)];

describe("issuing credentials while the Worker dies", () => {
  it.each(part(everyPoll))(
    "at poll %i (%s the report; %i calls) leaves no resource and no lease",
    async (nth, when, calls) => {
      await writeRole("web", dynamicRole(tenant));
      const died = dieAt(nth, when, calls);
      const answer = await creds("web");
      expect(answer.status).toBeGreaterThanOrEqual(500);
      expect(died()).toBe(true);
      const leases = await rows(uuid, "leases");
      // After the last poll only the response is lost: it is never handed over, so the lease ends.
      if (leases.length > 0) expect([nth, when]).toEqual([POLLS_OF_AN_ISSUE[calls], "after"]);
      await byItself(uuid, async () => {
        expect(await rows(uuid, "leases")).toEqual([]);
        await expectNothingLeft();
      });
    },
  );

  it.each(part(deaths(1, TOGETHER)))("for an existing application at poll %i (%s)", async (nth, when, calls) => {
    await writeExisting();
    const died = dieAt(nth, when, calls);
    await creds("app");
    expect(died()).toBe(true);
    await byItself(uuid, expectNothingLeft);
  });
});

describe("a role with its own application", () => {
  const kept = () => dynamicRole(tenant, { persist_app: true });
  const writes = [...deaths(6, ONE_BY_ONE), ...deaths(5, TOGETHER)];
  const changes = [...deaths(4, ONE_BY_ONE), ...deaths(2, TOGETHER)];
  const settled = async () => expect(await rows(uuid, "jobs")).toEqual([]);

  it.each(part(writes))(
    "is complete or absent after its Worker dies at poll %i (%s; %i calls)",
    async (nth, when, calls) => {
      const died = dieAt(nth, when, calls);
      await put("/v1/cloud-b/roles/r", kept());
      expect(died()).toBe(true);
      await byItself(uuid, settled);
      const role = await get("/v1/cloud-b/roles/r");
      if (role.status === 200) {
        const made = await tenant.everything();
        expect(made.applications.at(-1)?.id).toBe(role.body.data.application_object_id);
        expect(made.memberships).toHaveLength(1);
        expect((await del("/v1/cloud-b/roles/r")).status).toBe(204);
      }
      await byItself(uuid, expectNothingLeft);
    },
  );

  it.each(part(changes))(
    "keeps a record of its resources after a change dies at poll %i (%s; %i calls)",
    async (nth, when, calls) => {
      await writeRole("r", kept());
      const change = { cloud_roles: [{ role_name: "Contributor", scope: tenant.resource_group }], cloud_groups: [] };
      const died = dieAt(nth, when, calls);
      await put("/v1/cloud-b/roles/r", change);
      expect(died()).toBe(true);
      await byItself(uuid, settled);
      expect((await del("/v1/cloud-b/roles/r")).status).toBe(204);
      await byItself(uuid, expectNothingLeft);
    },
  );

  it.each(part([1, 2, 3, 4, 5, 6]))(
    "is removed completely after its Worker dies at poll %i of the deletion",
    async (nth) => {
      await writeRole("r", kept());
      dieAt(nth, "before", ONE_BY_ONE);
      await del("/v1/cloud-b/roles/r");
      expect((await get("/v1/cloud-b/roles/r")).status).toBe(404);
      await byItself(uuid, expectNothingLeft);
    },
  );
});

describe("a lost response of the provider", () => {
  const operations: OperationName[] = [
    "CreateApplication",
    "CreateServicePrincipal",
    "CreateRoleAssignment",
    "AddGroupMember",
    "AddServicePrincipalPassword",
  ];
  const lost: [OperationName, Fault["fault"]][] = operations.flatMap((operation) => [
    [operation, "apply-then-drop"],
    [operation, "drop"],
  ]);
  it.each(part(lost))(
    "to %s (%s) does not fail the request, and leaves no resource after revocation",
    async (operation, fault) => {
      await writeRole("web", dynamicRole(tenant));
      await tenant.fault({
        service: operation === "CreateRoleAssignment" ? "arm" : "graph",
        operation,
        fault,
      } as Fault);
      const issued = await creds("web");
      expect(issued.status, issued.text).toBe(200);
      const made = await tenant.everything();
      expect(made.applications).toHaveLength(fresh.applications.length + 1);
      expect(made.assignments).toHaveLength(fresh.assignments.length + 1);
      expect(made.memberships).toHaveLength(fresh.memberships.length + 1);
      expect((await revoke(issued.body.lease_id)).status).toBe(204);
      await byItself(uuid, expectNothingLeft);
    },
  );

  it.each(["apply-then-drop", "drop"] as const)(
    "to AddApplicationPassword (%s) leaves one password, and none after revocation",
    async (fault) => {
      await writeExisting();
      await tenant.fault({ operation: "AddApplicationPassword", fault });
      const issued = await creds("app");
      expect(issued.status, issued.text).toBe(200);
      const passwords = async () =>
        (await tenant.everything()).applications.find(({ id }) => id === tenant.existing_application.object_id)
          ?.passwords;
      expect(await passwords()).toHaveLength(1);
      expect((await revoke(issued.body.lease_id)).status).toBe(204);
      expect(await passwords()).toEqual([]);
    },
  );

  it.each([
    "DeleteRoleAssignment",
    "RemoveGroupMember",
    "DeleteServicePrincipal",
    "DeleteApplication",
    "DeleteDeletedItem",
  ] as const)("to %s during revocation counts as success if the resource is gone", async (operation) => {
    await writeRole("web", dynamicRole(tenant));
    const issued = await creds("web");
    await tenant.fault({ operation, fault: "apply-then-drop" });
    // Deleted and not yet replicated resources return the same response for a while.
    const answer = await skippingWaits(() => revoke(issued.body.lease_id));
    if (answer.status === 200) expect(answer.body.warnings).toEqual([expect.stringContaining("behind this answer")]);
    else expect(answer.status, answer.text).toBe(204);
    await byItself(uuid, expectNothingLeft);
    expect((await lookup(issued.body.lease_id)).status).toBe(400);
  });
});

describe("issuing credentials with a refused call", () => {
  it.each([
    ["CreateServicePrincipal", 400, "Directory_QuotaExceeded"],
    ["AddGroupMember", 403, "Authorization_RequestDenied"],
    ["CreateRoleAssignment", 403, "AuthorizationFailed"],
    ["AddServicePrincipalPassword", 400, "Request_BadRequest"],
  ] as const)("%s returns the provider's code and leaves no resource", async (operation, status, code) => {
    await writeRole("web", dynamicRole(tenant));
    await tenant.fault({ operation, fault: "error", status, code, count: 100 });
    const refused = await creds("web");
    expect(refused.status, refused.text).toBe(400);
    expect(refused.body.errors.join()).toContain(code);
    expect(await rows(uuid, "leases")).toEqual([]);
    await byItself(uuid, expectNothingLeft);
  });
});

describe("random deaths", () => {
  it.each(part([1, 2, 3, 4, 5, 6]))("leave no resources after all leases are revoked (seed %i)", async (seed) => {
    const random = randomFrom(seed);
    await writeRole("web", dynamicRole(tenant));
    const original = CredentialEngine.prototype.poll as unknown as Method;
    let deaths = 0;
    const spy = vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (
      this: unknown,
      ...parameters
    ) {
      const polled = () => original.apply(this as ThisParameterType<Method>, parameters) as PollResult;
      const dies = parameters[1] !== null && random() < 0.2;
      if (!dies) return polled();
      deaths++;
      if (random() < 0.5) polled();
      throw new Error("killed");
    });
    for (let n = 0; n < 3; n++) await creds("web");
    for (const { id } of await rows(uuid, "leases")) await revoke(`cloud-b/${id}`);
    expect(deaths).toBeGreaterThan(0);
    spy.mockRestore();
    for (const { id } of await rows(uuid, "leases"))
      await put("/v1/sys/leases/revoke", { lease_id: `cloud-b/${id}`, sync: false });
    await byItself(uuid, async () => {
      expect(await rows(uuid, "leases")).toEqual([]);
      await expectNothingLeft();
    });
  });
});

describe("a restart of the object", () => {
  it("during issuing loses no result: the Worker sends its report again", async () => {
    await writeRole("web", dynamicRole(tenant));
    const original = CredentialEngine.prototype.poll as unknown as Method;
    let polls = 0;
    vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(async function (
      this: unknown,
      ...parameters: unknown[]
    ) {
      const object = this as ThisParameterType<Method>;
      const polled = original.apply(object, parameters) as PollResult;
      if (++polls !== 2) return polled;
      await object.ctx.storage.sync();
      object.ctx.abort("restarted");
      throw new Error("restarted");
    } as never);
    const issued = await creds("web");
    expect(issued.status, issued.text).toBe(200);
    expect((await tenant.everything()).applications).toHaveLength(fresh.applications.length + 1);
    expect((await revoke(issued.body.lease_id)).status).toBe(204);
    await byItself(uuid, expectNothingLeft);
  });

  it("applies a repeated report once", async () => {
    await writeRole("web", dynamicRole(tenant));
    const issued = await creds("web");
    const id = issued.body.lease_id.slice("cloud-b/".length);
    const original = CredentialEngine.prototype.poll as unknown as Method;
    vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (this: unknown, ...parameters) {
      if (parameters[1] !== null) original.apply(this as ThisParameterType<Method>, parameters);
      return original.apply(this as ThisParameterType<Method>, parameters) as PollResult;
    });
    const started = await runInDurableObject(engineObject(uuid), (object) => object.revoke(id));
    if (!started.ok) throw new Error(started.message);
    const end = await performJob(env, uuid, started.value as Started, 60_000);
    expect(end).toMatchObject({ ok: true });
    expect((await get("/v1/cloud-b/config")).status).toBe(200);
    expect(await tenant.everything()).toEqual(fresh);
  });
});

describe("a wake-up of an engine", () => {
  const ring = async (...bodies: WakeUpMessage[]) => {
    const messages = bodies.map((body, position) => ({ id: `m${position}`, timestamp: new Date(), attempts: 1, body }));
    const batch = createMessageBatch<WakeUpMessage>("sync-work", messages);
    const context = createExecutionContext();
    await worker.queue(batch, env, context);
    return getQueueResult(batch, context);
  };

  it("starts a Worker that performs the waiting jobs", async () => {
    await writeRole("web", dynamicRole(tenant));
    const { lease_id: lease } = (await creds("web")).body;
    succeeded(await put("/v1/sys/leases/revoke", { lease_id: lease, sync: false }));
    expect((await ring({ engine: uuid })).explicitAcks).toEqual(["m0"]);
    await vi.waitFor(expectNothingLeft);
  });

  it("is sent again by the alarm after a failure of the object, and has no effect without ready jobs", async () => {
    // From the first request on: the queue delivers a message a second later, and its Worker would take the job.
    const notify = vi.spyOn(WakeUp.prototype, "notify").mockResolvedValue();
    await writeRole("web", dynamicRole(tenant));
    const { lease_id: lease } = (await creds("web")).body;
    succeeded(await put("/v1/sys/leases/revoke", { lease_id: lease, sync: false }));
    await runDurableObjectAlarm(engineObject(uuid));
    const sent = notify.mock.calls.length;
    const poll = vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(() => {
      throw new Error("object is down");
    });
    expect(await ring({ engine: uuid })).toMatchObject({ explicitAcks: ["m0"], retryMessages: [] });
    // All polls of the Worker have ended: a late one would take the job, and leave it.
    expect(poll).toHaveBeenCalledTimes(6);
    poll.mockRestore();
    const clock = new ShiftedClock(NOTIFY_AGAIN_MS);
    try {
      await runDurableObjectAlarm(engineObject(uuid));
    } finally {
      clock.end();
    }
    expect(notify.mock.calls.length).toBe(sent + 1);
    expect((await ring({ engine: uuid })).explicitAcks).toEqual(["m0"]);
    await vi.waitFor(expectNothingLeft);
    expect((await ring({ engine: crypto.randomUUID() })).explicitAcks).toEqual(["m0"]);
  });

  it("skips an unreadable job and performs the jobs after it", async () => {
    await writeRole("web", dynamicRole(tenant));
    const leases = [(await creds("web")).body.lease_id, (await creds("web")).body.lease_id];
    // No job is performed before one of them is unreadable.
    const polls = vi.spyOn(CredentialEngine.prototype, "turn").mockImplementation(() => {
      throw new Error("no Worker");
    });
    for (const lease of leases) succeeded(await put("/v1/sys/leases/revoke", { lease_id: lease, sync: false }));
    await runInDurableObject(engineObject(uuid), (_object, { storage: { sql } }) => {
      sql.exec(
        "UPDATE jobs SET sealed = (SELECT sealed FROM jobs WHERE id = ?) WHERE id = ?",
        ...[1, 0].map((at) => leases[at].slice("cloud-b/".length)),
      );
    });
    polls.mockRestore();
    await evictObject(engineObject(uuid));
    await byItself(uuid, async () => expect(await rows(uuid, "leases")).toHaveLength(1));
    expect((await tenant.everything()).applications).toHaveLength(fresh.applications.length + 1);
  });
});
