import { describe, expect, it, vi } from "vitest";
import { engineDescriptions } from "../../src/credentials/engines/descriptions.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { part } from "../support/long.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { byItself, engineObject, rows, skippingWaits, succeeded } from "./engine-helpers.ts";
import { type Subject, subjects } from "./engine-subjects.ts";
import { openProducer } from "./producer-helpers.ts";

/**
 * Requests of others, and a clock that is set back, between the calls of an issue, a renewal or a rotation: nothing is
 * left at the provider, and the engine works.
 */

clock.moves = true;

/**
 * Begins `act` once the calls of the next issue or rotation have been made, before their results are stored.
 * @param nth of its polls with results, from 1
 */
function meanwhile(act: () => Promise<unknown>, nth = 1): () => Promise<unknown> {
  const original = CredentialEngine.prototype.poll;
  let polls = 0;
  let begun: Promise<unknown> | null = null;
  vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(async function (
    this: CredentialEngine,
    ...given: Parameters<typeof original>
  ) {
    if (given[1] !== null && ++polls >= nth && begun === null) {
      begun = act();
      // An act that waits for the issue itself would wait for ever.
      await Promise.race([begun, new Promise((resolve) => setTimeout(resolve, 100))]);
    }
    return original.apply(this, given);
  } as never);
  return async () => {
    if (begun === null) throw new Error("nothing was polled");
    return begun;
  };
}

/** A value without its texts and numbers. */
const shape = (value: unknown) =>
  JSON.stringify(value, (_key, each) => (typeof each === "string" || typeof each === "number" ? "" : each));

async function opened({ type, open, at = "creds/app" }: Subject) {
  const paths = engineDescriptions.find((each) => each.type === type)?.paths;
  if (!paths) throw new Error(`no engine of type ${type}`);
  const provider = await open();
  succeeded(await put("/v1/sys/mounts/engine", { type }));
  const { config, document, role } = provider;
  const configure = () => put(`/v1/engine${paths.config}`, config);
  succeeded(await configure());
  if (document) succeeded(await put(`/v1/engine/${document[0]}`, document[1]));
  const bare = await provider.everything();
  const write = () => put(`/v1/engine${paths.roles}/app`, role);
  succeeded(await write());
  const idle = await provider.everything();
  const { uuid } = (await get("/v1/sys/mounts/engine")).body.data;
  succeeded(await put("/v1/sys/policies/acl/issuer", { policy: 'path "engine/*" { capabilities = ["read"] }' }));
  const { client_token: token } = succeeded(await put("/v1/auth/token/create", { policies: ["issuer"] })).body.auth;
  return {
    token,
    role: `/v1/engine${paths.roles}/app`,
    write,
    configure,
    rotate: () => put(`/v1/engine${paths.rotate}`, {}),
    creds: (): Promise<Answer> => get(`/v1/engine/${at}`, { token }),
    nothingIsLeft: () =>
      byItself(uuid, async () => {
        expect(await rows(uuid, "leases")).toEqual([]);
        expect(await rows(uuid, "jobs")).toEqual([]);
        expect(await provider.everything()).toEqual(bare);
      }),
    /** As many keys and principals as after the role's write, of whatever names. */
    asManyAreAtProvider: () =>
      byItself(uuid, async () => {
        expect(await rows(uuid, "jobs")).toEqual([]);
        expect(shape(await provider.everything())).toEqual(shape(idle));
      }),
    nothingIsAtProvider: () => byItself(uuid, async () => expect(await provider.everything()).toEqual(bare)),
  };
}

type World = Awaited<ReturnType<typeof opened>>;

/** Requests of others, and the clock, between two calls. */
const ORDERS: readonly (readonly [name: string, act: (world: World) => Promise<unknown>])[] = [
  ["its role is deleted", ({ role }) => del(role)],
  ["its role is deleted and written again", async ({ role, write }) => [await del(role), await write()]],
  ["its mount's leases are revoked", () => put("/v1/sys/leases/revoke-prefix/engine", {})],
  ["its caller's token is revoked", ({ token }) => put("/v1/auth/token/revoke", { token })],
  ["two more leases are asked for", ({ creds }) => Promise.all([creds(), creds()])],
  ["the clock is set back by an hour", async () => void new ShiftedClock(-3_600_000)],
];

