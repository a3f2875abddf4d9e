import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Reply, Wires } from "./raw-http.ts";
import { deploymentSecrets, Service } from "./service.ts";

/* Attempts to get in at the service as `npm start` runs it, over plain sockets: rights that end during a request or by
   null, denied lists, and addresses of the service's own network. */

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

const WRITER = 'path "secret/data/*" { capabilities = ["create", "update"] }';

/** Each way in which a right to write `secret/data/…` ends. */
const ENDS: readonly (readonly [string, () => Promise<Holder>])[] = [
  [
    "its token is revoked",
    async () => {
      const { token } = await tokenOf(["root"]);
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
    "its auth method is disabled",
    async () => {
      await must("PUT", "/v1/sys/policies/acl/writer", { policy: WRITER });
      const { token, method } = await person(["writer"]);
      return { token, end: () => must("DELETE", `/v1/sys/auth/${method}`) };
    },
  ],
];

describe("a body that ends after the right to send it", () => {
  const framings = Object.keys(FRAMINGS) as (keyof typeof FRAMINGS)[];

  it.each(ENDS.flatMap(([what, holder]) => framings.map((framing) => ({ what, holder, framing }))))(
    "is refused without effect when $what ($framing)",
    async ({ holder, framing }) => {
      const { token, end } = await holder();
      const path = `/v1/secret/data/late${++made}`;
      expect(await interrupted(["PUT", path, { data: { a: "b" } }], token, framing, end)).toBe(403);
      expect((await send(["GET", path])).status).toBe(404);
    },
  );

  it.each<Call>([
    ["PUT", "/v1/sys/policies/acl/late", { policy: WRITER }],
    ["PUT", "/v1/acl/policy/late", { Rules: 'node { policy = "read" }' }],
    ["PUT", "/v1/sys/mounts/late", { type: "kv" }],
    ["PUT", "/v1/sys/auth/late", { type: "userpass" }],
    ["PUT", "/v1/sys/namespaces/late", {}],
    ["PUT", "/v1/identity/entity/name/late", { policies: ["default"] }],
    ["PUT", "/v1/auth/token/roles/late", {}],
    ["PUT", "/v1/sys/sync/destinations/in-mem/late", {}],
    ["PUT", "/v1/namespace/late", { Name: "late" }],
  ])("is refused without effect at %s %s", async (...call) => {
    const { token } = await tokenOf(["root"]);
    const end = () => must("POST", "/v1/auth/token/revoke", { token });
    expect(await interrupted(call, token, "Content-Length", end)).toBe(403);
    expect((await send(["GET", call[1]])).status).toBeGreaterThanOrEqual(400);
  });

  it("makes no token", async () => {
    const accessors = async () => (await must("GET", "/v1/acl/tokens")).text;
    const before = await accessors();
    const calls: Call[] = [
      ["PUT", "/v1/acl/token", { Name: "late", Type: "management" }],
      ["PUT", "/v1/auth/token/create", { policies: ["root"] }],
    ];
    for (const call of calls) {
      const { token } = await tokenOf(["root"]);
      const end = () => must("POST", "/v1/auth/token/revoke", { token });
      expect(await interrupted(call, token, "chunks", end)).toBe(403);
    }
    expect(await accessors()).toBe(before);
  });
});

describe("null for the policies of", () => {
  const login = async (...call: Call): Promise<string> => JSON.parse((await must(...call)).text).auth.client_token;
  const writes = async (token: string): Promise<number> =>
    (await send(["PUT", `/v1/secret/data/null${++made}`, { data: {} }], token)).status;
  /** Enables an auth method with one login. @returns how to log in, and the login's own path */
  async function approle(): Promise<{ path: string; signIn: () => Promise<string> }> {
    const method = `ar${++made}`;
    await must("POST", `/v1/sys/auth/${method}`, { type: "approle" });
    const path = `/v1/auth/${method}/role/app`;
    await must("POST", path, { bind_secret_id: false, token_bound_cidrs: "127.0.0.0/8", token_policies: ["writer"] });
    const { role_id } = JSON.parse((await must("GET", `${path}/role-id`)).text).data;
    return { path, signIn: () => login("POST", `/v1/auth/${method}/login`, { role_id }) };
  }

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
