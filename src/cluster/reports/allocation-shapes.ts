import type { ReportedObject } from "../../contracts/reports.ts";
import { isPlainObject, parseLossless } from "../../lib/json.ts";
import { completed, completeJob, groupsOf, PLAIN_JOB } from "./job-shapes.ts";
import { type Fields, isSet, objectOf, textOf } from "./topics/topic.ts";

/**
 * Allocations as reads show them. Nomad's clients dereference `Job`, `Resources` and `Metrics` without a nil check, so
 * they are derived when the report has none. Events keep allocations as reported.
 */

/** A stored allocation, with the version of its job. */
export function allocationOf({ body, jobVersion }: Pick<ReportedObject, "body" | "jobVersion">): Fields {
  const allocation = parseLossless(body) as Fields;
  return jobVersion === null ? allocation : { ...allocation, JobVersion: jobVersion };
}

/** Parses a job's text from `JobJoins`. */
export const jobIn = (text: string | undefined): Fields | null =>
  text === undefined ? null : (parseLossless(text) as Fields);

/** The type of an allocation's job: from the allocation, else from the job. */
const jobTypeOf = (allocation: Fields, job: Fields | null): string =>
  textOf(allocation, "JobType") || textOf(job ?? {}, "Type") || PLAIN_JOB.Type;

export const withJobType = (allocation: Fields, job: Fields | null): Fields => ({
  ...allocation,
  JobType: jobTypeOf(allocation, job),
});

/** A whole allocation. @param job the job in the allocation's version, if it is known */
export function completeAllocation(allocation: Fields, job: Fields | null): Fields {
  const Job = jobOf(allocation, job);
  const group = groupsOf(Job).find((each) => textOf(each, "Name") === textOf(allocation, "TaskGroup")) ?? {};
  const allocated = allocatedTo(allocation) ?? requestedBy(group);
  const whole = {
    ...withJobType(allocation, job),
    Job,
    TaskResources: isSet(allocation, "TaskResources") ? allocation["TaskResources"] : allocated.tasks,
  };
  return {
    ...whole,
    Resources: completed(objectOf(allocation, "Resources") ?? {}, totalOf(allocated)),
    Metrics: completed(objectOf(allocation, "Metrics") ?? {}, metricsOf(allocation)),
  };
}

/** The allocation's job, else one derived from the allocation. */
function jobOf(allocation: Fields, job: Fields | null): Fields {
  const name = textOf(allocation, "TaskGroup");
  const { Namespace, CreateIndex } = allocation;
  const known = job ?? { ID: textOf(allocation, "JobID"), Namespace, CreateIndex, ModifyIndex: CreateIndex };
  const groups = groupsOf(known);
  const has = groups.some((group) => textOf(group, "Name") === name);
  return completeJob({
    ...known,
    Type: jobTypeOf(allocation, job),
    Version: allocation["JobVersion"] ?? known["Version"] ?? PLAIN_JOB.Version,
    TaskGroups: has ? groups : [...groups, { Name: name, Tasks: tasksOf(allocation) }],
  });
}

const tasksOf = (allocation: Fields): Fields[] =>
  Object.keys(objectOf(allocation, "TaskStates") ?? {}).map((Name) => ({ Name, Driver: "" }));

/** Resources in the form of old clients. Tasks of unknown resources are left out. */
interface Allocated {
  readonly tasks: Readonly<Record<string, Fields>>;
  readonly diskMB: number;
  readonly networks: unknown;
}

const numberIn = (of: Fields | null, field: string): number => Number(of?.[field] ?? 0);

/** The allocated resources that the scheduler reports; null without. */
function allocatedTo(allocation: Fields): Allocated | null {
  const given = objectOf(allocation, "AllocatedResources");
  if (!given) return null;
  const tasks = Object.entries(objectOf(given, "Tasks") ?? {}).filter(([, task]) => isPlainObject(task));
  const shared = objectOf(given, "Shared");
  return {
    tasks: Object.fromEntries(
      tasks.map(([name, task]) => {
        const [cpu, memory] = [objectOf(task as Fields, "Cpu"), objectOf(task as Fields, "Memory")];
        return [
          name,
          {
            CPU: numberIn(cpu, "CpuShares"),
            Cores: 0,
            MemoryMB: numberIn(memory, "MemoryMB"),
            MemoryMaxMB: numberIn(memory, "MemoryMaxMB"),
            DiskMB: 0,
            Networks: (task as Fields)["Networks"] ?? null,
          },
        ];
      }),
    ),
    diskMB: numberIn(shared, "DiskMB"),
    networks: shared?.["Networks"] ?? null,
  };
}

/** The resources that a task group requests. */
function requestedBy(group: Fields): Allocated {
  const tasks = ((group["Tasks"] ?? []) as readonly Fields[]).flatMap((task) => {
    const wanted = objectOf(task, "Resources");
    const plain = { CPU: 0, Cores: 0, MemoryMB: 0, MemoryMaxMB: 0, DiskMB: 0, Networks: null };
    return wanted ? [[textOf(task, "Name"), completed(wanted, plain)] as const] : [];
  });
  const diskMB = numberIn(objectOf(group, "EphemeralDisk"), "SizeMB");
  return { tasks: Object.fromEntries(tasks), diskMB, networks: null };
}

function totalOf({ tasks, diskMB, networks }: Allocated): Fields {
  const sum = (field: string) => Object.values(tasks).reduce((total, task) => total + numberIn(task, field), 0);
  return {
    CPU: sum("CPU"),
    Cores: 0,
    MemoryMB: sum("MemoryMB"),
    MemoryMaxMB: sum("MemoryMaxMB"),
    DiskMB: diskMB,
    Networks: networks,
  };
}

/** Placement figures of an allocation without any: a placed one had at least one node evaluated. */
const metricsOf = (allocation: Fields): Fields => ({
  NodesEvaluated: textOf(allocation, "NodeID") === "" ? 0 : 1,
  NodesFiltered: 0,
  NodesExhausted: 0,
  AllocationTime: 0,
  CoalescedFailures: 0,
  ScoreMetaData: null,
});
