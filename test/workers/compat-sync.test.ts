import { beforeEach, describe, expect, it } from "vitest";
import { TYPE_NAMES } from "../../src/compat/dialect.ts";
import { destinationTypes } from "../../src/sync/destinations/index.ts";
import { holderOf, path } from "./access.ts";
import { del, get, list, mountKv, patch, put, send } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { cloudABody, makeDestination, setAssociation, write } from "./sync-helpers.ts";

/* Requests as unmodified upstream clients send them: their headers, their names in paths, their words in answers. */

const AT = "/v1/sys/sync/destinations";
/** A header that any upstream client sends; the path may then use either name. */
const upstream = { headers: { "X-Vault-Request": "true" } };

beforeEach(() => cloudA.begin());

describe("a destination", () => {
  it("created under an alias is the one of the canonical name", async () => {
    const made = await put(`${AT}/aws-sm/prod`, cloudABody());
    expect(made.status, made.text).toBe(200);
    expect((await get(`${AT}/cloud-a-sm/prod`)).body.data).toMatchObject({ type: "cloud-a-sm", name: "prod" });
    expect((await del(`${AT}/aws-sm/prod`)).status).toBe(204);
    expect((await get(`${AT}/cloud-a-sm/prod`)).status).toBe(404);
  });

  it("has the dialect's names in responses, by path or by an upstream header", async () => {
    await makeDestination("cloud-a-sm", "gh", cloudABody({ custom_tags: { gh: "cloud-a-sm" } }));
    const type = async (at: string, options?: typeof upstream) => (await get(at, options)).body.data.type;
    expect([
      await type(`${AT}/cloud-a-sm/gh`),
      await type(`${AT}/aws-sm/gh`),
      await type(`${AT}/cloud-a-sm/gh`, upstream),
      await type(`${AT}/%61ws-sm/gh`),
      await type("/sys/sync/destinations/aws-sm/gh"),
    ]).toEqual(["cloud-a-sm", "aws-sm", "aws-sm", "aws-sm", "aws-sm"]);
    const { data } = (await get(`${AT}/aws-sm/gh`)).body;
    expect([data.name, data.options.custom_tags]).toEqual(["gh", { gh: "cloud-a-sm" }]);
  });

  it("is matched in its path segment only", async () => {
    await makeDestination("in-mem", "aws-sm");
    expect((await get(`${AT}/in-mem/aws-sm`)).body.data).toMatchObject({ type: "in-mem", name: "aws-sm" });
    expect((await get(`${AT}/in-mem/cloud-a-sm`)).status).toBe(404);
    expect((await get(`${AT}/AWS-SM/aws-sm`)).status).toBe(404);
  });

  it("is found with a leading namespace in the path, too", async () => {
    await put("/v1/sys/namespaces/team", {});
    const made = await put("/v1/team/sys/sync/destinations/aws-sm/prod", cloudABody());
    expect([made.status, made.body.data?.type]).toEqual([200, "aws-sm"]);
    const inside = { headers: { "X-Orch-Namespace": "team" } };
    expect((await get(`${AT}/cloud-a-sm/prod`, inside)).body.data.type).toBe("cloud-a-sm");
  });

  it("returns its methods under either name", async () => {
    const allow = async (at: string) => (await send("OPTIONS", at)).headers.get("Allow");
    expect(await allow(`${AT}/aws-sm/prod`)).toBe(await allow(`${AT}/cloud-a-sm/prod`));
  });
});

