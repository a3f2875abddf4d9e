import type { IncomingHttpHeaders } from "node:http";

export interface ServiceAnswer {
  readonly status: number;
  readonly body: string;
  readonly headers?: Record<string, string>;
}

/** A request to a service, without the part of the path that names the test's account. */
export interface ServiceRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly path: string;
  readonly text: string;
  /** Undefined for a body that is not JSON. */
  readonly json: unknown;
}

/** The rules of one service. */
export interface Judge {
  /** The answer to a request that breaks no rule. */
  readonly answer: ServiceAnswer;
  /** Why it refuses a request; null = it takes it. */
  readonly faultOf: (request: ServiceRequest) => ServiceAnswer | null;
}
