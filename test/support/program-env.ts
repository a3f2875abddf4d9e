/** All that a program which a test starts inherits: nothing of the caller's settings. */
export const PROGRAM_ENV: Readonly<Record<string, string>> = {
  PATH: process.env["PATH"] ?? "",
  NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "",
};
