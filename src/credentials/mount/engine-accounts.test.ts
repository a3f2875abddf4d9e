import { describe, expect, it } from "vitest";
import cloudflare from "../../../examples/producers/cloudflare-account-token.json" with { type: "json" };
import { memorySql } from "../../../test/memory-sql.ts";
import { ok } from "../../lib/result.ts";
import { DataKeys, dataKeyMigrations } from "../../platform/crypto/data-keys.ts";
import { outboxMigrations } from "../../platform/durable/outbox.ts";
import { workMigrations } from "../../platform/durable/work-queue.ts";
import { EngineEvents } from "../engine-events.ts";
import { EngineStores } from "../engine-stores.ts";
import { ConfigBody, changeConfig, type EngineConfig } from "../engines/https-producer/config.ts";
import type { Job } from "../jobs/job-store.ts";
import { engineMigrations } from "../schema.ts";
import { EngineAccounts } from "./engine-accounts.ts";

const body = ConfigBody.parse({
  url: cloudflare.url,
  producer: cloudflare.producer,
  secrets: { token: "first" },
  vars: { account: "a", permission: "p", root_permission: "r" },
});

/** The identities of an HTTPS producer, whose secrets tell them apart. */
function identities() {
  const sql = memorySql([...outboxMigrations, ...dataKeyMigrations, ...workMigrations, ...engineMigrations]);
  const keys = new DataKeys(sql, "test", () => Buffer.alloc(32, 7).toString("base64"));
  const stores = new EngineStores(sql, keys, "test", new EngineEvents({ emit: () => undefined }), () => "");
  stores.settle("https-producer");
  const accounts = new EngineAccounts(stores, {} as Env);
  const write = (secrets: object) =>
    accounts.change(() => {
      const changed = changeConfig(stores.config.find() as EngineConfig | null, { ...body, secrets });
      if (!changed.ok) return changed;
      stores.config.put(changed.value, 0);
      return ok(null);
    });
  expect(write({ token: "first" }).ok).toBe(true);
  const first = accounts.account();
  if (!first.ok) throw new Error(first.message);
  const removal = { items: [], stuck: [], search: null, madeAt: 0 };
  /** The second round of a removal. @param early the secret of its beginning */
  const secondRound = (early: object | null, search: object | null = null): Job => ({
    id: "removal",
    work: { kind: "removal", removal: { ...removal, search }, because: "test", account: early, lease: false } as never,
    account: 0,
    lock: null,
    deadline: null,
    seq: 0,
    tries: 0,
    failures: 1,
    failure: null,
  });
  const { id, work, account } = secondRound(null);
  stores.jobs.put({ id, work, account }, 0);
  return { stores, accounts, write, first: first.value, secondRound };
}

const withToken = (token: string, isOther: boolean) => ({ value: { account: { secrets: { token } }, isOther } });

describe("the identity of a removal whose first round has failed", () => {
  it("is the present one with a secret that a rotation has made since, whose 'not found' is proof", () => {
    const { stores, accounts, first, secondRound } = identities();
    stores.config.promote((config) => Object.assign({}, config, { secrets: { token: "rotated" } }), 0);
    stores.accounts.secretReplaced();
    const search = { until: 0, next: 0 };
    for (const early of [null, first]) {
      expect(accounts.ofJob(secondRound(early))).toMatchObject(withToken("rotated", false));
      expect(accounts.ofJob(secondRound(early, search))).toMatchObject(withToken("rotated", false));
    }
  });

  it("is that of another secret that an operator has written since, whose 'not found' is none", () => {
    const { accounts, first, write, secondRound } = identities();
    write({ token: "of another user" });
    for (const early of [null, first]) {
      expect(accounts.ofJob(secondRound(early))).toMatchObject(withToken("of another user", true));
      expect(accounts.ofJob({ ...secondRound(early), failures: 2 })).toMatchObject(withToken("first", false));
      // A search could find resources of another user.
      expect(accounts.ofJob(secondRound(early, { until: 0, next: 0 }))).toMatchObject(withToken("first", false));
    }
  });
});
