import { env } from "cloudflare:workers";
import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LENGTH_BYTES, MAGIC, Sealer } from "../../src/backup/format.ts";
import { parseKeyring } from "../../src/platform/crypto/keyring.ts";
import { masterKey } from "../../src/platform/crypto/master-key.ts";
import { SINGLETONS } from "../../src/rpc/stored-objects.ts";
import { accessControl } from "../../src/rpc/stubs.ts";
import { issue, policies } from "./access.ts";
import { allObjects, loseEverything, type Rows, restore, rowsOf, snapshot } from "./backup-world.ts";
import { get, mountKv, put, send } from "./client.ts";
import { holdBody } from "./held-bodies.ts";
import { makeDestination, setAssociation, write } from "./sync-helpers.ts";

/** An incomplete, foreign or unsuitable file changes nothing, and the deployment continues to work. */

const MASTER_KEY = masterKey(env);
/** Of a file that is made once: no test changes it. */
let frames: Buffer[] = [];
let empty: Rows;

/** The pieces of a file: its first line with its header, then each frame. */
function framesOf(bytes: Buffer): Buffer[] {
  const found: Buffer[] = [];
  for (let at = MAGIC.length; at < bytes.length; ) {
    const end = at + LENGTH_BYTES + bytes.readUInt32BE(at);
    found.push(bytes.subarray(found.length === 0 ? 0 : at, end));
    at = end;
  }
  return found;
}

async function smallWorld(): Promise<void> {
  await mountKv();
  for (const name of ["a", "b"]) await write(name, { v: name });
  await makeDestination("in-mem", "m");
  await setAssociation("in-mem/m", "a");
  await policies({ p: 'path "a" {}' });
}

beforeEach(async () => {
  if (frames.length === 0) {
    await smallWorld();
    frames = framesOf(Buffer.from(await snapshot()));
    await loseEverything();
  }
  await get("/v1/sys/policies/acl/root");
  await get("/sys/sync/config");
  empty = await rowsOf(SINGLETONS);
});
afterEach(() => {
  vi.restoreAllMocks();
  if (MASTER_KEY !== undefined) (env as { MASTER_KEY?: string }).MASTER_KEY = MASTER_KEY;
});

/** Refused, nothing is changed, and the deployment can still be restored to. */
async function refused(bytes: Uint8Array, message: string | RegExp, status = 400): Promise<void> {
  const answer = await restore(bytes);
  expect([answer.status, answer.body.errors]).toEqual([status, [expect.stringMatching(message)]]);
  expect(await rowsOf(SINGLETONS)).toEqual(empty);
  expect(await allObjects()).toEqual(SINGLETONS);
}

const whole = () => Buffer.concat(frames);

const swapped = (a: number, b: number) => {
  const moved = [...frames];
  [moved[a], moved[b]] = [frames[b] as Buffer, frames[a] as Buffer];
  return Buffer.concat(moved);
};

