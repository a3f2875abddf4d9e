/** Addresses of objects of the cluster API. An object of another namespace than the selected one is named with `?of=`. */
import { clusterNamespace } from "../api/namespaces.ts";
import { href, place } from "./router.ts";

const inNamespace = (namespace: string | undefined): { readonly of: string | null } => ({
  of: namespace && namespace !== clusterNamespace.value ? namespace : null,
});

export const nodeHref = (id: string): string => href("nodes", ["node", id]);
export const jobHref = (id: string, namespace?: string): string => href("nodes", ["job", id], inNamespace(namespace));
export const allocationHref = (id: string, namespace?: string): string =>
  href("nodes", ["allocation", id], inNamespace(namespace));
export const hostVolumeHref = (id: string, namespace?: string): string =>
  href("storage", ["host", id], inNamespace(namespace));
export const csiVolumeHref = (id: string, namespace?: string): string =>
  href("storage", ["csi", id], inNamespace(namespace));
export const pluginHref = (id: string): string => href("storage", ["plugin", id]);

/** Namespace of the object that the address names. */
export const objectNamespace = (): string =>
  place.value.query.get("of") ?? (clusterNamespace.value === "*" ? "default" : clusterNamespace.value);

/** The first part of an id, for a narrow column. */
export const shortId = (id: string): string => id.slice(0, 8);
