/** Exit codes, by which a supervisor decides whether to restart the agent. */
export const EXIT = {
  stopped: 0,
  failed: 1,
  /** Command line, configuration or state directory: the operator has to act. */
  unusable: 2,
  superseded: 3,
  revoked: 4,
  version: 5,
  /** The join token was refused. */
  notJoined: 6,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Terminates the agent with an exit code and a message for the operator. */
export class Ending extends Error {
  readonly code: ExitCode;
  constructor(code: ExitCode, message: string) {
    super(message);
    this.code = code;
  }
}
