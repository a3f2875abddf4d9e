import { writeFileSync } from "node:fs";
import type { Reporter, SerializedError, TestModule, TestSpecification } from "vitest/node";

/** The environment variable that names the file to write. */
export const STARTED_FILES = "STARTED_FILES";

/** The files of a run, which vitest's JSON report lacks where their runtime did not start in time. */
export interface StartedFiles {
  /** All files of the run, as absolute paths. */
  readonly files: readonly string[];
  /** The messages of errors outside of the tests. */
  readonly errors: readonly string[];
}

/** A reporter of vitest that writes `StartedFiles` at the end of a run. */
export default class StartedFilesReporter implements Reporter {
  #files: readonly string[] = [];

  onTestRunStart(specifications: readonly TestSpecification[]): void {
    this.#files = specifications.map(({ moduleId }) => moduleId);
  }

  onTestRunEnd(_modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const path = process.env[STARTED_FILES];
    if (path === undefined) return;
    const started: StartedFiles = { files: this.#files, errors: errors.map(({ message }) => message) };
    writeFileSync(path, JSON.stringify(started));
  }
}
