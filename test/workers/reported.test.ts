import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventLog } from "../../src/worker.ts";
import { itRows } from "../support/rows.ts";
import { eventsOf } from "./access.ts";
import { type Answer, get } from "./client.ts";
import {
  allocation,
  deployment,
  evaluation,
  gone,
  job,
  node,
  type Reported,
  report,
  send,
  tokenWith,
  uuid,
} from "./reports.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

const ids = (answer: Answer): string[] => answer.body.map(({ ID }: { ID: string }) => ID);

/** Every list: its path, what makes an object of it, and one after another in its order. */
const LISTS: [path: string, topic: string, make: (object: object, more?: object) => Reported][] = [
  ["/v1/jobs", "Job", job],
  ["/v1/allocations", "Allocation", allocation],
  ["/v1/evaluations", "Evaluation", evaluation],
  ["/v1/deployments", "Deployment", deployment],
];
/** Lists of what belongs to something. */
const WITHIN: typeof LISTS = [
  ["/v1/job/web/allocations", "Allocation", allocation],
  ["/v1/job/web/evaluations", "Evaluation", evaluation],
  ["/v1/job/web/deployments", "Deployment", deployment],
  [`/v1/node/${uuid(9)}/allocations`, "Allocation", allocation],
];
/** Every read of one object. */
const READS: [path: string, missing: string, make: (object: object, more?: object) => Reported][] = [
  ["/v1/job", "job not found", job],
  ["/v1/allocation", "alloc not found", allocation],
  ["/v1/evaluation", "eval not found", evaluation],
  ["/v1/deployment", "deployment not found", deployment],
];

describe("a job's stub", () => {
  it("has every field that upstream lists, for any report", async () => {
    const Index = await report(job());
    expect((await get("/v1/jobs")).body).toEqual([
      {
        ID: "web",
        Name: "web",
        Namespace: "default",
        ParentID: "",
        NodePool: "",
        Type: "",
        Status: "",
        StatusDescription: "",
        Datacenters: null,
        Multiregion: null,
        Priority: 50,
        Version: 0,
        SubmitTime: null,
        JobModifyIndex: 0,
        Periodic: false,
        ParameterizedJob: false,
        Stop: false,
        CreateIndex: Index,
        ModifyIndex: Index,
        JobSummary: {
          JobID: "web",
          Namespace: "default",
          Summary: {},
          Children: null,
          CreateIndex: Index,
          ModifyIndex: Index,
        },
      },
    ]);
  });

  it("summarises the status of its allocations, and supports blocking until they change", async () => {
    const none = { Queued: 0, Starting: 0, Running: 0, Complete: 0, Failed: 0, Lost: 0, Unknown: 0 };
    const summary = async (query = "") => {
      const { JobSummary } = (await get(`/v1/jobs?${query}`)).body[0];
      expect((await get("/v1/job/web/summary")).body).toEqual(JobSummary);
      return JobSummary.Summary;
    };
    await report(
      job({ TaskGroups: [{ Name: "cache" }, { Name: "db" }] }),
      allocation({ ID: uuid(50) }, { Namespace: "a" }),
    );
    expect(await summary()).toEqual({ cache: none, db: none });
    const states = ["pending", "running", "running", "complete", "failed", "lost", "unknown"];
    await report(...states.map((ClientStatus, at) => allocation({ ID: uuid(at), ClientStatus })));
    await report(evaluation({ QueuedAllocations: { db: 3 } }), evaluation({ ID: uuid(60) }));
    const cache = { Queued: 0, Starting: 1, Running: 2, Complete: 1, Failed: 1, Lost: 1, Unknown: 1 };
    expect(await summary()).toEqual({ cache, db: { ...none, Queued: 3 } });
    const index = Number((await get("/v1/jobs")).headers.get("x-orch-index"));
    const waiting = summary(`index=${index}&wait=30s`);
    await report(allocation({ ID: uuid(1), ClientStatus: "complete" }), allocation({ ID: uuid(0), TaskGroup: "late" }));
    const late = { ...none, Running: 1 };
    expect(await waiting).toEqual({
      cache: { ...cache, Starting: 0, Running: 1, Complete: 2 },
      db: { ...none, Queued: 3 },
      late,
    });
    await report(...states.map((_state, at) => gone(allocation({ ID: uuid(at) }))));
    expect(await summary()).toEqual({ cache: none, db: { ...none, Queued: 3 } });
  });

  it("counts the jobs derived from it", async () => {
    const child = (ID: string, Status: string) => job({ ID: `web/${ID}`, ParentID: "web", Status });
    await report(job({ Periodic: { Enabled: true } }), child("1", "running"), child("2", "dead"), child("3", "dead"));
    expect((await get("/v1/job/web/summary")).body.Children).toEqual({ Pending: 0, Running: 1, Dead: 2 });
    await report(child("1", "dead"), gone(child("2", "dead")));
    expect((await get("/v1/job/web/summary")).body.Children).toEqual({ Pending: 0, Running: 0, Dead: 2 });
    expect((await get("/v1/job/none/summary")).status).toBe(404);
  });

  it("has the reported fields, and the service's own texts on request only", async () => {
    const object = { Name: "Web", Status: "running", Type: "batch", Priority: 50, Stop: true, Datacenters: ["dc1"] };
    await report(job({ ...object, Periodic: { Enabled: true }, Meta: { owner: "me" }, TaskGroups: [] }));
    const [plain] = (await get("/v1/jobs")).body;
    expect(plain).toMatchObject({ ...object, Periodic: true, ParameterizedJob: false });
    expect(Object.keys(plain)).not.toContain("Meta");
    expect(Object.keys(plain)).not.toContain("TaskGroups");
    expect((await get("/v1/jobs?meta=true")).body[0].Meta).toEqual({ owner: "me" });
  });
});

