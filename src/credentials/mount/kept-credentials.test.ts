import { expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import { DataKeys, dataKeyMigrations } from "../../platform/crypto/data-keys.ts";
import { outboxMigrations } from "../../platform/durable/outbox.ts";
import { workMigrations } from "../../platform/durable/work-queue.ts";
import { engineMigrations } from "../schema.ts";
import { KeptCredentials } from "./kept-credentials.ts";

it("follows a subject that was renamed, with the secret as it is", () => {
  const sql = memorySql([...outboxMigrations, ...dataKeyMigrations, ...workMigrations, ...engineMigrations]);
  const keys = new DataKeys(sql, "test", () => Buffer.alloc(32, 7).toString("base64"));
  const kept = new KeptCredentials(sql, keys, "test");
  const secret = { kind: "static", accessKey: "AKIA1", secretKey: "s" } as never;
  kept.put("reader", { subject: "alice", secret, due: 1 });
  kept.put("reader", { subject: "bob", due: 2 });
  expect([kept.roleOf("alice"), kept.roleOf("bob"), kept.nextDue()]).toEqual([null, "reader", 2]);
  expect(kept.find("reader")).toEqual(secret);
});
