/**
 * The failure of a provider call.
 *
 * - `client`: our configuration, credentials, permissions or data are refused; the same call is refused again until
 *   one of them changes (status CLIENT_SIDE_ERROR).
 * - `external`: the provider fails or throttles; the same call may succeed later (EXTERNAL_SERVICE_ERROR).
 * - `unknown`: the call was sent without a usable answer, so it may or may not have been applied (UNKNOWN).
 *
 * `code` is a stable snake_case word for programs, `message` one sentence for people. Neither contains a value, a key
 * or free text from the provider. `retryAfterMs`: the wait requested by the provider, milliseconds. `unsure`: the
 * provider reported a failure, but may have applied the write.
 */
export interface Failure {
  outcome: "client" | "external" | "unknown";
  code: string;
  message: string;
  retryAfterMs?: number;
  unsure?: boolean;
}
