import { denied } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/** Reads of web interfaces about their own token: its rules, and the namespaces that any valid token may see. */

async function readAcl(call: AuthorisedCall): Promise<Response> {
  const acl = await accessControl(call.env).resultantAcl(call.grant.identity.accessor);
  // The token ended after it was authorized.
  if (!acl) throw denied();
  return envelope(call, { data: { ...acl, chroot_namespace: "" }, flat: true });
}

async function listNamespaces(call: AuthorisedCall): Promise<Response> {
  const { identity, namespace } = call.grant;
  const paths = await accessControl(call.env).visibleNamespaces(identity.accessor, namespace);
  return envelope(call, { data: { keys: paths.map((path) => path.slice(namespace.length)) } });
}

export const uiRoutes = [
  secrets("GET /sys/internal/ui/resultant-acl", { fresh: true }, readAcl),
  secrets("GET /sys/internal/ui/namespaces", { access: "token", fresh: true }, listNamespaces),
];
