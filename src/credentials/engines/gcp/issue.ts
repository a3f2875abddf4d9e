import * as z from "zod";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration } from "../../../platform/http/fields.ts";
import { isTransient, mapDecision, retry } from "../../runner/saga.ts";
import { plainName } from "../description.ts";
import type { IssueContext } from "../engine-type.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import { type KeyAdd, keySaga, newKeyAdd, orphansOfKey, undoOfKey } from "./key-add.ts";
import { isNotYetThere } from "./lag.ts";
import { type LeaseResources, lockOfKeys, nothing, type Removal } from "./removal.ts";
import type { Role } from "./role.ts";

const FILE = "TYPE_GOOGLE_CREDENTIALS_FILE";

/** Parameters of a request for a key. */
export const IssueRequest = z.object({
  ttl: duration().optional(),
  key_algorithm: z.enum(["KEY_ALG_RSA_1024", "KEY_ALG_RSA_2048"]).optional(),
  key_type: z.enum([FILE, "TYPE_PKCS12_FILE"]).optional(),
});
type IssueRequest = z.infer<typeof IssueRequest>;

/** Credentials being created: an access token, or a key. */
export type Issue =
  | {
      readonly kind: "token";
      readonly email: string;
      readonly scopes: readonly string[];
      readonly seconds: number;
      /** Time at which the engine made the account, ms since 1970. */
      readonly madeAt: number;
      /** End of the token, ms since 1970; null before it is made. */
      readonly endsAt: number | null;
    }
  | { readonly kind: "key"; readonly add: KeyAdd };

/** Creates credentials: one call for a token; `keySaga` for a key. */
export const issueSaga: CloudSaga<Issue> = {
  next(state, now) {
    if (state.kind === "key") return keySaga.next(state.add, now);
    const { email, scopes, seconds, endsAt } = state;
    return endsAt === null ? step("generateAccessToken", email, scopes, seconds) : null;
  },
  beforeCall: (state, each) =>
    state.kind === "key" ? { ...state, add: keySaga.beforeCall?.(state.add, each) ?? state.add } : state,
  onSuccess(state, each, value, now) {
    if (state.kind === "key") return { ...state, add: keySaga.onSuccess(state.add, each, value, now) };
    return { ...state, endsAt: resultOf("generateAccessToken", value).expiresAt };
  },
  onError(state, each, failure, now, tries) {
    if (state.kind === "key") {
      return mapDecision(keySaga.onError(state.add, each, failure, now, tries), (add) => ({ ...state, add }));
    }
    const isEarly = isNotYetThere(each.call, failure, now - state.madeAt);
    return isTransient(failure) || isEarly ? retry(failure) : { kind: "failed" };
  },
};

/** The credentials to create for a role. */
export function newIssue(
  role: Role,
  { name, at, ttlMs, request }: Pick<IssueContext<never>, "name" | "at" | "ttlMs" | "request">,
): Result<Issue> {
  const { service_account_email: email, secret_type, token_scopes: scopes, madeAt } = role;
  const kind = role.kind === "roleset" ? "role set" : "static account";
  const has = `(has secret type ${secret_type})`;
  if (at.endsWith("token")) {
    if (secret_type !== "access_token") {
      return refuse("invalid", `${kind} '${plainName(name)}' cannot generate access tokens ${has}`);
    }
    return ok({ kind: "token", email, scopes, seconds: Math.floor(ttlMs / 1000), madeAt, endsAt: null });
  }
  if (secret_type !== "service_account_key") {
    return refuse("invalid", `${kind} "${plainName(name)}" cannot generate service account keys ${has}`);
  }
  const { key_algorithm: algorithm = "KEY_ALG_RSA_2048", key_type: type = FILE } = request as IssueRequest;
  return ok({ kind: "key", add: newKeyAdd(email, role.kind !== "roleset", { algorithm, type }, madeAt) });
}

/** The credentials as the paths answer them. */
export type Secret =
  | { readonly kind: "token"; readonly token: string; readonly expiresAt: number }
  | { readonly kind: "key"; readonly data: string; readonly algorithm: string; readonly type: string };

/** The lease of finished credentials; a token has none. @param value the answer to the last step, which has the secret */
export function outcomeOfIssue(issue: Issue, value: unknown) {
  if (issue.kind === "token") {
    const { token, expiresAt } = resultOf("generateAccessToken", value);
    const secret: Secret = { kind: "token", token, expiresAt };
    return {
      resources: { kind: "token" } as LeaseResources,
      secret,
      endsAt: expiresAt,
      renewable: false,
      lease: "none" as const,
    };
  }
  const { email, key, options } = issue.add;
  if (!key) throw new Error("no key was made");
  const { privateKeyData: data } = resultOf("createKey", value);
  const secret: Secret = { kind: "key", data, ...options };
  return { resources: { kind: "key", email, id: key.id } as LeaseResources, secret, endsAt: key.endsAt };
}

/** The answer's `data`. @param ttl seconds until the end of the token */
export function dataOf(secret: Secret, ttl: number): Record<string, unknown> {
  if (secret.kind === "key") {
    return { private_key_data: secret.data, key_algorithm: secret.algorithm, key_type: secret.type };
  }
  return { token: secret.token, token_ttl: ttl, expires_at_seconds: Math.floor(secret.expiresAt / 1000) };
}

/** The call that proves that a new key works; a token always does. */
export const verifyOf = (data: Readonly<Record<string, unknown>>) =>
  data["key_type"] === FILE ? step("login", String(data["private_key_data"])) : null;

/** One job at a time makes keys of an account. */
export const lockOf = (issue: Issue): string | null => (issue.kind === "key" ? lockOfKeys(issue.add.email) : null);

/** Undoes `issueSaga`. A token ends by itself. */
export const undoOfIssue = (issue: Issue, now: number): Removal =>
  issue.kind === "key" ? undoOfKey(issue.add, now) : nothing;

/** Removes keys of unanswered calls beside finished credentials; null when every call was answered. */
export const orphansOfIssue = (issue: Issue, now: number): Removal | null =>
  issue.kind === "key" ? orphansOfKey(issue.add, now) : null;
