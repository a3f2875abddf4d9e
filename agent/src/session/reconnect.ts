import { CLOSE, retryAfterOf } from "@sallyport/agent-protocol";
import { EXIT, type ExitCode } from "../exit.ts";

/** How a connection or a connection attempt ended. */
export type ConnectionEnd =
  /** The connection attempt failed. */
  | { type: "failed"; message: string }
  /** The service refused the upgrade with a status. */
  | { type: "refused"; status: number; retryAfterMs?: number }
  /** @property healthyMs time since `welcome`; 0 without one */
  | { type: "closed"; code: number; reason: string; healthyMs: number }
  /** The service violated the protocol. */
  | { type: "protocol"; message: string };

export interface Pauses {
  /** The first back-off in ms, doubled per attempt. */
  readonly firstMs: number;
  readonly longestMs: number;
  /** A session of this length resets the back-off. */
  readonly healthyMs: number;
  /** A deployment closes all connections at once; agents reconnect spread over this time. */
  readonly spreadMs: number;
}

export const PAUSES: Pauses = { firstMs: 500, longestMs: 30_000, healthyMs: 60_000, spreadMs: 5_000 };

type Next = { type: "wait"; ms: number } | { type: "exit"; code: ExitCode; because: string };

const exit = (code: ExitCode, because: string): Next => ({ type: "exit", code, because });

const ABNORMAL = 1006;
const GOING_AWAY = 1001;
const SERVICE_RESTART = 1012;

/** Decides after each connection whether and when to reconnect. */
export class Reconnect {
  readonly #pauses: Pauses;
  readonly #random: () => number;
  #attempts = 0;

  constructor(pauses: Pauses = PAUSES, random: () => number = Math.random) {
    this.#pauses = pauses;
    this.#random = random;
  }

  after(end: ConnectionEnd): Next {
    if (end.type === "closed" && end.healthyMs >= this.#pauses.healthyMs) this.#attempts = 0;
    switch (end.type) {
      case "failed":
        return this.#backOff();
      case "protocol":
        return this.#late();
      case "refused":
        if (end.retryAfterMs !== undefined) return this.#afterAtLeast(end.retryAfterMs);
        return end.status === 401 || end.status === 403 ? this.#late() : this.#backOff();
      case "closed":
        return this.#afterClose(end);
    }
  }

  #afterClose({ code, reason, healthyMs }: Extract<ConnectionEnd, { type: "closed" }>): Next {
    switch (code) {
      case CLOSE.superseded:
        return exit(EXIT.superseded, "another agent connected as this node");
      case CLOSE.revoked:
        return exit(EXIT.revoked, "the service has removed this node");
      case CLOSE.version:
        return exit(EXIT.version, "the service does not speak this agent's protocol version");
      case CLOSE.protocol:
        return this.#late();
      case CLOSE.slowDown:
        return this.#afterAtLeast(retryAfterOf(reason) ?? this.#pauses.longestMs);
      case ABNORMAL:
      case GOING_AWAY:
      case SERVICE_RESTART:
        if (healthyMs === 0 || this.#attempts > 0) return this.#backOff();
        this.#attempts++;
        return this.#wait(this.#pauses.spreadMs * this.#random());
      default:
        return this.#backOff();
    }
  }

  #backOff(): Next {
    const { firstMs, longestMs } = this.#pauses;
    const ceiling = Math.min(longestMs, firstMs * 2 ** Math.min(this.#attempts++, 30));
    return this.#wait(ceiling * this.#random());
  }

  /** The longest pause, with some spread, since the fault affects all agents alike. */
  #late(): Next {
    this.#attempts++;
    return this.#wait(this.#pauses.longestMs * (0.75 + 0.25 * this.#random()));
  }

  #afterAtLeast(ms: number): Next {
    this.#attempts++;
    return this.#wait(ms + this.#pauses.firstMs * this.#random());
  }

  #wait(ms: number): Next {
    return { type: "wait", ms: Math.round(ms) };
  }
}
