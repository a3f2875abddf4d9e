/** A small wrong change of the code, and the test files that must notice it. */
export interface Mutation {
  /** Path from the root of the repository. */
  readonly file: string;
  /** Name of the function, method, constant or class that holds `find`; `*` is the whole file. */
  readonly name: string;
  /** Source text that occurs exactly once in it; any white space matches any other. */
  readonly find: string;
  readonly replace: string;
  /** Test files of which at least one must fail. */
  readonly suites: readonly string[];
  /** The promise that the wrong change breaks, in the words of the documentation. */
  readonly promise: string;
  /** The reason why no test can notice the change: behaviour stays the same. */
  readonly equivalent?: string | undefined;
}
