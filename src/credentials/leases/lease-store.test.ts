import { expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import { outboxMigrations } from "../../platform/durable/outbox.ts";
import { engineMigrations } from "../schema.ts";
import { LeaseStore } from "./lease-store.ts";

const ids = [
  ...Array.from({ length: 25 }, (_, index) => `creds/app/${String(index).padStart(3, "0")}`),
  "creds/other/a",
  "creds/zone/deep/b",
  "creds/zone/deep/c",
];

it("lists each name below a folder once, page by page, with folders as one name", () => {
  const sql = memorySql([...outboxMigrations, ...engineMigrations]);
  for (const id of ids) {
    sql.exec(
      `INSERT INTO leases (id, role, token, holding, issued, expires, key_ends, renewable, state)
       VALUES (?, 'r', 't', '{}', 0, 1, 1, 1, 'live')`,
      id,
    );
  }
  const leases = new LeaseStore(sql);
  const all = (folder: string, limit: number): string[] => {
    const names: string[] = [];
    for (let page = leases.names(folder, "", limit); page.length > 0; ) {
      expect(page.length).toBeLessThanOrEqual(limit);
      names.push(...page);
      page = leases.names(folder, names.at(-1) ?? "", limit);
    }
    return names;
  };
  for (const limit of [1, 2, 10, 1_000]) {
    expect(all("", limit)).toEqual(["creds/"]);
    expect(all("creds/", limit)).toEqual(["app/", "other/", "zone/"]);
    expect(all("creds/app/", limit)).toEqual(ids.slice(0, 25).map((id) => id.slice("creds/app/".length)));
    expect(all("creds/zone/", limit)).toEqual(["deep/"]);
    expect(all("creds/none/", limit)).toEqual([]);
  }
});

/** A store with one live lease whose response was not sent yet. */
function oneLease() {
  const leases = new LeaseStore(memorySql([...outboxMigrations, ...engineMigrations]));
  leases.insert({
    id: "lease",
    role: "r",
    token: "t",
    resources: { kind: "password", application: "app", keyId: "key" },
    issued: 0,
    expires: 1_000,
    keyEnds: 1_000,
    renewable: true,
    handOverBy: 500,
    repeat: "request",
    sealed: null,
    account: 0,
  });
  return leases;
}

it("keeps a lease whose response was sent, for any second report", () => {
  const leases = oneLease();
  leases.expectHandOver("lease", 300);
  expect(leases.nextHandOver()).toBe(300);
  leases.handOver("lease");
  leases.expectHandOver("lease", 200);
  expect(leases.nextHandOver()).toBeNull();
});

it("gives a repeated request a new lease after the end of the first", () => {
  const leases = oneLease();
  expect(leases.ofRepeat("request")?.id).toBe("lease");
  leases.end("lease");
  expect(leases.ofRepeat("request")).toBeNull();
});
