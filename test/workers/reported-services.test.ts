import { describe, expect, it } from "vitest";
import { type Answer, get } from "./client.ts";
import { allocation, evaluation, job, report, service, tokenWith, uuid } from "./reports.ts";

const ids = (answer: Answer): string[] => answer.body.map(({ ID }: { ID: string }) => ID);

const inDev = { Namespace: "dev" };

describe("GET /v1/services", () => {
  it("lists the names with the distinct tags of their registrations, by namespace", async () => {
    await report(
      service({ ID: "a", Tags: ["v1", "edge"] }),
      service({ ID: "b", Tags: ["v2", "edge"] }),
      service({ ID: "c", ServiceName: "api", Tags: null }),
      service({ ID: "d", ServiceName: "db" }, inDev),
    );
    const named = [
      { ServiceName: "api", Tags: [] },
      { ServiceName: "http", Tags: ["edge", "v1", "v2"] },
    ];
    expect((await get("/v1/services")).body).toEqual([{ Namespace: "default", Services: named }]);
    expect((await get("/v1/services?namespace=*")).body).toEqual([
      { Namespace: "default", Services: named },
      { Namespace: "dev", Services: [{ ServiceName: "db", Tags: [] }] },
    ]);
    const token = await tokenWith('namespace "dev" { capabilities = ["read-job"] }');
    expect((await get("/v1/services?namespace=*", { token })).body).toEqual([
      { Namespace: "dev", Services: [{ ServiceName: "db", Tags: [] }] },
    ]);
    expect((await get("/v1/services", { token })).status).toBe(403);
  });

  it("is empty without any, and blocks until one is registered or removed", async () => {
    // The first line of a deployment has the index of an empty list.
    await report(job());
    const none = await get("/v1/services");
    expect([none.status, none.body]).toEqual([200, []]);
    const first = get(`/v1/services?index=${none.headers.get("X-Orch-Index")}&wait=10s`);
    await report(service());
    const one = await first;
    expect(one.body).toHaveLength(1);
    const second = get(`/v1/services?index=${one.headers.get("X-Orch-Index")}&wait=10s`);
    await report({ ...service(), Type: "ServiceDeregistration" });
    expect((await second).body).toEqual([]);
  });
});

it("GET /v1/service/:name lists the registrations of a name in the namespace", async () => {
  await report(
    service({ ID: "a" }),
    service({ ID: "b", Port: 81 }),
    service({ ID: "c", ServiceName: "api" }),
    service({ ID: "d" }, inDev),
  );
  expect(ids(await get("/v1/service/http"))).toEqual(["a", "b"]);
  expect(ids(await get("/v1/service/http?filter=Port==81"))).toEqual(["b"]);
  expect(ids(await get("/v1/service/http?namespace=dev"))).toEqual(["d"]);
  expect(ids(await get("/v1/service/none"))).toEqual([]);
  // A key keeps its instance, whatever else is registered.
  const [kept] = ids(await get("/v1/service/http?choose=1|alloc"));
  expect(ids(await get("/v1/service/http?choose=5|alloc"))).toHaveLength(2);
  expect(ids(await get("/v1/service/http?choose=5|alloc"))[0]).toBe(kept);
  expect(ids(await get("/v1/service/http?namespace=*&choose=9|alloc")).toSorted()).toEqual(["a", "b", "d"]);
  expect(await get("/v1/service/http?choose=alloc")).toMatchObject({ status: 400 });
  expect(await get("/v1/service/http?choose=1|alloc&per_page=1")).toMatchObject({ status: 400 });
});

it("GET /v1/allocation/:id/services lists the registrations of an allocation", async () => {
  await report(job(), allocation(), service({ ID: "a", AllocID: uuid(1) }), service({ ID: "b", AllocID: uuid(2) }));
  expect(ids(await get(`/v1/allocation/${uuid(1)}/services`))).toEqual(["a"]);
  expect(ids(await get(`/v1/allocation/${uuid(7)}/services`))).toEqual([]);
  expect(ids(await get(`/v1/allocation/${uuid(1)}/services?namespace=dev`))).toEqual([]);
});

describe("GET /v1/evaluation/:id", () => {
  const [first, second, third, blocked] = [11, 12, 13, 14].map(uuid);

  it("shows the linked evaluations of its namespace with related=true, each once", async () => {
    await report(
      evaluation({ ID: first, NextEval: second }),
      evaluation({ ID: second, PreviousEval: first, NextEval: third, BlockedEval: blocked }),
      evaluation({ ID: third, PreviousEval: second }, inDev),
      evaluation({ ID: blocked, PreviousEval: second, Status: "blocked" }),
    );
    const { body } = await get(`/v1/evaluation/${first}?related=true`);
    expect(body.RelatedEvals.map(({ ID }: { ID: string }) => ID)).toEqual([second, blocked]);
    expect(body.RelatedEvals[1]).toMatchObject({ JobID: "web", Status: "blocked", PreviousEval: second, Priority: 0 });
    expect((await get(`/v1/evaluation/${first}`)).body).not.toHaveProperty("RelatedEvals");
  });

  it("shows no related evaluations of one without links", async () => {
    await report(evaluation());
    expect((await get(`/v1/evaluation/${uuid(2)}?related=true`)).body.RelatedEvals).toEqual([]);
  });

  it("ends at a hundred related evaluations", async () => {
    const chain = Array.from({ length: 120 }, (_, at) =>
      evaluation({ ID: uuid(100 + at), PreviousEval: at === 0 ? "" : uuid(99 + at), NextEval: uuid(101 + at) }),
    );
    await report(...chain);
    expect((await get(`/v1/evaluation/${uuid(100)}?related=true`)).body.RelatedEvals).toHaveLength(100);
  });
});
