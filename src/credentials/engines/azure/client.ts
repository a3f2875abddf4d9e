import {
  clouds,
  type Management,
  type Proof,
  requestToken,
  type TokenRequest,
} from "../../../providers/cloud-b-azure/login.ts";
import type { ClientAssertion } from "../../../providers/identity-token.ts";
import type { Send } from "../../../providers/outcome.ts";
import { resources } from "./arm.ts";
import type { Cloud, CloudAccount } from "./directory.ts";
import { notSent, unanswered } from "./errors.ts";
import { directory } from "./graph.ts";
import { isUuid, type Service, service, unusable } from "./service.ts";

/** Settings that replace the cloud's own addresses. */
interface CloudBUrls {
  CLOUD_B_LOGIN_URL?: string | undefined;
  CLOUD_B_GRAPH_URL?: string | undefined;
  CLOUD_B_ARM_URL?: string | undefined;
}

/**
 * The cloud client of the credentials engine. Calls share the deadline of `send` and the token cache of the isolate.
 * @param assertion the client assertion for accounts without a secret
 */
export function cloudB(account: CloudAccount, urls: CloudBUrls, send: Send, assertion?: ClientAssertion): Cloud {
  const reached = reach(account, urls, assertion);
  if (typeof reached === "string") {
    const nowhere = unusable(reached);
    const login = async () => ({ ok: false, failure: notSent(loggingIn, "misconfigured", reached) }) as const;
    return { ...directory(nowhere, ""), ...resources(nowhere, account.subscriptionId), login, obtainToken: login };
  }
  const { management, proof, addresses, ...identity } = reached;
  const graph: Service = service({
    account: { ...identity, ...proof, resource: management.graphUrl },
    url: addresses.graph,
    officialUrl: management.graphUrl,
    pathRule: "an object id must be a UUID",
    send,
  });
  const arm: Service = service({
    account: { ...identity, ...proof, resource: management.armResource },
    url: addresses.arm,
    officialUrl: management.armUrl,
    pathRule: "a scope or id must begin with /subscriptions/ or /providers/, and end as such ids do",
    send,
  });
  return {
    ...directory(graph, management.graphUrl),
    ...resources(arm, account.subscriptionId),
    async login(clientId, clientSecret) {
      const request = { ...identity, clientId, clientSecret, resource: management.armResource };
      const token = await requestToken(request, send);
      return token.ok ? { ok: true, value: null } : { ok: false, failure: unanswered(token, loggingIn) };
    },
    async obtainToken(clientId, clientSecret, scope) {
      const request = { ...identity, clientId, clientSecret, resource: management.armResource };
      const answer = await requestToken(request, send, scope);
      if (!answer.ok) return { ok: false, failure: unanswered(answer, loggingIn) };
      const { value, life, extendedLife } = answer.token;
      return {
        ok: true,
        value: {
          token_type: "Bearer",
          expires_in: life,
          ext_expires_in: extendedLife ?? life,
          access_token: value,
        },
      };
    },
  };
}

const loggingIn = { name: "Obtaining a token", reads: true };

type Reached = Pick<TokenRequest, "loginUrl" | "tenantId" | "clientId"> & {
  management: Management;
  proof: Proof;
  addresses: { graph: string; arm: string };
};

/** Resolves the account's cloud and addresses, or returns the refusal: one sentence without a full stop. */
function reach(account: CloudAccount, urls: CloudBUrls, assertion: ClientAssertion | undefined): Reached | string {
  const { tenantId, subscriptionId, clientId, clientSecret } = account;
  const cloud = managedCloud(account.environment);
  if (cloud === null) return `environment must be one of ${managedClouds.join(", ")}`;
  if (!/^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$/.test(tenantId)) return "tenant_id must be a tenant's id or domain name";
  if (!isUuid(subscriptionId)) return "subscription_id must be a UUID";
  if (clientId === "") return "client_id is required";
  const proof = clientSecret !== "" ? { clientSecret } : assertion && { assertion };
  if (proof === undefined) return "client_secret or identity_token_audience is required";
  const { loginUrl, management } = cloud;
  return {
    loginUrl: trimmed(urls.CLOUD_B_LOGIN_URL) || loginUrl,
    tenantId,
    clientId,
    management,
    proof,
    addresses: {
      graph: trimmed(urls.CLOUD_B_GRAPH_URL) || management.graphUrl,
      arm: trimmed(urls.CLOUD_B_ARM_URL) || management.armUrl,
    },
  };
}

const trimmed = (url = ""): string => url.replace(/\/+$/, "");

/** The names of the clouds whose directory and resources can be managed. */
export const managedClouds: readonly string[] = clouds.flatMap(({ name, management }) => (management ? name : []));

/** The cloud named by `environment`, in any case; the default one when empty, null for an unknown name. */
export function managedCloud(environment: string): { name: string; loginUrl: string; management: Management } | null {
  const wanted = (environment || clouds[0].name).toLowerCase();
  const cloud = clouds.find(({ name }) => name.toLowerCase() === wanted);
  return cloud?.management ? { name: cloud.name, loginUrl: cloud.loginUrl, management: cloud.management } : null;
}
