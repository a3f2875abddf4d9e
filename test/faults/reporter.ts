import type { Client } from "./client.ts";

/** A scheduler that reports with its own numbers, each until it is answered: published exactly once. */
export class Reporter {
  readonly #client: Client;
  readonly #source: string;
  readonly wrong: string[] = [];
  #number = 0;

  constructor(client: Client, source: string) {
    this.#client = client;
    this.#source = source;
  }

  async report(events: readonly object[]): Promise<void> {
    const path = `/v1/cluster/objects?source=${this.#source}&source_index=${++this.#number}`;
    if (!(await this.#client.insist("PUT", path, events, [200])))
      this.wrong.push(`report ${this.#number} of ${this.#source} got no answer`);
  }
}

export interface Usage {
  readonly jobId: string;
  readonly allocId: string;
  readonly begins: readonly object[];
  readonly ends: readonly object[];
  readonly isForgotten: readonly object[];
}

/** A scheduler's reports of a job that uses a volume for a while, by an allocation on a node. */
export function usage(name: string, nodeId: string, volume: object): Usage {
  const [jobId, allocId] = [`job-${name}`, `alloc-${name}`];
  const event = (topic: string, type: string, object: object, more: object = {}) => ({
    Topic: topic,
    Type: type,
    Namespace: "default",
    Payload: { [topic]: object, ...more },
  });
  const TaskGroups = [{ Name: "main", Volumes: { disk: { Name: "disk", ...volume } } }];
  const job = { ID: jobId, Version: 1, TaskGroups };
  const allocation = (ClientStatus: string) =>
    event("Allocation", "AllocationUpdated", {
      ID: allocId,
      JobID: jobId,
      JobVersion: 1,
      TaskGroup: "main",
      Name: `${jobId}.main[0]`,
      NodeID: nodeId,
      ClientStatus,
      DesiredStatus: "run",
    });
  return {
    jobId,
    allocId,
    begins: [event("Job", "JobRegistered", job), allocation("running")],
    ends: [allocation("complete")],
    isForgotten: [event("Job", "JobDeregistered", job, { Deleted: true })],
  };
}
