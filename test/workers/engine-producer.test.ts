import { beforeEach, describe, expect, it, vi } from "vitest";
import { producer } from "../../src/credentials/engines/https-producer/client.ts";
import { DefinitionBody } from "../../src/credentials/engines/https-producer/document.ts";
import type { ProviderName } from "../doubles/producers/account.ts";
import { part } from "../support/long.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { countPolls, deaths, dieAt } from "./engine-deaths.ts";
import { byItself, rows, skippingWaits, succeeded } from "./engine-helpers.ts";
import { openProducer, type ProducerAccount } from "./producer-helpers.ts";

clock.moves = true;

/** The HTTPS producer, with each definition of examples/producers against a double of its provider. */

interface Subject {
  readonly provider: ProviderName;
  /** Members of the answer's `data`. */
  readonly data: readonly string[];
  /** Whether the definition moves the end of credentials with their lease. */
  readonly renews: boolean;
}

const subjects: readonly Subject[] = [
  { provider: "gitlab", data: ["token"], renews: false },
  { provider: "cloudflare", data: ["token"], renews: false },
  { provider: "datadog", data: ["api_key"], renews: false },
  { provider: "atlas", data: ["password", "username"], renews: true },
  { provider: "snowflake", data: ["token"], renews: false },
];

let account: ProducerAccount;
let uuid: string;

const ours = async () => (await account.everything()).filter(({ name }) => /^sp-[\da-f]{32}$/.test(name));
const creds = (query = ""): Promise<Answer> => skippingWaits(() => get(`/v1/producer/creds/app${query}`));
const revoke = (lease_id: string) => skippingWaits(() => put("/v1/sys/leases/revoke", { lease_id }));
const configure = (more: object = {}) => put("/v1/producer/config", { ...account.config, ...more });

async function mount(provider: ProviderName): Promise<void> {
  account = await openProducer(provider);
  succeeded(await put("/v1/sys/mounts/producer", { type: "https-producer" }));
  uuid = (await get("/v1/sys/mounts/producer")).body.data.uuid;
}

const nothingIsLeft = async () => {
  expect(await rows(uuid, "leases")).toEqual([]);
  expect(await rows(uuid, "jobs")).toEqual([]);
  expect(await ours()).toEqual([]);
  expect(await account.everything()).toHaveLength(3);
};

