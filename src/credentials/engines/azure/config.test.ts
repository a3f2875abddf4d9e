import { expect, it } from "vitest";
import type { Home } from "../../../contracts/federation.ts";
import { accountOf, type ConfigBody, changeConfig, type EngineConfig } from "./config.ts";

const home: Home = {
  namespace: "",
  namespaceId: "root",
  mountAccessor: "cloud-b_0123abcd",
  mountPath: "cloud-b/",
  origin: "https://x",
};
const audience = "api://AzureADTokenExchange";

function written(body: ConfigBody, before: EngineConfig | null = null, from: Home | null = home): EngineConfig {
  const ids = { subscription_id: crypto.randomUUID(), tenant_id: crypto.randomUUID(), client_id: "c" };
  const changed = changeConfig(before, { ...ids, ...body }, {}, true, from);
  if (!changed.ok) throw new Error(changed.message);
  return changed.value;
}

const account = (config: EngineConfig, known = {}) => {
  const found = accountOf(config, known);
  if (!found.ok) throw new Error(found.message);
  return found.value;
};

// Proves: A.config.identity_token_ttl.applied, E.limits.identity_token_ttl
it("logs in with identity tokens of the configured audience and TTL", () => {
  const config = written({ identity_token_audience: audience, identity_token_ttl: 600 });
  expect(account(config)).toMatchObject({ clientSecret: "", federation: { ...home, audience, ttlSeconds: 600 } });
  expect(account(written({ identity_token_audience: audience })).federation?.ttlSeconds).toBe(3_600);
});

it("logs in with a secret from the configuration or the deployment's settings", () => {
  const config = written({ identity_token_audience: audience });
  const overridden = account(config, { CLOUD_B_CLIENT_SECRET: "of the deployment" });
  expect([overridden.clientSecret, overridden.federation]).toEqual(["of the deployment", undefined]);
  expect(account(written({ client_secret: "stored" }, null, null)).federation).toBeUndefined();
});

it("refuses an account without secret and audience", () => {
  for (const config of [written({}, null, null), written({ identity_token_audience: "" }, null, null)]) {
    expect(accountOf(config, {})).toMatchObject({
      ok: false,
      reason: "invalid",
      message: expect.stringContaining("identity_token_audience"),
    });
  }
});

it("keeps the origin until the audience is written again", () => {
  const first = written({ identity_token_audience: audience });
  const later = written({ identity_token_ttl: 60 }, first, null);
  expect(account(later).federation).toMatchObject({ origin: "https://x", ttlSeconds: 60 });
  const again = written({ identity_token_audience: audience }, later, { ...home, origin: "https://y" });
  expect(account(again).federation?.origin).toBe("https://y");
});
