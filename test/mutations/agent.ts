import type { Mutation } from "./mutation.ts";

const OPERATIONS = { file: "agent/src/ops/operations.ts", suites: ["agent/src/ops/operations.test.ts"] };
const JOURNAL = { file: "agent/src/ops/journal.ts", suites: ["agent/src/ops/journal.test.ts"] };
const FILE = { file: "agent/src/ops/journal-file.ts", suites: ["agent/src/ops/journal.test.ts"] };
const CHANGES = { file: "agent/src/report/changes.ts", suites: ["agent/src/report/reporter.test.ts"] };
const REPORTER = { file: "agent/src/report/reporter.ts", suites: ["agent/src/report/reporter.test.ts"] };
const RECONNECT = { file: "agent/src/session/reconnect.ts", suites: ["agent/src/session/reconnect.test.ts"] };
const VOLUMES = { file: "agent/src/dhv/host-volumes.ts", suites: ["test/http/agent-dhv-volumes.test.ts"] };
const CHECKS = { file: "agent/src/dhv/checks.ts", suites: ["test/http/agent-dhv-volumes.test.ts"] };
const PLUGINS = { file: "agent/src/dhv/executable.ts", suites: ["test/http/agent-dhv-plugins.test.ts"] };

export const agent: Mutation[] = [
  {
    ...OPERATIONS,
    find: "if (ending && !reads(method)) await this.#record(op, ending);",
    replace: "if (ending && !reads(method)) void this.#record(op, ending);",
    promise: "A result is told once it is on the node's disk",
  },
  {
    ...OPERATIONS,
    find: "    await this.#record(op, ending);\n    this.#tell(op, ending);",
    replace: "    void this.#record(op, ending);\n    this.#tell(op, ending);",
    promise: "An operation that is given up is on the disk before the service is told",
  },
  {
    ...OPERATIONS,
    find: "const accepted = kept.then(() => {",
    replace: "const accepted = Promise.resolve().then(() => {",
    promise: "An operation is acknowledged once it is on the disk",
  },
  {
    ...OPERATIONS,
    find: "    return gen < this.#journal.fence(key);",
    replace: "    return gen <= this.#journal.fence(key);",
    promise: "The newest operation of a key is not given up",
  },
  {
    ...OPERATIONS,
    find: "if (gen < fence) return refusal",
    replace: "if (gen < fence - 1) return refusal",
    promise: "An operation that is older than one accepted before is refused",
  },
  {
    ...OPERATIONS,
    find: "if (this.#live.size >= this.#most)",
    replace: "if (this.#live.size > this.#most)",
    promise: "An agent has no more operations in flight than the service allows",
  },
  {
    ...OPERATIONS,
    find: "if (live.cancelled) return refusal",
    replace: "if (live.cancelled && live.started) return refusal",
    promise: "What was cancelled before it began is not begun",
  },
  {
    ...OPERATIONS,
    find: "if (live.forgotten && ending) this.#forget(op);\n    else if (ending)",
    replace: "if (ending)",
    promise: "An operation that the service forgot while it ran is dropped from the journal",
  },
  {
    ...OPERATIONS,
    find: "    else if (!entry.secret) this.#start(entry",
    replace: "    else this.#start(entry",
    promise: "An operation with secrets does not run again without them",
  },
  {
    ...OPERATIONS,
    find: "if (ended && isFinal(ended.ending)) this.#tell",
    replace: "if (ended) this.#tell",
    promise: "An operation of unknown outcome runs again when it is asked for again",
  },
  {
    ...OPERATIONS,
    find: "    for (const op of forget) this.#forget(op);\n",
    replace: "",
    promise: "What the service has no use for is forgotten at connect",
  },
  {
    ...OPERATIONS,
    find: "      live.forgotten = true;\n",
    replace: "",
    promise: "A running operation that is done with is dropped when it ends",
  },
  {
    ...JOURNAL,
    find: "ended > MAX_KEPT_OPERATIONS ||",
    replace: "ended > MAX_KEPT_OPERATIONS + 1 ||",
    promise: "The newest 1000 outcomes are kept",
  },
  {
    ...JOURNAL,
    find: "entry.ended.at + KEEP_ENDINGS_MS <= now",
    replace: "entry.acceptedAt + KEEP_ENDINGS_MS <= now",
    promise: "An outcome is kept for a day after the end",
  },
  {
    ...JOURNAL,
    find: "const KEEP_FENCES_MS = 30 * DAY_MS;",
    replace: "const KEEP_FENCES_MS = DAY_MS;",
    promise: "A fence is kept for 30 days",
  },
  {
    ...JOURNAL,
    find: "gen: Math.max(gen, fence?.gen ?? 0)",
    replace: "gen",
    promise: "A fence never goes down",
  },
  {
    ...JOURNAL,
    find: "      this.#entries.delete(operation.op);\n      throw failure;",
    replace: "      throw failure;",
    promise: "An operation that is not on the disk is not known",
  },
  {
    ...JOURNAL,
    find: 'for (const [key, { gen, at }] of this.#fences) lines.push({ r: "fence", key, gen, at });\n',
    replace: "",
    promise: "Fences outlive the compaction of the journal",
  },
  {
    ...JOURNAL,
    find: '      if (ended) lines.push({ r: "ended", op: operation.op, ...ended });\n',
    replace: "",
    promise: "Outcomes outlive the compaction of the journal",
  },
  {
    ...FILE,
    find: "    if (this.#torn) await this.#file.truncate(this.#length);\n",
    replace: "",
    promise: "What was written in part is cut off before the next line",
  },
  {
    ...CHANGES,
    find: "if (bytes > room || parts",
    replace: "if (parts",
    promise: "A frame of changes is no larger than its bound",
  },
  {
    ...CHANGES,
    find: "  for (const id of report.held ?? []) volumes.set(id, {});\n",
    replace: "",
    promise: "A volume that is gone before it was described is told as gone",
  },
  {
    ...CHANGES,
    find: "    return room >= 0;",
    replace: "    return true;",
    promise: "A greeting has no more volumes than fit a frame",
  },
  {
    ...REPORTER,
    find: "failures < FAILURES_UNTIL_UNHEALTHY",
    replace: "failures <= FAILURES_UNTIL_UNHEALTHY",
    promise: "A plugin is offered until it has failed twice in a row",
  },
  {
    ...RECONNECT,
    find: "retryAfterOf(reason) ?? this.#pauses.longestMs",
    replace: "this.#pauses.longestMs",
    promise: "An agent stays away as long as the service asks",
  },
  {
    ...VOLUMES,
    find: "(failures && failures.retryAt > now)",
    replace: "false",
    promise: "A plugin that has run in vain is left alone for a while",
  },
  {
    ...VOLUMES,
    find: 'if (force && record.state === "creating") return',
    replace: "if (false) return",
    promise: "A creation that is given up is not run again",
  },
  {
    ...VOLUMES,
    find: '(deleted.outcome === "failed" && !isPluginAway(deleted))',
    replace: 'deleted.outcome === "failed"',
    promise: "A volume whose plugin is not there is given up by force",
  },
  {
    ...CHECKS,
    find: "2 ** Math.min(times - 1, 30)",
    replace: "2 ** Math.min(times, 30)",
    promise: "The first pause is 30 s",
  },
  {
    ...PLUGINS,
    find: "`answered a path that ${fault}${saidBy(ended.stdout)}`)",
    replace: '`answered a path that ${fault}${saidBy(ended.stdout)}`, "unknown")',
    promise: "A bad answer of a plugin that has ended is a certain failure",
  },
];
