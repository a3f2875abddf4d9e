/* Answers that are not sent, or not whole. */

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
