import type { ReportedTopic } from "../../../contracts/reports.ts";
import { Allocation } from "./allocation.ts";
import { Deployment } from "./deployment.ts";
import { Evaluation } from "./evaluation.ts";
import { Job } from "./job.ts";
import { NodePool } from "./node-pool.ts";
import { Service } from "./service.ts";
import type { Topic } from "./topic.ts";
import { Variable } from "./variable.ts";

/** The topics whose objects are stored as reported. */
export const TOPICS: Readonly<Record<ReportedTopic, Topic>> = {
  Job,
  Allocation,
  Evaluation,
  Deployment,
  Service,
  NodePool,
  Variable,
};

/** The payload's member that holds the object of a topic. */
export const memberOf = (topic: ReportedTopic): string => TOPICS[topic].member ?? topic;
