import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import type { ClaimQuery } from "../../src/contracts/host-volumes.ts";
import { ClaimStore } from "../../src/volumes/host-claims/store.ts";
import { amount } from "../support/long.ts";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { claims, listClaims, placed, stickyJob } from "./claims-helpers.ts";
import { type Answer, del, get, put, send } from "./client.ts";
import { addNode, make, ScriptedNodes } from "./host-volumes.ts";
import { type Reported, report } from "./reports.ts";

const inNamespace = (namespace: string, event: Reported): Reported => ({ ...event, Namespace: namespace });
const keys = (answer: Answer): string[] =>
  (answer.body.Claims ?? answer.body).map(({ JobID, VolumeName }: Answer["body"]) => `${JobID}/${VolumeName}`).sort();
const said = ({ status, text }: Answer) => [status, text];

const ALL = ["api/db", "app/log", "web/db", "web/log"];
const upstream = { headers: { "X-Nomad-Token": "root" }, token: null };

/** Two claims of `web` and one of `api` in the default namespace, one of `app` in another. */
async function fourClaims(): Promise<void> {
  new ScriptedNodes();
  await addNode(1);
  await addNode(2);
  await put("/v1/namespace/prod", {});
  await make();
  await make({ Name: "log" });
  await make({ Name: "log", Namespace: "prod" });
  await report(stickyJob(["db", "log"]), placed("a1"));
  const [group] = (stickyJob(["db"]).Payload["Job"] as { TaskGroups: object[] }).TaskGroups;
  await report(stickyJob([], { ID: "api", TaskGroups: [{ ...group, Name: "cache" }] }));
  await report(placed("b1", { JobID: "api", TaskGroup: "cache" }));
  const other = (await get("/v1/volumes?type=host&namespace=prod")).body[0].NodeID;
  await report(inNamespace("prod", stickyJob(["log"], { ID: "app" })));
  await report(inNamespace("prod", placed("c1", { JobID: "app", NodeID: other })));
}

