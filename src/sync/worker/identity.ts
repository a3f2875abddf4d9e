import type { SyncFederation } from "../../contracts/federation.ts";
import type { ClientAssertion } from "../../providers/identity-token.ts";
import { identityIssuer } from "../../rpc/stubs.ts";
import { syncIssuerAt } from "../../rpc/token-subjects.ts";

/** Makes the identity of a destination that logs in without a stored secret. */
export type IdentityAccess = (federation: SyncFederation) => Promise<ClientAssertion>;

/** Every `sign` call issues a new token, and throws while the signing keys are sealed. */
export function identityAccess(env: Env): IdentityAccess {
  return async ({ origin, namespace, ...ask }) => {
    const issuer = identityIssuer(env);
    const url = syncIssuerAt((await issuer.origin()) ?? origin, namespace);
    return {
      issuer: url,
      subject: ask.subject,
      audience: ask.audience,
      async sign() {
        const token = await issuer.signSync({ ...ask, issuer: url });
        if (!token.ok) throw new Error(token.message);
        return token.value;
      },
    };
  };
}
