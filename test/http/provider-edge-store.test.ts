import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import type { Listing } from "../../src/sync/destinations/destination-type.ts";
import { edgeStore } from "../../src/sync/destinations/edge-store/adapter.ts";
import { type Account, type StoreDouble, startEdgeStore } from "../doubles/edge-store/server.ts";
import { AdapterCalls, referenceOf } from "../support/adapter-calls.ts";

let double: StoreDouble;
let account: Account;
let at: AdapterCalls<ReturnType<typeof edgeStore.connection.parse>>;

beforeAll(async () => {
  double = await startEdgeStore();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
  at = new AdapterCalls(edgeStore, account.body, { settings: { EDGE_STORE_API_URL: double.url } });
});

const foreign = (name: string) => account.create({ name, value: "theirs", comment: "", scopes: ["workers"] });

describe("put", () => {
  it("updates a recorded secret with one call", async () => {
    const reference = referenceOf(await at.put("db"));
    account.calls.length = 0;
    expect(referenceOf(await at.put("db", { reference, value: "two" }))).not.toBe(reference);
    expect(account.calls).toEqual(["PATCH"]);
  });

  it("creates a secret that was deleted, and writes into one that was made again", async () => {
    const reference = referenceOf(await at.put("db"));
    account.secrets.length = 0;
    expect(await at.put("db", { reference })).toMatchObject({ outcome: "ok" });
    account.secrets.length = 0;
    foreign("db");
    await at.put("db", { reference });
    expect(account.secrets).toMatchObject([{ name: "db", value: "hunter2-hunter2" }]);
  });

  it("recognises its own creation after a lost answer, and no other push", async () => {
    account.faults.push({ kind: "lost" });
    await at.put("db", { updatePolicy: "if-not-exists" });
    expect(await at.put("db", { updatePolicy: "if-not-exists" })).not.toHaveProperty("left");
    expect(await at.put("db", { updatePolicy: "if-not-exists", value: "two" })).toEqual({ outcome: "ok", left: true });
  });

  it("finds its secret beyond the first page", async () => {
    for (let n = 0; n < 99; n++) foreign(`n${n}`);
    await at.put("db");
    account.secrets.unshift({ ...foreignShape(), name: "first" });
    await at.put("db", { value: "two" });
    expect(account.secrets.filter(({ name }) => name === "db")).toMatchObject([{ value: "two" }]);
  });

  it.each([true, false])("finds its secret among pages of a server that answers fewer, counted: %s", async (counts) => {
    Object.assign(account, { pageLimit: 2, countsPages: counts });
    for (let n = 0; n < 4; n++) foreign(`n${n}`);
    await at.put("db");
    await at.put("db", { value: "two" });
    expect(account.secrets.filter(({ name }) => name === "db")).toMatchObject([{ value: "two" }]);
    const names: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Listing | undefined = await edgeStore.reading?.list(cursor, at.connection, {
        settings: { EDGE_STORE_API_URL: double.url },
        send: sender({ deadlineMs: 5_000 }),
      });
      if (page?.outcome !== "ok") throw new Error(JSON.stringify(page));
      names.push(...page.names);
      cursor = page.next;
    }
    expect(names).toEqual(["n0", "n1", "n2", "n3", "db"]);
  });

  it("gives the secret the scopes of the connection", async () => {
    await at.put("db");
    expect(account.secrets[0]?.scopes).toEqual(["workers"]);
    await at.with({ scopes: "workers, ai_gateway" }).put("db");
    expect(account.secrets[0]?.scopes).toEqual(["workers", "ai_gateway"]);
  });
});

const foreignShape = () => ({
  id: "0".repeat(32),
  value: "theirs",
  comment: "",
  scopes: ["workers"],
  status: "active" as const,
  created: "2026-11-28T00:00:00Z",
  modified: "2026-11-28T00:00:00Z",
});

it("refuses unknown scopes", () => {
  const parsed = edgeStore.connection.safeParse({ ...account.body, scopes: ["pages"] });
  expect(JSON.stringify(parsed.error?.issues)).toContain("must name one or more of workers");
});
