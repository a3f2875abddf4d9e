import { afterEach, describe, expect, it, vi } from "vitest";
import { clusterRoutes, secretsRoutes } from "../../src/routes/table.ts";
import { eventsOf, issue } from "./access.ts";
import { type Answer, del, put } from "./client.ts";
import { fingerprint, ID, registry } from "./nodes-helpers.ts";
import { allocation, deployment, evaluation, gone, job, type Reported, report, send } from "./reports.ts";
import { closeAll, openStream } from "./streams.ts";

/* Promises about the stream as a whole (docs/internals/coverage.md). */

afterEach(closeAll);

const policy = () => put("/v1/acl/policy/p", { Rules: 'node { policy = "read" }' });
const token = async () => (await put("/v1/acl/token", { Name: "t", Type: "client", Policies: ["p"] })).body.AccessorID;
const register = () => registry().registerNode(ID, fingerprint());
const eligibility = (Eligibility: string) => put(`/v1/node/${ID}/eligibility`, { Eligibility });
const drain = () => put(`/v1/node/${ID}/drain`, { DrainSpec: { Deadline: 0 } });
const purge = () => put(`/v1/node/${ID}/purge?force=true`, {});
const as = (Type: string, reported: Reported) => () => report({ ...reported, Type });

/** Each documented event type: its cause and its topic. */
const TYPES: readonly (readonly [type: string, topic: string, make: () => Promise<unknown>])[] = [
  ["ACLTokenUpserted", "ACLToken", () => issue()],
  ["ACLTokenDeleted", "ACLToken", async () => del(`/v1/acl/token/${await policy().then(token)}`)],
  ["ACLPolicyUpserted", "ACLPolicy", policy],
  ["ACLPolicyDeleted", "ACLPolicy", async () => policy().then(() => del("/v1/acl/policy/p"))],
  ["AllocationCreated", "Allocation", as("AllocationCreated", allocation())],
  ["AllocationUpdated", "Allocation", as("AllocationUpdated", allocation())],
  ["AllocationUpdateDesiredStatus", "Allocation", as("AllocationUpdateDesiredStatus", allocation())],
  ["DeploymentStatusUpdate", "Deployment", as("DeploymentStatusUpdate", deployment())],
  ["DeploymentPromotion", "Deployment", as("DeploymentPromotion", deployment())],
  ["DeploymentAllocHealth", "Deployment", as("DeploymentAllocHealth", deployment())],
  ["EvaluationUpdated", "Evaluation", as("EvaluationUpdated", evaluation())],
  ["JobRegistered", "Job", as("JobRegistered", job())],
  ["JobDeregistered", "Job", as("JobDeregistered", gone(job()))],
  ["JobBatchDeregistered", "Job", as("JobBatchDeregistered", gone(job()))],
  ["NodeRegistration", "Node", register],
  ["NodeDeregistration", "Node", () => register().then(purge)],
  ["NodeEligibility", "Node", () => register().then(() => eligibility("ineligible"))],
  ["NodeDrain", "NodeDrain", () => register().then(drain)],
  ["NodeEvent", "Node", () => register().then(() => registry().nodeConnected(ID))],
  ["PlanResult", "Allocation", as("PlanResult", allocation())],
];

describe("event types", () => {
  // Proves: C.type.AllocationCreated, C.type.AllocationUpdateDesiredStatus, C.type.AllocationUpdated,
  // C.type.DeploymentAllocHealth, C.type.DeploymentPromotion, C.type.DeploymentStatusUpdate, C.type.EvaluationUpdated,
  // C.type.JobBatchDeregistered, C.type.JobDeregistered, C.type.JobRegistered, C.type.PlanResult, E.events.3
  it.each(TYPES)("%s is an event of topic %s", async (type, topic, make) => {
    await make();
    const events = await eventsOf(topic);
    // The payload is under the object's name: that of a drain is the node.
    const object = topic === "NodeDrain" ? "Node" : topic;
    const told = events.find(({ Type }) => Type === type);
    expect(told, JSON.stringify(events)).toMatchObject({ Topic: topic, Payload: { [object]: expect.any(Object) } });
  });
});

// Proves: C.stream.cluster-events, E.events.1.only, E.events.3
it("one stream contains every change of the cluster by any caller under its eight topics", async () => {
  const stream = await openStream("?namespace=*&index=-1");
  await stream.next();
  await policy();
  await token();
  await report(job({ ID: "web" }), evaluation(), deployment(), allocation());
  await register();
  await drain();
  const seen: { Topic: string; Index: number }[] = [];
  while (seen.at(-1)?.Topic !== "NodeDrain") seen.push(...(await stream.nextLine()).Events);
  expect(seen.map(({ Topic }) => Topic)).toEqual([
    "ACLPolicy",
    "ACLToken",
    "Job",
    "Evaluation",
    "Deployment",
    "Allocation",
    "Node",
    "NodeDrain",
  ]);
  const indexes = seen.map(({ Index }) => Index);
  expect(indexes).toEqual([...indexes].sort((a, b) => a - b));
});

// Proves: E.events.1.only
it("the stream and subscriptions are the only paths to events, and no webhook is called without one", async () => {
  const paths = [...clusterRoutes.routes, ...secretsRoutes.routes].map(({ path }) => path);
  expect(paths.filter((path) => /event|stream|subscri|hook|notif|watch/i.test(path))).toEqual([
    "/event/stream",
    "/event/subscriptions",
    ...["", "", "", "/dead-letters", "/replay", "/pause", "/resume"].map((rest) => `/event/subscription/:name${rest}`),
    "/sys/events/subscribe/:eventType+",
    "/sys/events/subscribe",
    // Rules and channels of notifications, whose channels are subscriptions.
    "/sys/notifications/channels",
    ...["", "", "", "/test", "/resume"].map((rest) => `/sys/notifications/channels/:name${rest}`),
    "/sys/notifications/rules",
    ...["", "", ""].map((rest) => `/sys/notifications/rules/:name${rest}`),
    "/sys/notifications/active",
  ]);
  const calls = vi.spyOn(globalThis, "fetch");
  await policy();
  await report(job());
  await register();
  expect(calls).not.toHaveBeenCalled();
});

// Proves: C.payload.Allocation.no-job
it("an Allocation event contains no job, except the job's version and type", async () => {
  const Job = { ID: "web", Version: 3, Type: "batch", TaskGroups: [{ Name: "g" }], Meta: { s3cret: "x" } };
  await report(allocation({ Job }));
  const [{ Payload }] = await eventsOf("Allocation");
  expect(Payload.Allocation).not.toHaveProperty("Job");
  expect(JSON.stringify(Payload)).not.toMatch(/TaskGroups|s3cret/);
});

it("every write returns the index of its event line, deletions included", async () => {
  const told = async (write: () => Promise<Answer>) => {
    const stream = await openStream("?namespace=*&index=-1");
    await stream.next();
    const answer = await write();
    expect(answer.status, answer.text).toBe(200);
    const { Index } = await stream.nextLine();
    expect(answer.headers.get("X-Orch-Index")).toBe(String(Index));
    await stream.close();
    return answer;
  };
  await told(() => policy());
  await told(() => policy());
  const made = await told(() => put("/v1/acl/token", { Name: "t", Type: "client", Policies: ["p"] }));
  const path = `/v1/acl/token/${made.body.AccessorID}`;
  await told(() => put(path, { Name: "u", Type: "client", Policies: ["p"] }));
  await told(() => del(path));
  await told(() => del("/v1/acl/policy/p"));
  await told(() => send([job()]));
  await register();
  await told(() => eligibility("ineligible"));
  await told(() => purge());
});
