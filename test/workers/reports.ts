import { env } from "cloudflare:workers";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { holderOf } from "./access.ts";
import { type Answer, put } from "./client.ts";

/** Helpers for tests of reported objects. */

/** One id of each number, in order. */
export const uuid = (number: number): string => `${number.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;

export interface Reported {
  readonly Topic: string;
  readonly Type: string;
  readonly Namespace?: string;
  readonly Payload: Record<string, unknown>;
}

const event =
  (topic: string, type: string, base: object) =>
  (object: object = {}, more: object = {}): Reported => ({
    Topic: topic,
    Type: type,
    Payload: { [topic]: { ...base, ...object } },
    ...more,
  });

export const job = event("Job", "JobRegistered", { ID: "web" });
export const allocation = event("Allocation", "AllocationUpdated", {
  ID: uuid(1),
  JobID: "web",
  TaskGroup: "cache",
  NodeID: uuid(9),
  ClientStatus: "running",
  DesiredStatus: "run",
});
export const evaluation = event("Evaluation", "EvaluationUpdated", { ID: uuid(2), JobID: "web", Status: "complete" });
export const deployment = event("Deployment", "DeploymentStatusUpdate", {
  ID: uuid(3),
  JobID: "web",
  Status: "running",
});
export const service = event("Service", "ServiceRegistration", {
  ID: "_nomad-task-1",
  JobID: "web",
  ServiceName: "http",
  Port: 80,
});
export const nodePool = event("NodePool", "NodePoolUpserted", { Name: "gpu" });
export const node = event("Node", "NodeRegistration", {
  ID: uuid(9),
  Name: "n1",
  Datacenter: "dc1",
  Attributes: { a: "b" },
});

/** The event of an object's deletion. */
export const gone = (event: Reported): Reported => ({ ...event, Payload: { ...event.Payload, Deleted: true } });

export const send = (events: unknown, query = ""): Promise<Answer> => put(`/v1/cluster/objects${query}`, events);

/** Reports; fails the test when that is refused. @returns the line's index */
export async function report(...events: readonly unknown[]): Promise<number> {
  const taken = await send(events);
  if (taken.status !== 200) throw new Error(`report refused: ${taken.status} ${taken.text}`);
  return taken.body.Index;
}

/** A token with rules of the cluster API. */
export const tokenWith = async (rules: string): Promise<string> => (await holderOf(rules)).client_token;

/** Reports as the Worker hands them over, for tests that need many of them. */
export const registry = () => clusterRegistry(env);
