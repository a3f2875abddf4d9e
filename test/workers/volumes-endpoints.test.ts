import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { claims, listClaims, placed, stickyJob } from "./claims-helpers.ts";
import { type Answer, get, put, send } from "./client.ts";
import { addNode, ask, listed, make, nodeId, nodes, openNodes, register, volume } from "./host-volumes.ts";

/* Host volumes and claims, endpoint by endpoint. */

const CLAIMS = "/v1/volumes/claims?namespace=*&per_page=10";
const VOLUMES = "/v1/volumes?type=host";
const NOBODY = "00000000-0000-4000-8000-00000000beef";

beforeEach(() => openNodes(1));

/** A sticky volume and the claim on it. */
async function claimed(): Promise<{ volume: Answer["body"]; claim: Answer["body"] }> {
  const made = await make();
  await put("/v1/cluster/objects", [stickyJob(), placed("a1")]);
  const [claim] = await claims();
  return { volume: made, claim };
}

interface Endpoint {
  readonly method: string;
  readonly path: (volume: string, claim: string) => string;
  readonly body?: object;
  /** Any one of these is enough. */
  readonly rights: readonly string[];
  readonly blocks: boolean;
}

const endpoints: Record<string, Endpoint> = {
  "list of volumes": { method: "GET", path: () => VOLUMES, rights: ["host-volume-read"], blocks: true },
  "read of a volume": {
    method: "GET",
    path: (id) => `/v1/volume/host/${id}`,
    rights: ["host-volume-read"],
    blocks: true,
  },
  "creation of a volume": {
    method: "PUT",
    path: () => "/v1/volume/host/create",
    blocks: false,
    body: { Volume: volume({ Name: "new" }) },
    rights: ["host-volume-create", "host-volume-write"],
  },
  "registration of a volume": {
    method: "PUT",
    path: () => "/v1/volume/host/register",
    blocks: false,
    body: { Volume: { Name: "new", NodeID: nodeId(1), HostPath: "/srv/new" } },
    rights: ["host-volume-register", "host-volume-write"],
  },
  "deletion of a volume": {
    method: "DELETE",
    path: (id) => `/v1/volume/host/${id}/delete`,
    blocks: false,
    rights: ["host-volume-write", "host-volume-delete"],
  },
  "list of claims": { method: "GET", path: () => CLAIMS, rights: ["host-volume-read"], blocks: true },
  "deletion of a claim": {
    method: "DELETE",
    path: (_id, claim) => `/v1/volumes/claim/${claim}`,
    blocks: false,
    rights: ["host-volume-write"],
  },
};

const withQuery = (path: string, query: string) => `${path}${path.includes("?") ? "&" : "?"}${query}`;

/** An endpoint's path, on an unused volume for deletions. */
async function targetOf({ path }: Endpoint, isUsed: boolean): Promise<string> {
  const { volume, claim } = await claimed();
  return path(isUsed ? volume.ID : (await make({ Name: "free" })).ID, claim.ID);
}

const DELETION = "deletion of a volume";
const entries = Object.entries(endpoints);

describe.each(entries.filter(([, { blocks }]) => blocks))("the %s", (_what, endpoint) => {
  // Proves: D.list.blocking
  it("blocks until a change when an index is given", async () => {
    let answered = false;
    const path = withQuery(await targetOf(endpoint, true), `index=${2 ** 40}&wait=2s`);
    const answer = send(endpoint.method, path).finally(() => {
      answered = true;
    });
    await scheduler.wait(1_000);
    expect(answered).toBe(false);
    expect((await answer).status).toBe(200);
  });
});

describe.each(entries.filter(([, { blocks }]) => !blocks))("the %s", (what, endpoint) => {
  it("answers at once for any index", async () => {
    const path = withQuery(await targetOf(endpoint, what !== DELETION), `index=${2 ** 40}&wait=300s`);
    expect((await send(endpoint.method, path, endpoint.body)).status).toBe(200);
  });
});

