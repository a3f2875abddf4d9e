import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isLong } from "../support/long.ts";
import { type Reply, Wires } from "./raw-http.ts";
import { deploymentSecrets, Service } from "./service.ts";

/* Attempts to get in at the service as `npm start` runs it, over plain sockets: rights that end during a request, a
   waiting read or a stream, or by null, denied lists, names that pass a quota, and addresses of the service's own
   network. */

const ROOT: string = deploymentSecrets.DEV_ROOT_TOKEN;
const PATIENCE_MS = 30_000;
/** A head with one byte of its body arrives, and is judged, in far less. */
const JUDGED_MS = 250;

let service: Service;
let wires: Wires;

beforeAll(async () => {
  service = await Service.start({
    AGENT: "0",
    PLAYGROUND: "0",
    RATE_LIMITS: "off",
    PRIVATE_HOSTS: "unused.invalid",
  });
  wires = new Wires(service.port);
});
afterAll(async () => {
  wires?.close();
  await service?.stop();
});

type Call = [method: string, path: string, body?: unknown];

function send([method, path, body]: Call, token = ROOT): Promise<Reply> {
  const text = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const headers: [string, string][] = [
    ["Host", "localhost"],
    ["X-Orch-Token", token],
  ];
  if (text) headers.push(["Content-Type", "application/json"], ["Content-Length", String(text.length)]);
  return wires.send({ method, target: path, headers, ...(text && { body: text }) }, PATIENCE_MS);
}

async function must(...call: Call): Promise<Reply> {
  const reply = await send(call);
  expect([200, 204], `${call[0]} ${call[1]}: ${reply.status} ${reply.text}`).toContain(reply.status);
  return reply;
}