describe("the list of claims", () => {
  beforeEach(fourClaims);

  // Proves: D.claims.list.endpoint, D.claims.list.job_id, D.claims.list.task_group, D.claims.list.volume_name
  itRows<[query: string, found: string[]]>([
    ["namespace=*", ALL],
    ["namespace=default", ["api/db", "web/db", "web/log"]],
    ["namespace=prod", ["app/log"]],
    ["namespace=none", []],
    ["namespace=default&job_id=web", ["web/db", "web/log"]],
    ["namespace=prod&job_id=web", []],
    ["namespace=*&job_id=app", ["app/log"]],
    ["namespace=*&job_id=we", []],
    ["namespace=*&task_group=g", ["app/log", "web/db", "web/log"]],
    ["namespace=default&task_group=cache", ["api/db"]],
    ["namespace=*&volume_name=log", ["app/log", "web/log"]],
    ["namespace=default&volume_name=log", ["web/log"]],
    ["namespace=*&volume_name=lo", []],
    ["namespace=*&job_id=web&volume_name=db", ["web/db"]],
    ["namespace=*&job_id=web&task_group=cache", []],
    ["namespace=*&job_id=web&task_group=g&volume_name=log", ["web/log"]],
    ["namespace=*&job_id=&task_group=&volume_name=&claim_id=", ALL],
    ["namespace=*&filter=VolumeName == log and JobID != app", ["web/log"]],
    ["namespace=default&job_id=web&filter=AllocID == a1", ["web/db", "web/log"]],
    ["namespace=*&filter=TaskGroupName matches `^ca`", ["api/db"]],
  ])("has the claims that %s selects", async (query, found) => {
    const answer = await get(`/v1/volumes/claims?per_page=0&${query}`);
    expect([keys(answer), answer.body.NextToken]).toEqual([found, ""]);
    expect(answer.headers.get("Content-Type")).toBe("application/json");
  });

  // Proves: D.claims.list.claim_id
  itRows(["claim_id", "prefix"])("finds claims by id prefix: %s", async (name) => {
    for (const { ID, Namespace } of await claims()) {
      for (const length of [1, 7, 8, 9, 20, 36]) {
        const prefix = ID.slice(0, length);
        const wanted = (await claims()).filter((claim) => claim.ID.startsWith(prefix));
        const ids = async (query: string) => (await claims(query)).map((claim) => claim.ID);
        expect(await ids(`&${name}=${prefix}`)).toEqual(wanted.map((claim) => claim.ID).sort());
        expect(await ids(`&${name}=${prefix.toUpperCase()}&job_id=nope`)).toEqual([]);
        const here = await get(`/v1/volumes/claims?per_page=0&namespace=${Namespace}&${name}=${prefix}`);
        expect(here.body.Claims.map((claim: Answer["body"]) => claim.ID)).toContain(ID);
      }
    }
    expect(await claims(`&${name}=zz`)).toEqual([]);
  });

  // Proves: D.all.next_token, D.all.next_token.claims, D.all.per_page, D.claims.list.next_token
  itRows(["", "&reverse=true", "&claim_id=", "&job_id=web", "&task_group=g&reverse=true", "&volume_name=log"])(
    "is paged in a stable order, each claim once, for any page size (%s)",
    async (query) => {
      const whole = (await claims(query)).map(({ ID }) => ID);
      expect(whole.length).toBeGreaterThan(1);
      for (const size of [1, 2, 3, 5]) {
        const seen: string[] = [];
        for (let token = "", pages = 0; pages === 0 || token !== ""; pages++) {
          expect(pages).toBeLessThan(6);
          const url = `/v1/volumes/claims?namespace=*&per_page=${size}&next_token=${token}${query}`;
          const { body, headers } = await get(url);
          seen.push(...body.Claims.map(({ ID }: Answer["body"]) => ID));
          token = body.NextToken;
          expect(headers.get("X-Orch-NextToken") ?? "").toBe(token);
        }
        expect(seen).toEqual(whole);
      }
    },
  );

  it("is sorted by namespace and id", async () => {
    const order = (await claims()).map(({ Namespace, ID }) => `${Namespace}.${ID}`);
    expect(order).toEqual(order.toSorted());
    const reverse = (await claims("&reverse=true")).map(({ Namespace, ID }) => `${Namespace}.${ID}`);
    expect(reverse).toEqual(order.toReversed());
  });

  it("continues after a token whose claim was deleted, and is empty after the last one", async () => {
    const first = await get("/v1/volumes/claims?namespace=*&per_page=1");
    const [, second, ...rest] = await claims();
    expect(first.body.NextToken).toBe(`${second.Namespace}.${second.ID}`);
    await del(`/v1/volumes/claim/${second.ID}?namespace=${second.Namespace}`);
    const next = await get(`/v1/volumes/claims?namespace=*&per_page=9&next_token=${first.body.NextToken}`);
    expect(next.body.Claims).toEqual(rest);
    expect((await get("/v1/volumes/claims?namespace=*&per_page=9&next_token=zz.zz")).body.Claims).toEqual([]);
  });

  it("is a bare array for upstream clients, without a required namespace or page size", async () => {
    const whole = await get("/v1/volumes/claims", upstream);
    expect([Array.isArray(whole.body), keys(whole)]).toEqual([true, ["api/db", "web/db", "web/log"]]);
    const page = await get("/v1/volumes/claims?namespace=*&per_page=3", upstream);
    expect([page.body.length, page.headers.get("X-Nomad-NextToken")]).toEqual([3, expect.stringMatching(/^prod\./)]);
  });

  const STRANGE = [
    "namespace=%00",
    "namespace=..",
    "namespace=default%0a",
    "namespace=*&job_id=%27%20OR%201",
    "namespace=*&claim_id=%25",
    "namespace=*&claim_id=%00",
    "namespace=*&next_token=%ff",
    "namespace=*&next_token=.",
    "namespace=*&next_token=....",
    `namespace=*&volume_name=${"x".repeat(4000)}`,
    "namespace=*&task_group=%F0%9F%92%BE",
  ];
  it("is empty for unusual values, and the service keeps working", async () => {
    for (const query of STRANGE) {
      const answer = await get(`/v1/volumes/claims?per_page=2&${query}`);
      expect([200, 400]).toContain(answer.status);
      if (answer.status === 200 && !query.includes("next_token")) expect(answer.body.Claims).toEqual([]);
    }
  });

  const NO_IDS = [
    "x",
    "0199d1f0-0000-7000-8000-000000000000",
    "*",
    "%25",
    "%20",
    "%27%20OR%201=1",
    "%00",
    "x".repeat(4000),
  ];
  it("deletes nothing for an invalid claim id", async () => {
    const before = await claims();
    for (const id of NO_IDS) expect([400, 404]).toContain((await del(`/v1/volumes/claim/${id}`)).status);
    expect(await claims()).toEqual(before);
  });
});

