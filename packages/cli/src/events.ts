import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { STREAM_TOPICS } from "../../../src/contracts/stream-topics.ts";
import { backoffMs } from "../../relay/src/wait.ts";
import { Api, ApiError } from "./api.ts";
import { command, countOf, InvalidUsage, type Io, JSON_OPTION, text, textOf, texts } from "./command.ts";
import { checkToken } from "./connect.ts";
import { ENVIRONMENT, serviceOf } from "./environment.ts";
import { orList, similar } from "./suggest.ts";

/** Follows the event stream, and resumes by index. */

const lineSchema = z.object({
  Index: z.number().optional(),
  Events: z
    .array(z.object({ Topic: z.string(), Type: z.string(), Key: z.string(), Namespace: z.string().default("") }))
    .nullish(),
  Error: z.object({ Code: z.string() }).optional(),
});

/** Answers after which the stream is not opened again. */
const FINAL: ReadonlySet<number> = new Set([400, 401, 403, 404]);
const MOST = 999_999_999;

export const eventsTail = command({
  words: ["events", "tail"],
  summary: "follow the event stream",
  about: `Prints events as they happen, until it is stopped. A connection that breaks is opened again after the last index,
so that no event is lost or repeated. With --state the last index is kept in a file, and the next run goes
on there. Events of Secret and Sync are published where the service's SERVICE_EVENTS has them; the command
says so where it does not.`,
  options: {
    topic: texts("TOPIC", "such as Secret, Job:shop or Node; may be repeated (default: all that the token may see)"),
    namespace: text("NAME", "of jobs and volumes; * is all (default: default)"),
    index: text("N", "begin at this index; 0 is the oldest one that is kept (default: new events only)"),
    state: text("FILE", "keep the last index here"),
    count: text("N", "end after so many events"),
    ...JSON_OPTION,
  },
  notes: `--json prints the lines of the stream as they are.\n${ENVIRONMENT}`,
  run: async ({ values }, io) => {
    for (const topic of values.topic) checkTopic(topic);
    const api = new Api({ ...serviceOf(io.env), namespace: "" }, 0, { dialect: "Orch" });
    const count = values.count === undefined ? Number.POSITIVE_INFINITY : countOf("count", values.count, 1, MOST);
    const kept = values.state === undefined ? undefined : positionIn(values.state);
    const given = values.index === undefined ? undefined : indexIn(values.index);
    const query = [
      ...values.topic.map((topic): [string, string] => ["topic", topic]),
      ...(values.namespace === undefined ? [] : [["namespace", values.namespace] as [string, string]]),
      ["errors", "true"] as [string, string],
    ];
    return follow(api, query, kept ?? given ?? -1, { count, asJson: values.json, state: values.state }, io);
  },
});

/** The stream of an unknown topic has no events and no end. @throws InvalidUsage */
function checkTopic(given: string): void {
  const [topic = "", ...key] = given.split(":");
  if (key.length > 1) throw new InvalidUsage(`--topic: must be TOPIC or TOPIC:KEY`);
  if (topic === "*" || STREAM_TOPICS.includes(topic)) return;
  const meant = similar(topic, STREAM_TOPICS);
  const hint = meant.length > 0 ? `did you mean ${orList(meant)}?` : `the topics are ${STREAM_TOPICS.join(", ")}`;
  throw new InvalidUsage(`--topic: no topic ${JSON.stringify(topic)}: ${hint}`);
}

/** @throws InvalidUsage */
function indexIn(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidUsage("--index: must be a number, 0 or more");
  return Number(value);
}

/** The index after the kept one. @throws InvalidUsage */
function positionIn(file: string): number | undefined {
  let content: string;
  try {
    content = readFileSync(file, "utf8");
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new InvalidUsage(`--state: ${textOf(failure)}`);
  }
  if (!/^\d{1,16}\s*$/.test(content)) throw new InvalidUsage(`--state: ${file} has no index`);
  return Number(content) + 1;
}

interface Choices {
  readonly count: number;
  readonly asJson: boolean;
  readonly state: string | undefined;
}

async function follow(
  api: Api,
  query: readonly (readonly [string, string])[],
  first: number,
  { count, asJson, state }: Choices,
  io: Io,
): Promise<number> {
  const stopping = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stopping.abort());
  let isOpened = false;
  let [index, left, failures, fault] = [first, count, 0, ""];
  const opened = (headers: Headers) => {
    const disabled = headers.get("X-Orch-Disabled-Topics");
    if (disabled !== null && !isOpened)
      io.note(`the service publishes no events of ${disabled}: its SERVICE_EVENTS does not have them`);
    [isOpened, fault] = [true, ""];
  };
  while (!stopping.signal.aborted) {
    try {
      const lines = api.lines("event/stream", [...query, ["index", String(index)]], {
        accept: "application/json",
        signal: stopping.signal,
        opened,
      });
      for await (const line of lines) {
        if (line.trim() === "") continue;
        const { Index, Events, Error: end } = lineSchema.parse(JSON.parse(line));
        failures = 0;
        if (end !== undefined) {
          io.note(`the stream ended: ${end.Code}`);
          if (end.Code === "permission_denied") return 1;
          continue;
        }
        if (Events?.length) {
          if (asJson) io.out(line);
          else
            for (const event of Events)
              io.out([Index, event.Topic, event.Type, event.Key, event.Namespace].join(" ").trimEnd());
          left -= Events.length;
        }
        if (Index !== undefined && Index > 0) {
          index = Index + 1;
          if (state !== undefined) keep(state, Index);
        }
        if (left <= 0) return 0;
      }
    } catch (failure) {
      if (stopping.signal.aborted) break;
      if (failure instanceof ApiError && FINAL.has(failure.status)) {
        if (failure.status === 403) await checkToken(api);
        throw failure;
      }
      // A broken connection is no fault before the service is away. One line for each cause.
      const text = failures === 0 && !(failure instanceof ApiError) ? fault : textOf(failure);
      if (text !== fault) io.note(`${text}: tried again until the stream opens`);
      fault = text;
    }
    await sleep(backoffMs(failures++), undefined, { signal: stopping.signal }).catch(() => undefined);
  }
  return 0;
}

function keep(file: string, index: number): void {
  writeFileSync(`${file}.part`, `${index}\n`);
  renameSync(`${file}.part`, file);
}
