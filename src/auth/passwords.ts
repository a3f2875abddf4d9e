import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";

/** The parameters of scrypt. Each hash names its own, so that they may be raised for new passwords. */
interface Cost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/**
 * Passwords are stored as scrypt hashes (RFC 7914): the one memory-hard function that the runtime computes natively.
 * N = 2^14, r = 8, p = 1 takes 16 MiB and about 30 ms of CPU, which a Worker's limit permits; bcrypt in JavaScript with
 * the same strength takes ten times as long.
 */
const COST: Cost = { N: 16_384, r: 8, p: 1 };
const KEY_BYTES = 32;
const SALT_BYTES = 16;
/** The longest password: more adds no strength, and would cost time. */
export const MAX_PASSWORD = 1_024;

const derive = (password: string, salt: Buffer, cost: Cost): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    scrypt(password, salt, KEY_BYTES, cost, (failure, key) => (failure ? reject(failure) : resolve(key)));
  });

/** The hash of a new password, as `scrypt$N$r$p$salt$key`. */
export async function hashPassword(password: string, cost = COST): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const key = await derive(password, salt, cost);
  return ["scrypt", cost.N, cost.r, cost.p, salt.toString("base64url"), key.toString("base64url")].join("$");
}

/** A hash that no password has; its verification takes as long as that of a real one. */
export const NO_PASSWORD = ["scrypt", COST.N, COST.r, COST.p, "AAAAAAAAAAAAAAAAAAAAAA", "A".repeat(43)].join("$");

export async function isPassword(password: string, hash: string): Promise<boolean> {
  const [, N, r, p, salt = "", key = ""] = hash.split("$");
  const expected = Buffer.from(key, "base64url");
  const cost = { N: Number(N), r: Number(r), p: Number(p) };
  const derived = await derive(password, Buffer.from(salt, "base64url"), cost);
  return expected.length === derived.length && timingSafeEqual(expected, derived) && hash !== NO_PASSWORD;
}