describe("without reading any claim, the service", () => {
  // Proves: D.claims.list.namespace-required, D.claims.list.per_page-required, E.limits.per_page.required
  it.each<[query: string, says: string | RegExp]>([
    ["", "namespace: is required; * is all of them"],
    ["per_page=1", "namespace: is required; * is all of them"],
    ["namespace=&per_page=1", "namespace: is required; * is all of them"],
    ["namespace=*", "per_page: is required"],
    ["namespace=*&per_page=", "per_page: is required"],
    ["namespace=*&per_page=x", /per_page/],
    ["namespace=*&per_page=-1", /per_page/],
    ["namespace=*&per_page=1.5", /per_page/],
    ["namespace=*&per_page=99999999999", /per_page/],
    ["namespace=*&per_page=1&index=x", "Invalid index"],
    ["namespace=*&per_page=1&index=-1", "Invalid index"],
    ["namespace=*&per_page=1&index=1.5", "Invalid index"],
    ["namespace=*&per_page=1&wait=soon", "Invalid wait time"],
    ["namespace=*&per_page=1&index=1&wait=5", "Invalid wait time"],
    ["namespace=*&per_page=1&stale=maybe", /stale/],
    ["namespace=*&per_page=1&filter=Nope == 1", /Nope/],
    ["namespace=*&per_page=1&filter=JobID ==", /filter/],
    ["namespace=*&per_page=1&filter=JobID", /filter/],
    ["namespace=*&per_page=1&filter=JobID matches `(`", /./],
    ["namespace=*&per_page=1&filter=JobID matches `(?=a)`", /look-around/],
    ["namespace=*&per_page=1&filter=CreateIndex == x", /./],
    ["namespace=*&per_page=1&filter=JobID.x == 1", /./],
    ["namespace=*&per_page=1&filter=(JobID == a", /./],
    [`namespace=*&per_page=1&filter=${"a".repeat(9000)}`, /./],
  ])("refuses a list with %s", async (query, says) => {
    const refused = await get(`/v1/volumes/claims?${query.replaceAll("`", "%60")}`);
    expect(refused.status).toBe(400);
    if (typeof says === "string") expect(refused.text).toBe(says);
    else expect(refused.text).toMatch(says);
  });

  itRows([
    ["PUT", "/v1/volumes/claims"],
    ["POST", "/v1/volumes/claims"],
    ["DELETE", "/v1/volumes/claims"],
    ["GET", "/v1/volumes/claim/x"],
    ["PUT", "/v1/volumes/claim/x"],
    ["PATCH", "/v1/volume/claim/x"],
  ])("returns 404 for %s %s", async (method, path) => {
    expect([404, 405]).toContain((await send(method, path, method === "GET" ? undefined : {})).status);
  });
});

it("the list of claims is empty, with an index to wait for, before the first claim", async () => {
  const empty = await listClaims();
  expect([empty.text, empty.headers.get("X-Orch-Index")]).toEqual(['{"Claims":[],"NextToken":""}', "1"]);
  expect((await get("/v1/volumes/claims", upstream)).text).toBe("[]");
});

describe("access to claims", () => {
  beforeEach(fourClaims);
  const rules = (capabilities: string[], name = "default") =>
    `namespace "${name}" { capabilities = ${JSON.stringify(capabilities)} }\n`;
  const holder = async (text: string) => ({ token: (await holderOf(text)).client_token as string });

  // Proves: D.claims.delete.acl, D.claims.list.acl
  it.each<[what: string, rules: string, lists: boolean, deletes: boolean]>([
    ["nothing about volumes", rules(["read-job"]), false, false],
    ["the right to CSI volumes", rules(["csi-list-volume", "csi-write-volume"]), false, false],
    ["the right to read", rules(["host-volume-read"]), true, false],
    ["the short word read", 'namespace "default" { policy = "read" }', true, false],
    ["the short word write", 'namespace "default" { policy = "write" }', true, false],
    ["the right to create", rules(["host-volume-create"]), true, false],
    ["the right to register", rules(["host-volume-register"]), true, false],
    ["the right to delete", rules(["host-volume-delete"]), false, true],
    ["the right to write", rules(["host-volume-write"]), true, true],
    ["all rights, denied", rules(["host-volume-write", "deny"]), false, false],
    ["all rights elsewhere", rules(["host-volume-write"], "prod"), false, false],
    ["all rights everywhere but here", `${rules(["host-volume-write"], "*")}${rules(["deny"])}`, false, false],
    ["all rights by a glob", rules(["host-volume-write"], "def*"), true, true],
    ["the rights to nodes", 'node { policy = "write" }\nhost_volume "*" { policy = "write" }', false, false],
  ])("with %s", async (_what, text, lists, deletes) => {
    const as = await holder(text);
    const [claim] = await claims("&job_id=api");
    const listed = await get("/v1/volumes/claims?namespace=default&per_page=0", as);
    expect(lists ? listed.status : said(listed)).toEqual(lists ? 200 : [403, "Permission denied"]);
    expect((await get("/v1/volumes/claims", { headers: { "X-Nomad-Token": as.token }, token: null })).status).toBe(
      lists ? 200 : 403,
    );
    for (const path of ["/v1/volumes/claim", "/v1/volume/claim"]) {
      if (!deletes) {
        // Only tokens that may delete a claim learn whether it exists.
        for (const id of [claim.ID, "x"])
          expect(said(await del(`${path}/${id}`, as))).toEqual([403, "Permission denied"]);
      } else expect((await del(`${path}/x`, as)).status).toBe(404);
    }
    if (deletes) expect((await del(`/v1/volumes/claim/${claim.ID}`, as)).status).toBe(200);
    expect(await claims("&job_id=api")).toHaveLength(deletes ? 0 : 1);
  });

  // Proves: D.claims.list.acl
  it("is checked per claim in a list of all namespaces", async () => {
    const as = await holder(rules(["host-volume-read"]));
    expect(keys(await listClaims("", as))).toEqual(["api/db", "web/db", "web/log"]);
    expect(keys(await listClaims("&volume_name=log", as))).toEqual(["web/log"]);
    expect(keys(await listClaims("&filter=JobID == app", as))).toEqual([]);
    const both = await holder(rules(["host-volume-read"]) + rules(["host-volume-read"], "prod"));
    expect(keys(await listClaims("", both))).toEqual(ALL);
    expect((await listClaims("", await holder(rules(["read-job"])))).status).toBe(403);
  });

  // Proves: D.claims.delete.acl
  it("to delete in one namespace grants nothing in another, nor in all", async () => {
    const as = await holder(rules(["host-volume-write"]));
    const [claim] = await claims("&job_id=app");
    expect((await del(`/v1/volumes/claim/${claim.ID}?namespace=prod`, as)).status).toBe(403);
    expect((await del(`/v1/volumes/claim/${claim.ID}?namespace=*`, as)).status).toBe(403);
    expect((await del(`/v1/volumes/claim/${claim.ID}`, as)).status).toBe(404);
    expect(await claims("&job_id=app")).toEqual([claim]);
  });

  it("is refused without a token", async () => {
    const [claim] = await claims();
    for (const token of [null, "no-such-token"]) {
      expect((await listClaims("", { token })).status).toBe(403);
      expect((await del(`/v1/volumes/claim/${claim.ID}`, { token })).status).toBe(403);
    }
  });

  it("is checked again after a blocking query", async () => {
    const { client_token: token, accessor } = await holderOf(rules(["host-volume-read"]));
    const index = (await listClaims()).headers.get("X-Orch-Index");
    const waiting = listClaims(`&index=${index}&wait=60s`, { token });
    await scheduler.wait(50);
    await put("/v1/auth/token/revoke-accessor", { accessor });
    await report(placed("a2"));
    expect((await waiting).status).toBe(403);
  });
});

describe("the cost of a page depends on its size, not on the table's", () => {
  const SIZES = [1_000, amount(5_000, 100_000)];
  const PAGE = 50;

  /** Claims of ten namespaces and a hundred jobs, as if made one by one. */
  const fill = (rows: number): Promise<void> =>
    inRegistry((sql) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
         INSERT INTO volume_claims
         SELECT printf('%08x-0000-4000-8000-000000000000', i * (4294967295 / ?1)), 'ns-' || (i % 10), 'job-' || (i % 100),
           'group-' || (i % 100), 'volume-' || i, 'name-' || (i % 100), 'alloc-' || i, i + 1, i + 1 FROM n`,
        rows,
      );
    });
  const inRegistry = <R>(work: (sql: SqlStorage) => R): Promise<R> =>
    runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, state) => work(state.storage.sql));

  const counted = <R>(work: (store: ClaimStore) => R) =>
    inRegistry((real) => {
      const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
      const sql = {
        exec: (query: string, ...values: unknown[]) => {
          const cursor = real.exec(query, ...values);
          cursors.push(cursor);
          return cursor;
        },
      } as unknown as SqlStorage;
      const result = work(new ClaimStore(sql));
      return { result, read: cursors.reduce((sum, { rowsRead }) => sum + rowsRead, 0) };
    });

  const middle = "80000000-0000-4000-8000-000000000000";
  const queries: [string, Partial<ClaimQuery>][] = [
    ["all of them", { namespace: null }],
    ["of one namespace", { namespace: "ns-3" }],
    ["of a job", { namespace: null, jobId: "job-43" }],
    ["of a job of a namespace", { namespace: "ns-3", jobId: "job-43" }],
    ["of groups", { namespace: null, taskGroup: "group-43" }],
    ["of volumes of a name", { namespace: "ns-3", volumeName: "name-43" }],
    [
      "of a job, a group and a name",
      { namespace: null, jobId: "job-43", taskGroup: "group-43", volumeName: "name-43" },
    ],
    ["by a prefix anywhere", { namespace: null, prefix: "8" }],
    ["by a prefix in a namespace", { namespace: "ns-3", prefix: "8" }],
    ["by a prefix of a job", { namespace: "ns-3", jobId: "job-43", prefix: "8" }],
  ];

  it.each(SIZES)(
    "with %i claims",
    async (rows) => {
      await fill(rows);
      for (const [what, query] of queries) {
        for (const reverse of [false, true]) {
          for (const from of [
            ["", ""],
            [query.namespace ?? "ns-3", middle],
          ] as const) {
            const { result, read } = await counted((store) =>
              store.page({ namespace: null, prefix: "", limit: PAGE, ...query, from, reverse }),
            );
            expect(result.rows.length, `${what} ${reverse} ${from}`).toBeLessThanOrEqual(PAGE);
            // Each row may be looked up by an index entry first.
            expect(read, `${what} ${reverse} ${from}`).toBeLessThanOrEqual((PAGE + 1) * 2);
          }
        }
      }
      // One of them is the count of claims, which is kept with each change.
      for (const work of [
        (store: ClaimStore) => store.find(middle),
        (store: ClaimStore) =>
          store.of({ volumeId: "volume-7", namespace: "ns-7", jobId: "job-7", taskGroup: "group-7" }),
        (store: ClaimStore) => store.removeOfVolume("volume-8"),
        (store: ClaimStore) => store.removeOfJob("ns-9", "nobody"),
      ])
        expect((await counted<unknown>(work)).read).toBeLessThanOrEqual(5);
    },
    60_000,
  );
});