const FRAMINGS = {
  "Content-Length": { head: (length: number) => `Content-Length: ${length}`, part: (text: string) => text, end: "" },
  chunks: {
    head: () => "Transfer-Encoding: chunked",
    part: (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`,
    end: "0\r\n\r\n",
  },
} as const;

/** Sends the head and one byte of the body, lets `meanwhile` happen, and sends the rest. @returns the answer's status */
async function interrupted(
  [method, path, body]: Call,
  token: string,
  framing: keyof typeof FRAMINGS,
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  const { head, part, end } = FRAMINGS[framing];
  const text = JSON.stringify(body);
  const socket = connect(service.port, "127.0.0.1");
  let received = "";
  socket.on("data", (bytes) => (received += bytes.toString("latin1"))).on("error", () => {});
  const answered = new Promise<void>((resolve) => {
    socket.on("data", () => received.includes("\r\n\r\n") && resolve()).on("close", () => resolve());
  });
  const lines = [`${method} ${path} HTTP/1.1`, "Host: localhost", `X-Orch-Token: ${token}`, head(text.length)];
  socket.write([...lines, "Content-Type: application/json", "", part(text.slice(0, 1))].join("\r\n"));
  await sleep(JUDGED_MS);
  await meanwhile();
  socket.write(part(text.slice(1)) + end);
  await answered;
  socket.destroy();
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1] ?? 0);
}

interface Holder {
  readonly token: string;
  /** How its rights end. */
  readonly end: () => Promise<unknown>;
}

let made = 0;

async function tokenOf(policies: readonly string[], parent = ROOT): Promise<{ token: string; accessor: string }> {
  const { text } = await send(["POST", "/v1/auth/token/create", { policies }], parent);
  const { client_token: token, accessor } = JSON.parse(text).auth;
  return { token, accessor };
}

async function person(policies: readonly string[]): Promise<{ token: string; entity: string; method: string }> {
  const method = `up${++made}`;
  await must("POST", `/v1/sys/auth/${method}`, { type: "userpass" });
  await must("POST", `/v1/auth/${method}/users/ann`, { password: "hunter2-hunter2", token_policies: policies });
  const login = await must("POST", `/v1/auth/${method}/login/ann`, { password: "hunter2-hunter2" });
  const { client_token: token, entity_id: entity } = JSON.parse(login.text).auth;
  return { token, entity, method };
}

const login = async (...call: Call): Promise<string> => JSON.parse((await must(...call)).text).auth.client_token;

/** Enables an auth method with one login. @returns how to log in, and the login's own path */
async function approle(): Promise<{ path: string; signIn: () => Promise<string> }> {
  const method = `ar${++made}`;
  await must("POST", `/v1/sys/auth/${method}`, { type: "approle" });
  const path = `/v1/auth/${method}/role/app`;
  await must("POST", path, { bind_secret_id: false, token_bound_cidrs: "127.0.0.0/8", token_policies: ["writer"] });
  const { role_id } = JSON.parse((await must("GET", `${path}/role-id`)).text).data;
  return { path, signIn: () => login("POST", `/v1/auth/${method}/login`, { role_id }) };
}

const WRITER = `path "secret/data/*" { capabilities = ["create", "update"] }
namespace "default" { policy = "read" }`;

/** Each way in which a right to write `secret/data/…`, and to read jobs and their events, ends. */
const ENDS: readonly (readonly [string, () => Promise<Holder>])[] = [
  [
    "its token is revoked",
    async () => {
      const { token } = await tokenOf(["root"]);
      return { token, end: () => must("POST", "/v1/auth/token/revoke", { token }) };
    },
  ],
  [
    "its token with limited uses is revoked",
    async () => {
      const { text } = await must("POST", "/v1/auth/token/create", { policies: ["root"], num_uses: 9, ttl: "1h" });
      const { client_token: token, accessor } = JSON.parse(text).auth;
      return { token, end: () => must("POST", "/v1/auth/token/revoke-accessor", { accessor }) };
    },
  ],
  [
    "its token, bound to a network, is revoked",
    async () => {
      await must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER });
      const token = await (await approle()).signIn();
      return { token, end: () => must("POST", "/v1/auth/token/revoke", { token }) };
    },
  ],
  [
    "its token is deleted by accessor",
    async () => {
      const reply = await must("PUT", "/v1/acl/token", { Name: "m", Type: "management" });
      const { SecretID: token, AccessorID } = JSON.parse(reply.text);
      return { token, end: () => must("DELETE", `/v1/acl/token/${AccessorID}`) };
    },
  ],
  [
    "its token's parent is revoked",
    async () => {
      const parent = await tokenOf(["root"]);
      const { token } = await tokenOf(["root"], parent.token);
      return { token, end: () => must("POST", "/v1/auth/token/revoke-accessor", { accessor: parent.accessor }) };
    },
  ],
  [
    "its policy is emptied",
    async () => {
      const name = `writer${++made}`;
      await must("PUT", `/v1/sys/policies/acl/${name}`, { policy: WRITER });
      const { token } = await tokenOf([name]);
      const policy = 'path "secret/data/other" { capabilities = ["read"] }';
      return { token, end: () => must("PUT", `/v1/sys/policies/acl/${name}`, { policy }) };
    },
  ],
  [
    "its entity is disabled",
    async () => {
      await must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER });
      const { token, entity } = await person(["writer"]);
      return { token, end: () => must("POST", `/v1/identity/entity/id/${entity}`, { disabled: true }) };
    },
  ],
  [
    "its entity is deleted",
    async () => {
      await must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER });
      const { token, entity } = await person(["writer"]);
      return { token, end: () => must("DELETE", `/v1/identity/entity/id/${entity}`) };
    },
  ],
  [
    "its group loses its policies",
    async () => {
      await must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER });
      const { token, entity } = await person([]);
      const group = `/v1/identity/group/name/writers${++made}`;
      await must("POST", group, { policies: ["writer"], member_entity_ids: [entity] });
      return { token, end: () => must("POST", group, { policies: [] }) };
    },
  ],
  [
    "its auth method is disabled",
    async () => {
      await must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER });
      const { token, method } = await person(["writer"]);
      return { token, end: () => must("DELETE", `/v1/sys/auth/${method}`) };
    },
  ],
  [
    "the prefix of its login is revoked",
    async () => {
      await must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER });
      const { token, method } = await person(["writer"]);
      return { token, end: () => must("PUT", `/v1/sys/leases/revoke-prefix/auth/${method}`) };
    },
  ],
];

describe("a body that ends after the right to send it", () => {
  const framings = Object.keys(FRAMINGS) as (keyof typeof FRAMINGS)[];
  /** Outside of the long run every row has one framing, in turns. */
  const framingsOf = (row: number) => (isLong ? framings : framings.filter((_, at) => at === row % framings.length));

  it.each(ENDS.flatMap(([what, holder], row) => framingsOf(row).map((framing) => ({ what, holder, framing }))))(
    "is refused without effect when $what ($framing)",
    async ({ holder, framing }) => {
      const { token, end } = await holder();
      const path = `/v1/secret/data/late${++made}`;
      expect(await interrupted(["PUT", path, { data: { a: "b" } }], token, framing, end)).toBe(403);
      expect((await send(["GET", path])).status).toBe(404);
    },
  );

  beforeAll(async () => {
    for (const type of ["userpass", "approle", "jwt"]) await must("POST", `/v1/sys/auth/late-${type}`, { type });
    await must("POST", "/v1/sys/sync/destinations/in-mem/ruled", {});
  });

  it.each<Call>([
    ["PUT", "/v1/sys/policies/acl/late", { policy: WRITER }],
    ["PUT", "/v1/acl/policy/late", { Rules: 'node { policy = "read" }' }],
    ["PUT", "/v1/sys/mounts/late", { type: "kv" }],
    ["PUT", "/v1/sys/auth/late", { type: "userpass" }],
    ["PUT", "/v1/sys/namespaces/late", {}],
    ["PUT", "/v1/identity/entity/name/late", { policies: ["default"] }],
    ["PUT", "/v1/identity/group/name/late", { policies: ["default"] }],
    ["PUT", "/v1/auth/token/roles/late", {}],
    ["PUT", "/v1/auth/late-userpass/users/late", { password: "hunter2-hunter2" }],
    ["PUT", "/v1/auth/late-approle/role/late", { token_policies: ["root"] }],
    ["PUT", "/v1/auth/late-jwt/role/late", { user_claim: "sub", bound_subject: "late", token_policies: ["writer"] }],
    ["PUT", "/v1/sys/quotas/rate-limit/late", { rate: 1 }],
    ["PUT", "/v1/sys/sync/destinations/in-mem/late", {}],
    ["PUT", "/v1/sys/sync/destinations/app-config/late", { access_token: "t", app: "a" }],
    ["PUT", "/v1/sys/sync/destinations/in-mem/ruled/rules/late", { mount: "secret", match_all: true }],
    ["PUT", "/v1/event/subscription/late", { Topics: { Job: ["*"] }, Target: { Type: "queue", Queue: "late" } }],
    ["PUT", "/v1/acl/auth-method/late", { Name: "late", Type: "JWT", TokenLocality: "local", MaxTokenTTL: "1h" }],
    ["PUT", "/v1/node/pool/late", { Name: "late" }],
    ["PUT", "/v1/namespace/late", { Name: "late" }],
  ])("is refused without effect at %s %s", async (...call) => {
    const { token } = await tokenOf(["root"]);
    const end = () => must("POST", "/v1/auth/token/revoke", { token });
    expect(await interrupted(call, token, "Content-Length", end)).toBe(403);
    expect((await send(["GET", call[1]])).status).toBeGreaterThanOrEqual(400);
  });

  it.each<[list: string, ...Call]>([
    ["/v1/acl/tokens", "PUT", "/v1/acl/token", { Name: "late", Type: "management" }],
    ["/v1/acl/tokens", "PUT", "/v1/auth/token/create", { policies: ["root"] }],
    ["/v1/acl/roles", "PUT", "/v1/acl/role", { Name: "late", Policies: [{ Name: "writer" }] }],
    ["/v1/acl/binding-rules", "PUT", "/v1/acl/binding-rule", { AuthMethod: "m", BindType: "management" }],
    ["/v1/identity/entity/id?list=true", "PUT", "/v1/identity/entity", { name: "late-entity" }],
    ["/v1/identity/group/id?list=true", "PUT", "/v1/identity/group", { name: "late-group" }],
  ])("adds nothing to %s by %s %s", async (list, ...call) => {
    const listed = async () => {
      const { status, text } = await send(["GET", list]);
      return [status, JSON.stringify(JSON.parse(text).data ?? text)];
    };
    const before = await listed();
    const { token } = await tokenOf(["root"]);
    const end = () => must("POST", "/v1/auth/token/revoke", { token });
    expect(await interrupted(call, token, "chunks", end)).toBe(403);
    expect(await listed()).toEqual(before);
  });
});

/** Reports a change of a job. @returns its index */
async function changeJob(ID: string): Promise<number> {
  const event = { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID } } };
  return JSON.parse((await must("PUT", "/v1/cluster/objects", [event])).text).Index;
}

describe("rights that end while a caller waits", () => {
  const open = (path: string, token: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${service.port}${path}`, {
      headers: { "X-Orch-Token": token },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });

  it.each(ENDS)("end its blocking query when %s", async (_what, holder) => {
    const { token, end } = await holder();
    const index = await changeJob(`waited${++made}`);
    const waiting = open(`/v1/jobs?index=${index}&wait=20s`, token);
    await sleep(JUDGED_MS);
    await end();
    await changeJob(`hidden${++made}`);
    expect((await waiting).status).toBe(403);
  });

  it.each(ENDS)("end its event stream before the next line when %s", async (_what, holder) => {
    const { token, end } = await holder();
    const stream = await open("/v1/event/stream?topic=Job&index=-1", token);
    expect(stream.status).toBe(200);
    const reading = stream.text();
    await changeJob(`seen${++made}`);
    await sleep(JUDGED_MS);
    await end();
    await changeJob(`hidden${++made}`);
    const keys = (await reading).match(/"Key":"(seen|hidden)/g);
    expect(keys).toEqual(['"Key":"seen']);
  });
});

describe("a quota on the logins of a user", () => {
  it.each(["ANN", "Ann", "ann", "%41nn"])("counts the name %s", async (name) => {
    const { method } = await person([]);
    const quota = `/v1/sys/quotas/rate-limit/people${++made}`;
    await must("POST", quota, { path: `auth/${method}/login/ann`, rate: 1, interval: "60s" });
    const logIn = async (as: string) =>
      (await send(["POST", `/v1/auth/${method}/login/${as}`, { password: "hunter2-hunter2" }])).status;
    expect([await logIn("ann"), await logIn(name)]).toEqual([200, 429]);
    await must("DELETE", quota);
  });
});

describe("null for the policies of", () => {
  const writes = async (token: string): Promise<number> =>
    (await send(["PUT", `/v1/secret/data/null${++made}`, { data: {} }], token)).status;
  beforeAll(() => must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER }));

  it("a user ends the rights of the next login", async () => {
    const { token, method } = await person(["writer"]);
    expect(await writes(token)).toBe(200);
    await must("POST", `/v1/auth/${method}/users/ann`, { token_policies: null });
    expect(await writes(await login("POST", `/v1/auth/${method}/login/ann`, { password: "hunter2-hunter2" }))).toBe(
      403,
    );
  });

  it("an AppRole ends the rights of the next login", async () => {
    const { path, signIn } = await approle();
    expect(await writes(await signIn())).toBe(200);
    await must("POST", path, { token_policies: null });
    expect(await writes(await signIn())).toBe(403);
  });

  it("an entity or a group ends the rights of living tokens", async () => {
    const { token, entity } = await person([]);
    for (const [path, more] of [
      [`/v1/identity/entity/id/${entity}`, {}],
      ["/v1/identity/group/name/nulls", { member_entity_ids: [entity] }],
    ] as const) {
      await must("POST", path, { policies: ["writer"], ...more });
      expect(await writes(token), path).toBe(200);
      await must("POST", path, { policies: null });
      expect(await writes(token), path).toBe(403);
    }
  });
});