describe.each(subjects)("an HTTPS producer of $provider", (subject) => {
  beforeEach(async () => {
    await mount(subject.provider);
    succeeded(await configure());
    succeeded(await put("/v1/producer/roles/app", { ttl: 60, max_ttl: 3_600 }));
  });

  it("issues credentials that work, renews their lease, and revokes it", async () => {
    const issued = succeeded(await creds("?verify=true"));
    expect([issued.body.warnings, Object.keys(issued.body.data).sort()]).toEqual([null, subject.data]);
    expect(issued.body).toMatchObject({ renewable: true, lease_duration: 60 });
    const [made] = await ours();
    const renewed = succeeded(await put("/v1/sys/leases/renew", { lease_id: issued.body.lease_id, increment: 1_200 }));
    expect(renewed.body.lease_duration).toBe(1_200);
    const [after] = await ours();
    if (subject.renews) expect(after?.expires).toBeGreaterThan(Date.now() + 1_190_000);
    else expect(after).toEqual(made);
    // The end at the provider never comes before that of the lease.
    if (after?.expires) expect(after.expires).toBeGreaterThan(Date.now() + 1_190_000);
    succeeded(await revoke(issued.body.lease_id));
    await byItself(uuid, nothingIsLeft);
  });

  it("keeps secrets out of URLs, answers, rows and the log", async () => {
    const lines = ["info", "warn", "error"] as const;
    const spies = lines.map((name) => vi.spyOn(console, name));
    const issued = succeeded(await creds("?verify=true"));
    await account.fault({ operation: "create", fault: "error", status: 400 });
    const refused = await creds();
    expect(refused.status).toBe(400);
    const secrets = [account.token, ...Object.values(issued.body.data as object).map(String)].filter(
      (text) => !text.startsWith("sp-"),
    );
    const shown = JSON.stringify([
      (await get("/v1/producer/config")).body,
      (await get("/v1/producer/roles/app")).body,
      refused.body,
      await rows(uuid, "leases"),
      (await account.requests()).map(({ target }) => target),
      spies.flatMap(({ mock }) => mock.calls),
    ]);
    for (const secret of secrets) expect(shown).not.toContain(secret);
  });

  it("gets the same lease for a repeated request with a key, and counts it for quotas", async () => {
    succeeded(await put("/v1/sys/quotas/lease-count/producer", { path: "producer", max_leases: 1 }));
    succeeded(await put("/v1/sys/policies/acl/issuer", { policy: 'path "producer/*" { capabilities = ["read"] }' }));
    const { client_token: token } = succeeded(await put("/v1/auth/token/create", { policies: ["issuer"] })).body.auth;
    const ask = (key: string) =>
      skippingWaits(() => get("/v1/producer/creds/app", { token, headers: { "Idempotency-Key": key } }));
    const [{ body: first }, { body: again }] = [succeeded(await ask("one")), succeeded(await ask("one"))];
    expect([again.lease_id, again.data]).toEqual([first.lease_id, first.data]);
    expect((await ask("two")).status).toBe(429);
    expect(await ours()).toHaveLength(1);
  });

  it("ends an expired lease by itself, and leaves nothing when it is unmounted", async () => {
    succeeded(await creds());
    await byItself(uuid, nothingIsLeft);
    succeeded(await creds());
    succeeded(await del("/v1/sys/mounts/producer"));
    await byItself(uuid, async () => expect(await ours()).toEqual([]));
  });

  it.each(part(deaths(1, 16)))("leaves nothing of an issue whose Worker dies at poll %i (%s)", async (...death) => {
    const died = dieAt(...death);
    expect((await creds()).status).toBeGreaterThanOrEqual(500);
    expect(died()).toBe(true);
    await byItself(uuid, nothingIsLeft);
  });

  it("has no further call of an issue and a revocation at which its Worker could die", async () => {
    const issue = countPolls();
    const { lease_id } = succeeded(await creds()).body;
    const calls = [issue()];
    const revocation = countPolls();
    succeeded(await revoke(lease_id));
    expect([...calls, revocation()]).toEqual([1, 1]);
  });

  it.each(["before", "after"] as const)("completes a revocation whose Worker dies (%s the report)", async (when) => {
    const { lease_id } = succeeded(await creds()).body;
    const died = dieAt(1, when, 16);
    await revoke(lease_id);
    expect(died()).toBe(true);
    await byItself(uuid, nothingIsLeft);
  });

  const LOST = (["create", "revoke"] as const).flatMap((operation) =>
    (["drop", "apply-then-drop"] as const).map((how) => [operation, how] as const),
  );

  it.each(LOST)("makes one object, and leaves none, after a lost answer of %s (%s)", async (operation, how) => {
    await account.fault({ operation, fault: how });
    const { lease_id } = succeeded(await creds("?verify=true")).body;
    expect(await ours()).toHaveLength(1);
    await revoke(lease_id);
    await byItself(uuid, nothingIsLeft);
  });

  if (subject.renews) {
    it.each(["before", "after"] as const)("completes a renewal whose Worker dies (%s the report)", async (when) => {
      succeeded(await put("/v1/producer/roles/app", { ttl: 1_100 }));
      const { lease_id } = succeeded(await creds()).body;
      const died = dieAt(1, when, 1);
      await put("/v1/sys/leases/renew", { lease_id, increment: 1_200 });
      expect(died()).toBe(true);
      vi.restoreAllMocks();
      await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
      const renewed = succeeded(await put("/v1/sys/leases/renew", { lease_id, increment: 1_200 }));
      expect(renewed.body.lease_duration).toBe(1_200);
      expect((await ours())[0]?.expires).toBeGreaterThan(Date.now() + 1_190_000);
      succeeded(await revoke(lease_id));
      await byItself(uuid, nothingIsLeft);
    });
  }

  it.each(["before", "after"] as const)("completes a role's write whose Worker dies (%s the report)", async (when) => {
    const died = dieAt(1, when, 1);
    await put("/v1/producer/roles/other", { ttl: 60 });
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    await byItself(uuid, async () => {
      expect(await rows(uuid, "jobs")).toEqual([]);
      expect((await get("/v1/producer/roles/other")).status).toBe(200);
    });
  });

  it("waits while the provider throttles it, and makes one object", async () => {
    await account.fault({ operation: "create", fault: "error", status: 429, count: 2 });
    const { lease_id } = succeeded(await creds()).body;
    expect(await ours()).toHaveLength(1);
    succeeded(await revoke(lease_id));
    await byItself(uuid, nothingIsLeft);
  });

  it("counts a creation that is answered with 503 as unknown, and finds what it made", async () => {
    await account.fault({ operation: "create", fault: "error", status: 503 });
    succeeded(await creds());
    expect((await account.requests()).length).toBeGreaterThan(3);
    expect(await ours()).toHaveLength(1);
  });

  it("finds and removes the orphans of an issue that was given up after lost answers", async () => {
    await account.fault({ operation: "create", fault: "apply-then-drop", count: 20 });
    expect((await creds()).status).toBeGreaterThanOrEqual(400);
    await byItself(uuid, nothingIsLeft);
  });

  it("refuses a role while find does not work", async () => {
    await account.fault({ operation: "find", fault: "error", status: 403 });
    const refused = await put("/v1/producer/roles/other", { ttl: 60 });
    expect([refused.status, refused.body.errors?.[0]]).toEqual([
      400,
      expect.stringContaining("searching for credentials"),
    ]);
    expect((await get("/v1/producer/roles/other")).status).toBe(404);
  });
});