describe.each(entries)("the %s", (what, endpoint) => {
  const { method, body, rights } = endpoint;
  const target = () => targetOf(endpoint, what !== DELETION);

  // Proves: D.all.prefix, D.list.endpoint, E.versioning.1.volumes
  it("exists at its path below /v1 only", async () => {
    const at = await target();
    expect((await send(method, at.replace("/v1/", "/"), body)).status).toBe(404);
    expect((await send(method, at.replace("/v1/", "/v2/"), body)).status).toBe(404);
    expect((await send(method, at, body)).status).toBe(200);
  });

  it("returns JSON, or an empty body without content", async () => {
    const { status, headers, text } = await send(method, await target(), body);
    if (what === "deletion of a claim") expect([status, text]).toEqual([200, ""]);
    else {
      expect([status, headers.get("content-type")]).toEqual([200, "application/json"]);
      expect(() => JSON.parse(text)).not.toThrow();
    }
  });

  // Proves: E.auth.4.policies-volumes, E.auth.5
  it("returns 403 unless the token has one of the listed capabilities", async () => {
    const words = ["read-job", "host-volume-read", "host-volume-create", "host-volume-register", "host-volume-write"];
    const all = [...words, "host-volume-delete", "csi-write-volume", "policy-override"];
    // A wider right brings the narrower ones along, as upstream's does.
    const brings: Record<string, string[]> = {
      "host-volume-write": ["host-volume-create", "host-volume-register", "host-volume-delete", "host-volume-read"],
      "host-volume-register": ["host-volume-create", "host-volume-read"],
      "host-volume-create": ["host-volume-read"],
    };
    for (const right of all) {
      const at = await target();
      const { client_token: token } = await holderOf(`namespace "default" { capabilities = ["${right}"] }`);
      const held = [right, ...(brings[right] ?? [])];
      const { status, body: shown } = await send(method, at, body, { token });
      const listsNothing = status === 200 && (Array.isArray(shown) ? shown : shown?.Claims)?.length === 0;
      const may = status === 200 && !listsNothing;
      // Deleting a claim needs `host-volume-delete` only, which `host-volume-write` includes.
      const needed = what === "deletion of a claim" ? ["host-volume-write", "host-volume-delete"] : rights;
      expect([right, may, status === 200 || status === 403], JSON.stringify(shown)).toEqual([
        right,
        needed.some((each) => held.includes(each)),
        true,
      ]);
      for (const { ID } of await claims()) await send("DELETE", `/v1/volumes/claim/${ID}`);
      await put("/v1/cluster/objects", [placed("a1", { ClientStatus: "complete" })]);
      for (const { ID } of await listed()) await send("DELETE", `/v1/volume/host/${ID}`);
    }
  });

  it("is refused without a token", async () => {
    const at = await target();
    expect((await send(method, at, body, { token: null })).status).toBe(403);
  });
});

