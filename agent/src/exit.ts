/** What the process ends with, so that a supervisor knows whether to start it again. */
export const EXIT = {
  stopped: 0,
  failed: 1,
  /** The command line, the configuration or the state directory: a person has to look. */
  unusable: 2,
  superseded: 3,
  revoked: 4,
  version: 5,
  /** The join token was refused. */
  notJoined: 6,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A reason to end, in one sentence for the operator. */
export class Ending extends Error {
  readonly code: ExitCode;
  constructor(code: ExitCode, message: string) {
    super(message);
    this.code = code;
  }
}
