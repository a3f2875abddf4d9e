import type { Area } from "./areas.ts";
import { notFound, RequestError } from "./errors.ts";
import { VERBS, type Verb } from "./target.ts";

/** Answers for unknown paths and methods: 404, 405 and OPTIONS. */

const methodsOf = (verb: Verb): string[] => [...VERBS.keys()].filter((method) => VERBS.get(method) === verb);

const allow = (verbs: readonly Verb[]) => ({
  Allow: [...verbs.flatMap(methodsOf), "OPTIONS"].join(", "),
});

/** The error for an unmatched request: unknown path, or unsupported verb. `verbs` are the supported ones. */
export function unmatched(area: Area, path: string, verbs: readonly Verb[]): RequestError {
  if (verbs.length > 0) {
    return new RequestError(405, area === "cluster" ? "Invalid method" : "unsupported operation", allow(verbs));
  }
  if (area === "cluster") return notFound("not found: no such path");
  return notFound(`no handler for route ${JSON.stringify(path.slice(0, 200))}. route entry not found.`);
}

export function options(verbs: readonly Verb[]): Response {
  if (verbs.length === 0) throw notFound();
  return new Response(null, { status: 204, headers: allow(verbs) });
}
