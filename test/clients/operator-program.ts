import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { builtFrom, type GoProgram } from "./go-program.ts";
import type { KubernetesApi } from "./kubernetes-api.ts";
import { NO_SOURCE, sourceCheckout } from "./source-checkout.ts";

/** The Vault Secrets Operator's manager, built from its repository, unmodified. */
export interface OperatorProgram extends GoProgram {
  readonly source: string;
}

export function operatorProgram(): OperatorProgram {
  const source = sourceCheckout("hashicorp/vault-secrets-operator", "9b840a5a0c3455278d580418d6336f2011cf8574");
  if (source === null) return { source: "", path: "", missing: NO_SOURCE };
  const path = join(source, "manager");
  return { source, ...(existsSync(path) ? { path, missing: null } : builtFrom(source, path)) };
}

/**
 * Gives a cluster the operator's definitions of resources, and its service account the rights that it asks for.
 * @param kubeconfig the file for the operator, which is written
 */
export async function installOperator(source: string, cluster: KubernetesApi, kubeconfig: string): Promise<void> {
  const [namespace, account] = ["operator", "manager"];
  const yaml = (path: string) => parse(readFileSync(join(source, path), "utf8"));
  for (const file of readdirSync(join(source, "chart/crds")))
    await cluster.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml(`chart/crds/${file}`));
  await cluster.createNamespace(namespace, [account]);
  const role = yaml("config/rbac/role.yaml");
  await cluster.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role);
  await cluster.bind("ClusterRole", role.metadata.name, namespace, account);
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "operator",
    contexts: [{ name: "operator", context: { cluster: "cluster", user: account } }],
    clusters: [{ name: "cluster", cluster: { server: cluster.secureHost, "insecure-skip-tls-verify": true } }],
    users: [{ name: account, user: { token: await cluster.tokenOf(namespace, account) } }],
  };
  writeFileSync(kubeconfig, JSON.stringify(config));
}
