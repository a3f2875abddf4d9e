import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import { bodyOf, startLoopback } from "./loopback.ts";

/** An answer of a hook. */
interface HookAnswer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  /** Whether its body is larger than the service reads of any, and does not end. */
  readonly endless?: boolean;
}

/** A request that a hook has received. */
export interface ReceivedDelivery {
  readonly id: string;
  readonly body: string;
  readonly status: number;
  /** Why the request breaks a rule of webhooks; null = it breaks none. */
  readonly fault: string | null;
  /** The header `traceparent`. */
  readonly trace: string;
}

interface Hook {
  readonly secret: string;
  /** Answers to the next requests, in order; then 204. */
  readonly answers: HookAnswer[];
  readonly received: ReceivedDelivery[];
}

/**
 * A strict receiver of webhooks: it verifies each request with the published verifier of Standard Webhooks, and records
 * it. `PUT /_double/NAME` makes a hook at `/NAME`, `GET /_double/NAME` returns the requests.
 */
export async function startWebhookReceiver(): Promise<{ url: string; close: () => Promise<void> }> {
  const hooks = new Map<string, Hook>();

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = String(await bodyOf(request));
    const [, control, name = ""] = /^\/(_double\/)?(.*)$/.exec(request.url ?? "/") ?? [];
    const hook = hooks.get(name);
    if (control !== undefined && request.method === "PUT") {
      const { secret, answers = [] } = JSON.parse(body) as Partial<Hook>;
      hooks.set(name, { secret: secret ?? hook?.secret ?? "", answers: [...answers], received: hook?.received ?? [] });
      response.writeHead(204).end();
      return;
    }
    if (control !== undefined) {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(hook?.received ?? []));
      return;
    }
    if (!hook) {
      response.writeHead(404).end();
      return;
    }
    const fault = request.method === "POST" ? faultOf(body, request.headers, hook.secret) : `${request.method}`;
    const answer: HookAnswer = fault === null ? (hook.answers.shift() ?? {}) : { status: 401 };
    const { status = 204, headers = {}, endless = false } = answer;
    const { "webhook-id": id, traceparent = "" } = request.headers;
    hook.received.push({ id: String(id), body, status, fault, trace: String(traceparent) });
    response.writeHead(status, headers);
    if (endless) response.write("x".repeat(2 * 1024 * 1024));
    else response.end();
  }

  return startLoopback(serve);
}

function faultOf(body: string, headers: IncomingHttpHeaders, secret: string): string | null {
  if (headers["content-type"] !== "application/json") return "content-type";
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
    return null;
  } catch (failure) {
    return String(failure);
  }
}