describe("an allocation's stub", () => {
  const transition = {
    ForceReschedule: null,
    Migrate: null,
    MigrateDisablePlacement: null,
    NoShutdownDelay: null,
    Reschedule: null,
  };

  it.each(["/v1/allocations", "/v1/job/web/allocations"])("has every field that upstream lists: %s", async (path) => {
    const Index = await report(allocation({ Job: { Version: 3, Type: "service" } }));
    expect((await get(path)).body).toEqual([
      {
        ID: uuid(1),
        EvalID: "",
        Name: "",
        Namespace: "default",
        NodeID: uuid(9),
        NodeName: "",
        JobID: "web",
        JobType: "service",
        JobVersion: 3,
        TaskGroup: "cache",
        DesiredStatus: "run",
        DesiredDescription: "",
        DesiredTransition: transition,
        ClientStatus: "running",
        ClientDescription: "",
        DeploymentStatus: null,
        FollowupEvalID: "",
        NextAllocation: "",
        RescheduleTracker: null,
        PreemptedAllocations: null,
        PreemptedByAllocation: "",
        CreateIndex: Index,
        ModifyIndex: Index,
        CreateTime: null,
        ModifyTime: null,
        TaskStates: null,
      },
    ]);
  });

  it("has resources on request, and task states unless disabled", async () => {
    const TaskStates = { cache: { State: "running", Restarts: 1 } };
    await report(allocation({ TaskStates, AllocatedResources: { Shared: { DiskMB: 300 } } }));
    const one = async (query: string) => (await get(`/v1/allocations?${query}`)).body[0];
    expect(await one("")).toMatchObject({ TaskStates });
    expect(Object.keys(await one(""))).not.toContain("AllocatedResources");
    expect(await one("resources=true&task_states=false")).toMatchObject({
      TaskStates: null,
      AllocatedResources: { Shared: { DiskMB: 300 } },
    });
    for (const [parameter, value] of [
      ["resources", "some"],
      ["task_states", "2"],
    ]) {
      const refused = await get(`/v1/allocations?${parameter}=${value}`);
      expect([refused.status, refused.text]).toEqual([400, `${parameter}: must be true or false`]);
    }
  });

  it("has the type of its job, unless it has its own", async () => {
    const types = async (path: string) => (await get(path)).body.map(({ JobType }: { JobType: string }) => JobType);
    await report(job({ Type: "system" }), allocation(), allocation({ ID: uuid(2), JobType: "batch" }));
    await report(allocation({ ID: uuid(3), JobID: "ghost" }));
    expect(await types("/v1/allocations")).toEqual(["system", "batch", "service"]);
    expect(await types(`/v1/node/${uuid(9)}/allocations`)).toEqual(["system", "batch", "service"]);
  });

  it("is the whole allocation in a node's list", async () => {
    await report(allocation({ Colour: "red" }));
    expect((await get(`/v1/node/${uuid(9)}/allocations`)).body).toMatchObject([{ ID: uuid(1), Colour: "red" }]);
  });
});

