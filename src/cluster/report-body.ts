import * as z from "zod";
import { isPlainObject, parseLossless } from "../http/json.ts";
import { REPORTED_TOPICS, type Report } from "./report.ts";

const Item = z.object({
  Topic: z.enum(REPORTED_TOPICS),
  Type: z.string().min(1),
  Namespace: z.string().optional(),
  Payload: z.record(z.string(), z.unknown()),
});

/**
 * Reads a body of `PUT /v1/cluster/objects`: a JSON array of events, or one event a line.
 * @throws ZodError, SyntaxError
 */
export function parseReports(text: string): Report[] {
  const items: unknown = text.trimStart().startsWith("[")
    ? parseLossless(text)
    : text
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map((line) => parseLossless(line));
  return z.array(Item).parse(items).map(reportOf);
}

function reportOf({ Topic, Type, Namespace, Payload }: z.infer<typeof Item>): Report {
  const object = Payload[Topic];
  if (!isPlainObject(object)) throw new SyntaxError(`Payload.${Topic}: must be an object`);
  const { CreateIndex: _create, ModifyIndex: _modify, ...body } = object;
  const text = (name: string) => (typeof object[name] === "string" && object[name] !== "" ? object[name] : null);
  return {
    topic: Topic,
    type: Type,
    namespace: Namespace ?? text("Namespace") ?? "default",
    id: text("ID") ?? "",
    filterKeys: null,
    jobId: text("JobID"),
    nodeId: text("NodeID"),
    deploymentId: text("DeploymentID"),
    evalId: text("EvalID"),
    terminal: false,
    deleted: Payload["Deleted"] === true,
    wrapper: Topic,
    body: JSON.stringify(body),
    extra: Payload["Deleted"] === true ? ',"Deleted":true' : "",
  };
}
