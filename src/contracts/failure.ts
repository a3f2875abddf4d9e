/**
 * Why a call to a provider did not succeed.
 *
 * - `client`: our configuration, credentials, rights or data are refused; the same call will be refused again
 *   until someone changes something (status CLIENT_SIDE_ERROR).
 * - `external`: the provider fails or throttles; the same call may succeed later (EXTERNAL_SERVICE_ERROR).
 * - `unknown`: the call left and no usable answer came back, so it may or may not have been applied (UNKNOWN).
 *
 * `code` is a stable snake_case word for programs, `message` one sentence for people. Neither ever holds a
 * value, a key or free text the provider sent. `retryAfterMs`: the wait the provider asked for, milliseconds. `unsure`: the
 * provider answered that it failed, and may have applied a write all the same.
 */
export interface Failure {
  outcome: "client" | "external" | "unknown";
  code: string;
  message: string;
  retryAfterMs?: number;
  unsure?: boolean;
}
