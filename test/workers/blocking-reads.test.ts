import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { holderOf, policies } from "./access.ts";
import { type Answer, get, put } from "./client.ts";
import { job, report } from "./reports.ts";

/** Reads with `index`, over the whole Worker: `src/routes/server/blocking.ts`. */

const reader = 'namespace "*" { capabilities = ["read-job", "list-jobs"] }';
const listed = (answer: Answer) => answer.body.map(({ ID }: { ID: string }) => ID);

let waiting = vi.spyOn(ClusterRegistry.prototype, "changed");
beforeEach(() => {
  waiting = vi.spyOn(ClusterRegistry.prototype, "changed");
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** A read that has begun to wait for a change after `index`. */
async function waitAfter(index: number, token: string, query = ""): Promise<{ answer: Promise<Answer> }> {
  const answer = get(`/v1/jobs?index=${index}${query}`, { token, headers: { "CF-Connecting-IP": "192.0.2.1" } });
  await vi.waitFor(() => expect(waiting).toHaveBeenCalled());
  return { answer };
}

describe("a blocking query", () => {
  it("returns the change, and its index is the next one to wait with", async () => {
    const index = await report(job());
    const { answer } = await waitAfter(index, "root");
    const next = await report(job({ ID: "api" }));
    const found = await answer;
    expect([found.status, listed(found)]).toEqual([200, ["api", "web"]]);
    expect(found.headers.get("X-Orch-Index")).toBe(String(next));
  });

  it("returns the current data when nothing changes", async () => {
    const index = await report(job());
    const { answer } = await waitAfter(index, "root", "&wait=200ms");
    const found = await answer;
    expect([found.status, listed(found), found.headers.get("X-Orch-Index")]).toEqual([200, ["web"], String(index)]);
  });

  it.each([
    ["any token", {}],
    ["a token with limited uses", { num_uses: 5 }],
    ["a token bound to networks", { bound_cidrs: ["192.0.2.0/24"] }],
  ])("of %s is refused after its revocation, and after its policy was emptied", async (_which, more) => {
    const [revoked, emptied] = [await holderOf(reader, more), await holderOf(reader, more)];
    const index = await report(job());
    const first = await waitAfter(index, revoked.client_token);
    const second = await waitAfter(index, emptied.client_token);
    expect((await put("/v1/auth/token/revoke-accessor", { accessor: revoked.accessor })).status).toBe(204);
    await policies({ [emptied.policies[0]]: 'path "none" {}' });
    await report(job({ ID: "api" }));
    for (const { answer } of [first, second]) {
      const refused = await answer;
      expect([refused.status, refused.text]).toEqual([403, "Permission denied"]);
    }
  });

  it("shows only data that its token may read at the end", async () => {
    const { client_token, policies: names } = await holderOf(reader);
    const index = await report(job());
    const { answer } = await waitAfter(index, client_token, "&namespace=*");
    await policies({ [names[0]]: 'namespace "other" { capabilities = ["read-job", "list-jobs"] }' });
    await report(job({ ID: "api" }));
    expect(listed(await answer)).toEqual([]);
  });

  it("uses one of its token's uses", async () => {
    const { client_token } = await holderOf(reader, { num_uses: 1 });
    const index = await report(job());
    const { answer } = await waitAfter(index, client_token);
    await report(job({ ID: "api" }));
    expect((await answer).status).toBe(200);
  });
});
