import * as passwords from "../../src/auth/passwords.ts";

type HashPassword = typeof passwords.hashPassword & { readonly direct?: typeof passwords.hashPassword };

/** The least that scrypt permits. */
const CHEAP = { N: 2, r: 8, p: 1 };

/**
 * Hashes passwords at the least cost: at the real one, a user and a login each take 30 ms of processor time, which is
 * more than the rest of most tests of logins. A hash names its cost, so that it is verified as any other. Called once
 * per file.
 */
export function hashPasswordsCheaply(): void {
  // The file before this one may have set it.
  const known: HashPassword = passwords.hashPassword;
  const direct = known.direct ?? known;
  const value: HashPassword = Object.assign((password: string) => direct(password, CHEAP), { direct });
  Object.defineProperty(passwords, "hashPassword", { configurable: true, enumerable: true, get: () => value });
}
