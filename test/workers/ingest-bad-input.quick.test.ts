import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { get, send as request } from "./client.ts";
import {
  allocation,
  deployment,
  evaluation,
  job,
  node,
  nodePool,
  report,
  send,
  service,
  tokenWith,
} from "./reports.ts";

/** Whatever is refused, nothing of it has happened: an object that stood before stands as it was, and alone. */
async function nothingHappened(): Promise<void> {
  const jobs = await get("/v1/jobs?namespace=*");
  expect(jobs.body.map(({ ID, ModifyIndex }: { ID: string; ModifyIndex: number }) => [ID, ModifyIndex])).toEqual([
    ["before", before],
  ]);
  for (const list of ["allocations", "evaluations", "deployments"]) {
    expect((await get(`/v1/${list}?namespace=*`)).body).toEqual([]);
  }
}

let before = 0;
beforeEach(async () => {
  before = await report(job({ ID: "before" }));
});

const long = "x".repeat(257);
const deep = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;
const text = (raw: string) => JSON.stringify(job({ Raw: "RAW" })).replace('"RAW"', raw);

describe("an invalid report returns an error that names the cause", () => {
  /** The second of two events, so that its number is reported and the first is not stored either. */
  const events: [string, object | number | null, string][] = [
    ["no object", 7, "event 2: must be an object"],
    ["null", null, "event 2: must be an object"],
    ["a list", [], "event 2: must be an object"],
    ["no topic", { Type: "JobRegistered", Payload: {} }, "event 2: Topic: must be one of Job, Allocation"],
    ["an unknown topic", { ...job(), Topic: "Jobs" }, "event 2: Topic: must be one of"],
    ["a topic that cannot be reported", { ...job(), Topic: "ACLToken" }, "event 2: Topic: must be one of"],
    ["a topic of the wrong type", { ...job(), Topic: 7 }, "event 2: Topic: "],
    ["no type", { Topic: "Job", Payload: { Job: { ID: "x" } } }, "event 2: Type: is not a type"],
    ["an unknown type", { ...job(), Type: "JobMade" }, "event 2: Type: is not a type"],
    ["an unknown type of a node", { ...node(), Type: "JobRegistered" }, "event 2: Type: is not a type"],
    ["an unknown field", { ...job(), Colour: "red" }, "event 2: unknown field Colour"],
    ["a namespace of the wrong type", { ...job(), Namespace: 7 }, "event 2: Namespace: "],
    ["a namespace with a dot", { ...job(), Namespace: "a.b" }, "event 2: Namespace: must match"],
    ["all namespaces", { ...job(), Namespace: "*" }, "event 2: Namespace: must match"],
    ["a namespace that is too long", { ...job(), Namespace: "n".repeat(129) }, "event 2: Namespace: must match"],
    ["an object's bad namespace", job({ Namespace: "a/b" }), "event 2: Payload.Job.Namespace: must match"],
    [
      "an object of another namespace",
      job({ Namespace: "a" }, { Namespace: "b" }),
      "event 2: Payload.Job.Namespace: must be the event's Namespace",
    ],
    [
      "a node pool with a namespace",
      { ...nodePool(), Namespace: "a" },
      "event 2: Namespace: must be empty, as a NodePool",
    ],
    ["a node with a namespace", { ...node(), Namespace: "a" }, "event 2: Namespace: must be empty, as a Node"],
    ["no payload", { Topic: "Job", Type: "JobRegistered" }, "event 2: Payload: "],
    ["a payload of the wrong type", { ...job(), Payload: [] }, "event 2: Payload: "],
    ["an empty payload", { ...job(), Payload: {} }, "event 2: Payload.Job: "],
    ["another topic's payload", { ...job(), Payload: { Node: {} } }, "event 2: Payload.Job: "],
    ["a second object", { ...job(), Payload: { Job: { ID: "x" }, Node: {} } }, "event 2: Payload: unknown field Node"],
    ["no object in it", { ...job(), Payload: { Job: "x" } }, "event 2: Payload.Job: "],
    ["null in it", { ...job(), Payload: { Job: null } }, "event 2: Payload.Job: "],
    [
      "Deleted of another kind",
      { ...job(), Payload: { Job: { ID: "x" }, Deleted: "yes" } },
      "event 2: Payload.Deleted: ",
    ],
    [
      "Timeout of a job",
      { ...job(), Payload: { Job: { ID: "x" }, Timeout: true } },
      "event 2: Payload: unknown field Timeout",
    ],
    [
      "Timeout of another kind",
      { ...allocation(), Payload: { ...allocation().Payload, Timeout: 1 } },
      "event 2: Payload.Timeout: ",
    ],
    [
      "TimeoutReason of another kind",
      { ...allocation(), Payload: { ...allocation().Payload, TimeoutReason: 1 } },
      "event 2: Payload.TimeoutReason: ",
    ],
    ["no id", { ...job(), Payload: { Job: {} } }, "event 2: Payload.Job.ID: "],
    ["an empty id", job({ ID: "" }), "event 2: Payload.Job.ID: must not be empty"],
    ["an id of the wrong type", job({ ID: 7 }), "event 2: Payload.Job.ID: "],
    ["an id that is too long", job({ ID: long }), "event 2: Payload.Job.ID: must be at most 256 bytes"],
    ["an id of too many bytes", job({ ID: "é".repeat(129) }), "event 2: Payload.Job.ID: must be at most 256 bytes"],
    ["an id with a line's end", job({ ID: "a\nb" }), "event 2: Payload.Job.ID: must not hold control characters"],
    ["an id with half a character", job({ ID: "a\ud800" }), "event 2: Payload.Job.ID: must not hold control"],
    [
      "a pool without a name",
      { ...nodePool(), Payload: { NodePool: { ID: "x" } } },
      "event 2: Payload.NodePool.Name: ",
    ],
    ["a node without an id", node({ ID: undefined }), "event 2: Payload.Node.ID: "],
    ["a node whose id is no UUID", node({ ID: "n1" }), "event 2: Payload.Node.ID: must be a UUID"],
    [
      "a job's status",
      job({ Status: "complete" }),
      "event 2: Payload.Job.Status: must be one of pending, running, dead",
    ],
    ["a job's type", job({ Type: "cron" }), "event 2: Payload.Job.Type: must be one of service, batch"],
    ["a job's priority", job({ Priority: "50" }), "event 2: Payload.Job.Priority: must be an integer of 64 bits"],
    ["a job's priority with a fraction", job({ Priority: 1.5 }), "event 2: Payload.Job.Priority: must be an integer"],
    ["a job's time", job({ SubmitTime: "today" }), "event 2: Payload.Job.SubmitTime: must be an integer"],
    ["a job's index", job({ JobModifyIndex: null }), "event 2: Payload.Job.JobModifyIndex: must be an integer"],
    ["a job's flag", job({ Stop: "true" }), "event 2: Payload.Job.Stop: "],
    ["a job's map", job({ Meta: { a: 1 } }), "event 2: Payload.Job.Meta.a: "],
    ["a job's list", job({ Datacenters: "dc1" }), "event 2: Payload.Job.Datacenters: "],
    ["an item of a job's list", job({ Datacenters: ["dc1", 2] }), "event 2: Payload.Job.Datacenters.1: "],
    ["a task group", job({ TaskGroups: [7] }), "event 2: Payload.Job.TaskGroups.0: "],
    ["a task group's name", job({ TaskGroups: [{ Name: 7 }] }), "event 2: Payload.Job.TaskGroups.0.Name: "],
    [
      "a task group's volume",
      job({ TaskGroups: [{ Name: "g", Volumes: { v: { Type: "nfs" } } }] }),
      "event 2: Payload.Job.TaskGroups.0.Volumes.v.Type: must be one of host, csi",
    ],
    [
      "a task group's volume's flag",
      job({ TaskGroups: [{ Name: "g", Volumes: { v: { Sticky: 1 } } }] }),
      "event 2: Payload.Job.TaskGroups.0.Volumes.v.Sticky: ",
    ],
    [
      "an allocation's status",
      allocation({ ClientStatus: "dead" }),
      "event 2: Payload.Allocation.ClientStatus: must be",
    ],
    [
      "an allocation's wish",
      allocation({ DesiredStatus: "dead" }),
      "event 2: Payload.Allocation.DesiredStatus: must be",
    ],
    ["an allocation's job", allocation({ JobID: ["web"] }), "event 2: Payload.Allocation.JobID: "],
    ["an allocation's long job", allocation({ JobID: long }), "event 2: Payload.Allocation.JobID: must be at most 256"],
    ["an allocation's node", allocation({ NodeID: 9 }), "event 2: Payload.Allocation.NodeID: "],
    ["an allocation's group", allocation({ TaskGroup: null }), "event 2: Payload.Allocation.TaskGroup: "],
    [
      "an allocation's version",
      allocation({ Job: { Version: "3" } }),
      "event 2: Payload.Allocation.Job.Version: must be",
    ],
    [
      "an allocation's time",
      allocation({ CreateTime: 1.5 }),
      "event 2: Payload.Allocation.CreateTime: must be an integer",
    ],
    ["an allocation's tasks", allocation({ TaskStates: [] }), "event 2: Payload.Allocation.TaskStates: "],
    [
      "a task's restarts",
      allocation({ TaskStates: { t: { Restarts: "1" } } }),
      "event 2: Payload.Allocation.TaskStates.t.Restarts: must be an integer",
    ],
    [
      "a transition",
      allocation({ DesiredTransition: { Migrate: "yes" } }),
      "event 2: Payload.Allocation.DesiredTransition.Migrate: ",
    ],
    ["an evaluation's status", evaluation({ Status: "running" }), "event 2: Payload.Evaluation.Status: must be one of"],
    ["an evaluation's priority", evaluation({ Priority: true }), "event 2: Payload.Evaluation.Priority: must be"],
    [
      "an evaluation's queue",
      evaluation({ QueuedAllocations: { web: "1" } }),
      "event 2: Payload.Evaluation.QueuedAllocations.web: must be",
    ],
    ["a deployment's status", deployment({ Status: "canceled" }), "event 2: Payload.Deployment.Status: must be one of"],
    ["a deployment's version", deployment({ JobVersion: "1" }), "event 2: Payload.Deployment.JobVersion: must be"],
    [
      "a deployment's group",
      deployment({ TaskGroups: { web: { Promoted: 1 } } }),
      "event 2: Payload.Deployment.TaskGroups.web.Promoted: ",
    ],
    ["a service's port", service({ Port: "80" }), "event 2: Payload.Service.Port: must be an integer"],
    ["a service's tags", service({ Tags: [1] }), "event 2: Payload.Service.Tags.0: "],
    ["a service's name", service({ ServiceName: long }), "event 2: Payload.Service.ServiceName: must be at most"],
    ["a pool's meta", nodePool({ Meta: { a: true } }), "event 2: Payload.NodePool.Meta.a: "],
    ["a pool's lifetime", nodePool({ NodeIdentityTTL: "1h" }), "event 2: Payload.NodePool.NodeIdentityTTL: must be"],
    ["a node's status", node({ Status: "up" }), "event 2: Payload.Node.Status: "],
    ["a node's attributes", node({ Attributes: { a: 1 } }), "event 2: Payload.Node.Attributes.a: "],
    [
      "a line among events",
      { Index: 7, Events: [job()] },
      "event 2: Events: lines of a stream come without other events",
    ],
  ];
  it("per event and field", async () => {
    for (const [what, bad, message] of events) {
      const refused = await send([job({ ID: "good" }), bad]);
      expect([what, refused.status, refused.text]).toEqual([what, 400, expect.stringContaining(message)]);
      expect(refused.headers.get("content-type")).toBe("text/plain; charset=utf-8");
      await nothingHappened();
    }
  });

  const bodies: [string, string, number, string][] = [
    ["an empty body", "", 400, "Request body is empty"],
    ["a body of spaces", " \n ", 400, "Request body is empty"],
    ["no events", "[]", 400, "request body: has no events"],
    ["something else than events", '"Job"', 400, "request body: must be events in JSON"],
    ["a body that is not JSON", "[{]", 400, "request body: is not valid JSON"],
    ["a body with more after it", `${JSON.stringify([job()])}x`, 400, "request body: is not valid JSON"],
    ["a line that is not JSON", `${JSON.stringify(job())}\n{"Topic":`, 400, "event 2: is not valid JSON"],
    ["a line that is not an object", `${JSON.stringify(job())}\n7`, 400, "event 2: must be an object"],
    [
      "a number beyond 64 bits",
      `[${JSON.stringify(job()).replace('"ID"', '"Priority":9223372036854775808,"ID"')}]`,
      400,
      "event 1: Payload.Job.Priority: must be an integer of 64 bits",
    ],
    [
      "a number written as 1.0",
      `[${JSON.stringify(job()).replace('"ID"', '"Priority":1.0,"ID"')}]`,
      400,
      "event 1: Payload.Job.Priority: must be an integer of 64 bits",
    ],
    ["a body that is nested too deeply", `[${text(deep(200))}]`, 400, "event 1: nested deeper than 128"],
    [
      "a line that is nested too deeply",
      `${JSON.stringify(job())}\n${text(deep(200))}`,
      400,
      "event 2: nested deeper than 128",
    ],
    ["a stream's line with more to it", '{"Index":7,"Events":[],"Error":{}}', 400, "unknown field Error"],
    ["a stream's line of the wrong type", '{"Index":7,"Events":{}}', 400, "Events: "],
    ["a stream's index of the wrong type", '{"Index":"7","Events":[]}', 400, "Index: must be an integer"],
    ["a stream's index below 0", '{"Index":-7,"Events":[]}', 400, "Index: "],
    ["an event of a stream's line", '{"Index":7,"Events":[{"Topic":"X"}]}', 400, "event 1: Topic: must be one of"],
  ];
  it("for the body", async () => {
    for (const [what, body, status, message] of bodies) {
      const refused = await send(body);
      expect([what, refused.status, refused.text]).toEqual([what, status, expect.stringContaining(message)]);
      await nothingHappened();
    }
  });

  const queries: [string, string, string][] = [
    ["a source without its index", "?source=eu", "source_index: must be given with source"],
    ["an index without its source", "?source_index=7", "source: must be given with source_index"],
    ["an empty source", "?source=&source_index=7", "source: must match"],
    ["a source with a space", "?source=a%20b&source_index=7", "source: must match"],
    ["a source that is too long", `?source=${"a".repeat(129)}&source_index=7`, "source: must match"],
    ["an empty index", "?source=eu&source_index=", "source_index: must be an integer"],
    ["an index below 0", "?source=eu&source_index=-1", "source_index: must be an integer"],
    ["an index with a fraction", "?source=eu&source_index=1.5", "source_index: must be an integer"],
    ["an index in words", "?source=eu&source_index=seven", "source_index: must be an integer"],
    [
      "an index of 2^53",
      "?source=eu&source_index=9007199254740992",
      "source_index: must be an integer from 0 to 2^53 - 1",
    ],
    ["all namespaces", "?namespace=*", "namespace: must match"],
    ["a namespace with a slash", "?namespace=a/b", "namespace: must match"],
  ];
  it("for the query", async () => {
    for (const [what, query, message] of queries) {
      const refused = await send([job({ ID: "good" })], query);
      expect([what, refused.status, refused.text]).toEqual([what, 400, expect.stringContaining(message)]);
      await nothingHappened();
    }
  });
});

it("repeats no refused content in errors", async () => {
  for (const body of ['{"Topic":"s3cret', `[{"Topic":"s3cret"}]`, JSON.stringify([job({ Status: "s3cret" })])]) {
    expect((await send(body)).text).not.toContain("s3cret");
  }
});

describe("access to reports", () => {
  itRows<[string, number]>([
    ['operator { policy = "write" }', 200],
    ['operator { policy = "read" }', 403],
    ['namespace "*" { policy = "write" }', 403],
    ['node { policy = "write" }', 403],
  ])("with %s returns %i", async (rules, status) => {
    const token = await tokenWith(rules);
    expect((await request("PUT", "/v1/cluster/objects", [job({ ID: "before" })], { token })).status).toBe(status);
  });

  it("is refused without a token", async () => {
    const refused = await request("POST", "/v1/cluster/objects", [job()], { token: null });
    expect([refused.status, refused.text]).toEqual([403, "Permission denied"]);
    await nothingHappened();
  });
});