describe.each(READS)("%s/:id", (path, missing, make) => {
  it("returns the last report with this service's indexes", async () => {
    const created = await report(make({ ID: uuid(5), Status: undefined, A: 1 }));
    const modified = await report(make({ ID: uuid(5), Status: undefined, A: 2 }));
    const read = await get(`${path}/${uuid(5)}`);
    expect(read.body).toMatchObject({ ID: uuid(5), A: 2, CreateIndex: created, ModifyIndex: modified });
    expect(read.headers.get("x-orch-index")).toBe(String(modified));
    expect((await get(`${path}/${uuid(5)}?pretty`)).text).toContain('\n    "A": 2,');
  });

  it(`returns "${missing}" for an unknown or deleted object`, async () => {
    expect(await get(`${path}/${uuid(5)}`)).toMatchObject({ status: 404, text: missing });
    await report(make({ ID: uuid(5) }), gone(make({ ID: uuid(5) })));
    expect(await get(`${path}/${uuid(5)}`)).toMatchObject({ status: 404, text: missing });
  });

  it("requires the capability to read jobs in the object's namespace", async () => {
    await report(make({ ID: uuid(5) }, { Namespace: "prod" }));
    const query = path === "/v1/job" ? "?namespace=prod" : "";
    for (const [rules, status] of [
      ['namespace "prod" { capabilities = ["read-job"] }', 200],
      ['namespace "*" { policy = "read" }', 200],
      ['namespace "prod" { capabilities = ["list-jobs"] }', 403],
      ['namespace "default" { policy = "write" }', 403],
      ['namespace "*" { policy = "write" }\nnamespace "prod" { policy = "deny" }', 403],
      ['node { policy = "write" }', 403],
    ] as const) {
      const token = await tokenWith(rules);
      expect([rules, (await get(`${path}/${uuid(5)}${query}`, { token })).status]).toEqual([rules, status]);
    }
    expect((await get(`${path}/${uuid(5)}${query}`, { token: null })).status).toBe(403);
  });

  it("blocks until it changes or is deleted", async () => {
    const index = await report(make({ ID: uuid(5) }));
    const answered = get(`${path}/${uuid(5)}?index=${index}&wait=30s`);
    await report(make({ ID: uuid(6) }));
    const modified = await report(make({ ID: uuid(5), A: 2 }));
    expect((await answered).body).toMatchObject({ A: 2, ModifyIndex: modified });
    const ended = get(`${path}/${uuid(5)}?index=${modified}&wait=30s`);
    await report(gone(make({ ID: uuid(5) })));
    expect(await ended).toMatchObject({ status: 404, text: missing });
  });

  it("returns the current data after the wait", async () => {
    const index = await report(make({ ID: uuid(5) }));
    expect((await get(`${path}/${uuid(5)}?index=${index}&wait=50ms`)).body).toMatchObject({ ModifyIndex: index });
    expect((await get(`${path}/${uuid(6)}?index=${index}&wait=50ms`)).status).toBe(404);
  });
});

