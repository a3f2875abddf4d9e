import { RequestError } from "../../http/errors.ts";
import type { Answered, Exchange } from "../../http/exchange.ts";
import { isHealthCheck } from "../../http/health.ts";
import { settings } from "../../settings.ts";
import { batchWriterOf, locate, record } from "./batch-writer.ts";
import { answerLine, requestLine } from "./line.ts";

interface Performed {
  readonly exchange: Exchange;
  readonly env: Env;
  readonly exec: ExecutionContext;
  readonly request: Request;
}

/**
 * Writes the line of a request before execution, in deployments that require it.
 * @throws RequestError 503 when no sink accepted the line; the request was not executed
 */
export async function auditRequest({ exchange, env, exec, request }: Performed): Promise<void> {
  const writer = batchWriterOf(env);
  if (!writer.hasSinks) return;
  locate(request.cf);
  if (settings(env).AUDIT_ON_FAILURE[exchange.area] === "open" || isHealthCheck(exchange)) return;
  const kept = await writer.write(requestLine(exchange, env), (work) => exec.waitUntil(work));
  if (!kept) {
    throw new RequestError(503, "the audit log cannot be written, so nothing was done; try again", {
      "Retry-After": "1",
    });
  }
}

/** Writes the line of an answer. */
export function auditAnswer(answered: Answered, env: Env, exec: ExecutionContext): void {
  const { caller, status, method } = answered;
  // Load balancers read without a token, each second.
  const isMinor = caller === null && status < 400 && (method === "GET" || method === "HEAD");
  record(env, answerLine(answered, env), (work) => exec.waitUntil(work), isMinor);
}