describe("lists", () => {
  beforeEach(async () => {
    await makeDestination("cloud-a-sm", "repo-host");
    await makeDestination("in-mem", "gh");
  });

  it("of all destinations use the dialect's names in keys and key_info, with a trailing slash or without", async () => {
    const neutral = {
      keys: ["cloud-a-sm/", "in-mem/"],
      key_info: { "cloud-a-sm/": ["repo-host"], "in-mem/": ["gh"] },
      total_destinations: 2,
    };
    const theirs = {
      keys: ["aws-sm/", "in-mem/"],
      key_info: { "aws-sm/": ["repo-host"], "in-mem/": ["gh"] },
      total_destinations: 2,
    };
    for (const at of [AT, `${AT}/`]) {
      expect((await list(at)).body.data, at).toEqual(neutral);
      expect((await list(at, upstream)).body.data, at).toEqual(theirs);
    }
  });

  it("of one type are returned under either name", async () => {
    for (const at of [`${AT}/cloud-a-sm`, `${AT}/aws-sm`, `${AT}/aws-sm/`]) {
      const { keys } = (await list(at)).body.data;
      expect(keys, at).toEqual(["repo-host"]);
    }
    expect((await list(`${AT}/azure-kv`)).status).toBe(404);
  });
});

describe("associations", () => {
  it("have the dialect's destination type, and unchanged names of secrets", async () => {
    await mountKv();
    await write("cloud-a-sm", { a: 1 });
    await makeDestination("cloud-a-sm", "prod");
    const set = await put(`${AT}/aws-sm/prod/associations/set`, { mount: "kv", secret_name: "cloud-a-sm" }, upstream);
    expect(set.status, set.text).toBe(200);
    expect([set.body.data.store_type, set.body.data.store_name]).toEqual(["aws-sm", "prod"]);
    const [entry] = Object.values<{ secret_name: string }>(set.body.data.associated_secrets);
    expect(entry?.secret_name).toBe("cloud-a-sm");
    const read = async (type: string) => (await get(`${AT}/${type}/prod/associations`)).body.data.store_type;
    expect([await read("cloud-a-sm"), await read("aws-sm")]).toEqual(["cloud-a-sm", "aws-sm"]);
  });

  it("block a deletion by either name", async () => {
    await mountKv();
    await write("app", { a: 1 });
    await makeDestination("cloud-a-sm", "prod");
    await setAssociation("aws-sm/prod", "app");
    expect((await del(`${AT}/aws-sm/prod`)).status).toBe(400);
    expect((await get(`${AT}/cloud-a-sm/prod`)).status).toBe(200);
  });
});

it("the destinations of a secret have keys in the dialect's names", async () => {
  await mountKv();
  await write("app", { a: 1 });
  await makeDestination("cloud-a-sm", "aws-sm");
  await makeDestination("in-mem", "d");
  for (const at of ["aws-sm/aws-sm", "in-mem/d"]) await setAssociation(at, "app");
  const kinds = async (at: string, options?: typeof upstream) => {
    const { associated_destinations } = (await get(at, options)).body.data;
    return Object.entries<{ type: string; name: string }>(associated_destinations)
      .map(([key, { type, name }]) => [key, type, name])
      .sort();
  };
  for (const at of [
    "/v1/sys/sync/associations/kv/app",
    "/v1/sys/sync/associations/destinations?mount=kv&secret_name=app",
  ]) {
    expect(await kinds(at)).toEqual([
      ["cloud-a-sm/aws-sm", "cloud-a-sm", "aws-sm"],
      ["in-mem/d", "in-mem", "d"],
    ]);
    expect(await kinds(at, upstream)).toEqual([
      ["aws-sm/aws-sm", "aws-sm", "aws-sm"],
      ["in-mem/d", "in-mem", "d"],
    ]);
  }
});