it("a job of the same name in another namespace is another job", async () => {
  await report(job({ Priority: 1 }, { Namespace: "a" }), job({ Priority: 2 }, { Namespace: "b" }));
  expect((await get("/v1/job/web?namespace=a")).body.Priority).toBe(1);
  expect((await get("/v1/job/web?namespace=b")).body.Priority).toBe(2);
  expect((await get("/v1/job/web")).status).toBe(404);
});

it("accepts an encoded slash in an id", async () => {
  await report(job({ ID: "cron/periodic-1" }));
  expect((await get("/v1/job/cron%2Fperiodic-1")).body.ID).toBe("cron/periodic-1");
});

describe.each([...LISTS, ...WITHIN])("%s (%s)", (path, topic, make) => {
  const within = path.split("/").length > 3;
  const order = [uuid(0x10), uuid(0x20), uuid(0x30), uuid(0x40), uuid(0x50)];
  const some = (...at: number[]) => at.map((each) => order[each] ?? "");
  const join = path.includes("?") ? "&" : "?";

  it("is empty at first, with an index to wait for", async () => {
    const empty = await get(path);
    expect([empty.status, empty.body, empty.headers.get("x-orch-index")]).toEqual([200, [], "1"]);
  });

  it("has a stable order, which can be reversed", async () => {
    for (const ID of order) await report(make({ ID }));
    expect(ids(await get(path))).toEqual(order);
    expect(ids(await get(`${path}${join}reverse=true`))).toEqual(order.toReversed());
    const pretty = await get(`${path}${join}pretty`);
    expect([ids(pretty), pretty.text.startsWith("[\n    {\n")]).toEqual([order, true]);
  });

  it.each(["", "&reverse=true"])(
    "is paged without repetitions or gaps, also when a page's first row is deleted (%s)",
    async (query) => {
      await report(...order.map((ID) => make({ ID })));
      const expected = query === "" ? order : order.toReversed();
      const first = await get(`${path}${join}per_page=2${query}`);
      expect(ids(first)).toEqual(expected.slice(0, 2));
      await report(gone(make({ ID: expected[2] })));
      const token = first.headers.get("x-orch-nexttoken");
      const second = await get(`${path}${join}per_page=2${query}&next_token=${token}`);
      expect(ids(second)).toEqual(expected.slice(3));
      expect(second.headers.get("x-orch-nexttoken")).toBeNull();
    },
  );

  it("is filtered by any field, unknown fields included", async () => {
    await report(...order.map((ID, at) => make({ ID, Nr: at, Tags: { [`t${at}`]: "x" } })));
    const filtered = async (filter: string, more = "") =>
      ids(await get(`${path}${join}filter=${encodeURIComponent(filter)}${more}`));
    expect(await filtered("Nr == 3")).toEqual(some(3));
    expect(await filtered("Tags contains t1 or Nr == 4")).toEqual(some(1, 4));
    expect(await filtered("Nr != 0", "&per_page=2")).toEqual(some(1, 2));
    expect(await filtered("Missing == 1")).toEqual([]);
    const refused = await get(`${path}${join}filter=Nr`);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("failed to read filter expression")]);
  });

  it("blocks until the list changes", async () => {
    const index = await report(make({ ID: order[0] }));
    const waiting = get(`${path}${join}index=${index}&wait=30s`);
    await report({ Topic: "Service", Type: "ServiceRegistration", Payload: { Service: { ID: "other" } } });
    const changed = await report(make({ ID: order[1] }));
    const answered = await waiting;
    expect([ids(answered), answered.headers.get("x-orch-index")]).toEqual([order.slice(0, 2), String(changed)]);
    const gently = get(`${path}${join}index=${changed}&wait=30s`);
    await report(gone(make({ ID: order[0] })));
    expect(ids(await gently)).toEqual(some(1));
  });

  it("refuses invalid parameters", async () => {
    for (const [query, message] of [
      ["per_page=some", "Expect a number for `per_page` query string parameter"],
      ["wait=5", "Invalid wait time"],
      ["index=-1", "Invalid index"],
      ...(topic === "Job" ? [] : [["next_token=other", "next_token: is not one of this list"]]),
      ...(topic === "Job" || within ? [] : [["prefix=abc", "prefix: must be an even number of hexadecimal digits"]]),
      ...(topic === "Job" || within ? [] : [["prefix=xy", "prefix: must be an even number of hexadecimal digits"]]),
    ] as const) {
      const refused = await get(`${path}${join}${query}`);
      expect([query, refused.status, refused.text]).toEqual([query, 400, expect.stringContaining(message ?? "")]);
    }
  });
});

