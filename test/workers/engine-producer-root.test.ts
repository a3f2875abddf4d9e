import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ProviderName } from "../doubles/producers/account.ts";
import { part } from "../support/long.ts";
import { get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { countPolls, deaths, dieAt } from "./engine-deaths.ts";
import { byItself, rows, skippingWaits, succeeded } from "./engine-helpers.ts";
import { openProducer, type ProducerAccount } from "./producer-helpers.ts";

clock.moves = true;

/** The rotation of secrets of an HTTPS producer, and its dry run. */

let account: ProducerAccount;
let uuid: string;

const ours = async () => (await account.everything()).filter(({ name }) => /^sp-[\da-f]{32}$/.test(name));
const configure = (more: object = {}) => put("/v1/producer/config", { ...account.config, ...more });
const rotate = () => skippingWaits(() => put("/v1/producer/config/rotate-root", {}));
const creds = () => skippingWaits(() => get("/v1/producer/creds/app?verify=true"));
const noJobs = async () => expect(await rows(uuid, "jobs")).toEqual([]);

async function mount(provider: ProviderName): Promise<void> {
  account = await openProducer(provider);
  succeeded(await put("/v1/sys/mounts/producer", { type: "https-producer" }));
  uuid = (await get("/v1/sys/mounts/producer")).body.data.uuid;
  succeeded(await configure());
  succeeded(await put("/v1/producer/roles/app", { ttl: 60, max_ttl: 3_600 }));
}

/** Issues with the present secret, and ends that lease. */
async function works(): Promise<void> {
  const { lease_id } = succeeded(await creds()).body;
  succeeded(await skippingWaits(() => put("/v1/sys/leases/revoke", { lease_id })));
  await byItself(uuid, noJobs);
}

describe("the secret of an HTTPS producer that reads its own id", () => {
  beforeEach(() => mount("cloudflare"));

  it("is replaced by one that works, and the one before is removed", async () => {
    const { lease_id } = succeeded(await creds()).body;
    const rotated = succeeded(await rotate());
    expect([rotated.status, await account.firstWorks()]).toEqual([204, true]);
    await byItself(uuid, noJobs);
    expect([await account.firstWorks(), await ours()]).toEqual([false, [expect.anything(), expect.anything()]]);
    succeeded(await skippingWaits(() => put("/v1/sys/leases/revoke", { lease_id })));
    await byItself(uuid, noJobs);
    const [first] = await ours();
    succeeded(await rotate());
    await byItself(uuid, noJobs);
    const after = await ours();
    expect([after.length, after[0]?.id === first?.id]).toEqual([1, false]);
    await works();
    const shown = (await get("/v1/producer/config")).body.data;
    expect([shown.secret_names, "secrets" in shown, "root" in shown]).toEqual([["token"], false, false]);
  });

  it("keeps its name for what an operator writes", async () => {
    succeeded(await rotate());
    await byItself(uuid, noJobs);
    const [made] = await ours();
    // Written by hand, the secret belongs to something else, whose id is read again.
    succeeded(await configure({ secrets: { token: "of-nobody" } }));
    expect((await rotate()).status).toBeGreaterThanOrEqual(400);
    await byItself(uuid, noJobs);
    expect(await ours()).toEqual([made]);
  });

  it("is rotated on time, by a period or a schedule", async () => {
    succeeded(await configure({ rotation_period: "1h" }));
    const { data } = (await get("/v1/producer/config")).body;
    expect(data).toMatchObject({ rotation_period: 3_600, next_rotation_date: expect.any(String) });
    await byItself(uuid, async () => expect(await account.firstWorks()).toBe(false), 600_000);
    succeeded(await configure({ rotation_period: 0, rotation_schedule: "0 3 * * 6", rotation_window: "1h" }));
    succeeded(await configure({ disable_automated_rotation: true, rotation_policy: "p" }));
    expect((await get("/v1/producer/config")).body.data).toMatchObject({
      rotation_schedule: "0 3 * * 6",
      rotation_window: 3_600,
      rotation_policy: "p",
      disable_automated_rotation: true,
    });
    expect((await configure({ rotation_schedule: "often" })).text).toContain("rotation_schedule");
  });

  it.each(["drop", "apply-then-drop"] as const)("is one after a lost answer of its creation (%s)", async (fault) => {
    await account.fault({ operation: "create", fault });
    succeeded(await rotate());
    await byItself(uuid, noJobs);
    expect([(await ours()).length, await account.firstWorks()]).toEqual([1, false]);
    await works();
  });

  it("is that of a rotation soon after one whose answer was lost", async () => {
    await account.fault({ operation: "create", fault: "drop" });
    succeeded(await rotate());
    succeeded(await rotate());
    await byItself(uuid, noJobs);
    expect([(await ours()).length, await account.firstWorks()]).toEqual([1, false]);
    await works();
  });

  it("stays while its search is refused, or its creation is not answered", async () => {
    await account.fault({ operation: "find", fault: "error", status: 403 });
    expect((await rotate()).status).toBe(400);
    await account.fault({ operation: "create", fault: "apply-then-drop", count: 4 });
    expect((await rotate()).status).toBeGreaterThanOrEqual(400);
    await byItself(uuid, noJobs);
    expect([await ours(), await account.firstWorks()]).toEqual([[], true]);
    await works();
  });

  it.each(part(deaths(8, 1)))("completes or undoes a rotation whose Worker dies at poll %i (%s)", async (...death) => {
    const died = dieAt(...death);
    await rotate();
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    await byItself(uuid, noJobs);
    const made = await ours();
    expect(made.length).toBe((await account.firstWorks()) ? 0 : 1);
    await works();
  });

  it("has no further call of a rotation at which its Worker could die", async () => {
    const polls = countPolls();
    succeeded(await rotate());
    expect(polls()).toBe(8);
  });

  it("is refused for a search that finds objects of another marker", async () => {
    const producer = structuredClone(account.config.producer) as { root: { find: object; self: object } };
    const path = "/accounts/{{vars.account}}/tokens";
    producer.root.find = { path, query: { direction: "{{marker}}" }, capture: { id: "/success" } };
    succeeded(await configure({ producer }));
    expect((await rotate()).text).toContain("root.find: finds objects of another marker");
    await byItself(uuid, noJobs);
    expect([await ours(), await account.firstWorks()]).toEqual([[], true]);
  });
});

describe("the secret of an HTTPS producer whose provider does not tell its id", () => {
  it("is replaced with a warning, and from then on removed", async () => {
    await mount("datadog");
    const rotated = succeeded(await rotate());
    expect(rotated.body.warnings).toEqual(["the secrets before stay valid until you remove them at the provider"]);
    await byItself(uuid, noJobs);
    expect((await ours()).length).toBe(1);
    expect(succeeded(await rotate()).status).toBe(204);
    await byItself(uuid, noJobs);
    expect((await ours()).length).toBe(1);
    await works();
  });

  it("is not rotated without root in the definition", async () => {
    await mount("gitlab");
    expect((await rotate()).body.errors).toEqual(["producer: has no root, which a rotation needs"]);
    expect((await configure({ rotation_period: "1h" })).body.errors).toEqual([
      "producer: has no root, which a rotation needs",
    ]);
  });
});

describe("POST dry-run of an HTTPS producer", () => {
  const dryRun = async (body: object = {}) => put("/v1/producer/dry-run", body);

  it("shows every call with samples, masks secrets, and sends nothing", async () => {
    await mount("cloudflare");
    const before = await account.requests();
    const { data } = succeeded(await dryRun({ role: "app" })).body;
    expect(data.calls.map(({ call, method }: { call: string; method: string }) => `${call} ${method}`)).toEqual([
      "create POST",
      "find GET",
      "verify GET",
      "revoke DELETE",
      "root.self GET",
      "root.create POST",
      "root.find GET",
      "root.revoke DELETE",
    ]);
    const [create, , verify, revoke] = data.calls;
    expect(create.url).toBe(`${account.config.url}/accounts/${account.account}/tokens`);
    expect(create.headers).toEqual({
      accept: "application/json",
      "user-agent": expect.stringMatching(/^sallyport\//),
      authorization: "Bearer ***",
      "content-type": "application/json",
    });
    expect(JSON.parse(create.body)).toMatchObject({ name: `sp-${"0".repeat(32)}` });
    expect(verify.headers).toMatchObject({ authorization: "Bearer sample-token" });
    expect([revoke.url.split("/").at(-1), data.lease, data.problems]).toEqual([
      "sample-id",
      { data: { token: "sample-token" } },
      [],
    ]);
    expect(JSON.stringify(data)).not.toContain(account.token);
    expect(await account.requests()).toEqual(before);
  });

  it("names what has no value, and pointers that an answer does not have", async () => {
    account = await openProducer("atlas");
    succeeded(await put("/v1/sys/mounts/producer", { type: "https-producer" }));
    const { url, producer } = account.config;
    expect((await dryRun({ producer })).body.errors).toEqual(["url: required"]);
    expect((await dryRun({ url })).body.errors).toEqual(["producer: required"]);
    expect((await dryRun({ url: "https://10.0.0.1", producer })).text).toContain("must not be a private address");
    expect((await dryRun({ url, producer: { ...producer, find: undefined } })).text).toContain("find: required");
    const { data } = succeeded(await dryRun({ url, producer, vars: { group: "..", role: "read" } })).body;
    expect(data.problems).toEqual(
      expect.arrayContaining([
        "secrets: no value for client_id",
        "secrets: no value for client_secret",
        "create: no value for {{vars.database}}",
        "create: a value would change the path of the URL",
      ]),
    );
    const own = await openProducer("gitlab");
    const answers = { create: { id: 7 }, find: [{ id: 7, name: "a" }, { name: "b" }] };
    const asked = { url, producer: own.config.producer, vars: { project: "42" }, answers };
    expect(succeeded(await dryRun(asked)).body.data.problems).toEqual([
      "secrets: no value for token",
      "create.capture.token: the answer has no value at /token",
      "find.capture.id: the answer has no value at /id",
    ]);
    const list = succeeded(await dryRun({ ...asked, answers: { find: { tokens: [] } } })).body.data;
    expect(list.problems).toContain("find.items: the answer has no list at its root");
    expect((await dryRun({ ...asked, answers: { other: {} } })).status).toBe(400);
    expect((await dryRun({ ...asked, vars: { project: "\ud800" } })).text).toContain("must be valid Unicode");
    expect((await dryRun({ role: "none" })).status).toBe(404);
  });
});
