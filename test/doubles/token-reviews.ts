import { importJWK, type JWK, jwtVerify } from "jose";

/** Settings of a cluster's API. */
export interface ClusterSettings {
  /** The key that signs the tokens of service accounts. */
  readonly key: JWK;
  readonly algorithm: string;
  /** Tokens that may review others. */
  readonly reviewers: readonly string[];
  /** Uids of service accounts that were deleted. */
  readonly deleted?: readonly string[];
  /** Replaces members of the status of each review. */
  readonly status?: object;
}

/**
 * The TokenReview API of a cluster. It refuses reviewers that it does not know and other objects than reviews, and
 * authenticates only tokens that it signed, that have not expired, and whose account exists.
 */
export class TokenReviews {
  settings: ClusterSettings;

  constructor(settings: ClusterSettings) {
    this.settings = settings;
  }

  async answer(body: string, authorization: string): Promise<{ status: number; body: object }> {
    if (!this.settings.reviewers.includes(authorization.replace(/^Bearer /, ""))) {
      return { status: 401, body: { kind: "Status", status: "Failure", reason: "Unauthorized", code: 401 } };
    }
    const review = JSON.parse(body);
    if (review.kind !== "TokenReview" || review.apiVersion !== "authentication.k8s.io/v1") {
      return { status: 400, body: { kind: "Status", status: "Failure", reason: "BadRequest", code: 400 } };
    }
    const status = { ...(await this.#statusOf(review.spec.token, review.spec.audiences)), ...this.settings.status };
    return { status: 201, body: { ...review, status } };
  }

  async #statusOf(token: string, audiences: string[] | undefined): Promise<object> {
    const { key, algorithm, deleted = [] } = this.settings;
    try {
      const { payload } = await jwtVerify(token, await importJWK(key, algorithm), {
        ...(audiences && { audience: audiences }),
      });
      const inside = payload["kubernetes.io"] as { namespace: string; serviceaccount: { name: string; uid: string } };
      const { name, uid } = inside.serviceaccount;
      if (deleted.includes(uid)) return { error: "the account was deleted" };
      const username = `system:serviceaccount:${inside.namespace}:${name}`;
      const confirmed = audiences?.filter((one) => [payload.aud].flat().includes(one));
      return { authenticated: true, user: { username, uid }, audiences: confirmed };
    } catch {
      return { error: "the token is not valid" };
    }
  }
}
