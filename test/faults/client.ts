import { setTimeout as sleep } from "node:timers/promises";
import { Tally } from "./counts.ts";
import type { Line } from "./proxy-line.ts";
import type { Service } from "./service.ts";

export interface Answer {
  readonly ok: boolean;
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  readonly body: any;
}

/** An answer that takes longer is as good as none. */
const PATIENCE_MS = 100_000;
/** A connection that is kept may have been cut off that long ago, without its owner's having noticed. */
const NOTICED_MS = 5_000;

/** A refusal during set-up: the version of the code that answers does not offer it. */
export class Refused extends Error {
  override readonly name = "Refused";
}

export const isSuccess = (answer: Answer | null): answer is Answer & { readonly ok: true } => answer?.ok === true;

/** Clients of the service over a connection that may be disturbed. */
export class Client {
  readonly #service: Service;
  readonly #line: Line;
  readonly outcomes = new Tally();
  /** Answers that no fault excuses, and requests that got none although nothing was disturbed. */
  readonly wrong: string[] = [];
  /** When everybody stops insisting (ms since 1970). */
  until = Number.POSITIVE_INFINITY;

  constructor(service: Service, line: Line) {
    this.#service = service;
    this.#line = line;
  }

  get answered(): number {
    return this.outcomes.total - this.outcomes.get("none") - this.outcomes.get("502");
  }

  get base(): string {
    return this.#line.url;
  }

  get isServed(): boolean {
    return this.#service.port !== null && this.#line.isOpen;
  }

  /**
   * Resolves with null when the outcome is unknown: no answer arrived, or the gateway sent it.
   * @param patienceMs timeout of an impatient client; by default longer than the service may take
   */
  async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    patienceMs?: number,
  ): Promise<Answer | null> {
    if (!this.isServed) {
      await sleep(50);
      return null;
    }
    const begun = Date.now();
    const { answer, because } = await this.#ask(method, path, body, headers, patienceMs ?? PATIENCE_MS);
    if (answer === null && patienceMs === undefined) {
      // A kill is recorded slightly after it takes effect, and a cut connection fails slightly after the cut.
      if (this.#isCalmSince(begun)) await sleep(500);
      if (this.#isCalmSince(begun))
        this.wrong.push(
          `${method} ${path} got no answer in ${Date.now() - begun} ms, and nothing was disturbed: ${because}`,
        );
    } else if (answer?.status === 500 || (answer?.status === 502 && answer.text.startsWith("the service "))) {
      if (answer.status === 500) this.wrong.push(`${method} ${path}: 500 ${answer.text.slice(0, 300)}`);
      this.outcomes.add(String(answer.status));
      return null;
    }
    this.outcomes.add(answer === null ? "none" : String(answer.status));
    return answer;
  }

  #isCalmSince(time: number): boolean {
    return this.isServed && Math.max(this.#service.startedAt, this.#line.disturbedAt) < time - NOTICED_MS;
  }

  async #ask(
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string>,
    patienceMs: number,
  ): Promise<{ answer: Answer | null; because: string }> {
    try {
      const answer = await fetch(this.base + path, {
        method,
        headers: { "X-Orch-Token": "root", ...headers },
        signal: AbortSignal.timeout(patienceMs),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      const parsed = /^[{[]/.test(text) ? JSON.parse(text) : null;
      return { answer: { ok: answer.ok, status: answer.status, text, body: parsed }, because: "" };
    } catch (failure) {
      const cause = failure instanceof Error ? (failure.cause ?? failure) : failure;
      return { answer: null, because: String(cause) };
    }
  }

  /**
   * The same request again and again until its answer is one of these.
   * @returns null when it was tried so often, or when all is over and it takes too long
   */
  async insist(
    method: string,
    path: string,
    body: unknown,
    statuses: readonly number[],
    tries = Number.POSITIVE_INFINITY,
  ): Promise<Answer | null> {
    for (let time = 0; time < tries && Date.now() < this.until; ) {
      if (this.isServed) time++;
      const answer = await this.call(method, path, body);
      if (answer && statuses.includes(answer.status)) return answer;
      if (answer?.status === 400) this.wrong.push(`${method} ${path} was refused: ${answer.text}`);
      await sleep(100);
    }
    return null;
  }

  /** Repeats a request until it succeeds, for set-up. */
  async must(method: string, path: string, body?: unknown): Promise<Answer> {
    let last = "no answer";
    for (const until = Date.now() + 60_000; Date.now() < until; await sleep(200)) {
      const answer = await this.call(method, path, body);
      if (isSuccess(answer)) return answer;
      if (answer) last = `${answer.status} ${answer.text.slice(0, 300)}`;
      if (answer && answer.status < 500) throw new Refused(`${method} ${path}: ${last}`);
    }
    throw new Error(`${method} ${path}: ${last}`);
  }
}