describe("the list of volumes", () => {
  const fill = (count: number) =>
    runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT OR IGNORE INTO host_volumes SELECT printf('%08x-0000-7000-8000-000000000000', i), 'default', 'v' || i, '${nodeId(1)}',
           'default', 'mkdir', 'ready', 1, 1, '{"parameters":{},"constraints":[],"capabilities":[],"capacityMin":0,"capacityMax":0}', 0, '/x', 1, 1, 5, 5 FROM n`,
        count,
      );
    });

  // Proves: D.list.per_page.default, D.rules.2.unpaginated, E.limits.per_page.default
  itRows(["", "&per_page=0", "&per_page="])(
    "is complete, without a next token, without a page size (%s)",
    async (query) => {
      await fill(2_500);
      const all = await get(VOLUMES + query);
      expect([all.body.length, all.headers.get("X-Orch-NextToken")]).toEqual([2_500, null]);
    },
  );

  // Proves: D.all.next_token, D.all.next_token.header, D.all.per_page, D.list.next_token
  itRows([1, 7, 999, 1_000, 1_001, 2_499, 2_500, 2_501])(
    "is paged by per_page=%i, and the header has the next token",
    async (size) => {
      await fill(2_500);
      const [seen, sizes]: [string[], number[]] = [[], []];
      const most = size === 1 ? 20 : Number.POSITIVE_INFINITY;
      for (let token: string | null = ""; token !== null && sizes.length < most; ) {
        const page: Answer = await get(`${VOLUMES}&per_page=${size}&next_token=${encodeURIComponent(token)}`);
        seen.push(...page.body.map(({ ID }: { ID: string }) => ID));
        sizes.push(page.body.length);
        token = page.headers.get("X-Orch-NextToken");
        // The token is in the header alone: the body is the array.
        expect(Array.isArray(page.body)).toBe(true);
      }
      const total = Math.min(2_500, size * most);
      expect(seen).toEqual(
        Array.from(
          { length: total },
          (_, at) => `${(at + 1).toString(16).padStart(8, "0")}-0000-7000-8000-000000000000`,
        ),
      );
      expect(sizes.slice(0, -1).every((each) => each === size)).toBe(true);
    },
  );

  // Proves: D.list.type.values
  it("has one type of volume: dynamic host volumes for type=host", async () => {
    const made = await make();
    expect((await get(VOLUMES)).body.map(({ ID }: { ID: string }) => ID)).toEqual([made.ID]);
    for (const type of ["HOST", "hosts", "csi,host", "volume"]) {
      expect((await get(`/v1/volumes?type=${type}`)).status, type).toBe(404);
    }
    expect((await get("/v1/volumes?type=")).status).toBe(400);
  });

  // Proves: D.list.node_id, D.rules.1.decoded, D.rules.1.hex, E.limits.prefix
  it("accepts node prefixes of any even number of hexadecimal digits, in any case, and no others", async () => {
    await addNode(2);
    await make({ NodeID: nodeId(2) });
    for (const [prefix, found] of [
      ["00", 1],
      ["000000", 1],
      ["00000002", 1],
      ["0000000200", 1],
      ["00000001", 0],
      ["ff", 0],
      ["FF", 0],
      [nodeId(2), 1],
      [nodeId(2).toUpperCase(), 1],
      [nodeId(2).replaceAll("-", ""), 1],
    ] as [string, number][]) {
      const answer = await get(`${VOLUMES}&node_id=${prefix}`);
      expect([prefix, answer.status, answer.body?.length], answer.text).toEqual([prefix, 200, found]);
    }
    for (const prefix of ["0", "000", "0g", "zz", "00 00", "%00%00", "é0", "0".repeat(34)]) {
      const answer = await get(`${VOLUMES}&node_id=${prefix}`);
      expect([prefix, answer.status, answer.text]).toEqual([
        prefix,
        400,
        expect.stringMatching(/^node_id: .*even number/),
      ]);
    }
  });

  // Proves: D.list.plugin_id, D.rules.1.decoded, D.rules.1.hex, E.limits.prefix
  it("accepts plugin prefixes as bytes, too, and whole names of existing plugins", async () => {
    await register({ Name: "by-hand" });
    nodes.behave = () => ({ state: "done", result: { path: "/x", bytes: 0 } });
    await addNode(1, { Attributes: { "plugins.host_volume.abcd.version": "1" } });
    const made = await ask({ PluginID: "abcd" });
    expect(made.status, made.text).toBe(200);
    for (const [prefix, found] of [
      ["ab", 1],
      ["abcd", 1],
      ["AB", 0],
      ["ac", 0],
      ["abcdef", 0],
      ["mkdir", 0],
    ] as [string, number][]) {
      const answer = await get(`${VOLUMES}&plugin_id=${prefix}`);
      expect([prefix, answer.status, answer.body?.length], answer.text).toEqual([prefix, 200, found]);
    }
    for (const prefix of ["a", "abc", "zz"])
      expect((await get(`${VOLUMES}&plugin_id=${prefix}`)).status, prefix).toBe(400);
  });
});

describe("the list of claims", () => {
  // Proves: D.all.next_token
  it("has its next token in the body, not in the header", async () => {
    for (const name of ["a", "b", "c"]) await make({ Name: name });
    await put("/v1/cluster/objects", [stickyJob(["a", "b", "c"]), placed("a1")]);
    const first = await get("/v1/volumes/claims?namespace=default&per_page=2");
    expect(first.body.Claims).toHaveLength(2);
    expect(first.body.NextToken).toMatch(/./);
    const rest = await get(
      `/v1/volumes/claims?namespace=default&per_page=2&next_token=${encodeURIComponent(first.body.NextToken)}`,
    );
    expect(rest.body.Claims).toHaveLength(1);
    expect(rest.body.NextToken ?? "").toBe("");
    expect((await listClaims()).body.Claims.map(({ ID }: { ID: string }) => ID)).toEqual(
      [...first.body.Claims, ...rest.body.Claims].map(({ ID }: { ID: string }) => ID),
    );
  });
});

describe("a creation", () => {
  it("without an ID creates a volume on another node each time, and returns both ids", async () => {
    await addNode(2);
    const [first, second] = [await make(), await make()];
    expect(new Set([first.ID, second.ID]).size).toBe(2);
    expect([first.NodeID, second.NodeID].sort()).toEqual([nodeId(1), nodeId(2)]);
    const third = await ask();
    expect(third.status).toBe(409);
    expect(await listed()).toHaveLength(2);
  });

  it("with an ID updates that volume in place, or returns the reason", async () => {
    await addNode(2);
    const made = await make();
    const changed = await ask({ ID: made.ID, Parameters: { mode: "0711" } });
    expect(changed.body.Volume).toMatchObject({ ID: made.ID, NodeID: made.NodeID, Parameters: { mode: "0711" } });
    expect((await ask({ ID: made.ID, NodeID: made.NodeID === nodeId(1) ? nodeId(2) : nodeId(1) })).status).toBe(400);
    expect((await ask({ ID: NOBODY })).status).toBe(404);
    expect(await listed()).toHaveLength(1);
  });
});
