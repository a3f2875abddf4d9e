import { textOf, warn } from "../platform/observability/log.ts";

/**
 * A signed assertion in place of a secret (RFC 7523, 2.2). Issuer, subject and audience must match what the provider
 * trusts. They are the cache key of tokens, so only the signer may provide them.
 */
export interface ClientAssertion {
  readonly issuer: string;
  readonly subject: string;
  readonly audience: string;
  /** A new JWT with these claims, for one use. */
  sign(): Promise<string>;
}

/** A signed token; null while the keys are sealed. */
export async function signed(assertion: ClientAssertion): Promise<string | null> {
  try {
    return await assertion.sign();
  } catch (problem) {
    warn("assertion-failed", { issuer: assertion.issuer, because: textOf(problem) });
    return null;
  }
}