describe("a snapshot file is refused", () => {
  it("when it is truncated, at and within each frame", async () => {
    for (const keep of [0, 1, 7, frames.length - 1]) {
      const some = Buffer.concat(frames.slice(0, keep));
      await refused(some, keep === 0 ? /is not a snapshot/ : /cut off/);
      await refused(Buffer.concat([some, (frames[keep] as Buffer).subarray(0, 9)]), /cut off|is not a snapshot/);
    }
    expect((await restore(whole())).status).toBe(200);
  });

  it("when its caller's token was revoked before its end", async () => {
    const { client_token: token } = await issue({ policies: ["root"] });
    const { answer, begun, finish } = holdBody("POST", "/v1/sys/snapshot", whole(), { token });
    await begun;
    await put("/v1/auth/token/revoke", { token });
    await finish();
    expect((await answer).status).toBe(403);
  });

  it("when a frame is moved, missing, repeated, or from another snapshot", async () => {
    await refused(swapped(3, 4), /frame 3 was altered, or is not in its place/);
    await refused(swapped(1, frames.length - 1), /frame 1 was altered/);
    await refused(Buffer.concat(frames.toSpliced(5, 1)), /frame 5 was altered/);
    await refused(Buffer.concat(frames.toSpliced(5, 0, frames[4] as Buffer)), /frame 5 was altered/);
    await refused(Buffer.concat([...frames, frames.at(-1) as Buffer]), /something behind its end/);
    await smallWorld();
    const other = framesOf(Buffer.from(await snapshot()));
    await loseEverything();
    empty = await rowsOf(SINGLETONS);
    await refused(Buffer.concat(frames.with(3, other[3] as Buffer)), /frame 3 was altered/);
  });

  it("when any bit differs", async () => {
    const { length } = whole();
    const places = [3, MAGIC.length + 1, MAGIC.length + LENGTH_BYTES + 20, length >> 1, length - 1];
    for (const place of places) {
      const altered = whole();
      altered.writeUInt8(altered.readUInt8(place) ^ 0x10, place);
      await refused(altered, /snapshot/);
    }
    await refused(randomBytes(5_000), /is not a snapshot/);
    await refused(Buffer.from("{}"), /is not a snapshot/);
  });

  it("when MASTER_KEY lacks the key that sealed it, which the error names", async () => {
    const { master } = JSON.parse((frames[0] as Buffer).subarray(MAGIC.length + LENGTH_BYTES).toString());
    (env as { MASTER_KEY?: string }).MASTER_KEY = randomBytes(32).toString("base64");
    await loseEverything();
    await get("/v1/sys/policies/acl/root");
    await get("/sys/sync/config");
    empty = await rowsOf(SINGLETONS);
    await refused(
      whole(),
      new RegExp(`sealed under master key ${master}, which MASTER_KEY of this deployment does not hold`),
    );
  });

  it("when it has a data key under an unknown master key, anywhere in the file", async () => {
    const foreign = parseKeyring(randomBytes(32).toString("base64")).newest.id;
    const own = parseKeyring(masterKey(env)).newest.id;
    const columns = ["term", "master", "wrapped", "created"];
    const keyOf = (term: number, master: string) => [term, master, new Uint8Array(60).buffer, 0];
    const objects = [
      { type: "object", kind: "sync-control", name: "main", versions: { data_keys: 1 }, sequences: {} },
      { type: "object", kind: "access-control", name: "main", versions: { data_keys: 1 }, sequences: {} },
    ] as const;
    for (const masters of [[foreign], [own, foreign]]) {
      for (const at of objects) {
        const sealer = new Sealer("s", new Date(), masterKey(env));
        const bytes = [sealer.begin()];
        for (const object of objects) {
          const rows = (object === at ? masters : [own]).map((master, term) => keyOf(term + 1, master));
          bytes.push(sealer.seal(object), sealer.seal({ type: "rows", table: "data_keys", columns, rows }));
        }
        await refused(
          Buffer.concat([...bytes, sealer.end()]),
          new RegExp(`data sealed under master key ${foreign}, which MASTER_KEY of this deployment does not hold`),
        );
      }
    }
  });

  it("when it was made by a newer version, or has an object of an unknown type", async () => {
    const newer = new Sealer("s", new Date(), masterKey(env));
    const versions = { access: 1_000 };
    const bytes = [
      newer.begin(),
      newer.seal({ type: "object", kind: "access-control", name: "main", versions, sequences: {} }),
    ];
    await refused(Buffer.concat([...bytes, newer.end()]), /newer schema: the tables of "access" are at step 1000/);
    const other = new Sealer("s", new Date(), masterKey(env));
    const strange = { type: "object", kind: "teapot", name: "main", versions: {}, sequences: {} } as never;
    await refused(Buffer.concat([other.begin(), other.seal(strange), other.end()]), /has no teapot/);
  });

  it("when it lacks an object, or has rows that match no table", async () => {
    const bare = new Sealer("s", new Date(), masterKey(env));
    await refused(Buffer.concat([bare.begin(), bare.end()]), /without cluster-registry main/);
    const odd = new Sealer("s", new Date(), masterKey(env));
    const object = { type: "object", kind: "event-log", name: "log", versions: { events: 1 }, sequences: {} } as const;
    const rows = { type: "rows", table: "lines", columns: ["idx", "nothing"], rows: [[1, 2]] } as const;
    await refused(
      Buffer.concat([odd.begin(), odd.seal(object), odd.seal(rows), odd.end()]),
      /the rows of table lines do not fit its schema/,
    );
  });
});

describe("a deployment refuses a restore", () => {
  it("when it is not empty: after a restore, or with a policy, a mount or an event", async () => {
    expect((await restore(whole())).status).toBe(200);
    const again = await restore(whole());
    expect([again.status, again.body.errors]).toEqual([
      409,
      [expect.stringMatching(/^the deployment is not empty: there are rows in /)],
    ]);
    expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ v: "a" });
    for (const use of [
      () => put("/v1/sys/policies/acl/p", { policy: 'path "a" {}' }),
      () => put("/v1/sys/namespaces/team", {}),
      () => send("PATCH", "/v1/sys/sync/config", { disabled: true }),
      () =>
        put("/v1/cluster/objects", [
          { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "j", Namespace: "default" } } },
        ]),
    ]) {
      await loseEverything();
      expect((await use()).status).toBeLessThan(300);
      expect((await restore(whole())).status).toBe(409);
      expect((await put("/v1/sys/policies/acl/later", { policy: 'path "a" {}' })).status).toBe(204);
    }
  });

  it("during a snapshot of it, and a snapshot during a restore", async () => {
    const stub = accessControl(env);
    expect(await stub.beginRestore("r")).toEqual({ ok: true, value: null });
    const taken = await get("/v1/sys/snapshot");
    expect([taken.status, taken.body.errors]).toEqual([
      409,
      [expect.stringContaining("a restore is under way, or has not ended")],
    ]);
    expect((await send("DELETE", "/v1/sys/snapshot")).status).toBe(204);
    await stub.freeze("s");
    const answer = await restore(whole());
    expect([answer.status, answer.body.errors]).toEqual([409, ["a snapshot is being taken; try again in a moment"]]);
    await stub.endCut("s");
    expect((await restore(whole())).status).toBe(200);
  });
});
