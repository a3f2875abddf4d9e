import type { Federation, Home } from "../contracts/federation.ts";
import type { Mount } from "../contracts/mount.ts";
import type { ClientAssertion } from "../providers/identity-token.ts";
import { accessControl, identityIssuer } from "../rpc/stubs.ts";
import { issuerAt, subjectOf } from "../rpc/token-subjects.ts";

/** The identity of a mount, captured when a request at `url` configures it to log in with identity tokens. */
export async function homeOf(env: Env, { namespace, accessor, path }: Mount, url: string): Promise<Home> {
  const { origin } = new URL(url);
  return { namespace, namespaceId: await idOf(env, namespace), mountAccessor: accessor, mountPath: path, origin };
}

/**
 * The client assertion of a mount. Every `sign` call issues a new token, and throws while the signing keys are sealed.
 * @param plugin of the mount, as upstream names it
 */
export async function assertionFor(env: Env, ask: Federation, plugin: string): Promise<ClientAssertion> {
  const issuing = identityIssuer(env);
  const issuer = issuerAt((await issuing.origin()) ?? ask.origin, ask.namespace);
  return {
    issuer,
    subject: subjectOf(ask),
    audience: ask.audience,
    async sign() {
      const token = await issuing.sign({ ...ask, issuer, plugin });
      if (!token.ok) throw new Error(token.message);
      return token.value;
    },
  };
}

async function idOf(env: Env, namespace: string): Promise<string> {
  if (namespace === "") return "root";
  const found = await accessControl(env).readNamespace(namespace);
  if (!found.ok) throw new Error(`no namespace ${JSON.stringify(namespace)}, though it has a mount`);
  return found.value.id;
}
