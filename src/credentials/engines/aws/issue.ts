import type { Result } from "../../../lib/result.ts";
import { mapDecision } from "../../runner/saga.ts";
import type { IssueContext } from "../engine-type.ts";
import { type CloudSaga, step } from "./calls.ts";
import type { NewKey, Session } from "./cloud.ts";
import type { CloudAccount } from "./config.ts";
import { type LeaseResources, nothing, type Removal } from "./removal.ts";
import type { Role } from "./role.ts";
import { newSession, type SessionIssue, sessionSaga } from "./session.ts";
import { newUser, orphansOfUser, type UserIssue, undoOfUser, userSaga } from "./user.ts";

/** Credentials being created: a session, or a user with a key. */
export type Issue = SessionIssue | UserIssue;

export const issueSaga: CloudSaga<Issue> = {
  next: (state, now) => (state.kind === "user" ? userSaga.next(state, now) : sessionSaga.next(state, now)),
  beforeCall: (state, each) => (state.kind === "user" ? (userSaga.beforeCall?.(state, each) ?? state) : state),
  onSuccess: (state, each, value, now) =>
    state.kind === "user"
      ? userSaga.onSuccess(state, each, value, now)
      : sessionSaga.onSuccess(state, each, value, now),
  onError: (state, each, failure, now, tries) =>
    state.kind === "user"
      ? mapDecision(userSaga.onError(state, each, failure, now, tries), (user): Issue => user)
      : mapDecision(sessionSaga.onError(state, each, failure, now, tries), (session): Issue => session),
};

/** The credentials as `creds` answers them. */
export type Secret =
  | ({ readonly kind: "user" | "static" } & NewKey)
  | ({ readonly kind: "session" } & Omit<Session, "endsAt">);

type Context = Pick<IssueContext<never>, "name" | "displayName" | "lifeMs" | "maxTtlMs" | "request"> & {
  readonly account: CloudAccount;
};

/** The credentials to create for a lease of a role. */
export function newIssue(role: Role, context: Context): Result<Issue> {
  const { request: parameters, ...asked } = context;
  if (role.credential_type === "iam_user") return newUser(role, asked);
  return newSession(role, { ...asked, parameters });
}

/** The lease of finished credentials. @param value the answer to their last step, which has the secret */
export function outcomeOfIssue(issue: Issue, value: unknown) {
  if (issue.kind === "user") {
    if (issue.key === null) throw new Error("no key was made");
    const resources: LeaseResources = { kind: "user", name: issue.user.name, key: issue.key };
    const secret: Secret = { kind: "user", ...(value as NewKey) };
    return { resources, secret, endsAt: issue.endsAt };
  }
  const { endsAt, ...session } = value as Session;
  const resources: LeaseResources = { kind: "session" };
  const secret: Secret = { kind: "session", ...session };
  return { resources, secret, endsAt, renewable: false, lease: "secret" as const };
}

/** Removes everything that unfinished credentials created or may have created; sessions end by themselves. */
export const undoOfIssue = (issue: Issue, now: number): Removal =>
  issue.kind === "user" ? undoOfUser(issue, now) : nothing;

/** A session does; the code of a device opens one session only. */
export const endsByItself = (issue: Issue): boolean => issue.kind === "session" && issue.request.mfa === undefined;

export const orphansOfIssue = (issue: Issue, now: number): Removal | null =>
  issue.kind === "user" ? orphansOfUser(issue, now) : null;

/** The answer's `data`. @param ttl seconds until the end of a session */
export function dataOf(secret: Secret, ttl: number): Record<string, unknown> {
  const { accessKey, secretKey } = secret;
  const key = { access_key: accessKey, secret_key: secretKey };
  if (secret.kind !== "session") return { ...key, session_token: null };
  const { sessionToken, arn } = secret;
  return { ...key, security_token: sessionToken, session_token: sessionToken, ...(arn !== null && { arn }), ttl };
}

/** The call that proves that a new key works; null for sessions, which work at once. */
export function verification(data: Readonly<Record<string, unknown>>) {
  return data["session_token"] === null
    ? step("identify", String(data["access_key"]), String(data["secret_key"]))
    : null;
}
