import { beforeEach, describe, expect, it, vi } from "vitest";
import { part } from "../support/long.ts";
import { del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import { byItself, revoke, rows, skippingWaits, succeeded } from "./engine-helpers.ts";
import { openProject } from "./gcp-helpers.ts";

clock.moves = true;

/** Rolesets of Google Cloud while Workers die between the calls of their writes, and while answers are lost. */

const SCOPES = ["https://www.googleapis.com/auth/cloud-platform"];
/** The account, one policy for each of two resources, a first token. */
const POLLS = 4;

let project: Awaited<ReturnType<typeof openProject>>;
let fresh: string[];
let uuid: string;

beforeEach(async () => {
  project = await openProject();
  succeeded(await put("/v1/sys/mounts/gcp", { type: "cloud-c" }));
  uuid = (await get("/v1/sys/mounts/gcp")).body.data.uuid;
  succeeded(await put("/v1/gcp/config", project.config));
  fresh = await project.everything();
});

const roleset = () => ({ project: project.account, bindings: project.bindings, token_scopes: SCOPES });
const noJobs = async () => expect(await rows(uuid, "jobs")).toEqual([]);
const nothingIsLeft = async () => {
  await noJobs();
  expect(await project.everything()).toEqual(fresh);
};
const remove = async () => {
  succeeded(await del("/v1/gcp/roleset/app"));
  await byItself(uuid, nothingIsLeft);
};

describe("a roleset", () => {
  it.each(part(deaths(POLLS, 16)))("has one account after a death at poll %i (%s) of its write", async (...death) => {
    const died = dieAt(...death);
    await put("/v1/gcp/roleset/app", roleset());
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    await byItself(uuid, async () => {
      await noJobs();
      expect((await get("/v1/gcp/roleset/app")).status).toBe(200);
    });
    succeeded(await get("/v1/gcp/roleset/app/token"));
    await remove();
  });

  it.each(part(deaths(POLLS, 16)))("has one account after a death at poll %i (%s) of a rotation", async (...death) => {
    succeeded(await put("/v1/gcp/roleset/app", roleset()));
    const made = (await project.everything()).length;
    const { service_account_email: before } = (await get("/v1/gcp/roleset/app")).body.data;
    const died = dieAt(...death);
    await put("/v1/gcp/roleset/app/rotate", {});
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    await byItself(uuid, async () => {
      await noJobs();
      expect((await get("/v1/gcp/roleset/app")).body.data.service_account_email).not.toBe(before);
      expect(await project.everything()).toHaveLength(made);
    });
    await remove();
  });

  it("leaves nothing of a mount that goes while it is written", async () => {
    const died = dieAt(2, "before", 16);
    await put("/v1/gcp/roleset/app", roleset());
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    succeeded(await del("/v1/sys/mounts/gcp"));
    await byItself(uuid, async () => expect(await project.everything()).toEqual(fresh));
  });
});

it("waits while Google throttles it, and makes one key", async () => {
  const { bindings, account } = project;
  succeeded(await put("/v1/gcp/roleset/app", { secret_type: "service_account_key", project: account, bindings }));
  const before = await project.everything();
  await project.fault({ method: "POST", path: "/keys", fault: "RESOURCE_EXHAUSTED", count: 2 });
  const { lease_id } = succeeded(await skippingWaits(() => get("/v1/gcp/roleset/app/key"))).body;
  expect(await project.everything()).toHaveLength(before.length + 1);
  succeeded(await revoke(lease_id));
  await byItself(uuid, async () => {
    await noJobs();
    expect(await project.everything()).toEqual(before);
  });
});

it.each(["before", "after"] as const)("renews the lease of a key after a death (%s the report)", async (when) => {
  const { bindings, account } = project;
  succeeded(await put("/v1/gcp/roleset/app", { secret_type: "service_account_key", project: account, bindings }));
  succeeded(await put("/v1/gcp/config", { ttl: "1h", max_ttl: "24h" }));
  const { lease_id } = succeeded(await get("/v1/gcp/roleset/app/key")).body;
  const died = dieAt(1, when, 1);
  await put("/v1/sys/leases/renew", { lease_id, increment: 120 });
  expect(died()).toBe(true);
  vi.restoreAllMocks();
  await byItself(uuid, noJobs);
  expect(succeeded(await put("/v1/sys/leases/renew", { lease_id, increment: 120 })).body.lease_duration).toBe(120);
  succeeded(await revoke(lease_id));
  await byItself(uuid, noJobs);
});
