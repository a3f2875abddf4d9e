import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { accessObject, issue, policies } from "./access.ts";
import { type Answer, del, put } from "./client.ts";
import { appendKeys, closeAll, noReaders, openStream, throughRelays } from "./streams.ts";

/* Open streams whose rights come through an entity or a group. */

afterEach(async () => {
  await closeAll();
  throughRelays(0);
});

interface Person {
  readonly token: string;
  readonly entity: string;
}

async function login(name: string, more: object = {}): Promise<Person> {
  await put(`/v1/auth/userpass/users/${name}`, { password: "hunter2-hunter2", ...more });
  const { body } = await put(`/v1/auth/userpass/login/${name}`, { password: "hunter2-hunter2" }, { token: null });
  return { token: body.auth.client_token, entity: body.auth.entity_id };
}

/** A group whose policy lets its members read jobs. */
const readers = (change: object): Promise<Answer> =>
  put("/v1/identity/group/name/readers", { policies: ["reader"], ...change });

const byEntity = ({ entity }: Person) => put(`/v1/identity/entity/id/${entity}`, { policies: ["reader"] });
const byGroup = ({ entity }: Person) => readers({ member_entity_ids: [entity] });

type Stream = Awaited<ReturnType<typeof openStream>>;

/** Appends an event, and waits for it. */
async function seen(stream: Stream, key: string): Promise<void> {
  await appendKeys(key);
  const keys: string[] = [];
  while (!keys.includes(key)) keys.push(...(await stream.nextLine()).Events.map(({ Key }) => Key));
}

async function endsWithout(stream: Stream, key: string): Promise<void> {
  for (let text = await stream.nextText(); text !== null; text = await stream.nextText()) {
    expect(text).not.toContain(`"${key}"`);
  }
  await noReaders();
}

beforeEach(async () => {
  await policies({ reader: 'namespace "default" { capabilities = ["read-job"] }' });
  await put("/v1/sys/auth/userpass", { type: "userpass" });
});

describe("the streams of an entity", () => {
  it.each<[string, number, (of: Person) => Promise<Answer>, (of: Person, other: Person) => Promise<Answer>]>([
    ["is disabled", 0, byEntity, ({ entity }) => put(`/v1/identity/entity/id/${entity}`, { disabled: true })],
    [
      "is disabled, at a relay",
      1,
      byEntity,
      ({ entity }) => put(`/v1/identity/entity/id/${entity}`, { disabled: true }),
    ],
    ["is deleted", 0, byEntity, ({ entity }) => del(`/v1/identity/entity/id/${entity}`)],
    ["loses its policies", 0, byEntity, ({ entity }) => put(`/v1/identity/entity/id/${entity}`, { policies: [] })],
    ["is in a group that loses its policies", 0, byGroup, () => readers({ policies: [] })],
    ["leaves its group", 0, byGroup, () => readers({ member_entity_ids: [] })],
    ["is in a group that is deleted", 0, byGroup, () => del("/v1/identity/group/name/readers")],
    [
      "is deleted with others",
      0,
      byEntity,
      ({ entity }) => put("/v1/identity/entity/batch-delete", { entity_ids: [entity] }),
    ],
  ])("have no event once it %s", async (_what, relays, allow, lose) => {
    throughRelays(relays);
    const person = await login("ann");
    expect((await allow(person)).status).toBeLessThan(300);
    const stream = await openStream("?topic=Job&index=-1", { token: person.token });
    expect(stream.response.status).toBe(200);
    await seen(stream, "before");
    expect((await lose(person, person)).status).toBeLessThan(300);
    await appendKeys("after");
    await endsWithout(stream, "after");
  });

  it("are not opened while it is disabled", async () => {
    const { token, entity } = await login("ann");
    await put("/v1/auth/userpass/users/ann", { token_policies: "reader" });
    await put(`/v1/identity/entity/id/${entity}`, { disabled: true });
    expect((await openStream("?topic=Job", { token })).response.status).toBe(403);
  });
});

describe("the streams of logins at an auth method", () => {
  const READER = { token_policies: "reader" };
  const holders: [string, () => Promise<string>][] = [
    ["a service token", async () => (await login("ann", READER)).token],
    ["a batch token", async () => (await login("ann", { ...READER, token_type: "batch" })).token],
    [
      "a child of its token",
      async () => {
        const { token } = await login("ann", { token_policies: "reader,creator" });
        const { body } = await put("/v1/auth/token/create", { policies: ["reader"] }, { token });
        return body.auth.client_token;
      },
    ],
  ];

  it.each(holders.flatMap(([who, holder]) => [0, 1].map((relays) => ({ who, holder, relays }))))(
    "have no event for $who once it is disabled, with $relays relays",
    async ({ holder, relays }) => {
      throughRelays(relays);
      await policies({ creator: 'path "auth/token/create" { capabilities = ["update"] }' });
      const stream = await openStream("?topic=Job&index=-1", { token: await holder() });
      expect(stream.response.status).toBe(200);
      await seen(stream, "before");
      expect((await del("/v1/sys/auth/userpass")).status).toBe(204);
      await appendKeys("after");
      await endsWithout(stream, "after");
    },
  );
});

describe("the streams of tokens without an entity", () => {
  /** Stores tokens like one, under other names. */
  const storeLike = (accessor: string, count: number) =>
    runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      const row = sql.exec("SELECT * FROM tokens WHERE accessor = ?", accessor).one();
      const columns = Object.keys(row);
      const insert = `INSERT INTO tokens (${columns}) VALUES (${columns.map(() => "?")})`;
      for (let n = 0; n < count; n++) {
        const copy = { ...row, hash: `${row["hash"]}${n}`, accessor: `${accessor}-${n}` };
        sql.exec(insert, ...Object.values(copy));
      }
    });

  it.each([0, 1])("have no event once more than 500 of their prefix are revoked, with %i relays", async (relays) => {
    throughRelays(relays);
    const reader = () => issue({ policies: ["reader"], ttl: "1h" });
    await storeLike((await reader()).accessor, 1_100);
    const stream = await openStream("?topic=Job&index=-1", { token: (await reader()).client_token });
    await seen(stream, "before");
    expect((await put("/v1/sys/leases/revoke-prefix/auth/token", {})).status).toBe(204);
    await appendKeys("after");
    await endsWithout(stream, "after");
  });
});