describe.each(subjects.map((subject, nth) => ({ ...subject, nth })))(
  "an issue of an engine of type $type",
  (subject) => {
    it.each(part(ORDERS, subject.nth))("leaves nothing when %s meanwhile", async (_name, act) => {
      const world = await opened(subject);
      const done = meanwhile(() => act(world));
      await skippingWaits(world.creds);
      await done();
      vi.mocked(CredentialEngine.prototype.poll).mockRestore();
      await del(world.role);
      await world.nothingIsLeft();
    });

    it("leaves nothing when it is unmounted meanwhile", async () => {
      const world = await opened(subject);
      const done = meanwhile(() => del("/v1/sys/mounts/engine"));
      await skippingWaits(world.creds);
      await done();
      await world.nothingIsAtProvider();
    });
  },
);

describe("a renewal at the provider", () => {
  it("leaves a lease ended whose token ends meanwhile", async () => {
    const { config } = await openProducer("atlas");
    succeeded(await put("/v1/sys/mounts/engine", { type: "https-producer" }));
    succeeded(await put("/v1/engine/config", config));
    succeeded(await put("/v1/engine/roles/app", { ttl: 600, max_ttl: 3_600 }));
    const { uuid } = (await get("/v1/sys/mounts/engine")).body.data;
    succeeded(await put("/v1/sys/policies/acl/issuer", { policy: 'path "engine/*" { capabilities = ["read"] }' }));
    const { client_token: token, accessor } = succeeded(await put("/v1/auth/token/create", { policies: ["issuer"] }))
      .body.auth;
    const { lease_id } = succeeded(await get("/v1/engine/creds/app", { token })).body;
    const done = meanwhile(async () => engineObject(uuid).tokensEnded([accessor]));
    const renewed = await put("/v1/sys/leases/renew", { lease_id, increment: 1_200 });
    await done();
    expect([renewed.status, renewed.body.errors]).toEqual([400, ["lease expired"]]);
    const open = (await rows(uuid, "leases")).filter(
      ({ state, expires }) => state === "live" && Number(expires) > Date.now(),
    );
    expect(open).toEqual([]);
  });
});

/** Requests of others, and the clock, between two calls of a rotation. */
const ORDERS_OF_ROTATION: readonly (readonly [name: string, act: (world: World) => Promise<unknown>])[] = [
  ["the configuration is written again", ({ configure }) => configure()],
  ["another rotation is asked for", ({ rotate }) => rotate()],
  ["credentials are issued", ({ creds }) => creds()],
  ["its role is deleted and written again", async ({ role, write }) => [await del(role), await write()]],
  ["its mount's leases are revoked", () => put("/v1/sys/leases/revoke-prefix/engine", {})],
  ["the clock is set back by an hour", async () => void new ShiftedClock(-3_600_000)],
];

describe.each(subjects.map((subject, nth) => ({ ...subject, nth })))(
  "a rotation of an engine of type $type",
  (subject) => {
    const table = Array.from({ length: subject.polls.rotation }, (_, at) =>
      ORDERS_OF_ROTATION.map(([name, act]) => [at + 1, name, act] as const),
    ).flat();

    it.each(part(table, subject.nth))(
      "leaves one root key, which works, when at poll %i %s",
      async (nth, _name, act) => {
        const world = await opened(subject);
        const done = meanwhile(() => act(world), nth);
        await skippingWaits(world.rotate);
        await done();
        vi.mocked(CredentialEngine.prototype.poll).mockRestore();
        succeeded(await put("/v1/sys/leases/revoke-prefix/engine", {}));
        await world.asManyAreAtProvider();
        succeeded(await skippingWaits(world.creds));
        succeeded(await put("/v1/sys/leases/revoke-prefix/engine", {}));
        await world.asManyAreAtProvider();
      },
    );
  },
);
