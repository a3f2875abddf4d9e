import { type Federation, type Home, issuerAt, subjectOf } from "../contracts/federation.ts";
import type { Mount } from "../contracts/mount.ts";
import { accessControl, identityIssuer } from "../contracts/stubs.ts";
import type { ClientAssertion } from "../providers/cloud-b-azure/login.ts";

/** What is to be remembered of a mount when a request at `url` tells it to log in with identity tokens. */
export async function homeOf(env: Env, { namespace, accessor, path }: Mount, url: string): Promise<Home> {
  const { origin } = new URL(url);
  return { namespace, namespaceId: await idOf(env, namespace), mountAccessor: accessor, mountPath: path, origin };
}

/** How a mount proves who it is. A token is made for each `sign`, which throws while the keys cannot be used. */
export async function assertionFor(env: Env, ask: Federation): Promise<ClientAssertion> {
  const issuing = identityIssuer(env);
  const issuer = issuerAt((await issuing.origin()) ?? ask.origin, ask.namespace);
  return {
    issuer,
    subject: subjectOf(ask),
    audience: ask.audience,
    async sign() {
      const token = await issuing.sign({ ...ask, issuer });
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
