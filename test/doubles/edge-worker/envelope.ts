import type { ServerResponse } from "node:http";
import type { Fault as StandInFault } from "../stand-in.ts";

/** The envelope around answers of the Cloudflare API, and how its calls go wrong. */

export interface Fault {
  readonly kind: "status" | "lost" | "cut";
  readonly status?: number;
  readonly errors?: readonly { readonly code: number; readonly message: string }[];
  readonly headers?: Readonly<Record<string, string>>;
}

export const faults: Readonly<Record<StandInFault, Fault>> = {
  throttled: { kind: "status", status: 429, headers: { "retry-after": "1" } },
  unavailable: { kind: "status", status: 503 },
  lost: { kind: "lost" },
  cut: { kind: "cut" },
  forbidden: { kind: "status", status: 403, errors: [{ code: 10_000, message: "Authentication error" }] },
};

export class ApiError extends Error {
  readonly status: number;
  readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** A page of a list, and the envelope's member about it. */
export class Page {
  readonly result: readonly object[];
  readonly info: object | undefined;

  constructor(result: readonly object[], info?: object) {
    this.result = result;
    this.info = info;
  }
}

export function enveloped(run: () => unknown): [status: number, body: object] {
  try {
    const answer = run();
    const { result, info } = answer instanceof Page ? answer : { result: answer, info: undefined };
    return [200, { success: true, errors: [], messages: [], result, ...(info && { result_info: info }) }];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { status, code, message } = error;
    return [status, { success: false, errors: [{ code, message }], messages: [], result: null }];
  }
}

export function send(
  outgoing: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  outgoing.writeHead(status, { "content-type": "application/json", ...headers });
  outgoing.end(JSON.stringify(body));
}
