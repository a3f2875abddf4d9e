import { settings } from "../../settings.ts";
import { textOf, warn } from "../log.ts";

/** Sends data to an OpenTelemetry collector: OTLP over HTTP, JSON encoding (https://opentelemetry.io/docs/specs/otlp/). */

/** Delays before the attempts of an export: work behind an answer has 30 s. */
const ATTEMPTS_AFTER_MS = [0, 1_000, 5_000];
const DEADLINE_MS = 5_000;

export const isExporting = (env: object): boolean => "OTLP_URL" in env;

/** Never rejects: data that the collector does not take is dropped, with a line in the log. */
export async function exportNow(
  env: object,
  signal: "traces" | "metrics",
  data: () => object | Promise<object>,
): Promise<void> {
  let because = "";
  try {
    const { OTLP_URL, OTLP_HEADERS } = settings(env);
    if (!OTLP_URL) return;
    const body = JSON.stringify(await data());
    for (const wait of ATTEMPTS_AFTER_MS) {
      await scheduler.wait(wait);
      const status = await fetch(`${OTLP_URL.replace(/\/$/, "")}/v1/${signal}`, {
        method: "POST",
        redirect: "manual",
        body,
        signal: AbortSignal.timeout(DEADLINE_MS),
        headers: { ...OTLP_HEADERS, "Content-Type": "application/json" },
      }).then(
        (answer) => {
          answer.body?.cancel().catch(() => undefined);
          return answer.status;
        },
        () => 0,
      );
      if (status === 200) return;
      because = `the collector answered with ${status}`;
      // Another attempt would have the same answer.
      if (status < 500 && status > 0 && status !== 429) break;
    }
  } catch (failure) {
    because = textOf(failure);
  }
  warn("otlp-lost", { signal, because });
}
