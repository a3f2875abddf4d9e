import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { SyncDestination } from "../../src/worker.ts";
import { itRows } from "../support/rows.ts";
import { del, get, list, mountKv, put } from "./client.ts";
import { openRepoHost } from "./sync-doubles.ts";
import { association, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";

/** docs/internals/wire/sync.md, "Applications of the repository host". */

const AT = "/sys/sync/repo-host-apps";
const pair = () => generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
const [first, second] = [pair(), pair()];
const pem = (key: KeyObject, type: "pkcs1" | "pkcs8" = "pkcs1") => key.export({ type, format: "pem" }).toString();
/** `openssl rsa -pubout -outform DER | openssl sha256 -binary | openssl base64` */
const fingerprint = (key: KeyObject) =>
  createHash("sha256")
    .update(createPublicKey(key).export({ type: "spki", format: "der" }))
    .digest("base64");

const make = async (name: string, body: object = { app_id: 1, private_key: pem(first) }, namespace = "") => {
  const made = await put(`${AT}/${name}`, body, { headers: { "X-Orch-Namespace": namespace } });
  expect(made.status, made.text).toBe(200);
  return made;
};
const withApp = (app: string) => ({
  app_name: app,
  installation_id: 7,
  repository_owner: "acme",
  repository_name: "web",
});

describe("a custom application", () => {
  // Proves: B.app.app_id, B.app.private_key, B.app.read, B.app.write
  it.each([
    ["a number", 123456],
    ["a text", "123456"],
  ])("is created with its id as %s, and returned with a fingerprint and a masked key", async (_as, id) => {
    const made = await make("bot", { app_id: id, private_key: pem(first) });
    const data = { name: "bot", app_id: 123456, fingerprint: fingerprint(first), private_key: "*****" };
    expect(made.body.data).toEqual(data);
    expect((await get(`${AT}/bot`)).body.data).toEqual(data);
    expect((await get(`/v1${AT}/bot`)).body.data).toEqual(data);
  });

  it("accepts its key as PKCS#1 and as PKCS#8 with the same result", async () => {
    for (const type of ["pkcs1", "pkcs8"] as const) {
      const made = await make(type, { app_id: 1, private_key: pem(first, type) });
      expect(made.body.data.fingerprint).toBe(fingerprint(first));
    }
  });

  it("warns of fields that it does not know", async () => {
    const made = await make("bot", { app_id: 1, private_key: pem(first), name: "bot", installation_id: 7 });
    expect(made.body.warnings).toEqual(["Endpoint ignored these unrecognized parameters: [installation_id]"]);
  });

  it("is replaced as a whole by a second write", async () => {
    await make("bot");
    const replaced = await make("bot", { app_id: "2", private_key: pem(second) });
    expect(replaced.body.data).toMatchObject({ app_id: 2, fingerprint: fingerprint(second) });
    expect((await list(AT)).body.data.keys).toEqual(["bot"]);
  });

  // Proves: B.app.app_id, B.app.private_key
  itRows([
    [{ private_key: pem(first) }, "app_id: is required, a whole number of at least 1"],
    [{ app_id: 0, private_key: pem(first) }, "app_id: is required, a whole number of at least 1"],
    [{ app_id: "12x", private_key: pem(first) }, "app_id: is required, a whole number of at least 1"],
    [{ app_id: 1 }, "private_key: required"],
    [{ app_id: 1, private_key: "" }, "private_key: required"],
    [
      { app_id: 1, private_key: "key" },
      "private_key must be one PEM block: BEGIN RSA PRIVATE KEY or BEGIN PRIVATE KEY",
    ],
    [
      {
        app_id: 1,
        private_key: pem(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey as KeyObject, "pkcs8"),
      },
      "private_key must be an RSA key",
    ],
    [{ app_id: 1, private_key: "x".repeat(16_385) }, "private_key: "],
  ])("is not created from invalid fields (%#)", async (body, text) => {
    const refused = await put(`${AT}/bot`, body);
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringContaining(text)]]);
    expect((await get(`${AT}/bot`)).status).toBe(404);
  });

  it("that is refused leaves the existing one unchanged", async () => {
    await make("bot");
    expect((await put(`${AT}/bot`, { app_id: 2, private_key: "key" })).status).toBe(400);
    expect((await get(`${AT}/bot`)).body.data).toMatchObject({ app_id: 1, fingerprint: fingerprint(first) });
  });

  it("returns 404 when it does not exist, and 204 on deletion", async () => {
    const read = await get(`${AT}/bot`);
    expect([read.status, read.body]).toEqual([404, { errors: [] }]);
    expect((await list(AT)).status).toBe(404);
    expect((await del(`${AT}/bot`)).status).toBe(204);
    expect((await get(`${AT}/-bot`)).status).toBe(400);
  });

  // Proves: B.app.delete, B.app.name
  it("is listed by name until it is deleted", async () => {
    for (const name of ["b", "a", "C.1"]) await make(name);
    expect((await list(AT)).body.data).toEqual({ keys: ["C.1", "a", "b"] });
    expect((await list(`${AT}/`)).body.data).toEqual({ keys: ["C.1", "a", "b"] });
    expect((await del(`${AT}/b`)).status).toBe(204);
    expect((await list(AT)).body.data.keys).toEqual(["C.1", "a"]);
    expect((await get(`${AT}/b`)).status).toBe(404);
  });

  it("belongs to its namespace", async () => {
    await put("/v1/sys/namespaces/team", {});
    const inside = { headers: { "X-Orch-Namespace": "team" } };
    await make("bot");
    expect((await get(`${AT}/bot`, inside)).status).toBe(404);
    expect((await list(AT, inside)).status).toBe(404);
    await make("bot", { app_id: 2, private_key: pem(second) }, "team");
    expect((await get(`${AT}/bot`)).body.data.app_id).toBe(1);
    // One that is used here may be deleted there.
    await makeDestination("repo-host", "web", withApp("bot"));
    expect((await del(`${AT}/bot`, inside)).status).toBe(204);
    expect((await del(`${AT}/bot`)).status).toBe(400);
    expect((await put("/sys/sync/destinations/repo-host/web", withApp("bot"), inside)).status).toBe(400);
  });

  it("keeps its key sealed and out of every answer", async () => {
    const made = await make("bot");
    const inner = pem(first, "pkcs8").split("\n").slice(5, 8);
    const stored = await runInDurableObject(env.SYNC_CONTROL.getByName("main"), (_object, { storage }) =>
      storage.sql
        .exec("SELECT * FROM apps")
        .toArray()
        .flatMap((row) => Object.values(row))
        .map((value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString("latin1") : String(value)))
        .join("\n"),
    );
    const shown = [stored, made.text, (await get(`${AT}/bot`)).text].join("\n");
    for (const line of inner) expect(shown).not.toContain(line);
  });
});