describe("a list of a folder whose name is denied", () => {
  it.each(["LIST folder", "LIST folder/", "GET folder?list=true", "GET folder/?list=true"])(
    "is refused as %s, by rules with + and *",
    async (spelling) => {
      await must("PUT", "/v1/secret/data/team1/app", { data: {} });
      const [method = "", target = ""] = spelling.split(" ");
      const all = 'path "secret/*" { capabilities = ["read", "list"] }';
      const list: Call = [method, `/v1/secret/metadata/${target.replace("folder", "team1")}`];
      const statuses: number[] = [];
      for (const denied of ["secret/metadata/none", "secret/metadata/+", "secret/+/team1", "secret/metadata/team1*"]) {
        const name = `lists${++made}`;
        const policy = `${all}\npath "${denied}" { capabilities = ["deny"] }`;
        await must("PUT", `/v1/sys/policies/acl/${name}`, { policy });
        statuses.push((await send(list, (await tokenOf([name])).token)).status);
      }
      expect(statuses).toEqual([200, 403, 403, 403]);
    },
  );
});

describe("a grant of list", () => {
  it.each([
    { rule: "secret/metadata/+", expected: [true, true, false] },
    { rule: "secret/+/team1", expected: [true, false, false] },
    { rule: "secret/metadata/team1/+", expected: [true, false, true] },
  ])("on $rule is judged alike by lists and capabilities", async ({ rule, expected }) => {
    const name = `lists${++made}`;
    await must("PUT", `/v1/sys/policies/acl/${name}`, { policy: `path "${rule}" { capabilities = ["list"] }` });
    const { token } = await tokenOf([name]);
    const allowed: boolean[] = [];
    for (const folder of ["secret/metadata/team1", "secret/metadata/team2", "secret/metadata/team1/app"]) {
      const { text } = await send(["POST", "/v1/sys/capabilities-self", { paths: [`${folder}/`] }], token);
      const isGranted = JSON.parse(text).data[`${folder}/`].includes("list");
      for (const spelling of [folder, `${folder}/`]) {
        const { status } = await send(["LIST", `/v1/${spelling}`], token);
        expect([spelling, status !== 403]).toEqual([spelling, isGranted]);
      }
      allowed.push(isGranted);
    }
    expect(allowed).toEqual(expected);
  });
});

describe("an address that a tenant names", () => {
  it("is not called in the service's own network", async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.destroy();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    for (const [method, type] of [
      ["jwt", "jwt"],
      ["kube", "kubernetes"],
    ])
      await must("POST", `/v1/sys/auth/${method}`, { type });
    const wrong: string[] = [];
    for (const host of ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "10.0.0.1"]) {
      for (const scheme of ["http", "https"]) {
        const address = `${scheme}://${host}:${port}`;
        const calls: readonly Call[] = [
          ["PUT", "/v1/auth/jwt/config", { jwks_url: `${address}/keys` }],
          ["PUT", "/v1/auth/jwt/config", { oidc_discovery_url: address }],
          ["PUT", "/v1/auth/kube/config", { kubernetes_host: address }],
          [
            "PUT",
            "/v1/event/subscription/s",
            { Target: { Type: "webhook", URL: address, Secret: `whsec_${"A".repeat(32)}` } },
          ],
        ];
        for (const call of calls) {
          const { status, text } = await send(call);
          if (status !== 400 || /refused|closed|time/i.test(text))
            wrong.push(`${call[1]} ${address}: ${status} ${text}`);
        }
      }
    }
    server.close();
    expect([wrong, connections]).toEqual([[], 0]);
  });
});
