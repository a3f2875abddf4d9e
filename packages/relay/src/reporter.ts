import type { Answer, HttpClient } from "./http-client.ts";
import type { StreamLine } from "./json-text.ts";
import { textOf, warn } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { backoffMs, sleep } from "./wait.ts";

/** A part of a line is one transaction of the service, which accepts at most 32 MiB and 20,000 events. */
const MAX_PART_BYTES = 16 * 1024 * 1024;
const MAX_PART_EVENTS = 10_000;

/** The relay is stopping: a report was not answered. */
export class Stopped extends Error {}

/** The outcome of a line's report. */
interface Outcome {
  /** The service had applied it, or a part of it, before. */
  readonly repeated: boolean;
  /** A request was repeated, so that an earlier one may have been applied. */
  readonly retried: boolean;
}

/**
 * Reports to the service, one request at a time, each repeated until it is answered. Events that the service refuses
 * are left out, counted and logged, because one of them would stop the mirror.
 */
export class Reporter {
  readonly #client: HttpClient;
  readonly #metrics: Metrics;
  readonly #stop: AbortSignal;
  #retried = false;

  constructor(client: HttpClient, metrics: Metrics, stop: AbortSignal) {
    this.#client = client;
    this.#metrics = metrics;
    this.#stop = stop;
  }

  /** Reports a line of the stream; a large one as several parts, in order. */
  async line(source: string, { index, events }: StreamLine): Promise<Outcome> {
    this.#retried = false;
    const query = `source=${encodeURIComponent(source)}`;
    const bodyOf = (part: readonly string[]) => lineText(index, part);
    let repeated = false;
    for (const part of partsOf(events)) repeated = (await this.#report(query, part, bodyOf)) || repeated;
    return { repeated, retried: this.#retried };
  }

  /**
   * Reports several lines of the stream in one request, for a relay that is behind. Refused ones are reported one by
   * one, so that only the refused event is left out.
   */
  async lines(source: string, lines: readonly StreamLine[]): Promise<void> {
    const [first, ...others] = lines;
    if (first === undefined) return;
    if (others.length > 0) {
      const body = lines.map(({ index, events }) => lineText(index, events)).join("\n");
      const answer = await this.#answered(`/v1/cluster/objects?source=${encodeURIComponent(source)}`, body);
      if (answer.status === 200) return this.#accepted(answer, lines.flatMap(({ events }) => events).length);
    }
    for (const line of lines) await this.line(source, line);
  }

  /** Reports the state of objects, of which only differences are published. */
  async changes(events: readonly string[]): Promise<void> {
    for (const part of partsOf(events)) await this.#report("changes=true", part, (some) => `[${some.join(",")}]`);
  }

  /** @returns whether any of the events was reported before */
  async #report(
    query: string,
    events: readonly string[],
    bodyOf: (events: readonly string[]) => string,
  ): Promise<boolean> {
    if (events.length === 0) return false;
    const answer = await this.#answered(`/v1/cluster/objects?${query}`, bodyOf(events));
    if (answer.status === 200) {
      this.#accepted(answer, events.length);
      return !(JSON.parse(answer.text) as { Applied: boolean }).Applied;
    }
    const refused = events.length === 1 ? 1 : Number(/^event (\d+):/.exec(answer.text)?.[1] ?? 0);
    if (refused > 0 && refused <= events.length) {
      this.#refuse(events[refused - 1] ?? "", answer);
      return this.#report(query, events.toSpliced(refused - 1, 1), bodyOf);
    }
    const half = Math.ceil(events.length / 2);
    const first = await this.#report(query, events.slice(0, half), bodyOf);
    return (await this.#report(query, events.slice(half), bodyOf)) || first;
  }

  #accepted({ text }: Pick<Answer, "text">, events: number): void {
    const { Applied } = JSON.parse(text) as { Applied: boolean };
    this.#metrics.add("reports_total");
    this.#metrics.add(Applied ? "events_total" : "repeated_total", Applied ? events : 1);
    this.#metrics.set("last_report_seconds", Math.floor(Date.now() / 1000));
  }

  #refuse(event: string, { status, text }: Answer): void {
    this.#metrics.add("refused_events_total");
    const { Topic, Key = null } = JSON.parse(event) as { Topic: string; Key?: string };
    warn("event refused", { topic: Topic, key: Key, status, because: text.trim().slice(0, 300) });
  }

  /** The first answer that settles the request. Repeats it while the service is away, busy, or refuses the token. */
  async #answered(path: string, body: string): Promise<Answer> {
    for (let attempt = 0; ; attempt++) {
      let waitMs = backoffMs(attempt);
      if (this.#stop.aborted) throw new Stopped("stopping");
      try {
        const answer = await this.#client.request(path, { method: "PUT", body });
        if (answer.status === 200 || [400, 409, 413].includes(answer.status)) return answer;
        waitMs = Math.max(waitMs, Number(answer.header("retry-after")) * 1000 || 0);
        warn("report unanswered", { status: answer.status, because: answer.text.trim().slice(0, 300) });
      } catch (failure) {
        warn("report unanswered", { because: textOf(failure) });
      }
      this.#retried = true;
      this.#metrics.add("retries_total");
      await sleep(waitMs, this.#stop);
    }
  }
}

const lineText = (index: number, events: readonly string[]): string =>
  `{"Index":${index},"Events":[${events.join(",")}]}`;

/** Splits by fixed bounds, so that a repeated line has the same parts. */
export function partsOf(
  events: readonly string[],
  maxBytes = MAX_PART_BYTES,
  maxEvents = MAX_PART_EVENTS,
): readonly string[][] {
  const parts: string[][] = [[]];
  let bytes = 0;
  for (const event of events) {
    const size = Buffer.byteLength(event);
    if ((parts.at(-1)?.length ?? 0) > 0 && (bytes + size > maxBytes || (parts.at(-1)?.length ?? 0) >= maxEvents)) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)?.push(event);
    bytes += size;
  }
  return parts.filter((part) => part.length > 0);
}