describe("an application that a destination uses", () => {
  const inUse = (...destinations: string[]) => [
    400,
    [`application is in use by destinations: ${destinations.join(", ")}`],
  ];
  const remove = async () => {
    const answer = await del(`${AT}/bot`);
    return [answer.status, answer.body?.errors];
  };

  beforeEach(async () => {
    await make("bot");
    await make("other", { app_id: 2, private_key: pem(second) });
  });

  // Proves: B.app.delete.referenced, E.errors.3
  it("returns 400 on deletion with all its users", async () => {
    for (const name of ["b", "a"]) await makeDestination("repo-host", name, withApp("bot"));
    expect(await remove()).toEqual(inUse("repo-host/a", "repo-host/b"));
    expect((await get(`${AT}/bot`)).status).toBe(200);
    expect((await del(`${AT}/other`)).status).toBe(204);
  });

  it("can be deleted once the destination uses another one, or a token", async () => {
    await makeDestination("repo-host", "a", withApp("bot"));
    await makeDestination("repo-host", "a", { app_name: "other" });
    expect(await remove()).toEqual([204, undefined]);
    expect((await del(`${AT}/other`)).status).toBe(400);
    await makeDestination("repo-host", "a", { app_name: "", installation_id: "", access_token: "ghp_x" });
    expect((await del(`${AT}/other`)).status).toBe(204);
  });

  it("can be deleted once the destination is deleted", async () => {
    await makeDestination("repo-host", "a", withApp("bot"));
    await del("/sys/sync/destinations/repo-host/a");
    expect(await remove()).toEqual([204, undefined]);
  });

  it("is still in use after a change to another one was refused", async () => {
    await makeDestination("repo-host", "a", withApp("bot"));
    const refused = await put("/sys/sync/destinations/repo-host/a", { app_name: "other", repository_name: "api" });
    expect(refused.status).toBe(400);
    const unknown = await put("/sys/sync/destinations/repo-host/a", { app_name: "third" });
    expect([unknown.status, unknown.body.errors]).toEqual([
      400,
      ['app_name: there is no application "third"; create it first'],
    ]);
    expect(await remove()).toEqual(inUse("repo-host/a"));
    expect((await del(`${AT}/other`)).status).toBe(204);
  });

  it("is still in use after the destination crashed during a change to another one", async () => {
    await makeDestination("repo-host", "a", withApp("bot"));
    const commit = vi.spyOn(SyncDestination.prototype as unknown as { commit: () => void }, "commit");
    commit.mockImplementationOnce(() => {
      throw new Error("killed before it was stored");
    });
    expect((await put("/sys/sync/destinations/repo-host/a", { app_name: "other" })).status).toBe(500);
    vi.restoreAllMocks();
    expect((await get("/sys/sync/destinations/repo-host/a")).body.data.connection_details.app_name).toBe("bot");
    expect(await remove()).toEqual(inUse("repo-host/a"));
    // A registration without a stored destination blocks no deletion.
    expect((await del(`${AT}/other`)).status).toBe(204);
  });

  // Proves: B.app.name, B.repo-host.app_name
  it("must exist before a destination uses it", async () => {
    const refused = await put("/sys/sync/destinations/repo-host/a", withApp("none"));
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ['app_name: there is no application "none"; create it first'],
    ]);
    expect((await get("/sys/sync/destinations/repo-host/a")).status).toBe(404);
  });

  // Proves: B.app.private_key, E.auth.2.repo-host-app
  it("pushes with the newest key", async () => {
    const { account, values } = await openRepoHost();
    await mountKv();
    await write("app", { token: "v1" });
    await make("bot", { app_id: account.appId, private_key: pem(second) });
    await makeDestination("repo-host", "a", {
      ...withApp("bot"),
      installation_id: account.installationId,
      repository_owner: account.owner,
      repository_name: account.repository,
    });
    const refused = await setAssociation("repo-host/a", "app");
    expect(refused.body.data.sync_operation_counters).toEqual({ CLIENT_SIDE_ERROR: 1 });
    await make("bot", { app_id: account.appId, private_key: account.appKey });
    expect((await setAssociation("repo-host/a", "app")).status).toBe(200);
    await eventually(async () => expect(Object.values(await values())).toEqual(["v1"]));
    await eventually(async () =>
      expect(await association("repo-host/a", "app")).toMatchObject({ sync_status: "SYNCED" }),
    );
  });
});
