import { decodeJwt } from "jose";
import * as z from "zod";
import { matchesGlob } from "../../lib/glob.ts";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { fetchJson } from "../jwt/key-sources.ts";
import { audiencesOf, type Claims, verifyToken } from "../jwt/verify.ts";
import { apiUrl, isReviewed, type KubernetesConfig } from "./config.ts";
import type { KubernetesRole } from "./roles.ts";

/** The service account of a verified token. */
interface ServiceAccount {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  /** The secret of a token that was not made for a pod; empty for others. */
  readonly secret: string;
}

/** The issuer of tokens that were not made for a pod. */
const OLD_ISSUER = "kubernetes/serviceaccount";
const OLD_CLAIMS = "kubernetes.io/serviceaccount/";
const REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews";

const Review = z.object({
  status: z.object({
    authenticated: z.boolean().default(false),
    user: z.object({ username: z.string().default(""), uid: z.string().default("") }).optional(),
    audiences: z.array(z.string()).default([]),
  }),
});

/**
 * The service account of a token: by its signature, by the cluster's API, or by both
 * (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/).
 */
export async function serviceAccountOf(
  token: string,
  config: KubernetesConfig,
  role: KubernetesRole,
): Promise<Result<ServiceAccount>> {
  const claims = await (config.pem_keys.length > 0 ? signedClaims(token, config, role) : unverifiedClaims(token));
  if (!claims.ok) return claims;
  const account = accountOf(claims.value);
  // Before the API is asked: a token that the role refuses costs the cluster no request.
  const problem = account === null ? "could not parse UID from claims" : bindingProblem(account, claims.value, role);
  if (account === null || problem !== null) return refuse("denied", problem ?? "");
  if (config.pem_keys.length === 0 && !isIssuedBy(claims.value, config)) {
    return refuse("denied", "invalid issuer (iss) claim");
  }
  const reviewed = isReviewed(config) ? await reviewProblem(token, claims.value, account, config, role) : null;
  return reviewed === null ? ok(account) : refuse("denied", `permission denied: ${reviewed}`);
}

/** The claims of a token with a valid signature. Without a review it must expire: no deletion ends it earlier. */
async function signedClaims(token: string, config: KubernetesConfig, role: KubernetesRole): Promise<Result<Claims>> {
  const verified = await verifyToken(token, config.pem_keys, {
    issuer: issuerOf(config),
    subject: "",
    audiences: role.audience === "" ? [] : [role.audience],
    algorithms: [],
    expirationLeeway: 0,
    notBeforeLeeway: 0,
    clockSkewLeeway: 0,
  });
  if (!verified.ok) return refuse("denied", `permission denied: ${verified.message}`);
  return isReviewed(config) || typeof verified.value["exp"] === "number"
    ? verified
    : refuse("denied", "permission denied: the token has no exp claim");
}

/** The unverified claims of a token; the review verifies them. */
async function unverifiedClaims(token: string): Promise<Result<Claims>> {
  try {
    return ok(decodeJwt(token));
  } catch {
    return refuse("denied", "permission denied: malformed token");
  }
}

const issuerOf = (config: KubernetesConfig): string =>
  config.disable_iss_validation ? "" : config.issuer || OLD_ISSUER;

const isIssuedBy = (claims: Claims, config: KubernetesConfig): boolean =>
  issuerOf(config) === "" || claims["iss"] === issuerOf(config);

/** The service account that claims name, in the form of tokens for pods or in the older one. */
function accountOf(claims: Claims): ServiceAccount | null {
  const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
  const projected = claims["kubernetes.io"];
  const inside = isPlainObject(projected) ? projected : {};
  const account = inside["serviceaccount"];
  const found = isPlainObject(account)
    ? { uid: textOf(account["uid"]), name: textOf(account["name"]), namespace: textOf(inside["namespace"]), secret: "" }
    : {
        uid: textOf(claims[`${OLD_CLAIMS}service-account.uid`]),
        name: textOf(claims[`${OLD_CLAIMS}service-account.name`]),
        namespace: textOf(claims[`${OLD_CLAIMS}namespace`]),
        secret: textOf(claims[`${OLD_CLAIMS}secret.name`]),
      };
  return found.uid !== "" && found.name !== "" && found.namespace !== "" ? found : null;
}

/** Why a role does not accept a service account; null when it does. Wording of upstream. */
function bindingProblem(account: ServiceAccount, claims: Claims, role: KubernetesRole): string | null {
  const matches = (text: string, globs: readonly string[]) => globs.some((glob) => matchesGlob(text, glob));
  if (!matches(account.name, role.bound_service_account_names)) return "service account name not authorized";
  if (!matches(account.namespace, role.bound_service_account_namespaces)) return "namespace not authorized";
  return role.audience === "" || audiencesOf(claims).includes(role.audience)
    ? null
    : "invalid audience (aud) claim: audience claim does not match any expected audience";
}

/** Why the cluster's API does not confirm a token; null when it does. */
async function reviewProblem(
  token: string,
  claims: Claims,
  account: ServiceAccount,
  config: KubernetesConfig,
  role: KubernetesRole,
): Promise<string | null> {
  const audiences = role.audience === "" ? audiencesOf(claims) : [role.audience];
  const spec = { token, ...(audiences.length > 0 && { audiences }) };
  const answer = await fetchJson(apiUrl(config, REVIEWS), {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json",
      Authorization: `Bearer ${config.token_reviewer_jwt || token}`,
    },
    body: JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec }),
  });
  if (!answer.ok) return `token review failed: ${answer.message}`;
  const review = Review.safeParse(answer.value);
  if (!review.success) return "token review failed: the answer is no TokenReview";
  const { authenticated, user, audiences: confirmed } = review.data.status;
  if (!authenticated || user === undefined) return "lookup failed: service account jwt not valid";
  // An API that knows no audiences confirms none; the token may then be meant for another service.
  if (role.audience !== "" && !confirmed.includes(role.audience)) return "lookup failed: audience not confirmed";
  const isSame =
    user.username === `system:serviceaccount:${account.namespace}:${account.name}` && user.uid === account.uid;
  return isSame ? null : "lookup failed: the review names another service account";
}
