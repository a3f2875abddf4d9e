/** A small wrong change of the code, and the test files that must notice it. */
export interface Mutation {
  /** Path from the root of the repository. */
  readonly file: string;
  /** Name of the function, method or constant that holds `find`, where the file holds it more than once. */
  readonly within?: string | undefined;
  /** Source text that occurs exactly once; any white space matches any other. */
  readonly find: string;
  readonly replace: string;
  /** Test files of which at least one must fail. */
  readonly suites: readonly string[];
  /** The promise that the wrong change breaks, in the words of the documentation. */
  readonly promise: string;
  /** The reason why no test can notice the change: behaviour stays the same. */
  readonly equivalent?: string | undefined;
}
