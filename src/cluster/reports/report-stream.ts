import type { Report } from "../../contracts/reports.ts";

/**
 * Transfers reports from a Worker to an object as a stream, one report per line: the arguments of an RPC are limited to
 * 32 MiB.
 */

const encoder = new TextEncoder();

export function asStream(reports: readonly Report[]): ReadableStream<Uint8Array> {
  let position = 0;
  return new ReadableStream({
    type: "bytes",
    pull(controller) {
      const report = reports[position];
      position += 1;
      if (report) controller.enqueue(encoder.encode(`${JSON.stringify(report)}\n`));
      else controller.close();
    },
  });
}

/** Rejects when the stream is interrupted. */
export async function fromStream(stream: ReadableStream<Uint8Array>): Promise<Report[]> {
  const decoder = new TextDecoder();
  const reports: Report[] = [];
  let rest: string[] = [];
  for await (const bytes of stream) {
    const [head = "", ...lines] = decoder.decode(bytes, { stream: true }).split("\n");
    rest.push(head);
    for (const line of lines) {
      reports.push(JSON.parse(rest.join("")) as Report);
      rest = [line];
    }
  }
  return reports;
}
