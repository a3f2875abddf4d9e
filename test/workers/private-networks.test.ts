import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { callProvider } from "../../src/providers/outcome.ts";
import { get, mountKv, put } from "./client.ts";
import { succeeded } from "./engine-helpers.ts";
import { newIssuer } from "./issuers.ts";
import { openProducer } from "./producer-helpers.ts";
import { appendKeys } from "./streams.ts";
import { eventually, makeDestination, setAssociation } from "./sync-helpers.ts";
import { RemotePlace } from "./sync-places.ts";
import { newHook, subscribe } from "./webhooks.ts";

/* The setting `PRIVATE_NETWORKS`: the service binding `TEST_NETWORK` of vitest.config.ts stands in for Workers VPC. */

/** A body whose addresses of this machine are those behind the binding. */
const behind = <T>(body: T): T =>
  JSON.parse(JSON.stringify(body).replaceAll(/http:\/\/127\.0\.0\.1:(\d+)/g, "https://p$1.corp.internal"));
const configure = (jwks_url: string) => put("/v1/auth/jwt/config", { jwks_url });

describe("a host of PRIVATE_NETWORKS", () => {
  beforeEach(async () => {
    expect((await put("/v1/sys/auth/jwt", { type: "jwt" })).status).toBe(204);
  });

  it("is called through its binding, for keys of logins", async () => {
    const issuer = await newIssuer("private");
    expect((await configure(behind(`${issuer.url}/keys`))).status).toBe(204);
    await put("/v1/auth/jwt/role/ci", { role_type: "jwt", user_claim: "sub", bound_audiences: "sallyport" });
    const jwt = await issuer.sign({ sub: "app", aud: "sallyport" });
    expect((await put("/v1/auth/jwt/login", { role: "ci", jwt }, { token: null })).status).toBe(200);
    expect((await issuer.requests("/keys")).count).toBeGreaterThan(0);
  });

  it.each(["kv-v2", "cluster-secrets", "https"])(
    "is called through its binding, for a destination of %s",
    async (type) => {
      await mountKv();
      const place = await RemotePlace.open(type);
      const { body } = await makeDestination(type, "private", behind(place.body));
      expect(body.errors).toBeUndefined();
      expect(JSON.stringify(body)).toContain(".corp.internal");
      await put("/v1/kv/data/a", { data: { k: "v" } });
      await setAssociation(`${type}/private`, "a");
      await eventually(async () => expect([...(await place.objects()).values()]).toHaveLength(1));
    },
  );

  it("is called through its binding, for an engine's provider", async () => {
    const account = await openProducer("gitlab");
    succeeded(await put("/v1/sys/mounts/producer", { type: "https-producer" }));
    succeeded(await put("/v1/producer/config", behind(account.config)));
    expect((await get("/v1/producer/config")).body.data.url).toContain(".corp.internal");
    succeeded(await put("/v1/producer/roles/app", { ttl: 60 }));
    const before = await account.everything();
    const { lease_id } = succeeded(await get("/v1/producer/creds/app?verify=true")).body;
    expect(await account.everything()).toHaveLength(before.length + 1);
    succeeded(await put("/v1/sys/leases/revoke", { lease_id, sync: true }));
    expect(await account.everything()).toEqual(before);
  });

  it("is called through its binding, for a webhook", async () => {
    const hook = await newHook();
    await subscribe("private", behind(hook.url));
    await appendKeys("a");
    await expect.poll(hook.keys).toEqual(["a"]);
  });

  it.each(["https://idp.lost.internal/keys", "https://idp.lost.internal:8443/keys"])(
    "without its binding is refused: %s",
    async (url) => {
      const { status, body } = await configure(url);
      expect([status, body.errors]).toEqual([
        400,
        ["jwks_url: error checking jwks URL: the URL needs the network ABSENT of PRIVATE_NETWORKS, which is not bound"],
      ]);
      expect(await callProvider([url, {}], { deadlineMs: 1_000 })).toMatchObject({
        ok: false,
        outcome: { outcome: "client", code: "network_not_bound" },
      });
    },
  );

  it("keeps the rules for addresses: https, and a private one only where PRIVATE_HOSTS lists it", async () => {
    const refusals = [
      ["http://p80.corp.internal/keys", "jwks_url: error checking jwks URL: the URL must begin with https://"],
      [
        "https://other.internal/keys",
        "jwks_url: error checking jwks URL: the URL must not be a private address, unless PRIVATE_HOSTS lists it",
      ],
      [
        "https://corp.internal/keys",
        "jwks_url: error checking jwks URL: the URL must not be a private address, unless PRIVATE_HOSTS lists it",
      ],
    ];
    for (const [url = "", reason] of refusals) expect((await configure(url)).body.errors).toEqual([reason]);
  });

  it("is chosen by its whole name, and no other binding is a network", async () => {
    const given = env as { PRIVATE_NETWORKS?: string };
    const before = given.PRIVATE_NETWORKS;
    try {
      for (const name of ["LISTINGS", "KV_STORE", "MASTER_KEY", "toString"]) {
        given.PRIVATE_NETWORKS = `*.corp.internal=${name}`;
        expect((await configure("https://p80.corp.internal/keys")).body.errors).toEqual([
          `jwks_url: error checking jwks URL: the URL needs the network ${name} of PRIVATE_NETWORKS, which is not bound`,
        ]);
      }
      given.PRIVATE_NETWORKS = "corp.internal=TEST_NETWORK";
      const call = await callProvider(["https://p80.corp.internal/keys", {}], { deadlineMs: 5_000 });
      expect(call).toMatchObject({ ok: false, outcome: { code: "network_error" } });
    } finally {
      if (before !== undefined) given.PRIVATE_NETWORKS = before;
    }
  });
});