describe("custom applications", () => {
  const pem = async () => {
    const algorithm = {
      name: "RSASSA-PKCS1-v1_5",
      modulusLength: 2048,
      publicExponent: new Uint8Array([1, 0, 1]),
      hash: "SHA-256",
    };
    const { privateKey } = (await crypto.subtle.generateKey(algorithm, true, ["sign"])) as CryptoKeyPair;
    const der = (await crypto.subtle.exportKey("pkcs8", privateKey)) as ArrayBuffer;
    return `-----BEGIN PRIVATE KEY-----\n${Buffer.from(der).toString("base64")}\n-----END PRIVATE KEY-----\n`;
  };

  it("are found under either path, and a refused deletion names their users in the dialect", async () => {
    const app = { app_id: 1, private_key: await pem() };
    expect((await put("/v1/sys/sync/github-apps/github-apps", app, upstream)).status).toBe(200);
    expect((await get("/v1/sys/sync/repo-host-apps/github-apps")).body.data.name).toBe("github-apps");
    expect((await list("/v1/sys/sync/github-apps")).body.data.keys).toEqual(["github-apps"]);
    expect((await list("/v1/sys/sync/github-apps/")).body.data.keys).toEqual(["github-apps"]);
    const body = { app_name: "github-apps", installation_id: 7, repository_owner: "gh", repository_name: "repo-host" };
    const made = await put(`${AT}/gh/repo-host`, body);
    expect([made.status, made.body.data?.type, made.body.data?.connection_details.repository_owner], made.text).toEqual(
      [200, "gh", "gh"],
    );
    const told = async (folder: string) => {
      const refused = await del(`/v1/sys/sync/${folder}/github-apps`);
      return [refused.status, refused.body.errors[0].split(": ").at(-1)];
    };
    expect([await told("repo-host-apps"), await told("github-apps")]).toEqual([
      [400, "repo-host/repo-host"],
      [400, "gh/repo-host"],
    ]);
    expect((await del(`${AT}/gh/repo-host`)).status).toBe(204);
    expect((await del("/v1/sys/sync/github-apps/github-apps")).status).toBe(204);
  });
});

it("every remote type has exactly two names", () => {
  expect([...destinationTypes.keys()].sort()).toEqual([...TYPE_NAMES.map(([neutral]) => neutral), "in-mem"].sort());
});

it("an error names types in the dialect", async () => {
  await put("/v1/sys/namespaces/tenant", {});
  await put(`${AT}/cloud-a-sm/in-mem`, cloudABody(), { headers: { "X-Orch-Namespace": "tenant" } });
  const told = async (options?: typeof upstream) => (await del("/v1/sys/namespaces/tenant", options)).body.errors[0];
  expect(await told()).toMatch(/: cloud-a-sm\/in-mem$/);
  expect(await told(upstream)).toMatch(/: aws-sm\/in-mem$/);
});

