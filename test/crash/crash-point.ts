import { vi } from "vitest";
import {
  AccessControl,
  AuditCollector,
  ClusterRegistry,
  EventLog,
  EventSubscription,
  KvStore,
  NodeSession,
  ReadReplica,
  SyncControl,
  SyncDestination,
} from "../../src/worker.ts";
import type { Answer } from "../workers/client.ts";

/** The power goes out at one named await of a flow: before a call has done anything, or when it is durable but unanswered. */
type When = "before" | "after";
export type Method = (this: { ctx: DurableObjectState }, ...parameters: unknown[]) => unknown;

const classes = {
  AccessControl,
  AuditCollector,
  ClusterRegistry,
  EventLog,
  EventSubscription,
  KvStore,
  NodeSession,
  ReadReplica,
  SyncControl,
  SyncDestination,
};
export type ClassName = keyof typeof classes;
export type Cut = readonly [ClassName, string, When];

export function prototypeOf(name: ClassName): Record<string, Method> {
  return classes[name].prototype as unknown as Record<string, Method>;
}

/** Kills the object in its next call of a method. @returns whether it has happened */
export function cut([name, method, when]: Cut): () => boolean {
  const original = prototypeOf(name)[method] as Method;
  let happened = false;
  vi.spyOn(prototypeOf(name), method).mockImplementationOnce(async function (
    this: ThisParameterType<Method>,
    ...parameters
  ) {
    happened = true;
    if (when === "after") {
      await original.apply(this, parameters);
      await this.ctx.storage.sync();
    }
    this.ctx.abort(`killed ${when} ${method}`);
    throw new Error("killed");
  });
  return () => happened;
}

/** An answer, or null when the request died with an object. */
export const attempt = (request: Promise<Answer>): Promise<Answer | null> =>
  request.then((answer) => (answer.status < 500 ? answer : null)).catch(() => null);

/** As a client does that gets no answer: it asks again. */
export async function insist(request: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 0; tries < 10; tries++) {
    const answer = await attempt(request());
    if (answer) return answer;
    await scheduler.wait(50);
  }
  throw new Error("never answered");
}

export const both = (name: ClassName, ...methods: string[]): Cut[] =>
  methods.flatMap((method): Cut[] => [
    [name, method, "before"],
    [name, method, "after"],
  ]);
export const at = (destination: string, cuts: Cut[]) => cuts.map((each) => [destination, ...each] as const);