describe.each(LISTS)("%s of several namespaces (%s)", (path, topic, make) => {
  const right = topic === "Job" ? "list-jobs" : "read-job";
  const [a, b, c] = [uuid(1), uuid(2), uuid(3)];
  beforeEach(async () => {
    await report(make({ ID: a }, { Namespace: "a" }), make({ ID: b }, { Namespace: "b" }), make({ ID: c }));
  });

  it("lists one namespace, default if none is given", async () => {
    expect(ids(await get(path))).toEqual([c]);
    expect(ids(await get(`${path}?namespace=b`))).toEqual([b]);
    expect(ids(await get(`${path}?namespace=none`))).toEqual([]);
  });

  it("lists all readable namespaces", async () => {
    for (const [rules, seen] of [
      [`namespace "a" { capabilities = ["${right}"] }`, [a]],
      [`namespace "*" { capabilities = ["${right}"] }\nnamespace "a" { policy = "deny" }`, [b, c]],
      ['namespace "*" { policy = "read" }', [a, b, c]],
    ] as const) {
      const token = await tokenWith(rules);
      expect([rules, ids(await get(`${path}?namespace=*`, { token })).sort()]).toEqual([rules, seen]);
    }
  });

  it("is refused without a capability in any of them", async () => {
    for (const [rules, namespace, status] of [
      [`namespace "a" { capabilities = ["${right}"] }`, "a", 200],
      [`namespace "a" { capabilities = ["${right}"] }`, "b", 403],
      ['namespace "a" { capabilities = ["csi-list-volume"] }', "a", 403],
      ['namespace "a" { capabilities = ["csi-list-volume"] }', "*", 403],
      ['node { policy = "write" }', "*", 403],
      ['namespace "a" { policy = "deny" }', "a", 403],
    ] as const) {
      const token = await tokenWith(rules);
      const answer = await get(`${path}?namespace=${namespace}`, { token });
      expect([rules, namespace, answer.status]).toEqual([rules, namespace, status]);
    }
    expect((await get(path, { token: null })).status).toBe(403);
  });
});

