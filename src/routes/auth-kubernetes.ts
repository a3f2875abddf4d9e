import * as z from "zod";
import {
  type KubernetesConfig,
  KubernetesConfigBody,
  kubernetesConfigOf,
  kubernetesConfigProblem,
  shownKubernetesConfig,
} from "../auth/kubernetes/config.ts";
import {
  type KubernetesRole,
  KubernetesRoleBody,
  kubernetesRoleProblem,
  kubernetesRoleWith,
} from "../auth/kubernetes/roles.ts";
import { serviceAccountOf } from "../auth/kubernetes/service-account.ts";
import { tokenSettingsOf } from "../auth/token-settings.ts";
import { isWithinNetworks } from "../lib/networks.ts";
import { badRequest, denied, unwrap } from "../platform/http/errors.ts";
import { changeRole, ROLE, refuseProblem, roleRoutes } from "./auth-roles.ts";
import { addressOf, foundEntry, isRoleName, loggedIn, readEntry, writeEntry } from "./server/auth-call.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type AuthorisedMethodCall, inMethod, type MethodCall, openInMethod } from "./server/route.ts";

/** Logins of service accounts (https://developer.hashicorp.com/vault/api-docs/auth/kubernetes). */

const CONFIG = "config";
const TYPE = "kubernetes";
const NO_AUDIENCE = "This role does not specify an audience, so it accepts tokens that were made for other services.";

const LoginBody = z.object({
  role: z.string().max(128).optional(),
  jwt: z.string().max(32_768).trim().optional(),
});

async function configure(call: MethodCall, body: z.infer<typeof KubernetesConfigBody>): Promise<Response> {
  const config = kubernetesConfigOf(body);
  refuseProblem(await kubernetesConfigProblem(config));
  await writeEntry(call, CONFIG, CONFIG, config);
  return noContent();
}

async function putRole(
  call: AuthorisedMethodCall<"name">,
  body: z.infer<typeof KubernetesRoleBody>,
): Promise<Response> {
  const role = await changeRole<KubernetesRole>(
    call,
    (before) => kubernetesRoleWith(before, body),
    kubernetesRoleProblem,
  );
  return role.audience === "" ? envelope(call, { warnings: [NO_AUDIENCE], mountType: TYPE }) : noContent();
}

async function login(call: MethodCall, body: z.infer<typeof LoginBody>): Promise<Response> {
  const { role: named = "", jwt = "" } = body;
  if (named === "") throw badRequest("missing role");
  if (jwt === "") throw badRequest("missing jwt");
  const name = named.toLowerCase();
  const found = isRoleName(name) ? await readEntry<KubernetesRole>(call, ROLE, name) : null;
  if (!found) throw badRequest(isRoleName(name) ? `invalid role name "${name}"` : "invalid role name");
  const role = found.entry;
  // Before the API is asked: a caller from elsewhere costs the cluster no request.
  if (!isWithinNetworks(addressOf(call), role.token_bound_cidrs)) throw denied();
  const config = await readEntry<KubernetesConfig>(call, CONFIG, CONFIG);
  if (!config) throw badRequest("could not load backend configuration");
  const { uid, name: account, namespace, secret } = unwrap(await serviceAccountOf(jwt, config.entry, role));
  const metadata = {
    service_account_uid: uid,
    service_account_name: account,
    service_account_namespace: namespace,
    service_account_secret_name: secret,
  };
  return loggedIn(call, "login", {
    entry: { mount: call.authMount.uuid, kind: ROLE, name },
    seen: [config.seen, found.seen],
    alias: { name: role.alias_name_source === "serviceaccount_uid" ? uid : `${namespace}/${account}`, metadata },
    groups: [],
    displayName: `${namespace}-${account}`,
    metadata: { ...metadata, role: name },
    settings: tokenSettingsOf(role),
  });
}

export const kubernetesRoutes = [
  inMethod("GET /config", { fresh: true }, async (call) => {
    const config = await foundEntry<KubernetesConfig>(call, CONFIG, CONFIG);
    return envelope(call, { data: shownKubernetesConfig(config), mountType: TYPE });
  }),
  inMethod("POST /config", { fresh: true, body: KubernetesConfigBody }, configure),
  ...roleRoutes,
  inMethod("POST /role/:name", { fresh: true, creates: true, body: KubernetesRoleBody }, putRole),
  openInMethod("POST /login", { body: LoginBody }, login),
];
