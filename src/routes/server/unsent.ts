import { RequestError } from "../../platform/http/errors.ts";
import type { Call } from "./route.ts";

/* Answers that are not sent, or not whole. */

/**
 * Refuses HEAD on a GET that creates or uses up what it answers, which an answer without a body would lose.
 * @throws RequestError 405
 */
export function refuseHead({ request }: Call): void {
  if (request.method === "HEAD") throw new RequestError(405, "unsupported operation", { Allow: "GET, OPTIONS" });
}

/** A handler that refuses every call. */
export const refuses = (status: number, because: string | readonly string[]) => async (): Promise<never> => {
  throw new RequestError(status, because);
};

/** Closes the stream or the socket of an answer that is not sent: its object would hold it until a time-out. */
export function discard({ body, webSocket }: Response): void {
  void body?.cancel().catch(() => undefined);
  webSocket?.accept();
  webSocket?.close(1000);
}

/** An answer without its body. */
export function headOf(response: Response): Response {
  discard(response);
  return new Response(null, response);
}