describe("a prefix", () => {
  it("finds jobs by name, in one namespace or all, in both directions, page by page", async () => {
    const names = ["api", "web", "web-1", "web-2", "wex"];
    await report(...names.map((ID) => job({ ID })), job({ ID: "web-0" }, { Namespace: "a" }));
    expect(ids(await get("/v1/jobs?prefix=web"))).toEqual(["web", "web-1", "web-2"]);
    expect(ids(await get("/v1/jobs?prefix=web&namespace=*"))).toEqual(["web", "web-0", "web-1", "web-2"]);
    expect(ids(await get("/v1/jobs?prefix=web&namespace=*&reverse=true"))).toEqual(["web-2", "web-1", "web-0", "web"]);
    for (const [query, pages] of [
      ["", [["web", "web-1"], ["web-2"]]],
      ["&reverse=true", [["web-2", "web-1"], ["web"]]],
      [
        "&namespace=*",
        [
          ["web", "web-0"],
          ["web-1", "web-2"],
        ],
      ],
      [
        "&namespace=*&reverse=true",
        [
          ["web-2", "web-1"],
          ["web-0", "web"],
        ],
      ],
    ] as const) {
      const first = await get(`/v1/jobs?prefix=web&per_page=2${query}`);
      const token = first.headers.get("x-orch-nexttoken");
      const second = await get(`/v1/jobs?prefix=web&per_page=2${query}&next_token=${token}`);
      expect([query, ids(first), ids(second)]).toEqual([query, ...pages]);
    }
  });

  it("with a token of another list loses and adds no rows", async () => {
    await report(...["api", "web-1", "web-2", "wex"].map((ID) => job({ ID })));
    expect(ids(await get("/v1/jobs?prefix=web&next_token=default.api"))).toEqual(["web-1", "web-2"]);
    expect(ids(await get("/v1/jobs?prefix=web&next_token=default.wex"))).toEqual([]);
    expect(ids(await get("/v1/jobs?prefix=web&next_token=default.wex&reverse=true"))).toEqual(["web-2", "web-1"]);
    expect(ids(await get("/v1/jobs?prefix=web&next_token=default.api&reverse=true"))).toEqual([]);
  });

  itRows(LISTS.slice(1))(
    "finds rows of %s by whole bytes of an id, with hyphens or without (%s)",
    async (path, _topic, make) => {
      await report(...["0a0b0000", "0a0b0001", "0a0c0000"].map((head) => make({ ID: `${head}${uuid(0).slice(8)}` })));
      const found = async (prefix: string) => ids(await get(`${path}?prefix=${prefix}`)).map((id) => id.slice(0, 8));
      expect(await found("0a")).toEqual(["0a0b0000", "0a0b0001", "0a0c0000"]);
      expect(await found("0A0B")).toEqual(["0a0b0000", "0a0b0001"]);
      expect(await found("0a0b00010000")).toEqual(["0a0b0001"]);
      expect(await found("0a0b0001-0000-40")).toEqual(["0a0b0001"]);
      expect(await found("ff")).toEqual([]);
    },
  );
});

describe("a read of an allocation", () => {
  const whole = async () => {
    const one = (await get(`/v1/allocation/${uuid(1)}`)).body;
    expect((await get(`/v1/node/${uuid(9)}/allocations`)).body).toEqual([one]);
    return one;
  };

  it("has the job in the allocation's version, which its event omits", async () => {
    const TaskGroups = [{ Name: "cache", Tasks: [{ Name: "redis", Driver: "docker" }] }];
    await report(job({ Type: "system", Version: 7, TaskGroups }), allocation({ JobVersion: 6 }));
    expect((await whole()).Job).toMatchObject({
      ID: "web",
      Name: "web",
      Type: "system",
      Version: 6,
      Priority: 50,
      Status: "",
      Datacenters: null,
      TaskGroups: [{ ...TaskGroups[0], Count: 1 }],
    });
    for (const { Payload } of await eventsOf("Allocation"))
      expect(Object.keys(Payload.Allocation)).not.toContain("Job");
  });

  it("has the allocation's own fields when its job is unknown or has lost the group", async () => {
    const TaskStates = { redis: { State: "running" } };
    await report(allocation({ TaskStates, JobType: "batch" }));
    const group = { Name: "cache", Count: 1, Tasks: [{ Name: "redis" }] };
    expect((await whole()).Job).toMatchObject({
      ID: "web",
      Namespace: "default",
      Type: "batch",
      Version: 0,
      TaskGroups: [group],
    });
    await report(job({ TaskGroups: [{ Name: "web" }] }));
    expect((await whole()).Job.TaskGroups).toMatchObject([{ Name: "web" }, group]);
  });

  it("has no job of the same name in another namespace", async () => {
    await report(job({ Type: "system" }, { Namespace: "a" }), allocation());
    expect(await whole()).toMatchObject({ JobType: "service", Job: { Type: "service", Namespace: "default" } });
  });
});

