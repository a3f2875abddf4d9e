import { ok, type Result, refuse } from "../../lib/result.ts";

interface Clock {
  now(): number;
  wait(ms: number): Promise<void>;
}

interface Request {
  readonly bytes: number;
  /** From then on it counts as cut off by the runtime, ms since 1970. */
  until: number;
}

const POLL_MS = 20;
/** A request that waits shows by its polls that it still exists. */
const POLLS_WITHIN_MS = 2_000;
/** A request waits no longer for its turn. */
const WAIT_MS = 20_000;
/** More than the arrival of a body and the work on it take. */
const HELD_MS = 120_000;

/**
 * Limits the large bodies that an isolate holds at once, because it has 128 MiB and a request takes several times its body:
 * the text, the parsed value, the arguments of a call. Requests take turns in the order of their arrival, those for
 * which there is no room wait, and one that is larger than all the room has it alone.
 */
export class BodyMemory {
  readonly #held = new Set<Request>();
  readonly #waiting = new Set<Request>();

  /** @param most bytes of all bodies */
  constructor(
    private readonly most: number,
    private readonly clock: Clock = runtime,
  ) {}

  /**
   * Waits until there is room for a body.
   * @returns to be called at the end of the request; refused when there is none in time
   */
  async reserve(bytes: number): Promise<Result<() => void>> {
    const request = { bytes, until: 0 };
    for (const end = this.clock.now() + WAIT_MS; ; await this.clock.wait(this.#pollMs())) {
      const now = this.clock.now();
      request.until = now + POLLS_WITHIN_MS;
      // Also after a standstill, in which others took it for cut off.
      this.#waiting.add(request);
      if (this.#isNext(request, now) && this.#hasRoom(bytes, now)) {
        this.#waiting.delete(request);
        request.until = now + HELD_MS;
        this.#held.add(request);
        return ok(() => void this.#held.delete(request));
      }
      if (now >= end) {
        this.#waiting.delete(request);
        return refuse("unavailable", "too many large requests are under way; ask again");
      }
    }
  }

  /** Longer beside many others, so that polls take little of the isolate's time. */
  #pollMs = (): number => POLL_MS + this.#waiting.size / 10;

  #isNext(request: Request, now: number): boolean {
    for (const other of this.#waiting) {
      if (other === request) return true;
      if (other.until >= now) return false;
      this.#waiting.delete(other);
    }
    return false;
  }

  #hasRoom(bytes: number, now: number): boolean {
    let held = 0;
    for (const other of this.#held) {
      if (other.until < now) this.#held.delete(other);
      else held += other.bytes;
    }
    return held === 0 || held + bytes <= this.most;
  }
}

const runtime: Clock = { now: () => Date.now(), wait: (ms) => scheduler.wait(ms) };