describe("the calls of a definition", () => {
  const definition = (given: object) => DefinitionBody.parse(given);
  const full = () =>
    definition({
      headers: { "X-Key": "{{secrets.key}}" },
      auth: {
        type: "oauth2",
        path: "/login",
        client_id: "{{secrets.id}}",
        client_secret: "{{secrets.key}}",
        scope: "all",
      },
      generate: { pin: { length: 16, charset: "0123456789" } },
      create: {
        method: "PUT",
        path: "/x/{{vars.place}}",
        query: { "a b": "{{marker}}" },
        form: { name: "{{marker.sql}}", pin: "{{generated.pin}}", end: "{{expires_at.unix}}" },
        expect: [201],
        conflict: [409],
        capture: { id: "/a~1b/0/id" },
      },
      find: {
        method: "POST",
        path: "/find",
        json: { ttl: 5, text: "is {{marker}}" },
        items: "/rows",
        match: { "/0": "{{marker}}" },
        capture: { id: "/1" },
        gone: [410],
        pages: { query: "page", first: 0, most: 2 },
      },
      renew: {
        method: "PUT",
        path: "/x/{{id}}",
        headers: { "X-Place": "{{vars.place}}" },
        json: { id: "{{id}}", life: "{{ttl}}" },
      },
      revoke: { path: "/x/{{id}}", gone: [404] },
      verify: { path: "/me", headers: { Authorization: "Basic {{data.pin}}" } },
      lease: { data: { pin: "{{generated.pin}}", id: "{{id}}" } },
    });

  /** Answers of a provider, in turn. */
  const calling = (...answers: (readonly [status: number, body: unknown])[]) => callingBy(full(), ...answers);
  /** A body that is a text is answered as it is. */
  const callingBy = (definition: ReturnType<typeof full>, ...answers: (readonly [status: number, body: unknown])[]) => {
    const sent: { url: string; method: string; headers: Record<string, string>; body: string }[] = [];
    const url = "https://api.example/v1";
    const account = { url, secrets: { id: "i", key: "k" }, vars: {}, signingSecret: "", definition };
    const calls = producer(account, async ([target, init]) => {
      const headers = Object.fromEntries(new Headers(init.headers));
      sent.push({ url: target, method: String(init.method), headers, body: String(init.body ?? "") });
      const [status, body] = answers.shift() ?? [500, null];
      const text = typeof body === "string" ? body : JSON.stringify(body);
      return { ok: true, response: new Response(null, { status }), text };
    });
    return { sent, calls };
  };
  const LOGIN = [200, { access_token: "bearer" }] as const;
  const held = { ids: { id: 7 }, marker: "sp-m", vars: { place: "p" }, lag: 0 };

  it("sends the calls that it describes, and reads their answers by its pointers", async () => {
    const { sent, calls } = calling(
      LOGIN,
      [201, { "a/b": [{ id: 7 }] }],
      [
        200,
        {
          rows: [
            ["sp-m", 7],
            ["o", 8],
          ],
        },
      ],
      [200, { rows: [] }],
    );
    const expires = Date.now() + 60_000;
    const made = await calls.create({ marker: "sp-m", vars: { place: "a/b c" }, expires });
    const [login, create] = sent;
    expect(login).toMatchObject({ url: "https://api.example/v1/login", method: "POST" });
    expect([login?.body, login?.headers["authorization"]]).toEqual([
      "grant_type=client_credentials&scope=all",
      `Basic ${btoa("i:k")}`,
    ]);
    expect([create?.method, create?.url]).toEqual(["PUT", "https://api.example/v1/x/a%2Fb%20c?a+b=sp-m"]);
    const form = new URLSearchParams(create?.body);
    expect([form.get("name"), form.get("end")]).toEqual(["sp_m", String(Math.ceil(expires / 1000))]);
    const pin = form.get("pin") ?? "";
    expect(pin).toMatch(/^\d{16}$/);
    expect(made).toEqual({ ok: true, value: { ids: { id: 7 }, data: { pin, id: "7" } } });
    expect(create?.headers).toMatchObject({ "x-key": "k", authorization: "Bearer bearer" });
    expect(await calls.find({ marker: "sp-m", vars: {} })).toEqual({ ok: true, value: [{ id: 7 }] });
    expect(sent.slice(2).map(({ url, body }) => [url.split("?")[1], JSON.parse(body)])).toEqual([
      ["page=0", { ttl: 5, text: "is sp-m" }],
      ["page=1", { ttl: 5, text: "is sp-m" }],
    ]);
  });

  it("has typed values in JSON, and no credentials of the engine in verify", async () => {
    const { sent, calls } = calling(LOGIN, [200, {}], [200, null]);
    expect(await calls.renew(held, Date.now() + 59_500)).toEqual({ ok: true, value: null });
    expect(JSON.parse(sent[1]?.body ?? "")).toEqual({ id: 7, life: expect.closeTo(60, -1) });
    expect(await calls.verify({ pin: "1\r\n" })).toEqual({ ok: true, value: null });
    expect(sent[2]?.headers).toEqual({
      accept: "application/json",
      "user-agent": expect.stringMatching(/^sallyport\//),
      authorization: "Basic 1",
    });
  });

  it.each(["1\r\nX-Other: 2", "Zürich"])("refuse a value that a header cannot have: %j", async (pin) => {
    const { sent, calls } = calling();
    const message = "Using the new credentials: the header Authorization would have other characters than ASCII.";
    expect(await calls.verify({ pin })).toMatchObject({
      failure: { outcome: "client", code: "misconfigured", message },
    });
    expect(sent).toEqual([]);
  });

  it("go on about an object that was made with such a value, without the characters", async () => {
    const { sent, calls } = calling(LOGIN, [200, null]);
    expect((await calls.renew({ ...held, vars: { ...held.vars, place: "Zürich" } }, Date.now() + 60_000)).ok).toBe(
      true,
    );
    expect(sent[1]?.headers["x-place"]).toBe("Zrich");
  });

  it("keep every digit of an id that no number holds", async () => {
    const { sent, calls } = calling(LOGIN, [201, '{"a/b":[{"id":9007199254740993}]}'], [200, {}]);
    const made = await calls.create({ marker: "sp-m", vars: { place: "p" }, expires: Date.now() + 60_000 });
    expect(made).toMatchObject({ value: { ids: { id: "9007199254740993" }, data: { id: "9007199254740993" } } });
    await calls.revoke(JSON.stringify({ ...held, ids: { id: "9007199254740993" } }));
    expect(sent.at(-1)?.url).toBe("https://api.example/v1/x/9007199254740993");
  });

  it("that another definition lacks, or has a further variable in, are refused before anything is sent", async () => {
    const expiring = { ...full(), find: undefined, revoke: undefined, renew: undefined, orphans: "expire" as const };
    const further = { ...full(), headers: { "X-Key": "{{vars.further}}" } };
    const object = { marker: "sp-m", vars: { place: "p" } };
    for (const [definition, root] of [
      [full(), true],
      [expiring, undefined],
      [further, undefined],
      [{ ...full(), auth: { ...full().auth, client_id: "{{vars.further}}" } } as typeof further, undefined],
    ] as const) {
      const { sent, calls } = callingBy(definition);
      const of = { ...object, ...(root && { root }) };
      for (const result of [await calls.find(of), await calls.revoke(JSON.stringify({ ...held, ...of }))]) {
        expect(result).toMatchObject({ ok: false, failure: { outcome: "client", code: "misconfigured" } });
      }
      expect(sent).toEqual([]);
    }
  });

  it.each([
    ["create", [409, {}], "unknown", "already_exists"],
    ["create", [503, {}], "unknown", "provider_unavailable"],
    ["create", [202, {}], "unknown", "unreadable_answer"],
    ["create", [201, {}], "unknown", "unreadable_answer"],
    ["create", [400, { message: "the secret is k" }], "client", "refused"],
    ["create", [429, {}], "external", "throttled"],
    ["find", [200, { rows: {} }], "external", "unreadable_answer"],
    ["find", [200, { rows: [["sp-m"]] }], "external", "unreadable_answer"],
    ["find", [404, {}], "client", "not_found"],
    ["revoke", [404, {}], "client", "not_found"],
    ["revoke", [500, {}], "unknown", "provider_unavailable"],
  ] as const)("of %s with %j is a failure: %s, %s", async (name, answer, outcome, code) => {
    const { calls } = calling(LOGIN, answer);
    const object = { marker: "sp-m", vars: { place: "p" } };
    const run = {
      create: () => calls.create({ ...object, expires: Date.now() + 60_000 }),
      find: () => calls.find(object),
      revoke: () => calls.revoke(JSON.stringify(held)),
    };
    const result = await run[name]();
    expect(result).toMatchObject({ ok: false, failure: { outcome, code } });
    expect(JSON.stringify(result)).not.toContain("secret is");
  });

  it.each([
    [400, "not_found"],
    [422, "not_found"],
    [401, "auth_failed"],
    [403, "permission_denied"],
  ] as const)("of a removal refused with %i, which the search does not find, is %s", async (status, code) => {
    const { calls } = calling(LOGIN, [status, {}], [200, { rows: [] }]);
    const left = JSON.stringify({ ...held, marker: "sp-m" });
    expect(await calls.revoke(left)).toMatchObject({ ok: false, failure: { code } });
  });

  it("of a refused removal is no proof while the search finds the object, its id a number or a text", async () => {
    const { calls } = calling(LOGIN, [400, {}], [200, { rows: [["sp-m", "7"]] }], [200, { rows: [] }]);
    const left = JSON.stringify({ ...held, marker: "sp-m" });
    expect(await calls.revoke(left)).toMatchObject({ ok: false, failure: { code: "refused" } });
  });

  it("of a search with too many pages is refused, not cut", async () => {
    const page = [200, { rows: [["o", 1]] }] as const;
    const { calls } = calling(LOGIN, page, page, page);
    expect(await calls.find({ marker: "sp-m", vars: {} })).toMatchObject({ ok: false, failure: { code: "refused" } });
  });
});

describe("a login by a signed token", () => {
  beforeEach(() => mount("snowflake"));

  it("needs a private_key from a secret, and takes issuer, subject and audience", async () => {
    const { producer: given } = account.config;
    const auth = { ...(given as { auth: object }).auth, audience: "{{vars.account}}" };
    succeeded(await configure({ producer: { ...given, auth } }));
    // The audience is a further claim, which this provider does not read.
    succeeded(await put("/v1/producer/roles/app", {}));
    const open = await configure({ producer: { ...given, auth: { ...auth, private_key: "a key" } } });
    expect(open.text).toContain("auth: its key must be {{secrets.name}}");
    succeeded(await configure({ secrets: { private_key: "no key" } }));
    expect((await put("/v1/producer/roles/app", {})).text).toContain("private_key must be one PEM block");
    succeeded(await configure({ producer: { ...given, auth: { ...auth, issuer: "x", subject: "x" } } }));
    expect((await put("/v1/producer/roles/app", {})).status).toBe(400);
  });

  it("refuses a variable that is no identifier where SQL has one", async () => {
    succeeded(await configure());
    const injected = await put("/v1/producer/roles/app", { vars: { user: "APP; DROP USER X" } });
    expect(injected.body.errors).toEqual(["vars: user must be an identifier: letters, digits and _"]);
  });
});

describe("the definition of an HTTPS producer", () => {
  beforeEach(() => mount("gitlab"));

  type Definition = Record<string, Record<string, unknown>>;
  const changed = (change: (producer: Definition) => void) => {
    const producer = structuredClone(account.config.producer) as Definition;
    change(producer);
    return configure({ producer });
  };
  const set = (part: string, name: string, value: unknown) => (producer: Definition) => {
    producer[part] = { ...producer[part], [name]: value };
  };
  const without = (part: string) => (producer: Definition) => void delete producer[part];

  it("is refused without a search, or an end at the provider", async () => {
    const refusals: readonly (readonly [change: (producer: Definition) => void, error: string])[] = [
      [without("find"), "find: required, unless orphans is expire"],
      [set("create", "json", { name: "fixed" }), "create: must have {{marker}}"],
      [set("create", "wait", {}), "unknown field wait"],
    ];
    for (const [change, error] of refusals) {
      const answer = await changed(change);
      expect([answer.status, answer.text], error).toEqual([400, expect.stringContaining(error.replaceAll('"', '\\"'))]);
    }
    expect((await get("/v1/producer/config")).status).toBe(404);
  });

  it("may be without a search when what it makes ends at the provider by itself", async () => {
    const expiring = (producer: Definition) => {
      for (const part of ["find", "revoke"]) delete producer[part];
      Object.assign(producer, { orphans: "expire" });
    };
    succeeded(await changed(expiring));
    succeeded(await put("/v1/producer/roles/app", { ttl: 300 }));
    const issued = succeeded(await creds()).body;
    expect(issued.renewable).toBe(false);
    expect(issued.lease_duration).toBeGreaterThan(240);
    expect(issued.lease_duration).toBeLessThanOrEqual(300);
    expect((await revoke(issued.lease_id)).status).toBe(204);
    expect([await rows(uuid, "leases"), await rows(uuid, "jobs")]).toEqual([[], []]);
    // It stays there until it ends.
    expect(await ours()).toHaveLength(1);
    await account.fault({ operation: "create", fault: "apply-then-drop" });
    expect((await creds()).status).toBeGreaterThanOrEqual(500);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
  });

  it("is taken as text, as command lines send it, and answered without secrets", async () => {
    succeeded(await configure({ producer: JSON.stringify(account.config.producer) }));
    const { data } = (await get("/v1/producer/config")).body;
    expect(data).toMatchObject({ url: account.config.url, vars: { project: "42" }, secret_names: ["token"] });
    expect(data.producer.create.json).toMatchObject({ name: "{{marker}}" });
    const refusals = [
      [{ producer: "{" }, "must be JSON"],
      [{ url: "https://10.0.0.1" }, "must not be a private address"],
      [{ url: `${account.config.url}/` }, "no slash at its end"],
      [{ url: "https://a.example/{{vars.x}}" }, "no placeholder"],
      [{ secrets: {} }, "secrets: the producer needs token"],
      [{ signing_secret: "short" }, "signing_secret: must be whsec_"],
    ] as const;
    for (const [more, error] of refusals) {
      expect((await configure(more)).text, error).toContain(error);
    }
  });

  it("has its own variables, before those of the engine", async () => {
    succeeded(await configure({ vars: {} }));
    expect((await put("/v1/producer/roles/app", { ttl: 60 })).body.errors).toEqual([
      "vars: the producer needs project",
    ]);
    succeeded(await configure({ vars: { project: "1" } }));
    succeeded(await put("/v1/producer/roles/app", { ttl: 60, max_ttl: 120, vars: { project: "a/../b" } }));
    succeeded(await creds());
    const made = (await account.requests()).filter(({ method }) => method === "POST");
    expect(made.map(({ target }) => target)).toEqual(["/api/v4/projects/a%2F..%2Fb/access_tokens"]);
    expect((await get("/v1/producer/roles/app")).body.data).toEqual({
      vars: { project: "a/../b" },
      ttl: 60,
      max_ttl: 120,
    });
    succeeded(await put("/v1/producer/roles/dots", { vars: { project: "ok" } }));
    expect((await put("/v1/producer/roles/dots", { vars: { project: ".." } })).status).toBe(400);
    expect((await put("/v1/producer/roles/app", { ttl: 121 })).body.errors).toEqual([
      "ttl: must not be greater than max_ttl",
    ]);
  });

  it("that made a lease revokes it after another one has replaced it", async () => {
    succeeded(await configure());
    succeeded(await put("/v1/producer/roles/app", { ttl: 60 }));
    const { lease_id } = succeeded(await creds()).body;
    succeeded(await changed(set("revoke", "path", "/nowhere/{{id}}")));
    await revoke(lease_id);
    await byItself(uuid, nothingIsLeft);
  });

  it("revokes a lease with the secrets that made it, whatever those of another user see", async () => {
    succeeded(await configure());
    succeeded(await put("/v1/producer/roles/app", { ttl: 600 }));
    const { lease_id } = succeeded(await creds()).body;
    const other = await openProducer("gitlab");
    succeeded(await configure({ secrets: { token: other.token } }));
    await revoke(lease_id);
    await byItself(uuid, nothingIsLeft);
    expect((await other.requests()).filter(({ method }) => method === "DELETE")).toEqual([]);
  });

  it("signs calls, and keeps the names of its secrets", async () => {
    const signing_secret = `whsec_${btoa("a key of thirty-two bytes, as is")}`;
    succeeded(await configure({ signing_secret }));
    succeeded(await put("/v1/producer/roles/app", {}));
    succeeded(await creds());
    const [call] = (await account.requests()).filter(({ method }) => method === "POST");
    expect(call?.headers).toMatchObject({
      "webhook-id": expect.stringMatching(/^msg_/),
      "webhook-signature": expect.stringMatching(/^v1,/),
    });
    const shown = JSON.stringify((await get("/v1/producer/config")).body);
    expect(shown).not.toContain(signing_secret);
    // "Not found" is checked again for as long as the provider may not list a new object.
    succeeded(await changed((producer) => Object.assign(producer, { lag: "60s" })));
    const { lease_id } = succeeded(await creds()).body;
    await account.fault({ operation: "revoke", fault: "error", status: 404 });
    const [, second] = await ours();
    await revoke(lease_id);
    await byItself(uuid, async () => expect((await ours()).map(({ id }) => id)).not.toContain(second?.id));
  });
});
