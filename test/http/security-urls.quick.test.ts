import { generateKeyPairSync } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import type { Call } from "../../src/providers/outcome.ts";
import { normalise } from "../../src/sync/associations/naming.ts";
import { cloudASm } from "../../src/sync/destinations/cloud-a-sm/adapter.ts";
import { cloudBKv } from "../../src/sync/destinations/cloud-b-kv/adapter.ts";
import { cloudCSm } from "../../src/sync/destinations/cloud-c-sm/adapter.ts";
import { deployProject } from "../../src/sync/destinations/deploy-project/adapter.ts";
import type { CallContext, RemoteDestinationType } from "../../src/sync/destinations/destination-type.ts";
import { repoHost } from "../../src/sync/destinations/repo-host/adapter.ts";
import { wanted } from "../doubles/cloud-c-sm/fixture.ts";

/** Requests of a destination whose fields or secret names are crafted to redirect them elsewhere. */

const HOSTILE = [
  "..",
  ".",
  "a/../..",
  "../../admin",
  "..%2f..",
  "%2e%2e",
  "a\\..\\..",
  "/etc",
  "//evil.example",
  "evil.example",
  "a@evil.example",
  "x.evil.example/",
  "evil.example:443/",
  "evil.example#",
  "a?b=c",
  "a#b",
  "a;b",
  "a&b=c",
  "a b",
  "a\r\nHost: evil.example",
  "a\nb",
  "a\u0000b",
  "．．／",
  "ⓔvil.example",
  "http://169.254.169.254/",
  "[::1]",
  "127.0.0.1",
  "2130706433",
  "localhost",
  "https://evil.example/",
  "https://vault.vault.azure.net@evil.example/",
  "javascript:x",
  "https://evil.example/.vault.azure.net",
  "https://x.vault.azure.net.evil.example",
  "file:///etc/passwd",
];

const pem = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" });

type Fields = Record<string, unknown>;
interface Kind {
  readonly type: RemoteDestinationType<unknown>;
  readonly fields: Fields;
  readonly name: string;
  /** The permitted hosts for its credentials. */
  readonly hosts: RegExp;
}

const kinds: Kind[] = [
  {
    type: cloudASm as RemoteDestinationType<unknown>,
    fields: {
      access_key_id: "AKIDEXAMPLE",
      secret_access_key: "secret",
      region: "eu-west-1",
      role_arn: "arn:aws:iam::123456789012:role/name",
      external_id: "id-1",
    },
    name: "vault/app",
    hosts: /^(sts|secretsmanager)\.[a-z0-9-]+\.amazonaws\.com$/,
  },
  {
    type: cloudBKv as RemoteDestinationType<unknown>,
    fields: {
      key_vault_uri: "https://my-vault.vault.azure.net",
      tenant_id: "tenant",
      client_id: "client",
      client_secret: "secret",
      cloud: "cloud",
    },
    name: "vault-app",
    hosts: /^([a-z0-9-]+\.vault\.azure\.net|login\.microsoftonline\.com)$/,
  },
  {
    type: cloudCSm as RemoteDestinationType<unknown>,
    fields: {
      credentials: {
        type: "service_account",
        client_email: "a@b.example.com",
        private_key: pem,
        private_key_id: "k1",
        project_id: "my-project",
        token_uri: "https://oauth2.googleapis.com/token",
      },
      project_id: "my-project",
    },
    name: "vault-app",
    hosts: /^(secretmanager|oauth2)\.googleapis\.com$/,
  },
  {
    type: repoHost as RemoteDestinationType<unknown>,
    fields: {
      access_token: "token",
      repository_owner: "acme",
      repository_name: "web",
      environment_name: "production",
      enterprise_url: "",
    },
    name: "VAULT_APP",
    hosts: /^api\.github\.com$/,
  },
  {
    type: deployProject as RemoteDestinationType<unknown>,
    fields: { access_token: "token", project_id: "prj_1", team_id: "team_1", deployment_environments: ["production"] },
    name: "VAULT_APP",
    hosts: /^api\.vercel\.com$/,
  },
];

let called: URL[] = [];
beforeEach(() => {
  called = [];
});

/** Answers so that further calls follow, and records the called hosts. */
const context = (): CallContext => ({
  settings: {},
  send: async ([to]): Promise<Call> => {
    const url = new URL(to);
    called.push(url);
    const isToken = /token/.test(url.pathname);
    const answer = isToken ? { access_token: "t", token_type: "Bearer", expires_in: 3600 } : {};
    const text = JSON.stringify(answer);
    return { ok: true, response: new Response(text, { status: isToken ? 200 : 404 }), text };
  },
});

/** Performs all operations of a destination with a valid connection. @returns whether the connection is valid */
async function useAll({ type }: Kind, given: Fields, rendered: string): Promise<boolean> {
  const parsed = type.connection.safeParse(given);
  if (!parsed.success) return false;
  const { data } = parsed;
  const name = normalise(rendered, type.naming);
  if (type.naming.refuse?.(name)) return false;
  if (type.checkSettings?.(data, {})) return false;
  await type.probe(data, context());
  await type.put(wanted({ name }), data, context());
  await type.inspect({ name, reference: null }, data, context());
  await type.remove({ name, reference: null, ownedOnly: false }, data, context());
  return true;
}

/** The shape of a request, independent of the values of its fields. */
const shape = ({ pathname, searchParams }: URL): string =>
  `${pathname.split("/").length} segments, asks ${[...searchParams.keys()].sort()}`;

describe.each(kinds.map((kind) => [kind.type.type, kind] as const))("a destination of %s", (_type, kind) => {
  it("is called only at its provider's hosts and intended paths, for any fields and secret names", async () => {
    expect(await useAll(kind, kind.fields, kind.name)).toBe(true);
    expect(called.length).toBeGreaterThan(0);
    const shapes = new Set(called.map(shape));
    const { credentials } = kind.fields;
    const tries: [string, Fields, string][] = HOSTILE.flatMap((hostile) => [
      ["the secret's name", kind.fields, hostile],
      ...Object.keys(kind.fields).map((field): [string, Fields, string] => [
        field,
        { ...kind.fields, [field]: hostile },
        kind.name,
      ]),
      ...Object.keys(credentials ?? {}).map((field): [string, Fields, string] => [
        `credentials.${field}`,
        { ...kind.fields, credentials: { ...(credentials as Fields), [field]: hostile } },
        kind.name,
      ]),
    ]);
    for (const [field, fields, name] of tries) {
      called = [];
      await useAll(kind, fields, name);
      for (const url of called) {
        const what = `${field} ${JSON.stringify(fields[field] ?? name)}: ${url}`;
        expect(url.protocol, what).toBe("https:");
        expect(url.host, what).toMatch(kind.hosts);
        expect(url.username + url.password + url.hash, what).toBe("");
        expect([...shapes], what).toContain(shape(url));
      }
    }
  });
});