describe("an allocation of a job", () => {
  it("is found by its evaluation and by its deployment", async () => {
    const of = async (path: string) => ids(await get(path));
    await report(evaluation(), deployment({ ID: uuid(3) }), deployment({ ID: uuid(4) }));
    await report(
      allocation({ ID: uuid(1), EvalID: uuid(2), DeploymentID: uuid(3) }),
      allocation({ ID: uuid(5), EvalID: uuid(8), DeploymentID: uuid(4) }),
    );
    expect(await of(`/v1/evaluation/${uuid(2)}/allocations`)).toEqual([uuid(1)]);
    expect(await of(`/v1/evaluation/${uuid(8)}/allocations`)).toEqual([]);
    expect(await of(`/v1/deployment/allocations/${uuid(4)}`)).toEqual([uuid(5)]);
    expect((await get("/v1/job/web/deployment")).body.ID).toBe(uuid(4));
    const none = await get("/v1/job/none/deployment");
    expect([none.status, none.body]).toEqual([200, null]);
    expect((await get("/v1/job/web/versions")).status).toBe(404);
    await report(job({ Version: 3 }));
    expect((await get("/v1/job/web/versions")).body).toMatchObject({
      Versions: [{ ID: "web", Version: 3 }],
      Diffs: null,
    });
  });
});

describe("evaluations", () => {
  it("are found by job and status parameters, which a filter replaces", async () => {
    const make = (nr: number, JobID: string, Status: string) => evaluation({ ID: uuid(nr), JobID, Status });
    await report(make(1, "web", "pending"), make(2, "web", "complete"), make(3, "api", "complete"));
    expect(ids(await get("/v1/evaluations?job=web"))).toEqual([uuid(1), uuid(2)]);
    expect(ids(await get("/v1/evaluations?status=complete"))).toEqual([uuid(2), uuid(3)]);
    expect(ids(await get("/v1/evaluations?status=complete&job=web&namespace=*"))).toEqual([uuid(2)]);
    expect(await get("/v1/evaluations?job=web&filter=Status==complete")).toMatchObject({
      status: 400,
      text: "Filter expression cannot be used with other filter parameters",
    });
  });
});

describe("allocations of a node", () => {
  it("are listed in all readable namespaces", async () => {
    await report(
      allocation({ ID: uuid(1) }, { Namespace: "a" }),
      allocation({ ID: uuid(2), ClientStatus: "complete" }),
      allocation({ ID: uuid(3), NodeID: uuid(8) }),
    );
    const path = `/v1/node/${uuid(9)}/allocations`;
    expect(ids(await get(path))).toEqual([uuid(1), uuid(2)]);
    const both = 'node { policy = "read" }\nnamespace "a" { capabilities = ["read-job"] }';
    expect(ids(await get(path, { token: await tokenWith(both) }))).toEqual([uuid(1)]);
    expect(ids(await get(path, { token: await tokenWith('node { policy = "read" }') }))).toEqual([]);
    expect((await get(path, { token: await tokenWith('namespace "*" { policy = "write" }') })).status).toBe(403);
  });

  it("follow an allocation that moves", async () => {
    await report(allocation());
    await report(allocation({ NodeID: uuid(8) }), node({ ID: uuid(8) }));
    expect((await get(`/v1/node/${uuid(9)}/allocations`)).body).toEqual([]);
    expect(ids(await get(`/v1/node/${uuid(8)}/allocations`))).toEqual([uuid(1)]);
  });
});

it("a blocking query returns when the event line of a report is published, not before", async () => {
  const index = await report(job());
  const append = vi.spyOn(EventLog.prototype, "append").mockRejectedValue(new Error("the log is down"));
  expect((await send([job({ Priority: 9 })])).body.Index).toBeNull();
  const waiting = get(`/v1/job/web?index=${index}&wait=30s`);
  const early = await Promise.race([waiting, scheduler.wait(200)]);
  expect(early).toBeUndefined();
  append.mockRestore();
  const answered = await waiting;
  expect(answered.body).toMatchObject({ Priority: 9, CreateIndex: index });
  expect(answered.body.ModifyIndex).toBeGreaterThan(index);
});
