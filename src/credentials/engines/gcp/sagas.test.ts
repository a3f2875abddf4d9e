import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { refusedWith } from "../../../../test/memory-engine.ts";
import { answered, walked } from "../../../../test/saga-walks.ts";
import { failure, type Send } from "../../../providers/outcome.ts";
import { step } from "./calls.ts";
import { cloudC } from "./client.ts";
import type { EngineConfig } from "./config.ts";
import { keySaga, newKeyAdd, orphansOfKey, undoOfKey } from "./key-add.ts";
import { keyRemoval, removalSaga } from "./removal.ts";
import { beginRenewal, renewalSaga } from "./renewal.ts";
import { outcomeOfRotation, type Rotation, undoOfRotation } from "./rotation.ts";

/** Decisions of Google's sagas at one step each. */

const options = { algorithm: "KEY_ALG_RSA_2048", type: "TYPE_GOOGLE_CREDENTIALS_FILE" };
const listed = walked(keySaga, newKeyAdd("a@p", true, options), [answered({ at: 0, keys: [] })]).state;
const sent = keySaga.beforeCall?.(listed, step("createKey", "a@p", options)) ?? listed;

const failureOf = (code: Parameters<typeof refusedWith>[0]) => {
  const result = refusedWith(code);
  if (result.ok) throw new Error("no failure");
  return result.failure;
};

describe("a key of an account of others", () => {
  it("is not searched for after Google has refused it: the search would disable the keys of others", () => {
    const refused = keySaga.onError(
      sent,
      step("createKey", "a@p", options),
      failureOf("permission_denied"),
      10 ** 9,
      0,
    );
    if (refused.kind !== "failed") throw new Error(refused.kind);
    expect(undoOfKey(refused.state ?? sent, 0)).toMatchObject({ items: [], search: null });
    expect(undoOfKey(sent, 0).search, "no answer").not.toBeNull();
    expect(orphansOfKey(sent, 0)).toBeNull();
  });
});

it("checks the removal of the former root key again while it may be a new one", () => {
  const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = pair.privateKey.export({ type: "pkcs8", format: "pem" });
  const file = {
    type: "service_account",
    client_email: "a@p.iam.gserviceaccount.com",
    private_key: pem,
    project_id: "my-project",
  };
  const rotation = {
    account: { email: "a@p" },
    replaces: "old",
    add: { ...sent, sent: false, key: { id: "new", endsAt: 1 } },
    secret: Buffer.from(JSON.stringify(file)).toString("base64"),
  } as unknown as Rotation;
  const outcome = outcomeOfRotation(rotation, 1_000);
  const removal = "problem" in outcome ? null : outcome.removal;
  expect(removal).toEqual(keyRemoval("a@p", "old", 1_000));
  if (!removal) return;
  const soon = removalSaga.onError(removal, step("deleteKey", "a@p", "old"), failureOf("not_found"), 2_000, 0);
  expect(soon).toMatchObject({ state: { items: [{ id: "old", notBefore: 4_000 }] } });
});

it("keeps the key that was configured while a rotation was under way", () => {
  const rotation = { add: { ...sent, before: ["K1"], lost: ["K2", "K3"] } } as unknown as Rotation;
  const next = { credentials: { private_key_id: "K2" } } as unknown as EngineConfig;
  expect(undoOfRotation(rotation, 0, next)).toMatchObject({ items: [{ id: "K3" }], search: { before: ["K1", "K2"] } });
});

it("looks a new key up again before its renewal is refused", () => {
  const renewal = beginRenewal({ kind: "key", email: "a@p", id: "k" }, 0, 1_000);
  const look = step("getKey", "a@p", "k");
  const after = (now: number) => renewalSaga.onError(renewal, look, failureOf("not_found"), now, 0).kind;
  expect([after(2_000), after(120_999), after(121_000)]).toEqual(["retry", "retry", "failed"]);
  expect(renewalSaga.onError(renewal, look, failureOf("permission_denied"), 2_000, 0).kind).toBe("failed");
});

it("counts a change that is answered with a redirect as unknown, and a read as refused", async () => {
  const tokens = { access_token: "a", accessToken: "a", expireTime: new Date(Date.now() + 3_600_000).toISOString() };
  const send: Send = async ([url]) =>
    /sts|generateAccessToken/.test(url)
      ? { ok: true, response: new Response(), text: JSON.stringify(tokens) }
      : { ok: false, outcome: failure("client", "redirect_refused", "It failed.") };
  const identity = { issuer: "i", subject: "s", audience: "https://iam.example", sign: async () => "a.b.c" };
  const cloud = cloudC({ email: "a@p" }, { settings: {}, send, identity });
  expect(await cloud.createKey("b@p", options)).toMatchObject({
    failure: { outcome: "unknown", code: "unreadable_answer" },
  });
  expect(await cloud.getKey("b@p", "k")).toMatchObject({ failure: { outcome: "client", code: "misconfigured" } });
});
