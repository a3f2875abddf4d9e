/**
 * Sends lines to an HTTP service: one request a part, within the limits of Datadog, which are the least.
 * https://docs.datadoghq.com/api/latest/logs/#send-logs,
 * https://help.splunk.com/splunk-enterprise/get-data-in/collect-http-event-data/format-events-for-http-event-collector
 */

/** 5 MB and 1,000 lines a request, less what the format adds. */
export const LINES_A_REQUEST = 1_000;
export const BYTES_A_REQUEST = 2_500_000;
/** Time for a request, and for the acknowledgement of its indexer. */
const REQUEST_MS = 5_000;
const ACK_INTERVAL_MS = 250;

interface Format {
  readonly type: string;
  /** The header of the token, and what its value begins with. */
  readonly auth: readonly [header: string, scheme: string];
  readonly body: (lines: readonly string[]) => string;
}

/** Epoch time in ms. No value can pass for the field: its quotes are escaped. */
const timeOf = (line: string): number => Date.parse(/"time":"([^"]+)/.exec(line)?.[1] ?? "");

const JSON_TYPE = "application/json";
const AUTHORIZATION = "Authorization";

const FORMATS = {
  generic: {
    type: "application/x-ndjson",
    auth: [AUTHORIZATION, "Bearer "],
    body: (lines) => `${lines.join("\n")}\n`,
  },
  datadog: {
    type: JSON_TYPE,
    auth: ["DD-API-KEY", ""],
    body: (lines) =>
      JSON.stringify(
        lines.map((message) => ({
          ddsource: "sallyport",
          service: "sallyport",
          timestamp: timeOf(message),
          message,
        })),
      ),
  },
  splunk: {
    type: JSON_TYPE,
    auth: [AUTHORIZATION, "Splunk "],
    body: (lines) =>
      lines
        .map((line) => `{"time":${timeOf(line) / 1_000},"source":"sallyport","sourcetype":"_json","event":${line}}`)
        .join("\n"),
  },
} as const satisfies Record<string, Format>;

export interface HttpTarget {
  readonly url: string;
  readonly format: keyof typeof FORMATS;
  readonly token: string | undefined;
}

/** The status has decided, so that a body that breaks off changes nothing. */
function discardBody(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}

/** @throws Error that names a status, and neither the URL nor a part of the answer */
export async function sendLines({ url, format, token }: HttpTarget, lines: readonly string[]): Promise<void> {
  const { type, auth, body }: Format = FORMATS[format];
  const signal = AbortSignal.timeout(REQUEST_MS);
  const headers = {
    "Content-Type": type,
    ...(token && { [auth[0]]: auth[1] + token }),
    // Splunk requires a channel from tokens with acknowledgements, and ignores it otherwise.
    ...(format === "splunk" && { "X-Splunk-Request-Channel": crypto.randomUUID() }),
  };
  const post = async (to: string, text: string): Promise<Response> => {
    const init = { method: "POST", headers, body: text, signal, redirect: "manual" } as const;
    const response = await fetch(to, init).catch(() => {
      throw new Error("no answer");
    });
    if (response.ok) return response;
    discardBody(response);
    throw new Error(`status ${response.status}`);
  };
  const response = await post(url, body(lines));
  if (format !== "splunk") return discardBody(response);
  const { code, ackId } = (await response.json()) as { readonly code?: number; readonly ackId?: number };
  if (code !== 0) throw new Error("not accepted");
  // https://help.splunk.com/splunk-enterprise/get-data-in/collect-http-event-data/about-http-event-collector-indexer-acknowledgment
  const ackUrl = new URL("/services/collector/ack", url).href;
  while (ackId !== undefined) {
    const status = await post(ackUrl, JSON.stringify({ acks: [ackId] }));
    const { acks } = (await status.json()) as { readonly acks?: Readonly<Record<string, boolean>> };
    if (acks?.[ackId]) return;
    await new Promise((over) => setTimeout(over, ACK_INTERVAL_MS));
  }
}