describe("a policy with one name covers both", () => {
  const read = async (rules: string, at: string) => {
    const { client_token } = await holderOf(rules);
    return (await get(at, { token: client_token })).status;
  };
  const spellings = [`${AT}/cloud-a-sm/prod`, `${AT}/aws-sm/prod`];

  beforeEach(async () => {
    await makeDestination("cloud-a-sm", "prod");
  });

  it.each(["cloud-a-sm", "aws-sm"])("to grant: %s", async (word) => {
    for (const at of spellings) {
      expect(await read(path(`sys/sync/destinations/${word}/*`, "read"), at), at).toBe(200);
      expect(await read(path(`sys/sync/destinations/${word}/prod`, "read"), at), at).toBe(200);
      expect(await read(path(`sys/sync/destinations/${word}/other`, "read"), at), at).toBe(403);
    }
    expect(await read(path(`sys/sync/destinations/${word}/*`, "read"), `${AT}/in-mem/d`)).toBe(403);
  });

  it.each(["cloud-a-sm", "aws-sm"])("to deny, for any spelling of a request: %s", async (word) => {
    const ways = [
      ...spellings,
      "/sys/sync/destinations/aws-sm/prod",
      `${AT}/%61ws-sm/prod`,
      `${AT}//aws-sm/prod`,
      `${AT}/aws-sm/prod/`,
      `${AT}/aws-sm%2Fprod`,
    ];
    for (const pattern of [`${word}/*`, `${word}/prod*`, `${word}*`, `${word.slice(0, 4)}*`]) {
      const rules =
        path("sys/sync/*", "read", "list") + path(`sys/sync/destinations/${pattern}`, "deny") + path("*", "read");
      const { client_token } = await holderOf(rules);
      for (const at of ways) {
        for (const headers of [{}, upstream.headers]) {
          const refused = await get(at, { token: client_token, headers });
          expect(refused.status, `${pattern} ${at}`).toBe(403);
        }
      }
    }
  });

  it("and neither bypasses a more specific rule", async () => {
    const rules =
      path("sys/sync/destinations/cloud-a-sm/*", "read", "delete") + path("sys/sync/destinations/aws-sm/p*", "read");
    const { client_token } = await holderOf(rules);
    for (const at of spellings) {
      expect([
        (await get(at, { token: client_token })).status,
        (await del(at, { token: client_token })).status,
      ]).toEqual([200, 403]);
    }
  });

  it("with its rules for parameters", async () => {
    const rules = `path "sys/sync/destinations/aws-sm/*" {
      capabilities = ["create", "update"]
      denied_parameters = { "role_arn" = [] }
    }`;
    const { client_token: token } = await holderOf(rules);
    for (const at of spellings) {
      const refused = await put(at, { role_arn: "arn:aws:iam::123456789012:role/sync" }, { token });
      expect([refused.status, refused.body.errors[0]]).toEqual([403, expect.stringContaining("role_arn")]);
      expect((await put(at, {}, { token })).status).toBe(200);
    }
  });

  it("in a namespace and from its parents", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/team/sys/sync/destinations/cloud-a-sm/prod", cloudABody());
    const { client_token: token } = await holderOf(
      path("team/sys/sync/*", "read") + path("team/sys/sync/destinations/aws-sm/*", "deny"),
    );
    for (const word of ["cloud-a-sm", "aws-sm"]) {
      expect((await get(`/v1/team/sys/sync/destinations/${word}/prod`, { token })).status).toBe(403);
      const inside = { token, headers: { "X-Vault-Namespace": "team" } };
      expect((await get(`${AT}/${word}/prod`, inside)).status).toBe(403);
    }
  });

  it("and sys/capabilities agrees", async () => {
    await put("/v1/sys/namespaces/team", {});
    const { client_token: token } = await holderOf(
      path("sys/sync/destinations/aws-sm/*", "read") +
        path("team/sys/sync/destinations/gh/*", "update") +
        path("sys/sync/github-apps/*", "delete"),
    );
    const paths = [
      "sys/sync/destinations/aws-sm/x",
      "sys/sync/destinations/cloud-a-sm/x",
      "team/sys/sync/destinations/repo-host/x",
      "sys/sync/repo-host-apps/x",
      "sys/sync/destinations/gcp-sm/x",
    ];
    const { data } = (await send("POST", "/v1/sys/capabilities", { token, paths })).body;
    expect(paths.map((each) => data[each])).toEqual([["read"], ["read"], ["update"], ["delete"], ["deny"]]);
  });

  it("while a secret of that name is unaffected", async () => {
    await mountKv();
    const secret = "sys/sync/destinations/aws-sm/x";
    await write(secret, { a: 1 });
    await write("sys/sync/destinations/cloud-a-sm/x", { a: 2 });
    const { client_token: token } = await holderOf(path(`kv/data/${secret}`, "read"));
    expect((await get(`/v1/kv/data/${secret}`, { token })).body.data.data).toEqual({ a: 1 });
    expect((await get("/v1/kv/data/sys/sync/destinations/cloud-a-sm/x", { token })).status).toBe(403);
  });
});

it("a patch reads its type from the path as upstream does", async () => {
  await makeDestination("cloud-a-sm", "prod");
  const at = `${AT}/aws-sm/prod`;
  const change = { external_id: "other" };
  const status = async (type: string) => (await patch(at, change, { headers: { "Content-Type": type } })).status;
  expect([
    await status("application/merge-patch+json"),
    await status("application/json"),
    await status("text/plain"),
  ]).toEqual([200, 200, 415]);
});
